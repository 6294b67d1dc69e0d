"""What a person reads when a verb cannot do its work: four parts, always in this order, and an exit code.

    Error:   cannot read BtpOperator kyma-system/btpoperator
    Cause:   user "jane" may not get btpoperators in kyma-system
    Fix:     ask for a Role that grants it, or act as somebody else with --as
    Object:  BtpOperator kyma-system/btpoperator

A verb raises `Failure` where it knows the four parts; failures of lower rooms are translated here, in one place, so
that no verb catches an exception only to print it. Nothing heavy is imported before something has gone wrong.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from stellwerk.cli.shell.text import escaped

if TYPE_CHECKING:
    from stellwerk.kube.types.errors import StatusError


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
        """The parts that are there, a labelled line each; further lines of a part stand below its first."""
        parts = (("Error:", self.error), ("Cause:", self.cause), ("Fix:", self.fix), ("Object:", self.subject))
        return [line for label, text in parts if text for line in _labelled(label, text)]


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = [escaped(line) for line in text.splitlines()] or [""]
    return [f"{label:<9}{first}", *(f"{'':9}{line.strip()}" for line in rest)]


class Failure(Exception):
    """A verb cannot go on; the person is told why in four parts."""

    def __init__(
        self, error: str, *, cause: str = "", fix: str = "", subject: str = "", code: Exit = Exit.FAILED
    ) -> None:
        super().__init__(error)
        self.report = FailureReport(error, cause, fix, subject)
        self.code = code


class NotReady(Exception):
    """The verb has printed its result, and the result is bad news: nothing more to say, only exit code 1."""


class ReaderLeft(Exception):
    """Whoever read our output (`| head`) has seen enough. Not an OSError: click would make a failure of those."""


def explained(error: BaseException) -> tuple[FailureReport, Exit] | None:
    """The four parts and the exit code of a failure that somebody can mend; None for a fault of our own."""
    if isinstance(error, Failure):
        return error.report, error.code
    if isinstance(error, BaseExceptionGroup):
        return explained(error.exceptions[0])
    return _of_the_cluster(error) or _of_the_machine(error)


def _of_the_cluster(error: BaseException) -> tuple[FailureReport, Exit] | None:
    import msgspec

    from stellwerk.kube.types import errors as kube

    match error:
        case kube.Unreachable():
            fix = (
                "check that the cluster runs (stellwerk status) and that --kubeconfig and --context name the right one"
            )
            return FailureReport("the API server does not answer", str(error), fix), Exit.FAILED
        case kube.LoginFailed():
            fix = "correct the kubeconfig, or choose another with --kubeconfig or --context"
            return FailureReport("there is no usable login to a cluster", str(error), fix), Exit.FAILED
        case kube.Unauthorized():
            fix = "log in again, or choose other credentials with --kubeconfig or --context"
            return FailureReport("the API server does not know who you are", str(error), fix), Exit.FORBIDDEN
        case kube.Forbidden():
            fix = "ask for the right, or act as somebody who has it (--as)"
            return FailureReport(_attempt(error), error.status.message, fix), Exit.FORBIDDEN
        case kube.NotServed():
            return FailureReport(NOT_SERVED, str(error), INSTALL), Exit.FAILED
        case kube.ServerTimeout():
            return FailureReport(_attempt(error), error.status.message, "try again"), Exit.TIMEOUT
        case kube.NotFound():
            return FailureReport(_attempt(error), error.status.message, "check name and namespace"), Exit.FAILED
        case kube.StatusError():
            return FailureReport(
                _attempt(error), error.status.message or f"HTTP {error.code}", _fix_of(error)
            ), Exit.FAILED
        case kube.UnreadableObject():
            fix = "correct the field that the cause names: kubectl edit, or delete the object"
            return FailureReport("an object of the cluster is not what its kind promises", str(error), fix), Exit.FAILED
        case kube.Undiscovered():
            return FailureReport(
                "the API server does not know all that it serves", str(error), "try again"
            ), Exit.FAILED
        case kube.ApiError():
            fix = "check that --kubeconfig names a Kubernetes API server and no other web site"
            return FailureReport("the API server's answer cannot be used", str(error), fix), Exit.FAILED
        case msgspec.ValidationError():
            fix = "see it as it is with -o yaml, and install the CustomResourceDefinitions of this version"
            return FailureReport("an object of the cluster is not what its kind promises", str(error), fix), Exit.FAILED
    return None


def _fix_of(error: StatusError) -> str:
    from stellwerk.kube.types import errors as kube

    match error:
        case kube.Conflict():
            return "somebody else was faster: run it again"
        case kube.Invalid():
            return "correct what the cause names"
        case kube.BadRequest() if error.status.reason:  # a web server that is no API server gives none
            return "correct what the cause names"
        case kube.Unexplained():
            return "check that nothing between you and the API server answers in its place"
        case kube.TooManyRequests() | kube.ServerFault():
            return "the API server is busy or unwell: try again later"
        case _:
            return "check that --kubeconfig names a Kubernetes API server, with https where it serves that"


def _attempt(error: BaseException) -> str:
    attempted = str(getattr(error, "attempted", ""))
    return f"cannot {attempted}" if attempted else "the API server refused"


def _of_the_machine(error: BaseException) -> tuple[FailureReport, Exit] | None:
    from stellwerk.local.errors import LocalError

    match error:
        case LocalError():
            return FailureReport(error.summary, error.cause, error.fix), Exit.FAILED
        case TimeoutError():
            return FailureReport("it took too long", str(error), "try again, or allow more time"), Exit.TIMEOUT
        case RuntimeError() if "home directory" in str(error):  # the only word that pathlib has for it
            fix = "set HOME, or STELLWERK_STATE and STELLWERK_CACHE"
            return FailureReport("this user has no home folder to keep things in", str(error), fix), Exit.FAILED
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return FailureReport("the disk is full", str(error), "free some space, then run it again"), Exit.FAILED
        case OSError() if error.filename:
            fix = "check that the file exists and that you may use it"
            return FailureReport(f"cannot use {error.filename}", error.strerror or str(error), fix), Exit.FAILED
    return None


def our_fault(error: BaseException) -> FailureReport:
    """What to say when nobody but us can mend it."""
    return FailureReport(
        "stellwerk itself is at fault here",
        f"{type(error).__name__}: {error}",
        "run it again with -v and report what it prints",
    )
