"""The failures of a pass on a Component, with their messages.

    ComponentFailed                 a ReconcileError that knows its cause
    ├── NotYet                      something is missing that may still come: Pending, tried again by the clock
    │   ├── ReferencesUnresolved    a Secret, ConfigMap or key; after 10 s
    │   ├── SourceNotReady          absent, not served, or without an artifact; after 10 s
    │   ├── KindsUnknown            templates ask about kinds of an API service that does not answer; after 10 s
    │   ├── WaitingForPin           another digest or revision than the one that is pinned; after 10 s
    │   ├── TooManyClusters         a target cluster more than there may be; after 10 s
    │   ├── DependencyNotReady      absent, not ready, not synced; after retryInterval
    │   └── StillNeeded             others depend on what is to be deleted; after retryInterval
    ├── Misconfigured               only an edit can help: Error, tried again when something changes
    │   ├── InvalidSpec
    │   ├── InputsTooLarge
    │   ├── DependencyCycle
    │   ├── InvalidReadyExpression
    │   ├── CrossNamespaceReference
    │   ├── ServiceAccountRequired
    │   ├── TargetNamespaceRefused
    │   ├── HooksNotSealed      delete hooks that are not proved to be those that were applied
    │   ├── HooksMissing        delete hooks that were applied and are gone
    │   ├── InvalidKubeConfig
    │   ├── InvalidCredentials
    │   ├── ClusterChanged      the objects are in another cluster than the one that is named now
    │   └── ClusterUnidentified nothing shows whether the objects are in the cluster that is named now
    └── PassFailed                  anything else: Error, tried again with back-off
        ├── ReferencesUnreadable    Secrets or ConfigMaps that may be there, but could not be read
        ├── InvalidInventory        an entry of the status that the operator has not written; after 10 s
        ├── SourceUnusable          the artifact cannot be had, or is not what was promised
        │   └── SourceSilent        its server does not answer
        ├── RenderingFailed         files, values or templates
        ├── InvalidObjects          objects that must not be applied together; nothing was written
        ├── ApplyFailed             the API server did not take an object
        ├── ClusterUnreachable      the API server of the target cluster does not answer
        ├── ClusterTooLarge         it shows more objects with our label than are held
        └── EndedUnexpectedly       a fault of the operator; its log has the stack

The first words of the messages are the original operator's, because alerts look for them; causes follow. No message
carries a value of a Secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from stellwerk.apply.errors import ApplyError, InvalidSet, WriteFailure
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.errors import ApiError, LoginFailed, Undecodable, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION
from stellwerk.operators.component.reasons import Cause, PassReport, Reason
from stellwerk.render import errors as render_errors
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import ReconcileError, Retry

RETRY_SECONDS = 10.0
"""How soon a missing Secret or source is looked for again, unless a watch shows it earlier."""

COSTLY_SECONDS = 60.0
"""How soon an archive or template is tried again that has exhausted what there is for one. The back-off's first steps
take milliseconds: ten tries at once of something that takes ten seconds would be an attack on the neighbours."""

_RESOLVING = "error resolving references: "
_APPLYING = "error reconciling dependent resources: "
_RENDERING = f"{_APPLYING}error rendering manifests: "


class ComponentFailed(ReconcileError):
    """A pass did not succeed; `str()` is the message that the condition shows."""

    reason = Reason.Error
    cause: ClassVar[Cause] = Cause.ApplyFailed
    """Where a class names none, it is that of its own name, and where there is no such one, that of its base."""
    beginning: ClassVar[str] = ""
    """The first words of the message."""
    retriable: ClassVar[bool] = False
    """Whether the Component is Pending rather than in Error, and is tried again after `retry_after_seconds`, or after
    its retryInterval where that is None."""

    def __init_subclass__(cls) -> None:
        if "cause" not in cls.__dict__:
            cls.cause = Cause.__members__.get(cls.__name__, cls.cause)

    def __init__(self, why: str) -> None:
        super().__init__(f"{self.beginning}{why}")

    @property
    def why(self) -> str:
        """The message without its first words."""
        return str(self).removeprefix(self.beginning)

    def resolving(self, place: str) -> Self:
        """The same failure, met while references are resolved, at this place of the spec."""
        self.args = (f"{_RESOLVING}{place}: {self.why}",)
        return self

    def advising(self, advice: str) -> Self:
        """The same failure, with advice for the user."""
        self.args = (f"{self}; {advice}",)
        return self

    def report(self, *, deleting: bool = False, timed_out: bool = False) -> PassReport:
        """What the status shows about it."""
        reason = Reason.Error
        if self.retriable:
            reason = Reason.DeletionRetrying if deleting else Reason.Retrying
        if not timed_out:
            return PassReport(reason=reason, message=str(self), cause=self.cause)
        state = State.Pending if self.retriable else State.Error
        return PassReport(reason=Reason.Timeout, message=str(self), cause=self.cause, state=state)


# ---- what may still come


class NotYet(ComponentFailed):
    """Something is missing that may still come."""

    retriable = True
    retry_after_seconds: float | None = RETRY_SECONDS


class ReferencesUnresolved(NotYet):
    """Secrets, ConfigMaps or keys are missing; names all of them."""

    cause = Cause.ReferenceNotFound
    beginning = _RESOLVING


class SourceNotReady(NotYet):
    """The source has nothing to offer yet."""

    beginning = _RESOLVING

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")


class TooManyClusters(NotYet):
    """The Components of the namespace, or all, go to as many other clusters as they may."""

    cause = Cause.TooManyTargetClusters
    beginning = _APPLYING

    def __init__(self, namespace: str, most: int) -> None:
        """`namespace`: the one that may have no more; empty: all together."""
        whose = f"the components of namespace {namespace}" if namespace else "all components together"
        flag = "max-remote-clusters-per-namespace" if namespace else "max-remote-clusters"
        super().__init__(
            f"{whose} go to {most} other clusters, and --{flag} allows no more; use the same kubeconfig for "
            "the same cluster, delete Components of unused clusters, or raise the limit"
        )


class KindsUnknown(NotYet):
    """Templates ask whether the cluster serves kinds of an API service that does not answer."""

    def __init__(self, unknown: str) -> None:
        group, _, version = unknown.rpartition("/")
        super().__init__(
            f"templates ask whether the cluster serves {unknown}, and that is not known: its API service "
            f"{version}.{group} does not answer; see kubectl get apiservice {version}.{group}"
        )


class WaitingForPin(NotYet):
    """The source has another artifact than the one that is pinned."""

    def __init__(self, what: str, wanted: str, found: str) -> None:
        super().__init__(f"source {what} ({found}) does not match specified {what} ({wanted})")


class DependencyNotReady(NotYet):
    """A Component that this one depends on is not far enough."""

    retry_after_seconds = None

    def __init__(self, dependency: ObjectKey, why: str) -> None:
        self.dependency = dependency
        super().__init__(f"dependent component {dependency} {why}")


class StillNeeded(NotYet):
    """Others depend on what is to be deleted."""

    cause = Cause.DependantsExist
    retry_after_seconds = None

    def __init__(self, dependants: Sequence[ObjectKey]) -> None:
        others = f" (and {len(dependants) - 1} others)" if len(dependants) > 1 else ""
        super().__init__(f"deletion blocked by depending component {dependants[0]}{others}")


# ---- what only an edit can help


class Misconfigured(ComponentFailed):
    """Only an edit can help."""

    retry = Retry.WHEN_CHANGED
    cause = Cause.InvalidSpec


class InvalidSpec(Misconfigured):
    """A field has a value without meaning."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"spec.{field}: {why}")


