"""Starts a program from the file system of an image as a node does it: as its user, on a read-only root.

An OCI runtime does it where the machine has one and allows namespaces; with the filter of system calls that pods have
by `RuntimeDefault`, where the machine has that. Otherwise chroot does: then the root is not
mounted read-only, but all its files are those of another user. Containers share the network of the machine, where the
API server is.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from stellwerk.kube.types.model import JsonObject, JsonValue

USER = 65532
PROFILE = Path("/usr/share/containers/seccomp.json")
"""The profile of Podman and CRI-O (Debian: golang-github-containers-common). Without it containers have no filter."""
_ARCHITECTURE = "amd64"
_OF_A_RULE = {"names", "action", "args", "errnoRet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod. `files` are mounted read-only by their path in it; `scratch` are its emptyDirs."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, Path] = field(default_factory=dict)
    scratch: Sequence[str] = ("/tmp",)
    user: int = USER


class Runtime(Protocol):
    """A way to start containers from one root file system."""

    name: str

    def command(self, container: Container, folder: Path) -> AbstractContextManager[Sequence[str]]:
        """The command that is the container; when the block ends, nothing is left of it. `folder` is an empty one."""
        ...

    def pid(self, command_pid: int, folder: Path) -> int:
        """The process in the container whose command runs as `command_pid`."""
        ...


class OciRuntime:
    """runc or crun."""

    def __init__(self, program: str, root: Path) -> None:
        self.name = program
        self._root = root

    @contextmanager
    def command(self, container: Container, folder: Path) -> Iterator[Sequence[str]]:
        name = f"stellwerk-{secrets.token_hex(6)}"
        (folder / "config.json").write_text(json.dumps(self._bundle(container)))
        base = [self.name, "--root", str(folder / "state")]
        try:
            yield [*base, "run", "--bundle", str(folder), "--pid-file", str(folder / "pid"), name]
        finally:
            subprocess.run([*base, "delete", "--force", name], capture_output=True, check=False)

    def pid(self, command_pid: int, folder: Path) -> int:
        return int((folder / "pid").read_text())

    def _bundle(self, container: Container) -> dict[str, object]:
        private = ["nosuid", "nodev", "noexec"]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": private},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            *(
                {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": [*private, "mode=1777"]}
                for path in container.scratch
            ),
            *(
                {"destination": path, "type": "bind", "source": str(source), "options": ["rbind", "ro"]}
                for path, source in container.files.items()
            ),
        ]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": container.user, "gid": container.user},
                "args": list(container.arguments),
                "env": [f"{name}={value}" for name, value in container.environment.items()],
                "cwd": "/",
                "noNewPrivileges": True,
                "capabilities": {},
            },
            "root": {"path": str(self._root), "readonly": True},
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": kind} for kind in ("mount", "pid", "ipc", "uts")],
                **({"seccomp": _seccomp(json.loads(PROFILE.read_text()))} if PROFILE.exists() else {}),
            },
        }


def _seccomp(profile: JsonObject) -> JsonObject:
    """The filter of system calls of `RuntimeDefault`, for a container without capabilities, as runtimes read it.

    An engine keeps it as rules with conditions (capabilities, architectures), and resolves these for each container.
    """
    rules: list[JsonValue] = []
    for rule in _objects(profile["syscalls"]):
        includes, excludes = (cast(JsonObject, rule.get(name) or {}) for name in ("includes", "excludes"))
        named = cast(Sequence[str], includes.get("arches") or [_ARCHITECTURE])
        if not includes.get("caps") and _ARCHITECTURE in named and "arches" not in excludes:
            rules.append({name: value for name, value in rule.items() if name in _OF_A_RULE and value})
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": rules,
    }


def _objects(value: JsonValue) -> Sequence[JsonObject]:
    assert isinstance(value, list), "the profile has a list of rules"
    return cast(Sequence[JsonObject], value)


class Chroot:
    """chroot(8), for machines that forbid namespaces."""

    name = "chroot"

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def command(self, container: Container, folder: Path) -> Iterator[Sequence[str]]:
        root = folder / "root"
        shutil.copytree(self._root, root, symlinks=True, copy_function=os.link)
        os.chown(root / "home/nonroot", USER, USER)
        for path in container.scratch:
            (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
            (root / path.lstrip("/")).chmod(0o1777)
        for path, source in container.files.items():
            shutil.copytree(source, root / path.lstrip("/"))
        for name, minor in (("null", 3), ("urandom", 9)):
            os.mknod(root / "dev" / name, 0o020666, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)
        variables = [f"{name}={value}" for name, value in container.environment.items()]
        with _processes(root / "proc"):
            yield [
                *("chroot", f"--userspec={container.user}:{container.user}", "--groups=", str(root)),
                *("/usr/bin/python3", "-c", _EXECUTE, *variables, "--", *container.arguments),
            ]

    def pid(self, command_pid: int, folder: Path) -> int:
        return command_pid


@contextmanager
def _processes(folder: Path) -> Iterator[None]:
    """/proc, through which a program opens its own files in memory; where mounts are forbidden it stays empty."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "proc", "proc", str(folder)], capture_output=True, check=False)
    try:
        yield
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


_EXECUTE = (
    "import os, sys; split = sys.argv.index('--'); "
    "os.execvpe(sys.argv[split + 1], sys.argv[split + 1:], dict(word.split('=', 1) for word in sys.argv[1:split]))"
)
"""The image has no `env`, so Python replaces the environment of the test by that of the container."""


def best(root: Path, folder: Path) -> Runtime:
    """The first of runc, crun and chroot that starts the program of the image here; `STELLWERK_IMAGE_RUNTIME` chooses.

    Raises AssertionError with what each of them printed.
    """
    chosen = os.environ.get("STELLWERK_IMAGE_RUNTIME")
    failures = []
    for name in [chosen] if chosen else ["runc", "crun", "chroot"]:
        runtime: Runtime = Chroot(root) if name == "chroot" else OciRuntime(name, root)
        if shutil.which(name) is None:
            failures.append(f"{name}: not installed")
            continue
        trial = Container(arguments=["stellwerk", "--version"], environment={"PATH": "/usr/local/bin:/usr/bin"})
        done = run(runtime, trial, folder / name)
        if done.returncode == 0:
            return runtime
        failures.append(f"{name}: {(done.stderr or done.stdout).strip()}")
    raise AssertionError("no program here can start a container:\n" + "\n".join(failures))


def run(runtime: Runtime, container: Container, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a container to its end, at most a minute. `folder` does not exist yet."""
    folder.mkdir(parents=True)
    with runtime.command(container, folder) as command:
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
