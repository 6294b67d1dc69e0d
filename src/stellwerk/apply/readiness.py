"""Whether an object is ready, judged by its own status.

The rules are those of kstatus (sigs.k8s.io/cli-utils, the library behind `kubectl apply --wait` of kpt, flux and helm):
first what all kinds have in common (deletion, observedGeneration, Reconciling, Stalled), then what is special about the
kinds of Kubernetes itself, else the condition Ready. On top come the hints an author may give for kinds that tell less.

A verdict carries a sentence for people, without times and counters that change by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from stellwerk.apply.errors import UnreadableStatus
from stellwerk.kube.model import JsonObject, JsonValue, Unstructured, dig

UNSCHEDULABLE_AFTER = timedelta(seconds=15)
"""How long the scheduler may look for a node before a pod counts as failed."""


class Verdict(Enum):
    """The five words of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A verdict, and in a few words why."""

    verdict: Verdict
    why: str = ""
    look_again_at: datetime | None = None
    """Set where the verdict will change by time alone."""

    @property
    def is_ready(self) -> bool:
        """Whether the object is as its spec says."""
        return self.verdict is Verdict.CURRENT

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.why}" if self.why else self.verdict.value


@dataclass(frozen=True, slots=True)
class Hints:
    """What an author tells about a kind that says too little by itself."""

    has_observed_generation: bool = False
    """The kind keeps status.observedGeneration; until it appears the object is not ready."""
    has_ready_condition: bool = False
    """The kind keeps a condition Ready; until it appears the object is not ready."""
    conditions: tuple[str, ...] = ()
    """Conditions that must be True."""


NO_HINTS = Hints()

AVAILABLE_DEPLOYMENT = Hints(conditions=("Available", "Progressing"))
"""BTP Manager's rule: a Deployment must also be Available and Progressing, and so not past its deadline."""


def assess(live: Unstructured | None, *, now: datetime, hints: Hints = NO_HINTS) -> Readiness:
    """Whether a live object is ready; None is an object that does not exist. Pure.

    Raises `UnreadableStatus` where `status.conditions` is not a list of conditions.
    """
    if live is None:
        return Readiness(Verdict.NOT_FOUND, "does not exist")
    status = _Status.of(live, now).hinted(hints)
    verdict = _common(status) or _RULES.get((live.gvk.group, live.gvk.kind), _by_ready_condition)(status)
    if not verdict.is_ready:
        return verdict
    for type_ in (*_IMPLIED.get((live.gvk.group, live.gvk.kind), ()), *hints.conditions):
        if not status.holds(type_):
            return _waiting(status.said(type_) or f"condition {type_} is not True")
    return verdict


def by_conditions(live: Unstructured | None, types: Sequence[str]) -> Readiness:
    """Whether all of some conditions are True, and nothing else: for those who must judge as an older operator did.

    Raises `UnreadableStatus` where `status.conditions` is not a list of conditions.
    """
    if live is None:
        return Readiness(Verdict.NOT_FOUND, "does not exist")
    conditions = _conditions(live.body)
    for type_ in types:
        found = conditions.get(type_)
        if found is None or found.status != "True":
            return _waiting(found.words if found is not None else f"condition {type_} is missing")
    return _CURRENT


def parse_hints(text: str) -> Hints:
    """Hints as an annotation spells them: `has-observed-generation,conditions=Ready;Synced`. Blanks do not count.

    Raises `ValueError` naming the hint that is unknown, lacks its value or has one too many.
    """
    hints = NO_HINTS
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, has_value, value = (part.strip() for part in word.partition("="))
        if name not in _HINTS:
            raise ValueError(f"unknown hint {name!r}: expected one of {', '.join(_HINTS)}")
        if (name == "conditions") != bool(value) or (has_value and not value):
            raise ValueError(f"hint {name!r} " + ("needs a value" if name == "conditions" else "takes no value"))
        hints = _HINTS[name](hints, value)
    return hints


_HINTS: Mapping[str, Callable[[Hints, str], Hints]] = {
    "has-observed-generation": lambda hints, _: replace(hints, has_observed_generation=True),
    "has-ready-condition": lambda hints, _: replace(hints, has_ready_condition=True),
    "conditions": lambda hints, value: replace(
        hints, conditions=(*hints.conditions, *filter(None, (part.strip() for part in value.split(";"))))
    ),
}

_IMPLIED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("Established", "NamesAccepted"),
    ("apiregistration.k8s.io", "APIService"): ("Available",),
}
"""Conditions without which a kind is of no use."""

_CURRENT = Readiness(Verdict.CURRENT)


def _waiting(why: str) -> Readiness:
    return Readiness(Verdict.IN_PROGRESS, why)


def _failed(why: str) -> Readiness:
    return Readiness(Verdict.FAILED, why)


# ---- reading a status


