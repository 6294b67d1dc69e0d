"""The report of a verb that cannot do its work: four parts, always in this order, and an exit code.

    Error:   cannot read BtpOperator kyma-system/btpoperator
    Cause:   user "jane" may not get btpoperators in kyma-system
    Fix:     ask for a Role that grants it, or act as another user with --as
    Object:  BtpOperator kyma-system/btpoperator

A verb raises `Failure` where it knows the four parts. `error_reports` makes the parts for the exceptions of lower
folders, so that no verb catches an exception only to print it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from stellwerk.cli.shell.text import escaped


class Exit(IntEnum):
    """How a verb ended, for scripts. These numbers are a promise."""

    DONE = 0
    FAILED = 1
    """It failed, or what was asked about is not ready."""
    USAGE = 2
    DIFFERENT = 3
    TIMEOUT = 4
    FORBIDDEN = 5
    INTERRUPTED = 130


NOT_SERVED = "the cluster does not serve this kind"
INSTALL = "install the CustomResourceDefinitions: stellwerk install (stellwerk up does it for the local system)"


@dataclass(frozen=True, slots=True)
class FailureReport:
    """The four parts. Only `error` is always there."""

    error: str
    cause: str = ""
    fix: str = ""
    subject: str = ""

    def lines(self) -> list[str]:
        """The parts that are there, a labelled line each; further lines of a part are indented below its first."""
        parts = (("Error:", self.error), ("Cause:", self.cause), ("Fix:", self.fix), ("Object:", self.subject))
        return [line for label, text in parts if text for line in _labelled(label, text)]


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = [escaped(line) for line in text.splitlines()] or [""]
    return [f"{label:<9}{first}", *(f"{'':9}{line.strip()}" for line in rest)]


class Failure(Exception):
    """A verb cannot go on; the user gets the cause in four parts."""

    def __init__(
        self, error: str, *, cause: str = "", fix: str = "", subject: str = "", code: Exit = Exit.FAILED
    ) -> None:
        super().__init__(error)
        self.report = FailureReport(error, cause, fix, subject)
        self.code = code


class NotReady(Exception):
    """The verb has printed its result, and the object is not ready: exit code 1, and no further message."""


class ReaderLeft(Exception):
    """The reader of our output (`| head`) has closed the pipe. Not an OSError: click reports those as failures."""
