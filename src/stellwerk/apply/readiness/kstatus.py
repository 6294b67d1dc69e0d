"""The rules by which an object's own status shows whether it is ready.

They are those of kstatus (sigs.k8s.io/cli-utils), the library with which flux, helm and kpt wait: first what all kinds
have in common (deletion, observedGeneration, Reconciling, Stalled), then what is special about the kinds of Kubernetes
itself, else the condition Ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from stellwerk.apply.errors import UnreadableStatus
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""How long the scheduler may look for a node before a pod counts as failed."""

_NO_DEADLINE = 2**31 - 1
"""A Deployment's progress deadline that its controller takes for none; then there is no condition Progressing."""


class StatusVerdict(Enum):
    """The five words of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A verdict, and in a few words why."""

    verdict: StatusVerdict
    why: str = ""
    look_again_at: datetime | None = None
    """Set where the verdict will change by time alone."""

    @property
    def is_ready(self) -> bool:
        """Whether the object is as its spec requires."""
        return self.verdict is StatusVerdict.CURRENT

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.why}" if self.why else self.verdict.value


CURRENT = Readiness(StatusVerdict.CURRENT)


def waiting(why: str) -> Readiness:
    """Not ready yet."""
    return Readiness(StatusVerdict.IN_PROGRESS, why)


def failed(why: str) -> Readiness:
    """Not ready, and waiting will not help."""
    return Readiness(StatusVerdict.FAILED, why)


def judge(status: ObjectStatus) -> Readiness:
    """The verdict of kstatus. Pure."""
    kind = (status.live.gvk.group, status.live.gvk.kind)
    return _common(status) or _RULES.get(kind, _by_ready_condition)(status)


# ---- reading a status


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """A condition of any kind of any author; empty texts where it has none."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None

    @property
    def words(self) -> str:
        """The text of the condition, its own message first."""
        return self.message or self.reason or f"condition {self.type} is {self.status}"


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """An object's status, made easy to ask."""

    live: Unstructured
    now: datetime
    conditions: Mapping[str, StatusCondition]
    generation: int | None = None
    observed_generation: int | None = None
    fields: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, live: Unstructured, now: datetime) -> ObjectStatus:
        """Read it. Raises `UnreadableStatus` where `status.conditions` is not a list of conditions."""
        fields = live.at("status")
        return cls(
            live,
            now,
            conditions_of(live.body),
            _number(live.at("metadata", "generation")),
            _number(live.at("status", "observedGeneration")),
            fields if isinstance(fields, dict) else {},
        )

    def holds(self, type_: str, status: str = "True") -> bool:
        """Whether a condition is there and has this status."""
        condition = self.conditions.get(type_)
        return condition is not None and condition.status == status

    def said(self, type_: str) -> str:
        """The text of a condition; empty where it is absent."""
        condition = self.conditions.get(type_)
        return condition.words if condition is not None else ""

    def reason(self, type_: str) -> str:
        """A condition's reason; empty where it is not there."""
        condition = self.conditions.get(type_)
        return condition.reason if condition is not None else ""

    def count(self, name: str) -> int:
        """A number of the status; the server leaves zeros out."""
        return _number(self.fields.get(name)) or 0

    @property
    def replicas(self) -> int:
        """How many are wanted; one where the spec has no number."""
        wanted = _number(self.live.at("spec", "replicas"))
        return 1 if wanted is None else wanted


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def conditions_of(body: JsonObject) -> dict[str, StatusCondition]:
    """An object's conditions by type. Raises `UnreadableStatus`."""
    listed = dig(body, "status", "conditions")
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise UnreadableStatus("status.conditions is not a list")
    conditions = [_condition(item) for item in listed]
    return {condition.type: condition for condition in conditions}


def _condition(item: JsonValue) -> StatusCondition:
    if not isinstance(item, dict) or not all(isinstance(item.get(name), str | None) for name in ("type", "status")):
        raise UnreadableStatus("status.conditions holds something that is not a condition")
    # What is missing is empty: some kinds have conditions without a status (Argo CD), or without a type (OLM).
    texts = {
        name: value if isinstance(value := item.get(name), str) else ""
        for name in ("type", "status", "reason", "message")
    }
    return StatusCondition(**texts, observed_generation=_number(item.get("observedGeneration")))