@dataclass(frozen=True, slots=True)
class _Condition:
    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None

    @property
    def words(self) -> str:
        """What the condition says, its own message first."""
        return self.message or self.reason or f"condition {self.type} is {self.status}"


@dataclass(frozen=True, slots=True)
class _Status:
    """An object's status, made easy to ask."""

    live: Unstructured
    now: datetime
    conditions: Mapping[str, _Condition]
    generation: int | None = None
    observed_generation: int | None = None
    fields: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, live: Unstructured, now: datetime) -> _Status:
        fields = live.at("status")
        return cls(
            live,
            now,
            _conditions(live.body),
            _number(live.at("metadata", "generation")),
            _number(live.at("status", "observedGeneration")),
            fields if isinstance(fields, dict) else {},
        )

    def hinted(self, hints: Hints) -> _Status:
        """The status as it looks with what the hints promise and the object does not show yet."""
        hinted = self
        ready = self.conditions.get("Ready")
        if hints.has_observed_generation and self.observed_generation is None:
            seen = ready.observed_generation if ready is not None else None
            hinted = replace(hinted, observed_generation=-1 if seen is None else seen)
        if hints.has_ready_condition and ready is None:
            unknown = _Condition("Ready", "Unknown", message="condition Ready is missing")
            hinted = replace(hinted, conditions={**self.conditions, "Ready": unknown})
        return hinted

    def holds(self, type_: str, status: str = "True") -> bool:
        condition = self.conditions.get(type_)
        return condition is not None and condition.status == status

    def said(self, type_: str) -> str:
        condition = self.conditions.get(type_)
        return condition.words if condition is not None else ""

    def reason(self, type_: str) -> str:
        condition = self.conditions.get(type_)
        return condition.reason if condition is not None else ""

    def count(self, name: str) -> int:
        """A number of the status; the server leaves zeros out."""
        return _number(self.fields.get(name)) or 0

    @property
    def replicas(self) -> int:
        """How many are wanted; one where the spec does not say."""
        wanted = _number(self.live.at("spec", "replicas"))
        return 1 if wanted is None else wanted


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _conditions(body: JsonObject) -> dict[str, _Condition]:
    listed = dig(body, "status", "conditions")
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise UnreadableStatus("status.conditions is not a list")
    conditions = [_condition(item) for item in listed]
    return {condition.type: condition for condition in conditions}


def _condition(item: JsonValue) -> _Condition:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str) or not isinstance(item.get("status"), str):
        raise UnreadableStatus("status.conditions holds something that is not a condition")
    texts = {name: value if isinstance(value := item.get(name), str) else "" for name in ("reason", "message")}
    return _Condition(
        str(item["type"]), str(item["status"]), **texts, observed_generation=_number(item.get("observedGeneration"))
    )


# ---- rules for all kinds


def _common(status: _Status) -> Readiness | None:
    if status.live.metadata.is_terminating:
        finalizers = ", ".join(status.live.metadata.finalizers)
        return Readiness(
            Verdict.TERMINATING, f"is being deleted; finalizers: {finalizers}" if finalizers else "is being deleted"
        )
    if status.observed_generation is not None and status.observed_generation != status.generation:
        return _waiting("its controller has not seen the latest change yet")
    if status.holds("Reconciling"):
        return _waiting(status.said("Reconciling"))
    if status.holds("Stalled"):
        return _failed(status.said("Stalled"))
    return None


def _by_ready_condition(status: _Status) -> Readiness:
    if "Ready" not in status.conditions or status.holds("Ready"):
        return _CURRENT
    return _waiting(status.said("Ready"))


# ---- rules for Kubernetes' own kinds


def _always(_: _Status) -> Readiness:
    return _CURRENT


def _service(status: _Status) -> Readiness:
    if status.live.at("spec", "type") == "LoadBalancer" and not status.live.at("spec", "clusterIP"):
        return _waiting("has no cluster IP yet")
    return _CURRENT


def _claim(status: _Status) -> Readiness:
    phase = status.fields.get("phase")
    return _CURRENT if phase == "Bound" else _waiting(f"the volume claim is {phase or 'not bound yet'}")


def _pod(status: _Status) -> Readiness:
    match status.fields.get("phase"):
        case "Succeeded" | "Failed":
            return _CURRENT
        case "Running":
            return _running_pod(status)
        case "Pending":
            return _pending_pod(status)
        case _:
            return _waiting("the pod has no phase yet")


def _running_pod(status: _Status) -> Readiness:
    if status.holds("Ready"):
        return _CURRENT
    for name in _crash_looping(status.fields):
        return _failed(f"container {name} crashes again and again")
    return _waiting(status.said("Ready") or "the pod is running but not ready")


def _crash_looping(fields: JsonObject) -> list[str]:
    listed: list[JsonValue] = []
    for name in ("initContainerStatuses", "containerStatuses"):
        found = fields.get(name)
        listed.extend(found if isinstance(found, list) else [])
    return [str(dig(one, "name")) for one in listed if dig(one, "state", "waiting", "reason") == "CrashLoopBackOff"]


