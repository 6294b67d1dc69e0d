"""Readiness is judged as kstatus judges it, with a sentence for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.apply.errors import UnreadableStatus
from stellwerk.apply.readiness.readiness import (
    Hints,
    Readiness,
    StatusVerdict,
    assess,
    by_conditions,
    parse_hints,
)
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
AVAILABLE = Hints(conditions=("Available", "Progressing"))
CURRENT, WAITING, FAILED = StatusVerdict.CURRENT, StatusVerdict.IN_PROGRESS, StatusVerdict.FAILED


def live(
    kind: str, status: JsonObject | None = None, spec: JsonObject | None = None, **metadata: JsonValue
) -> Unstructured:
    api_version, _, name = kind.rpartition(" ")
    body: JsonObject = {"apiVersion": api_version or "v1", "kind": name, "metadata": {"name": "x", **metadata}}
    return Unstructured.of({**body, "spec": spec or {}, "status": status or {}})


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> JsonObject:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def conditions(*listed: JsonObject, **fields: JsonValue) -> JsonObject:
    return {"conditions": list(listed), **fields}


DEPLOYMENT = "apps/v1 Deployment"
GOOD = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
DONE = (condition("Progressing", reason="NewReplicaSetAvailable"), condition("Available"))


def deployment(*listed: JsonObject, spec: JsonObject | None = None, **counts: JsonValue) -> Unstructured:
    status = conditions(*(listed or DONE), **{**GOOD, **counts})
    return live(DEPLOYMENT, status, {"progressDeadlineSeconds": 600, **(spec or {})}, generation=1)


TABLE: list[tuple[Unstructured, StatusVerdict, str]] = [
    # all kinds
    (live("x/v1 Thing"), CURRENT, ""),
    (live("x/v1 Thing", deletionTimestamp="2026-01-01T00:00:00Z"), StatusVerdict.TERMINATING, "is being deleted"),
    (
        live("x/v1 Thing", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b", "c"]),
        StatusVerdict.TERMINATING,
        "is being deleted; finalizers: a/b, c",
    ),
    (live("x/v1 Thing", {"observedGeneration": 1}, generation=2), WAITING, "its controller has not seen the latest"),
    (live("x/v1 Thing", {"observedGeneration": 2}, generation=2), CURRENT, ""),
    (live("x/v1 Thing", {"observedGeneration": 2}), CURRENT, ""),
    (live("x/v1 Thing", conditions(condition("Reconciling", message="busy"))), WAITING, "busy"),
    (live("x/v1 Thing", conditions(condition("Stalled", reason="Broken"))), FAILED, "Broken"),
    (live("x/v1 Thing", conditions(condition("Reconciling", "False"), condition("Stalled", "False"))), CURRENT, ""),
    (live("x/v1 Thing", conditions(condition("Ready"))), CURRENT, ""),
    (live("x/v1 Thing", conditions(condition("Ready", "False", message="no"))), WAITING, "no"),
    (live("x/v1 Thing", conditions(condition("Ready", "Unknown"))), WAITING, "condition Ready is Unknown"),
    (live("x/v1 Thing", conditions(condition("Other", "False"))), CURRENT, ""),
    # kinds that are always ready
    (live("Secret", conditions(condition("Ready", "False"))), CURRENT, ""),
    (live("ConfigMap"), CURRENT, ""),
    (live("batch/v1 CronJob"), CURRENT, ""),
    (live("policy/v1 PodDisruptionBudget"), CURRENT, ""),
    # Service
    (live("Service", spec={"type": "ClusterIP"}), CURRENT, ""),
    (live("Service", spec={"type": "LoadBalancer"}), WAITING, "has no cluster IP yet"),
    (live("Service", spec={"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), CURRENT, ""),
    (live("serving.knative.dev/v1 Service", spec={"type": "LoadBalancer"}), CURRENT, ""),
    # PersistentVolumeClaim
    (live("PersistentVolumeClaim", {"phase": "Bound"}), CURRENT, ""),
    (live("PersistentVolumeClaim", {"phase": "Pending"}), WAITING, "the volume claim is Pending"),
    (live("PersistentVolumeClaim"), WAITING, "the volume claim is not bound yet"),
    # Pod
    (live("Pod", {"phase": "Succeeded"}), CURRENT, ""),
    (live("Pod", {"phase": "Failed"}), CURRENT, ""),
    (live("Pod"), WAITING, "the pod has no phase yet"),
    (live("Pod", conditions(condition("Ready"), phase="Running")), CURRENT, ""),
    (live("Pod", conditions(condition("Ready", "False", message="unready"), phase="Running")), WAITING, "unready"),
    (live("Pod", {"phase": "Running"}), WAITING, "the pod is running but not ready"),
    (
        live(
            "Pod",
            {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
        ),
        FAILED,
        "container c crashes again and again",
    ),
    (live("Pod", {"phase": "Pending"}), WAITING, "the pod is starting"),
    (
        live("Pod", {"phase": "Pending"}, spec={"schedulingGates": [{"name": "example.com/hold"}]}),
        WAITING,
        "scheduling gates: example.com/hold",
    ),
    # Deployment
    (deployment(), CURRENT, ""),
    (
        deployment(spec={"replicas": 0}, replicas=0, updatedReplicas=0, availableReplicas=0, readyReplicas=0),
        CURRENT,
        "",
    ),
    (deployment(observedGeneration=0), WAITING, "its controller has not seen the latest"),
    (deployment(replicas=0), WAITING, "0 of 1 replicas created"),
    (deployment(spec={"replicas": 3}), WAITING, "1 of 3 replicas created"),
    (deployment(updatedReplicas=0), WAITING, "0 of 1 replicas updated"),
    (deployment(replicas=2), WAITING, "1 old replicas are still there"),
    (deployment(availableReplicas=0), WAITING, "0 of 1 replicas available"),
    (deployment(readyReplicas=0), WAITING, "0 of 1 replicas ready"),
    (deployment(condition("Available")), WAITING, "the new replica set is not available yet"),
    (deployment(condition("Available"), spec={"progressDeadlineSeconds": None}), CURRENT, ""),
    (deployment(condition("Available"), spec={"progressDeadlineSeconds": 2147483647}), CURRENT, ""),
    (deployment(DONE[0], condition("Available", "False", message="too few")), WAITING, "too few"),
    (deployment(DONE[0]), WAITING, "is not Available yet"),
    (
        deployment(condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"), availableReplicas=0),
        FAILED,
        "timed out",
    ),
    # ReplicaSet
    (
        live(
            "apps/v1 ReplicaSet",
            {"replicas": 1, "fullyLabeledReplicas": 1, "availableReplicas": 1, "readyReplicas": 1},
        ),
        CURRENT,
        "",
    ),
    (live("apps/v1 ReplicaSet", conditions(condition("ReplicaFailure", message="quota"))), WAITING, "quota"),
    (live("apps/v1 ReplicaSet", {"replicas": 1, "fullyLabeledReplicas": 1}), WAITING, "0 of 1 replicas available"),
    # StatefulSet
    (live("apps/v1 StatefulSet", spec={"updateStrategy": {"type": "OnDelete"}}), CURRENT, ""),
    (live("apps/v1 StatefulSet", {"replicas": 1}), WAITING, "0 of 1 replicas ready"),
    (
        live(
            "apps/v1 StatefulSet",
            {"replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "currentRevision": "a", "updateRevision": "a"},
        ),
        CURRENT,
        "",
    ),
    (
        live(
            "apps/v1 StatefulSet",
            {"replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
        ),
        WAITING,
        "the update to the new revision is not finished",
    ),
    (
        live(
            "apps/v1 StatefulSet",
            {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1},
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        ),
        CURRENT,
        "",
    ),
    (
        live(
            "apps/v1 StatefulSet",
            {"replicas": 3, "readyReplicas": 3},
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        ),
        WAITING,
        "0 of 1 replicas updated",
    ),
    (  # what the API server makes of a strategy that says nothing; the controller may never catch up with the rest
        live(
            "apps/v1 StatefulSet",
            {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "b"},
            {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        ),
        CURRENT,
        "",
    ),
    (
        live(
            "apps/v1 StatefulSet",
            {"replicas": 2, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 1},
            {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 0}}},
        ),
        WAITING,
        "1 of 2 replicas updated",
    ),
    # DaemonSet
    (live("apps/v1 DaemonSet", generation=1), WAITING, "its controller has not seen it yet"),
    (live("apps/v1 DaemonSet", {"observedGeneration": 1}, generation=1), WAITING, "the number of nodes is not known"),
    (
        live("apps/v1 DaemonSet", {"observedGeneration": 1, "desiredNumberScheduled": 0}, generation=1),
        CURRENT,
        "",
    ),
    (
        live(
            "apps/v1 DaemonSet",
            {
                "observedGeneration": 1,
                "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
            },
            generation=1,
        ),
        WAITING,
        "1 of 2 replicas available",
    ),
    # Job
    (live("batch/v1 Job"), WAITING, "the job has not started"),
    (live("batch/v1 Job", spec={"suspend": True}), WAITING, "the Job is suspended: set spec.suspend to false"),
    (live("batch/v1 Job", conditions(condition("Complete")), spec={"suspend": True}), CURRENT, ""),
    (
        live("batch/v1 Job", spec={"managedBy": "example.com/queue"}),
        WAITING,
        "the Job is left to controller example.com/queue (spec.managedBy)",
    ),
    (live("batch/v1 Job", {"startTime": "2026-01-01T00:00:00Z"}), WAITING, "the job runs"),
    (live("batch/v1 Job", conditions(condition("Complete"))), CURRENT, ""),
    (live("batch/v1 Job", conditions(condition("Failed", message="too often"))), FAILED, "too often"),
    # CustomResourceDefinition
    (live("apiextensions.k8s.io/v1 CustomResourceDefinition"), WAITING, "the kind is not established yet"),
    (
        live(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            conditions(condition("Established"), condition("NamesAccepted")),
        ),
        CURRENT,
        "",
    ),
    (
        live("apiextensions.k8s.io/v1 CustomResourceDefinition", conditions(condition("Established"))),
        WAITING,
        "condition NamesAccepted is not True",
    ),
    (
        live(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            conditions(condition("NamesAccepted", "False", message="taken")),
        ),
        FAILED,
        "taken",
    ),
    (
        live(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            conditions(condition("Established", "False", "NotAccepted", "no")),
        ),
        FAILED,
        "no",
    ),
    (
        live(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            conditions(condition("Established", "False", "Installing", "soon")),
        ),
        WAITING,
        "the kind is not established yet",
    ),
    # APIService
    (live("apiregistration.k8s.io/v1 APIService"), WAITING, "condition Available is not True"),
    (live("apiregistration.k8s.io/v1 APIService", conditions(condition("Available"))), CURRENT, ""),
]


@pytest.mark.parametrize(("one", "verdict", "why"), TABLE, ids=lambda value: getattr(value, "name", None))
def test_each_kind_is_judged_by_its_rule(one: Unstructured, verdict: StatusVerdict, why: str) -> None:
    found = assess(one, now=NOW)
    assert found.verdict is verdict
    assert found.why == why or (why and found.why.startswith(why))


def test_what_does_not_exist_is_not_found() -> None:
    assert assess(None, now=NOW) == Readiness(StatusVerdict.NOT_FOUND, "does not exist")
    assert by_conditions(None, ["Ready"]).verdict is StatusVerdict.NOT_FOUND


def test_a_pod_without_a_node_fails_after_fifteen_seconds_and_says_when_to_look_again() -> None:
    status = conditions(condition("PodScheduled", "False", "Unschedulable", "no node"), phase="Pending")
    pod = live("Pod", status, creationTimestamp="2026-01-01T12:00:00Z")
    waiting = assess(pod, now=NOW + timedelta(seconds=15))
    assert waiting.verdict is WAITING
    assert waiting.look_again_at == NOW + timedelta(seconds=15)
    assert assess(pod, now=NOW + timedelta(seconds=16)) == Readiness(FAILED, "the pod cannot be scheduled: no node")


@pytest.mark.parametrize(
    "listed",
    ["x", 5, {}, [5], ["x"], [[]], [{"type": 1, "status": "True"}], [{"type": "Ready", "status": True}]],
)
def test_conditions_that_are_none_are_an_error(listed: JsonValue) -> None:
    with pytest.raises(UnreadableStatus, match=r"status\.conditions"):
        assess(live("x/v1 Thing", {"conditions": listed}), now=NOW)


@pytest.mark.parametrize(
    "odd", [{}, {"type": "SyncError", "message": "x"}, {"phase": "Succeeded"}, {"type": None, "status": None}]
)
def test_a_condition_without_type_or_status_is_passed_over(odd: JsonObject) -> None:
    assert assess(live("x/v1 Thing", {"conditions": [odd]}), now=NOW).is_ready
    assert assess(live("x/v1 Thing", {"conditions": [odd, {"type": "Ready", "status": "True"}]}), now=NOW).is_ready
    unready: JsonObject = {"conditions": [odd, {"type": "Ready", "status": "False", "message": "late"}]}
    assert assess(live("x/v1 Thing", unready), now=NOW) == Readiness(WAITING, "late")


def test_a_condition_ready_without_a_status_is_waited_for() -> None:
    assert assess(live("x/v1 Thing", {"conditions": [{"type": "Ready"}]}), now=NOW).verdict is WAITING


def test_conditions_of_hints_are_asked_for_besides_the_status() -> None:
    late = deployment(
        condition("Available"),
        condition("Progressing", "False", message="late"),
        spec={"progressDeadlineSeconds": None},
    )
    assert assess(late, now=NOW).is_ready
    assert assess(late, now=NOW, hints=AVAILABLE) == Readiness(WAITING, "late")
    assert assess(deployment(), now=NOW, hints=AVAILABLE).is_ready


def test_conditions_alone_can_be_asked_for() -> None:
    assert by_conditions(deployment(updatedReplicas=0), ["Available", "Progressing"]).is_ready
    assert by_conditions(deployment(), ["Available", "Else"]).why == "condition Else is missing"


def test_a_hinted_generation_is_waited_for_and_taken_from_the_ready_condition() -> None:
    hints = Hints(has_observed_generation=True)
    assert assess(live("x/v1 Thing", generation=1), now=NOW, hints=hints).verdict is WAITING
    seen = conditions({**condition("Ready"), "observedGeneration": 1})
    assert assess(live("x/v1 Thing", seen, generation=1), now=NOW, hints=hints).is_ready
    assert not assess(live("x/v1 Thing", seen, generation=2), now=NOW, hints=hints).is_ready


def test_a_hinted_ready_condition_is_waited_for() -> None:
    found = assess(live("x/v1 Thing"), now=NOW, hints=Hints(has_ready_condition=True))
    assert found == Readiness(WAITING, "condition Ready is missing")


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("", Hints()),
        ("has-observed-generation", Hints(has_observed_generation=True)),
        (" has-ready-condition , has-observed-generation ", Hints(True, True)),
        ("conditions=A;B", Hints(conditions=("A", "B"))),
        ("conditions = A ; B ,has-ready-condition", Hints(has_ready_condition=True, conditions=("A", "B"))),
    ],
)
def test_hints_are_read(text: str, hints: Hints) -> None:
    assert parse_hints(text) == hints


@pytest.mark.parametrize(
    "text", ["else", "conditions", "conditions=", "has-ready-condition=yes", "Has-Ready-Condition"]
)
def test_wrong_hints_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=text.partition("=")[0]):
        parse_hints(text)
