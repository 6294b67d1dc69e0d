"""What can go wrong on the way to a local control plane. Each says what, why and how to mend it.

LocalError
├── BuildFailed            a binary could not be built
│   └── ToolchainMissing   there is no Go to build with
├── NoSpace                the disk is full, or nearly
├── PortTaken              the port asked for belongs to someone else
├── WrongBinary            what lies in the cache is not what was built
├── BrokenData             files of an earlier start cannot be read
├── TooOld                 the data was written by a newer Kubernetes
└── StartFailed            a component ended, or did not become ready in time
"""

from __future__ import annotations


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


class NoSpace(LocalError):
    """The disk is full, or too full to start."""


class PortTaken(LocalError):
    """Another process listens on the port that was asked for."""


class WrongBinary(LocalError):
    """A cached binary does not run here, or is of another version."""


class BrokenData(LocalError):
    """Files of an earlier start cannot be read."""


class TooOld(LocalError):
    """The data was written by a Kubernetes that this one cannot follow."""


class StartFailed(LocalError):
    """A component ended, or did not become ready in time."""
