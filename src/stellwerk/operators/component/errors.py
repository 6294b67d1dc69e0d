"""What can go wrong while a Component is brought to what it asks for, and which words say so.

    ComponentFailed                 a ReconcileError that knows its cause
    ├── NotYet                      something is missing that may still come: Pending, tried again by the clock
    │   ├── ReferencesUnresolved    a Secret, ConfigMap or key; after 10 s
    │   ├── SourceNotReady          absent, not served, or without an artifact; after 10 s
    │   ├── WaitingForPin           another digest or revision than the one that is pinned; after 10 s
    │   ├── DependencyNotReady      absent, not ready, not synced; after retryInterval
    │   └── StillNeeded             others depend on what is to be deleted; after retryInterval
    ├── Misconfigured               only an edit can help: Error, tried again when something changes
    │   ├── InvalidSpec
    │   ├── DependencyCycle
    │   ├── InvalidReadyExpression
    │   ├── CrossNamespaceReference
    │   ├── ServiceAccountRequired
    │   ├── TargetNamespaceRefused
    │   ├── InvalidKubeConfig
    │   ├── InvalidCredentials
    │   └── ClusterChanged      the objects are in another cluster than the one that is named now
    └── PassFailed                  anything else: Error, tried again with back-off
        ├── ReferencesUnreadable    Secrets or ConfigMaps that may be there, but could not be read
        ├── SourceUnusable          the artifact cannot be had, or is not what was promised
        ├── RenderingFailed         files, values or templates
        ├── InvalidObjects          objects that must not be applied together; nothing was written
        ├── ApplyFailed             the API server did not take an object
        └── ClusterUnreachable      the API server of the target cluster does not answer

The first words of the messages are the original operator's, because alerts look for them; causes follow. No message
carries a value of a Secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from stellwerk.apply.errors import ApplyError, Failure, InvalidSet
from stellwerk.kube.errors import ApiError, LoginFailed, Undecodable, Unreachable
from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION
from stellwerk.operators.component.api_status import State
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.operators.component.saying import Saying
from stellwerk.render.errors import (
    BadArchive,
    LimitExceeded,
    RendererGone,
    RenderError,
    RendererTimeout,
    SourceError,
)
from stellwerk.runtime.contract import ReconcileError, Retry

RETRY_SECONDS = 10.0
"""How soon a missing Secret or source is looked for again, if no watch tells of it before."""

COSTLY_SECONDS = 60.0
"""How soon an archive or template is tried again that has exhausted what there is for one. The back-off's first steps
take milliseconds: ten tries at once of something that takes ten seconds would be an attack on the neighbours."""

_APPLYING = "error reconciling dependent resources: "
_RENDERING = f"{_APPLYING}error rendering manifests: "


class ComponentFailed(ReconcileError):
    """A pass did not succeed; `str()` is the message that the condition shows."""

    reason = Reason.Error
    cause: ClassVar[Cause] = Cause.ApplyFailed
    retriable: ClassVar[bool] = False
    """Whether the Component is Pending rather than in Error, and is tried again after `retry_after_seconds`, or after
    its retryInterval where that is None."""

    def advising(self, advice: str) -> Self:
        """The same failure, with what somebody may do about it."""
        self.args = (f"{self}; {advice}",)
        return self

    def saying(self, *, deleting: bool = False, timed_out: bool = False) -> Saying:
        """What the status shows about it."""
        reason = Reason.Error
        if self.retriable:
            reason = Reason.DeletionRetrying if deleting else Reason.Retrying
        if not timed_out:
            return Saying(reason=reason, message=str(self), cause=self.cause)
        state = State.Pending if self.retriable else State.Error
        return Saying(reason=Reason.Timeout, message=str(self), cause=self.cause, state=state)


# ---- what may still come


class NotYet(ComponentFailed):
    """Something is missing that may still come."""

    retriable = True
    retry_after_seconds: float | None = RETRY_SECONDS


class ReferencesUnresolved(NotYet):
    """Secrets, ConfigMaps or keys are missing; names all of them."""

    cause = Cause.ReferenceNotFound

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"error resolving references: {'; '.join(problems)}")


class SourceNotReady(NotYet):
    """The source has nothing to offer yet."""

    cause = Cause.SourceNotReady

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"error resolving references: {where}: {why}")


class WaitingForPin(NotYet):
    """The source has another artifact than the one that is pinned."""

    cause = Cause.WaitingForPin

    def __init__(self, what: str, wanted: str, found: str) -> None:
        super().__init__(f"source {what} ({found}) does not match specified {what} ({wanted})")


class DependencyNotReady(NotYet):
    """A Component that this one depends on is not far enough."""

    cause = Cause.DependencyNotReady
    retry_after_seconds = None

    def __init__(self, dependency: ObjectKey, why: str) -> None:
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


class DependencyCycle(Misconfigured):
    """Components depend on each other in a circle."""

    cause = Cause.DependencyCycle

    def __init__(self, circle: Sequence[ObjectKey]) -> None:
        way = " -> ".join(map(str, (*circle, circle[0])))
        super().__init__(f"components depend on each other in a circle: {way}; remove one of these dependencies")


class InvalidReadyExpression(Misconfigured):
    """A readyExpr cannot be understood. `why` begins with the place in it, as far as known."""

    cause = Cause.InvalidReadyExpression

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"spec.{field} is no expression that can be true: {why}; correct it")


class CrossNamespaceReference(Misconfigured):
    """A reference leads into another namespace, and that is switched off."""

    cause = Cause.CrossNamespaceReference

    def __init__(self, field: str, target: ObjectKey) -> None:
        super().__init__(
            f"spec.{field} names {target}, which is in another namespace; this operator refuses that "
            "(--no-cross-namespace-refs)"
        )


class ServiceAccountRequired(Misconfigured):
    """Nobody is named to act as, and that is required."""

    cause = Cause.ServiceAccountRequired

    def __init__(self) -> None:
        super().__init__("spec.serviceAccountName is required by this operator (--tenancy=strict)")


class TargetNamespaceRefused(Misconfigured):
    """The objects would go where Components must not put any."""

    cause = Cause.TargetNamespaceRefused

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"namespace {namespace} is not a place for components; this operator refuses it "
            "(--refused-target-namespaces)"
        )


class InvalidKubeConfig(Misconfigured):
    """The kubeconfig of the Secret cannot be used. `why` quotes nothing of it."""

    cause = Cause.InvalidKubeConfig

    def __init__(self, secret: ObjectKey, why: str) -> None:
        super().__init__(f"kubeconfig in secret {secret} cannot be used: {why}")


class InvalidCredentials(Misconfigured):
    """The Secret for a web server cannot be used. `why` quotes nothing of it."""

    cause = Cause.InvalidCredentials

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


# ---- what failed


class PassFailed(ComponentFailed):
    """Something did not work; the system tries again."""

    retry = Retry.BACKOFF


class ReferencesUnreadable(PassFailed):
    """Secrets or ConfigMaps could not be read; names all of them."""

    cause = Cause.ReferenceNotFound

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"error resolving references: {'; '.join(problems)}")


class SourceUnusable(PassFailed):
    """The artifact cannot be had, or is not what was promised."""

    cause = Cause.SourceUnusable

    def __init__(self, why: str) -> None:
        super().__init__(f"{_RENDERING}{why}")


class RenderingFailed(PassFailed):
    """Files, values or templates are wrong."""

    cause = Cause.RenderingFailed

    def __init__(self, why: str) -> None:
        super().__init__(f"{_RENDERING}{why}")


class InvalidObjects(PassFailed):
    """The objects must not be applied together."""

    cause = Cause.InvalidObjects

    def __init__(self, why: str) -> None:
        super().__init__(f"{_APPLYING}{why}")


class ApplyFailed(PassFailed):
    """The API server did not take an object."""

    cause = Cause.ApplyFailed

    def __init__(self, why: str) -> None:
        super().__init__(f"{_APPLYING}{why}")


class ClusterUnreachable(PassFailed):
    """The target cluster does not answer."""

    cause = Cause.ClusterUnreachable

    def __init__(self, why: str) -> None:
        super().__init__(f"{_APPLYING}{why}")


NO_ANSWER = (Unreachable, LoginFailed, Undecodable)
"""A cluster that says nothing, or nothing that an API server would say."""
_SHOWN = 3
_COSTLY = (BadArchive, LimitExceeded, RendererTimeout, RendererGone)
"""Failures that may have taken all the time and memory that there is for one try."""


def failure_of(error: RenderError | ApplyError | ApiError) -> ComponentFailed:
    """What a failure of the rooms below means for a Component. Raise it `from` the failure."""
    failure = _failure_of(error)
    if isinstance(error, _COSTLY):
        failure.retry_after_seconds = COSTLY_SECONDS
    return failure


def writes_failed(failures: Sequence[Failure]) -> ComponentFailed:
    """What it means that objects could not be written."""
    why = "; ".join(map(str, failures[:_SHOWN]))
    return ClusterUnreachable(why) if all(isinstance(one.error, NO_ANSWER) for one in failures) else ApplyFailed(why)


def _failure_of(error: RenderError | ApplyError | ApiError) -> ComponentFailed:
    match error:
        case SourceError():
            return SourceUnusable(str(error))
        case RenderError():
            return RenderingFailed(str(error))
        case InvalidSet():
            return InvalidObjects(str(error))
        case ApiError() if isinstance(error, NO_ANSWER):
            return ClusterUnreachable(str(error))
        case _:
            return ApplyFailed(str(error))
