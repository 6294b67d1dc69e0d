"""The path of the native renderer: in the package, or in the cache folder that a checkout builds into.

A wheel carries the program for its platform. A checkout has its source instead; what is built from it is in the cache
under a digest of everything that went in, so that a program is never older than its source. Building it is not for this
room: it needs a compiler, and the operator must not want one (`stellwerk.local.build.renderer` builds).
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from stellwerk.render.errors import RendererMissing

PROGRAM = "stellwerk-renderer"
LINKER_FLAGS = "-s -w"
_PACKAGED = Path(__file__).parent / "bin" / PROGRAM
_SOURCE = Path(__file__).parents[3] / "native" / "renderer"


def renderer_path() -> Path:
    """The program to start. Raises RendererMissing where there is none for this version."""
    if os.access(_PACKAGED, os.X_OK):
        return _PACKAGED
    source = source_folder()
    if source is None:
        raise RendererMissing(
            f"the renderer is missing: this package was built without it, {_PACKAGED} is no program; "
            "install a wheel for this platform, or run from a checkout of the project"
        )
    built = built_from(source)
    if not os.access(built, os.X_OK):
        raise RendererMissing(f"the renderer is not built: {built} is no program; run: make control-plane")
    return built


def source_folder() -> Path | None:
    """The path of the renderer's source, in a checkout of the project."""
    return _SOURCE if (_SOURCE / "go.sum").is_file() else None


def built_from(source: Path) -> Path:
    """The path of the program that is built from this source for this platform, also before it is built."""
    return cache_folder() / f"renderer-{_digest(source)}" / PROGRAM


def cache_folder() -> Path:
    """Where built programs are kept: $STELLWERK_CACHE, or `stellwerk` in the user's cache folder."""
    if own := os.environ.get("STELLWERK_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stellwerk"


def _digest(source: Path) -> str:
    everything = hashlib.sha256(f"{LINKER_FLAGS} {platform.system()} {platform.machine()} 1".encode())
    for file in sorted(_ingredients(source)):
        content = file.read_bytes()
        everything.update(f"\0{file.relative_to(source).as_posix()} {len(content)}\0".encode() + content)
    return everything.hexdigest()[:16]


def _ingredients(source: Path) -> Iterator[Path]:
    """What the compiler reads: tests and their data leave the program as it is."""
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != "testdata" and not name.startswith(".")]
        for name in names:
            if name in {"go.mod", "go.sum"} or (name.endswith(".go") and not name.endswith("_test.go")):
                yield Path(folder, name)