class InputsTooLarge(Misconfigured):
    """Secrets and ConfigMaps hold more than one Component may refer to."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"the Secrets and ConfigMaps that the spec refers to hold {size >> 10} KiB; at most {most >> 10} KiB are "
            "allowed for one component"
        )


class DependencyCycle(Misconfigured):
    """Components depend on each other in a cycle."""

    def __init__(self, cycle: Sequence[ObjectKey]) -> None:
        way = " -> ".join(map(str, (*cycle, cycle[0])))
        super().__init__(f"dependency cycle: {way}; remove one of these dependencies")


class InvalidReadyExpression(Misconfigured):
    """A readyExpr cannot be understood. `why` begins with the place in it, as far as known."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"spec.{field} is no expression that can be true: {why}; correct it")


class CrossNamespaceReference(Misconfigured):
    """A reference leads into another namespace, and that is switched off."""

    def __init__(self, field: str, target: ObjectKey) -> None:
        super().__init__(
            f"spec.{field} names {target}, which is in another namespace; this operator refuses that "
            "(--no-cross-namespace-refs)"
        )


class ServiceAccountRequired(Misconfigured):
    """No account is named, and one is required."""

    def __init__(self) -> None:
        super().__init__("spec.serviceAccountName is required by this operator (--tenancy=strict)")


