"""The wheel, its locked dependencies, and their bytecode.

The dependencies are those of `requirements.lock` that the product itself needs, with the versions and hashes there, as
wheels for the Python of the image; uv installs them, whatever Python runs this program. The bytecode is made by the
Python of the image, which the loader of the image starts from a folder, without root and without a chroot.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.image import elf, tree
from deploy.image.tree import File, Node, Tree

from stellwerk.local.build.toolchain import Say
from stellwerk.local.errors import BuildFailed

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
VERSION = "3.13"
INTERPRETER = f"usr/bin/python{VERSION}"
STANDARD_LIBRARY = f"usr/lib/python{VERSION}"
PACKAGES = f"usr/local/lib/python{VERSION}/dist-packages"
OWN = f"{PACKAGES}/stellwerk"
_CACHE_TAG = f"cpython-{VERSION.replace('.', '')}"
_PLATFORM = "x86_64-manylinux_2_40"  # the C library of the image is 2.41
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_REQUIREMENT = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==")
_VIA = re.compile(r"^\s+#\s+(?:via\s+)?(?P<parent>\S.*)$")
_PRODUCT = "stellwerk (pyproject.toml)"
_SOURCES = (".pyi", ".pyx", ".pxd", ".c", ".h", ".proto")
"""Input of compilers and type checkers."""
_INSTALLATION = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files of `*.dist-info` that describe the installation of a wheel on a machine, with paths of that machine."""


def requirements(lock: str) -> str:
    """The part of a lock that the product needs when it runs, its extras included, with the hashes.

    uv writes below each package which packages need it, so the lock has the whole graph.
    """
    entries = dict(_entries(lock.splitlines()))
    parents = {name: {found["parent"] for found in map(_VIA.match, entry) if found} for name, entry in entries.items()}
    needed = {name for name, names in parents.items() if _PRODUCT in names}
    while more := {name for name, names in parents.items() if names & needed} - needed:
        needed |= more
    return "".join(f"{line}\n" for name in sorted(needed) for line in entries[name])


def dependencies(folder: Path, say: Say) -> dict[str, Node]:
    """The locked dependencies. `folder` is an empty one for the build. Raises BuildFailed."""
    say("installing the locked dependencies")
    listed = folder / "requirements.txt"
    listed.write_text(requirements(LOCK.read_text()))
    _install(folder / "packages", "--require-hashes", "--only-binary", ":all:", "-r", str(listed))
    return _packages(folder / "packages")


def product(folder: Path, say: Say) -> dict[str, Node]:
    """The wheel of this checkout, with its renderer. `folder` is an empty one for the build. Raises BuildFailed."""
    say("building the wheel")
    _uv(
        "build",
        "--wheel",
        "--no-build-isolation",
        "--out-dir",
        str(folder),
        str(ROOT),
        failure="cannot build the wheel",
    )
    (wheel,) = folder.glob("*.whl")
    _install(folder / "packages", str(wheel))
    return _packages(folder / "packages")


def compiled(whole: Tree, folder: Path, say: Say) -> dict[str, Node]:
    """The tree with bytecode, which a container with a read-only root could not keep.

    Our own modules keep their source, which a traceback then quotes. The modules of others are bytecode alone: their
    sources are 23 MB of the image. `folder` is an empty one for the build. Raises BuildFailed.
    """
    say("compiling")
    tree.write(whole, folder)
    others = [path for path in whole if _is_module(path) and not path.startswith(f"{OWN}/")]
    own = [path for path in whole if _is_module(path) and path.startswith(f"{OWN}/")]
    _compile(folder, "-b", others)
    _compile(folder, "", own)
    replaced = {path: _bytecode(folder, f"{path}c") for path in others}
    return {
        **{f"{path}c" if path in replaced else path: replaced.get(path, node) for path, node in whole.items()},
        **{cached: _bytecode(folder, cached) for cached in map(_cached, own)},
    }


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    starts = [(number, found["name"]) for number, line in enumerate(lines) if (found := _REQUIREMENT.match(line))]
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    for (start, name), end in zip(starts, ends, strict=True):
        yield name, list(lines[start:end])


def _install(target: Path, *what: str) -> None:
    options = ["--no-deps", "--link-mode=copy", f"--python-version={VERSION}", f"--python-platform={_PLATFORM}"]
    _uv("pip", "install", f"--target={target}", *options, *what, failure="cannot install into the image")


def _uv(*arguments: str, failure: str) -> None:
    program = Path(sys.prefix) / "bin" / "uv"
    _run([str(program), *arguments, "--quiet"], failure, {})


def _packages(folder: Path) -> dict[str, Node]:
    """What was installed, without the scripts (they name the Python of this machine) and what no process reads."""
    return {
        path: _without_debugging(path, node)
        for path, node in tree.of_folder(folder, f"{PACKAGES}/").items()
        if not path.startswith(f"{PACKAGES}/bin/")
        and not path.endswith(_SOURCES)
        and not (".dist-info/" in path and path.endswith(_INSTALLATION))
        and path != f"{PACKAGES}/.lock"
    }


def _without_debugging(path: str, node: Node) -> Node:
    if isinstance(node, File) and path.endswith(".so"):
        return File(elf.loadable(node.content), node.mode)
    return node


def _is_module(path: str) -> bool:
    return path.endswith(".py") and path.startswith((f"{STANDARD_LIBRARY}/", f"{PACKAGES}/"))


def _cached(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{_CACHE_TAG}.pyc"


def _bytecode(folder: Path, path: str) -> File:
    return File((folder / path).read_bytes())


def _compile(folder: Path, layout: str, paths: Sequence[str]) -> None:
    listed = folder / "modules"
    listed.write_text("".join(f"{folder / path}\n" for path in paths))
    options = ["-q", *filter(None, [layout]), "-s", str(folder), "-p", "/", "-i", str(listed)]
    command = [
        *(str(folder / _LOADER), "--library-path", str(folder / _LIBRARIES), str(folder / INTERPRETER)),
        # Bytecode that is compared with no source: none of the files changes, and all have the same time.
        *("-S", "-m", "compileall", "--invalidation-mode=unchecked-hash", *options),
    ]
    # The order of the members of a set is part of bytecode, and depends on the seed.
    environment = {"PYTHONHOME": str(folder / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    _run(command, "cannot compile the modules of the image", environment)
    listed.unlink()


def _run(command: Sequence[str], failure: str, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours, no shell
            command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BuildFailed(failure, cause=str(error), fix="make the environment again: make .venv/.ready") from error
    if done.returncode != 0:
        cause = "\n         ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-8:])
        raise BuildFailed(failure, cause=cause, fix="remove the cause, and start again: make image")
