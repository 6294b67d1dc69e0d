"""The failures of starting a local control plane. Each names what, why and how to fix it.

LocalError
├── BuildFailed            a binary could not be built
│   └── ToolchainMissing   there is no Go to build with
├── BadName                what a cluster cannot be called
├── NoSpace                the disk is full, or nearly
├── PortTaken              the port asked for belongs to someone else
├── WrongBinary            the cache does not hold what was built
├── BrokenData             files of an earlier start cannot be read
├── WrongVersion           the data was written by a newer Kubernetes
├── ProcessStartFailed     a component ended, or did not become ready in time
├── ProcessStopFailed      a component did not end
├── RemovalFailed          a file of a removed cluster stays
└── RunsElsewhere          a component runs where it cannot be signalled from here
"""

from __future__ import annotations

from pathlib import Path

from stellwerk.local.host.names import RULE

_START_AFRESH = "`stellwerk down` removes the local cluster; then start it again"


class LocalError(Exception):
    """The local control plane cannot do what was asked.

    `summary`, `cause` and `fix` are one line each (the cause may quote a few lines of a log).
    """

    def __init__(self, summary: str, *, cause: str, fix: str) -> None:
        super().__init__(f"Error:   {summary}\nCause:   {cause}\nFix:     {fix}")
        self.summary = summary
        self.cause = cause
        self.fix = fix


class BuildFailed(LocalError):
    """A binary could not be built."""


class ToolchainMissing(BuildFailed):
    """There is no Go toolchain, and none could be installed."""


class BadName(LocalError):
    """A cluster cannot have this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} cannot be the name of a local cluster",
            cause="a name becomes that of a folder",
            fix=f"choose another: {RULE}",
        )


class NoSpace(LocalError):
    """The disk is full, or too full to start."""

    def __init__(self, folder: Path, *, needs_bytes: int, variables: str) -> None:
        super().__init__(
            "cannot start the local control plane: too little disk space",
            cause=f"it needs {needs_bytes // 1024**2} MiB free at {folder}",
            fix=f"free some space, or set {variables} to a folder on a larger disk",
        )


class PortTaken(LocalError):
    """Another process listens on the port that was asked for."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"cannot start the API server on {address}",
            cause=f"another process listens on {address}",
            fix="end that process, or choose another port (without --port a free one is chosen)",
        )


class WrongBinary(LocalError):
    """A cached binary does not run here, or is of another version."""

    def __init__(self, summary: str, *, cause: str, folder: Path) -> None:
        super().__init__(summary, cause=cause, fix=f"remove {folder} and start again; it is then built again")


class BrokenData(LocalError):
    """Files of an earlier start cannot be read."""

    def __init__(self, summary: str, *, cause: str, fix: str = _START_AFRESH) -> None:
        super().__init__(summary, cause=cause, fix=fix)


class WrongVersion(LocalError):
    """The data was written by a Kubernetes that this one cannot follow."""

    def __init__(self, summary: str, *, cause: str, written_by: str) -> None:
        keep = f"to keep the data, start it with the Stellwerk that has Kubernetes {written_by}"
        super().__init__(summary, cause=cause, fix=f"{keep}; to lose it: {_START_AFRESH}")


class ProcessStartFailed(LocalError):
    """A component ended, or did not become ready in time."""


class ProcessStopFailed(LocalError):
    """A component did not end when it was killed."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(
            f"{name} does not end",
            cause=f"the process whose id is in {file} was killed and is still there",
            fix="a process that waits for a disk ends when the disk answers; then run the command again",
        )


class RemovalFailed(LocalError):
    """The processes of a cluster have ended, and a file of it cannot be removed."""

    def __init__(self, file: Path, cause: str) -> None:
        super().__init__(
            "cannot remove all data of the local system",
            cause=f"{file}: {cause}",
            fix="make that file and its folder writable, or unmount it, then run `stellwerk down` again",
        )


class RunsElsewhere(LocalError):
    """A component holds its lock, and is no process of this container or machine."""

    def __init__(self, name: str, file: Path, pid: str) -> None:
        super().__init__(
            f"{name} of this local system runs in another container or on another machine",
            cause=f"{file} is locked, and process {pid} here does not hold the lock",
            fix="run the command where the system was started, or set STELLWERK_STATE to another folder",
        )