class TargetNamespaceRefused(Misconfigured):
    """The objects would go where Components must not put any."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"namespace {namespace} is not a place for components; this operator refuses it "
            "(--refused-target-namespaces)"
        )


class HooksNotSealed(Misconfigured):
    """Delete hooks are not proved to be those that were applied, or cannot be sealed."""

    cause = Cause.DeleteHooksNotSealed


class HooksMissing(Misconfigured):
    """The Secret with the delete hooks is gone, and this operator has not deleted it."""

    cause = Cause.DeleteHooksMissing

    def __init__(self, component: ObjectKey, secret: ObjectKey) -> None:
        super().__init__(
            f"the secret {secret} with the delete hooks is gone, so that they cannot run; nothing is deleted; restore "
            f"the secret; or delete without them: {without_hooks(component)}"
        )
        self.secret = secret


def without_hooks(component: ObjectKey) -> str:
    """The command that lets a deletion go on without delete hooks."""
    skip = '{"spec":{"deleteHooks":"Skip"}}'
    return f"kubectl -n {component.namespace} patch component {component.name} --type merge -p '{skip}'"


class InvalidKubeConfig(Misconfigured):
    """The kubeconfig of the Secret cannot be used. `why` quotes nothing of it."""

    def __init__(self, secret: ObjectKey, why: str) -> None:
        super().__init__(f"kubeconfig in secret {secret} cannot be used: {why}")


class InvalidCredentials(Misconfigured):
    """The Secret for a web server cannot be used. `why` quotes nothing of it."""

    def __init__(self, secret: str, why: str) -> None:
        super().__init__(f"credentials in {secret} cannot be used: {why}")


class ClusterChanged(Misconfigured):
    """What is named now is not the cluster that the objects are in."""

    cause = Cause.TargetClusterChanged

    def __init__(self, former: str, found: str) -> None:
        super().__init__(
            f"the objects are in the cluster {former}, and the component now leads to the cluster {found}; nothing is "
            f"written there until you name the former one again, or give up what is in it by the annotation "
            f"{CONFIRMED_CLUSTER_ANNOTATION}={found}"
        )


class ClusterUnidentified(Misconfigured):
    """Nothing shows whether what is named now is the cluster that the objects are in."""

    cause = Cause.TargetClusterChanged

    def __init__(self, former: str) -> None:
        super().__init__(
            f"the objects are in the cluster {former}, and it is not known whether the component still leads there: "
            "the login may read no namespace, and the kubeconfig has no certificate-authority-data; provide one of both"
        )


# ---- what failed


class PassFailed(ComponentFailed):
    """Something did not work; the system tries again."""

    retry = Retry.BACKOFF


class InvalidInventory(PassFailed):
    """An entry of the status cannot have been written by an operator."""

    retry_after_seconds = RETRY_SECONDS  # an edit of the status wakes no pass


class ReferencesUnreadable(PassFailed):
    """Secrets or ConfigMaps could not be read; names all of them."""

    cause = Cause.ReferenceNotFound
    beginning = _RESOLVING


class SourceUnusable(PassFailed):
    """The artifact cannot be had, or is not what was promised."""

    beginning = _RENDERING


class SourceSilent(SourceUnusable):
    """The server of the artifact does not answer."""


class RenderingFailed(PassFailed):
    """Files, values or templates are wrong."""

    beginning = _RENDERING


class InvalidObjects(PassFailed):
    """The objects must not be applied together."""

    beginning = _APPLYING


class ApplyFailed(PassFailed):
    """The API server did not take an object."""

    beginning = _APPLYING


class ClusterUnreachable(PassFailed):
    """The target cluster does not answer."""

    beginning = _APPLYING


class EndedUnexpectedly(PassFailed):
    """The pass ended by an unexpected exception; the engine found the words."""

    cause = Cause.UnexpectedError


class ClusterTooLarge(PassFailed):
    """The target cluster shows more objects with our label than are held."""

    retry = Retry.WHEN_CHANGED
    cause = Cause.TargetClusterTooLarge
    beginning = _APPLYING

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; remove them, or distribute Components over several clusters")


NO_ANSWER = (Unreachable, LoginFailed, Undecodable)
"""A cluster that sends nothing, or nothing that an API server would send."""
_SHOWN = 3
_COSTLY = (
    render_errors.BadArchive,
    render_errors.LimitExceeded,
    render_errors.RendererTimeout,
    render_errors.RendererGone,
)
"""Failures that may have taken all the time and memory that there is for one try."""


def failure_of(error: render_errors.RenderError | ApplyError | ApiError) -> ComponentFailed:
    """What a failure of the rooms below means for a Component. Raise it `from` the failure."""
    failure = _failure_of(error)
    if isinstance(error, _COSTLY):
        failure.retry_after_seconds = COSTLY_SECONDS
    return failure


def advised(error: render_errors.SourceError) -> str:
    """The sentence of a source's failure, with its fix in parentheses where there is one of its own."""
    fix = _source_fix(error)
    return f"{error} ({fix})" if fix else str(error)


