"""Reports about exceptions that are no `Failure`: of the cluster, of this machine, and bugs of stellwerk itself.

It imports the exceptions of many folders, so it is imported only after a verb has failed.
"""

from __future__ import annotations

import errno
import sys
import traceback

import msgspec

from stellwerk import assembly
from stellwerk.cli.shell.errors import INSTALL, NOT_SERVED, Exit, Failure, FailureReport
from stellwerk.cli.shell.settings import style_of, tell
from stellwerk.kube.types import errors as kube
from stellwerk.local.errors import LocalError
from stellwerk.runtime.telemetry import logs


def print_failure(error: Exception, *, verbose: bool) -> Exit:
    """Print an exception to standard error in four parts, a bug with its stack if `verbose`. Returns the exit code.

    Credentials are masked, because an answer of the API server may quote a Secret that the verb has read.
    """
    if known := explained(error):
        report, code = known
    else:
        report, code = our_fault(error), Exit.FAILED
        if verbose:
            tell(logs.redacted("".join(traceback.format_exception(error))))
    style = style_of(sys.stderr)
    first, *others = map(logs.redacted, report.lines())
    tell("\n".join([style.painted(first[:6], "bad") + first[6:], *others]))
    return code


def explained(error: BaseException) -> tuple[FailureReport, Exit] | None:
    """The four parts and the exit code of a failure that the user can correct; None for a bug."""
    if isinstance(error, Failure):
        return error.report, error.code
    if isinstance(error, BaseExceptionGroup):
        return explained(error.exceptions[0])
    return _of_the_cluster(error) or _of_the_machine(error)


def _of_the_cluster(error: BaseException) -> tuple[FailureReport, Exit] | None:
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
        case kube.Forbidden() if kube.is_refused_by_admission(error):
            fix = "change the object, or the policy that refuses it"
            return FailureReport(_attempt(error), error.status.message, fix), Exit.FAILED
        case kube.Forbidden():
            fix = "ask for the right, or act as a user who has it (--as)"
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


def _fix_of(error: kube.StatusError) -> str:
    match error:
        case kube.Conflict() | kube.Busy():
            return "another client changed the object: run it again"
        case kube.Invalid():
            return "correct what the cause names"
        case kube.BadRequest() if error.status.reason:  # a web server that is no API server gives none
            return "correct what the cause names"
        case kube.Unexplained():
            return "check that nothing between you and the API server answers in its place"
        case kube.ServerFault() if webhook := kube.silent_webhook(error):
            return _fix_of_webhook(webhook)
        case kube.TooManyRequests() | kube.ServerFault():
            return "the API server is busy or unwell: try again later"
        case _:
            return "check that --kubeconfig names a Kubernetes API server, with https where it serves that"


def _fix_of_webhook(name: str) -> str:
    """What helps where the API server cannot call an admission webhook."""
    for operator, spec in assembly.OPERATORS.items():
        if any((served := each.installation().webhooks) and name in served.names for each in spec.processes):
            return f"see whether the process that serves this webhook runs: stellwerk check {operator}"
    configurations = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    return f"see which service answers for this webhook, and whether it runs: kubectl get {configurations} -o wide"


def _attempt(error: BaseException) -> str:
    attempted = str(getattr(error, "attempted", ""))
    return f"cannot {attempted}" if attempted else "the API server refused"


def _of_the_machine(error: BaseException) -> tuple[FailureReport, Exit] | None:
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
    """The report about a bug."""
    return FailureReport(
        "stellwerk itself is at fault here",
        f"{type(error).__name__}: {error}",
        "run it again with -v and report what it prints",
    )
