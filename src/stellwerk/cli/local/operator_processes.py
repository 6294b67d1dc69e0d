"""The processes of operators in the local system: started, found again, and restarted after their code changed.

The arguments of a process are read from the process itself and stored nowhere else, so a second `up` waits at the right
port for an operator that the first one has just started. So is the source of its code: a process that another version,
interpreter or checkout has started is restarted, as the programs of the control plane are. After an update, `up` must
show the new behaviour; times of files do not prove that, because an installer may restore old ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import stellwerk
from stellwerk.cli.objects import served_addresses
from stellwerk.cli.objects.served_addresses import METRICS, PROBES
from stellwerk.cli.shell.errors import Failure
from stellwerk.local.cluster import LocalCluster, command_line
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.local.host.processes import Process

START_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One process: `title` is its name for users, `process` its name in the cluster's folder.

    `program` is its name for `stellwerk run`, or for the `module` that starts it instead; `account` is the namespace
    and name of its service account. `ports` are the flags of the ports that it serves besides probes and metrics.
    `flags` is called only when the process is started.
    """

    title: str
    process: str
    program: str
    module: str = ""
    account: tuple[str, str]
    flags: Callable[[], Sequence[str]]
    ports: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Starting:
    """A started process of the local system with this name, ready or not yet."""

    title: str
    process: Process
    system: str

    def wait_ready(self, within_seconds: float = START_SECONDS) -> None:
        """Return when the operator is ready. Raises Failure with its last log lines."""
        deadline = time.monotonic() + within_seconds
        while not _is_ready(self.process):
            if self.process.exited_within(_POLL_SECONDS):
                raise Failure(f"the {self.title} did not start", cause=self._log(), fix=f"see {self.process.log}")
            if time.monotonic() > deadline:
                # It continues to run: on a slow machine the next `up` finds it ready.
                raise Failure(
                    f"the {self.title} is not ready after {within_seconds:g} s",
                    cause=f"it runs and its readiness probe fails; the end of its log: {self._log()}",
                    fix=f"see {self.process.log}; start it again: "
                    f"{command_line('down --keep-data', self.system)} && {command_line('up', self.system)}",
                )

    def _log(self) -> str:
        return self.process.log_tail(3) or "it logged nothing"


def started(cluster: LocalCluster, one: Companion, renderer: Path) -> Starting:
    """Start a process, or find it running with the code that is on the disk."""
    process = cluster.start_companion(
        one.process,
        lambda: _arguments(cluster, one),
        {**os.environ, **one.environment},
        source=source_of(Path(stellwerk.__file__).parent, renderer),
    )
    return Starting(one.title, process, cluster.folder.name)


def _arguments(cluster: LocalCluster, one: Companion) -> list[str]:
    return [
        *(sys.executable, "-m", *((one.module,) if one.module else ("stellwerk.cli.main", "run")), one.program),
        f"--kubeconfig={cluster.kubeconfig_of_account(*one.account)}",
        f"{PROBES}={HOST}:{free_port()}",
        f"{METRICS}={HOST}:{free_port()}",
        "--zap-encoder=console",
        *(f"--{flag}={_here(flag)}{free_port()}" for flag in one.ports),
        *one.flags(),
    ]


def _here(flag: str) -> str:
    """What precedes the port in the value of a flag: some have an address."""
    return f"{HOST}:" if flag.endswith("-bind-address") else ""


def source_of(package: Path, renderer: Path) -> str:
    """Identifies the code of an operator: its interpreter, and path, size and time of each file that it may read."""
    facts = sorted(
        f"{file.path} {status.st_size} {status.st_mtime_ns}" for file in _files(package) for status in [file.stat()]
    )
    program = renderer.stat()
    facts += [sys.executable, f"{renderer} {program.st_size} {program.st_mtime_ns}"]
    return sha256("\n".join(facts).encode(errors="surrogateescape")).hexdigest()[:16]


def _files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """Everything below the folder, less what Python compiles and what editors hide."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            elif not entry.name.startswith("."):
                yield entry


def port(process: Process, flag: str) -> int:
    """The port that a running process was given by a flag. Raises Failure when it has none, or has ended."""
    start = f"--{flag}="
    given = [word.removeprefix(start) for word in process.arguments() if word.startswith(start)]
    if not given:
        raise Failure(f"{process.name} has ended", cause=process.log_tail(3), fix=f"see {process.log}")
    return int(given[-1])


def _is_ready(process: Process) -> bool:
    operator = served_addresses.served(process.arguments())
    return operator is not None and operator.is_ready
