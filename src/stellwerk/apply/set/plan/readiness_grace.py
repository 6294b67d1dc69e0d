"""Whether an object is ready, when it may have been written a moment ago. Pure.

An object of an unknown kind that carries no status counts as ready: many kinds have none. Right after a
write that proves nothing, because the controller that would give it a status has not seen it yet. Such an object is
given a moment. Kinds that are as they are written (a ConfigMap, a Role) are not: they never get a status.
"""

from __future__ import annotations

from stellwerk.apply.readiness.kstatus import CURRENT, Readiness, waiting
from stellwerk.apply.readiness.readiness import NO_HINTS, assess
from stellwerk.apply.set.model.confirmation import Confirmation, Live
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import InventoryEntry
from stellwerk.apply.set.plan.plan_input import PlanInput
from stellwerk.kube.types.model import Unstructured

SETTLING_SECONDS = 1.0
"""For how long an object without a status counts as not ready after it was written."""

SETTLING = waiting("was just written")

_IS_AS_WRITTEN = frozenset(
    {
        ("", "ConfigMap"),
        ("", "LimitRange"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("networking.k8s.io", "IngressClass"),
        ("node.k8s.io", "RuntimeClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
    }
)
"""Kinds of Kubernetes itself that have no readiness (kstatus): their status can be left unread."""

_NEEDS_NO_MOMENT = _IS_AS_WRITTEN | {
    ("", "Namespace"),
    ("", "ResourceQuota"),
    ("", "Service"),
    ("batch", "CronJob"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("policy", "PodDisruptionBudget"),
}
_GROUPS_AS_WRITTEN = frozenset({"rbac.authorization.k8s.io", "admissionregistration.k8s.io"})


def readiness_of(
    obj: DesiredObject, entry: InventoryEntry, live: Live, last: Confirmation | None, state: PlanInput
) -> Readiness:
    """Whether an object is ready, with the hints of its author. Raises `UnreadableStatus`."""
    if not isinstance(live, Unstructured) or _is_as_written(obj):
        return CURRENT
    readiness = assess(live, now=state.now, hints=obj.directive.hints)
    if readiness.is_ready and not live.body.get("status") and is_fresh(entry, last, state) and not _is_silent(obj):
        return SETTLING
    return readiness


def is_fresh(entry: InventoryEntry, last: Confirmation | None, state: PlanInput) -> bool:
    """Whether the object was written a moment ago. The inventory knows it by the second only, this process exactly.

    A time that is further ahead is of a clock that was set back, or of a former leader, and proves no recent write.
    """
    if last is not None and last.written_at is not None:
        return state.clock - last.written_at < SETTLING_SECONDS
    written = entry.last_applied_at
    return written is not None and abs((state.now - written).total_seconds()) < SETTLING_SECONDS


def look_again_at(readiness: Readiness, last: Confirmation | None, state: PlanInput) -> float | None:
    """When the verdict may be another one though nothing happens, on the clock's seconds."""
    if readiness is SETTLING:
        written = last.written_at if last is not None else None
        return (state.clock if written is None else written) + SETTLING_SECONDS
    if readiness.look_again_at is None:
        return None
    return state.clock + max(0.0, (readiness.look_again_at - state.now).total_seconds())


def _is_as_written(obj: DesiredObject) -> bool:
    resource = obj.address.resource
    return obj.directive.hints is NO_HINTS and (resource.group, resource.kind) in _IS_AS_WRITTEN


def _is_silent(obj: DesiredObject) -> bool:
    resource = obj.address.resource
    return resource.group in _GROUPS_AS_WRITTEN or (resource.group, resource.kind) in _NEEDS_NO_MOMENT
