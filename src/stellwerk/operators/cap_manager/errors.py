"""The failures of a pass on a CAPOperator, with their messages.

CapOperatorFailed          a ReconcileError that knows its cause
├── Misconfigured          only an edit can help: tried again when something changes
│   ├── InvalidSpec        a field has a value without meaning, or none of two is set
│   ├── AnotherCapOperator an older CAPOperator has the cluster
│   ├── ClusterDomainUnknown  kube-system/shoot-info does not have it
│   └── ImageUnknown       the manager does not know its own image
└── PassFailed             anything else: tried again with back-off
    ├── InvalidInventory   an entry of the status that no manager has written; after 10 s
    ├── ApplyFailed        objects could not be rendered, or not be applied together, or the API server took none
    └── EndedUnexpectedly  a fault of the manager; its log has the stack
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.apply.errors import ApplyError, InvalidSet, Obstacle, WriteFailure
from stellwerk.delivery.watched_objects import Unwatchable
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap_manager.reasons import Cause, Reason
from stellwerk.render.errors import RenderError
from stellwerk.runtime.reconciler import ReconcileError, Retry

_RETRY_SECONDS = 10.0
_SHOWN = 3


class CapOperatorFailed(ReconcileError):
    """A pass did not succeed; `str()` is the message that the condition shows."""

    reason = Reason.Error
    cause: Cause = Cause.ApplyFailed


# ---- what only an edit can help


class Misconfigured(CapOperatorFailed):
    """Only an edit can help."""

    retry = Retry.WHEN_CHANGED
    cause = Cause.InvalidSpec


class InvalidSpec(Misconfigured):
    """A field has a value without meaning, or a required one is absent."""


class AnotherCapOperator(Misconfigured):
    """A cluster has exactly one installation."""

    cause = Cause.AnotherCapOperator

    def __init__(self, own: ObjectKey, first: ObjectKey) -> None:
        super().__init__(
            f"there must be exactly one CAPOperator in the cluster, and {first} is the older one: delete this one "
            f"(kubectl delete capoperator {own.name} -n {own.namespace}), or delete {first} first"
        )


class ClusterDomainUnknown(Misconfigured):
    """The domain of the cluster is not where Gardener writes it."""

    cause = Cause.ClusterDomainUnknown

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the domain of the cluster is unknown: {why}; Gardener creates the ConfigMap, on other clusters you do: "
            "kubectl create configmap shoot-info -n kube-system --from-literal=domain=DOMAIN"
        )


class ImageUnknown(Misconfigured):
    """The pods of the product's chart run the image of the manager."""

    cause = Cause.ImageUnknown

    def __init__(self, variable: str) -> None:
        super().__init__(
            "the manager does not know which image the pods are to run: set --image or the variable "
            f"{variable} of the manager's Deployment to its own image"
        )


# ---- anything else


class PassFailed(CapOperatorFailed):
    """Tried again with back-off."""


class InvalidInventory(PassFailed):
    """An entry of the status cannot have been written by a manager."""

    cause = Cause.InvalidInventory
    retry_after_seconds = _RETRY_SECONDS  # an edit of the status wakes no pass


class ApplyFailed(PassFailed):
    """Chart or values are wrong, objects must not be applied together, or the API server did not take one."""

    def __init__(self, why: str, cause: Cause = Cause.ApplyFailed) -> None:
        super().__init__(f"error reconciling dependent resources: {why}")
        self.cause = cause


class EndedUnexpectedly(PassFailed):
    """The pass ended by an unexpected exception; the engine found the words."""

    cause = Cause.UnexpectedError


def failure_of(error: RenderError | ApplyError | ApiError | Unwatchable) -> CapOperatorFailed:
    """What a failure of the rooms below means for a CAPOperator. Raise it `from` the failure."""
    match error:
        case RenderError():
            return ApplyFailed(f"error rendering manifests: {error}", Cause.RenderingFailed)
        case InvalidSet():
            return ApplyFailed(str(error), Cause.InvalidObjects)
        case _:
            return ApplyFailed(str(error))


def writes_failed(failures: Sequence[WriteFailure]) -> CapOperatorFailed:
    """What it means that objects could not be written."""
    why = "; ".join(map(str, failures[:_SHOWN]))
    if any(failure.obstacle is Obstacle.FORBIDDEN for failure in failures):
        why += "; a manager may grant only rights that it has: see stellwerk explain manager-rights"
    return ApplyFailed(why)
