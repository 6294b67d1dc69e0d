"""The state that a module has because of the workload which runs its controller, its manager.

The default custom resource of a module has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from stellwerk.apply.readiness.kstatus import ObjectStatus, judge
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unstructured, dig
from stellwerk.operators.kyma.api_status import State
from stellwerk.runtime import conditions

MISSING_FOR = timedelta(minutes=1)
"""How long a manager that the spec names may be missing after the Manifest was created."""

_DONE = "NewReplicaSetAvailable"
_PROGRESSING = frozenset({_DONE, "FoundNewReplicaSet", "NewReplicaSetCreated", "ReplicaSetUpdated"})
_GUESSED = (("apps", "Deployment"), ("apps", "StatefulSet"))


def may_be_manager(resource: Resource) -> bool:
    """Whether the first object of this kind, in the order of the layer, is the manager if the spec names none."""
    return (resource.group, resource.kind) in _GUESSED


def cause_of(manager: Unstructured) -> str:
    """What the workload itself reports about its failure; empty if nothing."""
    found = conditions.find(conditions.listed_in(manager.body), "Progressing")
    return found.message if found is not None else ""


def state_of(manager: Unstructured, pods: Sequence[Unstructured], now: datetime) -> State:
    """The state because of a live manager. `pods`: those that its selector meets, if `asks_for_pods`.

    Raises `UnreadableStatus` if `status.conditions` is not a list of conditions.
    """
    match manager.gvk.group, manager.gvk.kind:
        case "apps", "Deployment":
            return _of_deployment(ObjectStatus.of(manager, now))
        case "apps", "StatefulSet":
            return _of_stateful_set(ObjectStatus.of(manager, now), pods)
        case "apps", "DaemonSet":
            return State.Ready if judge(ObjectStatus.of(manager, now)).is_ready else State.Processing
        case _:
            return State.Ready


def asks_for_pods(manager: Unstructured, now: datetime) -> bool:
    """Whether the state depends on the pods of the manager: of a StatefulSet whose replicas are not all ready."""
    if (manager.gvk.group, manager.gvk.kind) != ("apps", "StatefulSet"):
        return False
    status = ObjectStatus.of(manager, now)
    return _is_observed(status) and not _has_all_replicas(status)


def _of_deployment(status: ObjectStatus) -> State:
    if not _is_observed(status):  # its conditions, if any, are about an earlier spec
        return State.Processing
    if not status.holds("Progressing") or status.reason("Progressing") not in _PROGRESSING:
        return State.Error
    is_done = status.holds("Available") and status.reason("Progressing") == _DONE
    return State.Ready if is_done else State.Processing


def _of_stateful_set(status: ObjectStatus, pods: Sequence[Unstructured]) -> State:
    if not _is_observed(status):
        return State.Processing
    if _has_all_replicas(status):
        return State.Ready if judge(status).is_ready else State.Processing
    containers = pods[0].at("status", "containerStatuses") if pods else None
    first = containers[0] if isinstance(containers, list) and containers else None
    if dig(first, "started") is not True:
        return State.Error
    return State.Ready if dig(first, "ready") is True else State.Processing


def _has_all_replicas(status: ObjectStatus) -> bool:
    return status.count("readyReplicas") == status.replicas


def _is_observed(status: ObjectStatus) -> bool:
    return status.generation is None or (status.observed_generation or 0) >= status.generation