def source_fix_in(sentence: str) -> str:
    """The fix that `advised` has put into a sentence; empty where it has none. For programs that have only the text."""
    return next((fix for fix in _SOURCE_FIXES.values() if f"({fix})" in sentence), "")


def _source_fix(error: render_errors.SourceError) -> str:
    match error:
        case render_errors.IncompleteAnswer(header=header) if header:
            return _SOURCE_FIXES["header"]
        case render_errors.Unavailable(status=401 | 403):
            return _SOURCE_FIXES["login"]
        case render_errors.Unavailable(status=404 | 410):
            return _SOURCE_FIXES["absent"]
        case render_errors.Unavailable(unknown_host=True):
            return _SOURCE_FIXES["host"]
        case render_errors.NotAnArchive():
            return _SOURCE_FIXES["archive"]
        case _:
            return ""


_SOURCE_FIXES = {
    "header": "set digestHeader and revisionHeader of spec.sourceRef.httpRepository to headers that the server sends; "
    "curl -I URL lists them",
    "login": "put a login that the server accepts into a Secret, and name it in "
    "spec.sourceRef.httpRepository.secretRef",
    "absent": "correct the path of the URL in spec.sourceRef.httpRepository, or have flux fetch its source again",
    "host": "correct the host of the URL in spec.sourceRef.httpRepository, or the DNS of the cluster",
    "archive": "have the URL lead to a tar or zip archive, or to a file named *.yaml or *.json",
}
"""By what is wrong. No fix has parentheses, because it is printed in some."""


def _path_fix(folders: Sequence[str]) -> str:
    if not folders:
        return "Correct spec.path: the source has no folder there"
    return f"Correct spec.path: the source has {conditions.first_of(folders)}"


def writes_failed(failures: Sequence[WriteFailure]) -> ComponentFailed:
    """What it means that objects could not be written."""
    why = "; ".join(map(str, failures[:_SHOWN]))
    return (
        ClusterUnreachable(why)
        if all(isinstance(failure.error, NO_ANSWER) for failure in failures)
        else ApplyFailed(why)
    )


def _failure_of(error: render_errors.RenderError | ApplyError | ApiError) -> ComponentFailed:
    match error:
        case render_errors.Unavailable(status=0):
            return SourceSilent(advised(error))
        case render_errors.SourceError():
            return SourceUnusable(advised(error))
        case render_errors.PathNotFound():
            return RenderingFailed(f"{error}. {_path_fix(error.folders)}")
        case render_errors.RenderError():
            return RenderingFailed(str(error))
        case InvalidSet():
            return InvalidObjects(str(error))
        case ApiError() if isinstance(error, NO_ANSWER):
            return ClusterUnreachable(str(error))
        case _:
            return ApplyFailed(str(error))