def _pending_pod(status: _Status) -> Readiness:
    scheduled = status.conditions.get("PodScheduled")
    if scheduled is None or scheduled.status != "False" or scheduled.reason != "Unschedulable":
        return _waiting("the pod is starting")
    created = status.live.metadata.creation_timestamp
    deadline = created + UNSCHEDULABLE_AFTER if created is not None else status.now
    why = f"the pod cannot be scheduled: {scheduled.message}" if scheduled.message else "the pod cannot be scheduled"
    return _failed(why) if status.now > deadline else replace(_waiting(why), look_again_at=deadline)


def _deployment(status: _Status) -> Readiness:
    if status.reason("Progressing") == "ProgressDeadlineExceeded":
        return _failed(status.said("Progressing"))
    wanted, updated = status.replicas, status.count("updatedReplicas")
    shortfall = (
        _short_of("created", status.count("replicas"), wanted)
        or _short_of("updated", updated, wanted)
        or _over(status.count("replicas"), wanted)
        or _short_of("available", status.count("availableReplicas"), max(wanted, updated))
        or _short_of("ready", status.count("readyReplicas"), wanted)
    )
    if shortfall:
        return _waiting(shortfall)
    has_deadline = status.live.at("spec", "progressDeadlineSeconds") is not None
    if has_deadline and status.reason("Progressing") != "NewReplicaSetAvailable":
        return _waiting("the new replica set is not available yet")
    return _CURRENT if status.holds("Available") else _waiting(status.said("Available") or "is not Available yet")


def _replica_set(status: _Status) -> Readiness:
    if status.holds("ReplicaFailure"):
        return _waiting(status.said("ReplicaFailure"))
    wanted = status.replicas
    shortfall = (
        _short_of("labelled", status.count("fullyLabeledReplicas"), wanted)
        or _short_of("available", status.count("availableReplicas"), wanted)
        or _short_of("ready", status.count("readyReplicas"), wanted)
        or _over(status.count("replicas"), wanted)
    )
    return _waiting(shortfall) if shortfall else _CURRENT


def _stateful_set(status: _Status) -> Readiness:
    strategy = status.live.at("spec", "updateStrategy", "type")
    if strategy == "OnDelete":
        return _CURRENT
    wanted = status.replicas
    partition = _number(status.live.at("spec", "updateStrategy", "rollingUpdate", "partition"))
    shortfall = (
        _short_of("created", status.count("replicas"), wanted)
        or _short_of("ready", status.count("readyReplicas"), wanted)
        or _over(status.count("replicas"), wanted)
    )
    if shortfall:
        return _waiting(shortfall)
    if partition:
        shortfall = _short_of("updated", status.count("updatedReplicas"), wanted - partition)
        return _waiting(shortfall) if shortfall else _CURRENT
    if shortfall := _short_of("current", status.count("currentReplicas"), wanted):
        return _waiting(shortfall)
    same = status.fields.get("currentRevision") == status.fields.get("updateRevision")
    return _CURRENT if same else _waiting("the update to the new revision is not finished")


def _daemon_set(status: _Status) -> Readiness:
    if status.generation is None or status.observed_generation is None:
        return _waiting("its controller has not seen it yet")
    wanted = _number(status.fields.get("desiredNumberScheduled"))
    if wanted is None:
        return _waiting("the number of nodes is not known yet")
    shortfall = (
        _short_of("scheduled", status.count("currentNumberScheduled"), wanted)
        or _short_of("updated", status.count("updatedNumberScheduled"), wanted)
        or _short_of("available", status.count("numberAvailable"), wanted)
        or _short_of("ready", status.count("numberReady"), wanted)
    )
    return _waiting(shortfall) if shortfall else _CURRENT


def _short_of(what: str, count: int, wanted: int) -> str:
    return f"{count} of {wanted} replicas {what}" if count < wanted else ""


def _over(count: int, wanted: int) -> str:
    return f"{count - wanted} old replicas are still there" if count > wanted else ""


def _job(status: _Status) -> Readiness:
    if status.holds("Complete"):
        return _CURRENT
    if status.holds("Failed"):
        return _failed(status.said("Failed"))
    # kstatus calls a started job current; whoever waits for a job waits for its end.
    return _waiting("the job runs" if status.fields.get("startTime") else "the job has not started")


def _definition(status: _Status) -> Readiness:
    if status.holds("NamesAccepted", "False"):
        return _failed(status.said("NamesAccepted"))
    if status.holds("Established"):
        return _CURRENT
    if status.holds("Established", "False") and status.reason("Established") != "Installing":
        return _failed(status.said("Established"))
    return _waiting("the kind is not established yet")


_RULES: Mapping[tuple[str, str], Callable[[_Status], Readiness]] = {
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