def container_statuses(pod: Unstructured) -> list[JsonObject]:
    """The statuses of a pod's containers, those that run before the others first."""
    listed: list[JsonObject] = []
    for name in ("initContainerStatuses", "containerStatuses"):
        found = pod.at("status", name)
        listed.extend(one for one in (found if isinstance(found, list) else []) if isinstance(one, dict))
    return listed


def scheduling_gates(pod: Unstructured) -> str:
    """The gates that keep a pod from being scheduled, as a list in words; empty if there are none."""
    gates = pod.at("spec", "schedulingGates")
    return ", ".join(str(dig(gate, "name")) for gate in (gates if isinstance(gates, list) else []))


SUSPENDED_JOB = "the Job is suspended: set spec.suspend to false"


def has_ended(job: Unstructured) -> bool:
    """Whether a Job is complete or has failed."""
    listed = job.at("status", "conditions")
    return any(
        dig(one, "type") in ("Complete", "Failed") and dig(one, "status") == "True"
        for one in (listed if isinstance(listed, list) else [])
    )


def foreign_job_controller(job: Unstructured) -> str:
    """Who has to start a Job that Kubernetes leaves alone; empty if Kubernetes does, or it has started."""
    manager = job.at("spec", "managedBy")
    is_foreign = isinstance(manager, str) and manager != "kubernetes.io/job-controller"
    return str(manager) if is_foreign and not job.at("status", "startTime") else ""


# ---- rules for all kinds


def _common(status: ObjectStatus) -> Readiness | None:
    if status.live.metadata.is_terminating:
        finalizers = ", ".join(status.live.metadata.finalizers)
        return Readiness(
            StatusVerdict.TERMINATING,
            f"is being deleted; finalizers: {finalizers}" if finalizers else "is being deleted",
        )
    # A kind without metadata.generation has nothing that could be compared.
    if None not in (status.generation, status.observed_generation) and status.observed_generation != status.generation:
        return waiting("its controller has not seen the latest change yet")
    if status.holds("Reconciling"):
        return waiting(status.said("Reconciling"))
    if status.holds("Stalled"):
        return failed(status.said("Stalled"))
    return None


def _by_ready_condition(status: ObjectStatus) -> Readiness:
    if "Ready" not in status.conditions or status.holds("Ready"):
        return CURRENT
    return waiting(status.said("Ready"))


# ---- rules for Kubernetes' own kinds


def _always(_: ObjectStatus) -> Readiness:
    return CURRENT


def _service(status: ObjectStatus) -> Readiness:
    if status.live.at("spec", "type") == "LoadBalancer" and not status.live.at("spec", "clusterIP"):
        return waiting("has no cluster IP yet")
    return CURRENT


def _claim(status: ObjectStatus) -> Readiness:
    phase = status.fields.get("phase")
    return CURRENT if phase == "Bound" else waiting(f"the volume claim is {phase or 'not bound yet'}")


def _pod(status: ObjectStatus) -> Readiness:
    match status.fields.get("phase"):
        case "Succeeded" | "Failed":
            return CURRENT
        case "Running":
            return _running_pod(status)
        case "Pending":
            return _pending_pod(status)
        case _:
            return waiting("the pod has no phase yet")


def _running_pod(status: ObjectStatus) -> Readiness:
    if status.holds("Ready"):
        return CURRENT
    for container in container_statuses(status.live):
        if dig(container, "state", "waiting", "reason") == "CrashLoopBackOff":
            return failed(f"container {dig(container, 'name')} crashes again and again")
    return waiting(status.said("Ready") or "the pod is running but not ready")


def _pending_pod(status: ObjectStatus) -> Readiness:
    scheduled = status.conditions.get("PodScheduled")
    if gates := scheduling_gates(status.live):
        return waiting(f"scheduling gates: {gates}")
    if scheduled is None or scheduled.status != "False" or scheduled.reason != "Unschedulable":
        return waiting("the pod is starting")
    created = status.live.metadata.creation_timestamp
    deadline = created + UNSCHEDULABLE_AFTER if created is not None else status.now
    why = f"the pod cannot be scheduled: {scheduled.message}" if scheduled.message else "the pod cannot be scheduled"
    return failed(why) if status.now > deadline else replace(waiting(why), look_again_at=deadline)


