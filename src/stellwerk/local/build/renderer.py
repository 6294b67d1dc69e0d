"""The native renderer, built into the cache folder for a checkout; a wheel is given the same program.

`stellwerk.render.binary` has its path and digest; the compiler is here, because an operator in
production has none and needs none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from stellwerk.local.build import licences, toolchain
from stellwerk.local.build.toolchain import GoProgram, Say
from stellwerk.local.errors import BuildFailed
from stellwerk.render import binary
from stellwerk.render.errors import RendererMissing

_PROGRAM = GoProgram("renderer", ".", binary.LINKER_FLAGS, "about 3 minutes")
_BUILD_BYTES = 3 * 1024**3
_KEPT = 5
"""How many versions stay in the cache: an operator that runs may start a worker of an older one again."""


def ensure(say: Say = lambda text: None) -> Path:
    """The program: the one that the package carries, or built if need be.

    Raises BuildFailed, ToolchainMissing or NoSpace.
    """
    with contextlib.suppress(RendererMissing):
        return binary.renderer_path()
    target = binary.built_from(_source())
    with toolchain.only_builder(say, lambda: _is_program(target), _BUILD_BYTES):
        if not _is_program(target):
            _build(target, say)
    return target


def check(say: Say = lambda text: None) -> None:
    """Vet the renderer's source and run its tests. Raises BuildFailed with what they printed."""
    go, source = toolchain.find_go(say), _source()
    for verb in ("vet", "test"):
        say(f"go {verb} in {source}")
        # -trimpath as in the build, so that one cache of compiled packages serves all three.
        toolchain.run([go, verb, "-trimpath", "./..."], source, f"the renderer fails go {verb}")


def licence_texts(say: Say = lambda text: None) -> str:
    """What must travel with the program (see `licences`). Raises BuildFailed or ToolchainMissing."""
    return licences.of_program(toolchain.find_go(say), _source())


def _build(target: Path, say: Say) -> None:
    cache = binary.cache_folder()
    with toolchain.needs_space(cache), toolchain.build_folder(cache) as new:
        toolchain.compile_program(toolchain.find_go(say), _source(), _PROGRAM, new / target.name, say)
        shutil.rmtree(target.parent, ignore_errors=True)
        new.rename(target.parent)
    _forget_older(cache)


def _forget_older(cache: Path) -> None:
    versions = sorted(cache.glob("renderer-*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in versions[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _is_program(file: Path) -> bool:
    return os.access(file, os.X_OK)


def _source() -> Path:
    if source := binary.source_folder():
        return source
    raise BuildFailed(
        "cannot build the renderer",
        cause="its source is not next to this package; an installed package carries the program instead",
        fix="run from a checkout of the project",
    )