def _deployment(status: ObjectStatus) -> Readiness:
    if status.reason("Progressing") == "ProgressDeadlineExceeded":
        return failed(status.said("Progressing"))
    wanted, updated = status.replicas, status.count("updatedReplicas")
    shortfall = (
        _short_of("created", status.count("replicas"), wanted)
        or _short_of("updated", updated, wanted)
        or _over(status.count("replicas"), wanted)
        or _short_of("available", status.count("availableReplicas"), max(wanted, updated))
        or _short_of("ready", status.count("readyReplicas"), wanted)
    )
    if shortfall:
        return waiting(shortfall)
    has_deadline = status.live.at("spec", "progressDeadlineSeconds") not in (None, _NO_DEADLINE)
    if has_deadline and status.reason("Progressing") != "NewReplicaSetAvailable":
        return waiting("the new replica set is not available yet")
    return CURRENT if status.holds("Available") else waiting(status.said("Available") or "is not Available yet")


def _replica_set(status: ObjectStatus) -> Readiness:
    if status.holds("ReplicaFailure"):
        return waiting(status.said("ReplicaFailure"))
    wanted = status.replicas
    shortfall = (
        _short_of("labelled", status.count("fullyLabeledReplicas"), wanted)
        or _short_of("available", status.count("availableReplicas"), wanted)
        or _short_of("ready", status.count("readyReplicas"), wanted)
        or _over(status.count("replicas"), wanted)
    )
    return waiting(shortfall) if shortfall else CURRENT


def _stateful_set(status: ObjectStatus) -> Readiness:
    strategy = status.live.at("spec", "updateStrategy", "type")
    if strategy == "OnDelete":
        return CURRENT
    wanted = status.replicas
    partition = _number(status.live.at("spec", "updateStrategy", "rollingUpdate", "partition"))
    shortfall = (
        _short_of("created", status.count("replicas"), wanted)
        or _short_of("ready", status.count("readyReplicas"), wanted)
        or _over(status.count("replicas"), wanted)
    )
    if shortfall:
        return waiting(shortfall)
    if partition is not None:  # the API server sets 0 by default, and that is a partition, too
        shortfall = _short_of("updated", status.count("updatedReplicas"), wanted - partition)
        return waiting(shortfall) if shortfall else CURRENT
    if shortfall := _short_of("current", status.count("currentReplicas"), wanted):
        return waiting(shortfall)
    same = status.fields.get("currentRevision") == status.fields.get("updateRevision")
    return CURRENT if same else waiting("the update to the new revision is not finished")


def _daemon_set(status: ObjectStatus) -> Readiness:
    if status.generation is None or status.observed_generation is None:
        return waiting("its controller has not seen it yet")
    wanted = _number(status.fields.get("desiredNumberScheduled"))
    if wanted is None:
        return waiting("the number of nodes is not known yet")
    shortfall = (
        _short_of("scheduled", status.count("currentNumberScheduled"), wanted)
        or _short_of("updated", status.count("updatedNumberScheduled"), wanted)
        or _short_of("available", status.count("numberAvailable"), wanted)
        or _short_of("ready", status.count("numberReady"), wanted)
    )
    return waiting(shortfall) if shortfall else CURRENT


def _short_of(what: str, count: int, wanted: int) -> str:
    return f"{count} of {wanted} replicas {what}" if count < wanted else ""


def _over(count: int, wanted: int) -> str:
    return f"{count - wanted} old replicas are still there" if count > wanted else ""


def _job(status: ObjectStatus) -> Readiness:
    if status.holds("Complete"):
        return CURRENT
    if status.holds("Failed"):
        return failed(status.said("Failed"))
    if status.live.at("spec", "suspend") is True:
        return waiting(SUSPENDED_JOB)
    if manager := foreign_job_controller(status.live):
        return waiting(f"the Job is left to controller {manager} (spec.managedBy)")
    # kstatus calls a started job current; a set that waits for a job waits for its end.
    return waiting("the job runs" if status.fields.get("startTime") else "the job has not started")


def _definition(status: ObjectStatus) -> Readiness:
    if status.holds("NamesAccepted", "False"):
        return failed(status.said("NamesAccepted"))
    if status.holds("Established"):
        return CURRENT
    if status.holds("Established", "False") and status.reason("Established") != "Installing":
        return failed(status.said("Established"))
    return waiting("the kind is not established yet")


_RULES: Mapping[tuple[str, str], Callable[[ObjectStatus], Readiness]] = {
    ("", "ConfigMap"): _always,
    ("", "Secret"): _always,
    ("batch", "CronJob"): _always,
    ("policy", "PodDisruptionBudget"): _always,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
