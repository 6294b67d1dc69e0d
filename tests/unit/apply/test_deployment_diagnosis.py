"""The first cause of a Deployment that is not ready is found and told in one sentence.

`recorded/not_ready.json` is what a Kubernetes 1.36 answered for Deployments that lack something.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stellwerk.apply.readiness.deployment_diagnosis import DeploymentCause, Surroundings, explain, unready_pod
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured

RECORDED = [
    Unstructured.of(body) for body in json.loads((Path(__file__).parent / "recorded" / "not_ready.json").read_text())
]


def recorded(kind: str) -> list[Unstructured]:
    return [one for one in RECORDED if one.gvk.kind == kind]


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("noprio", "PriorityClass missing-class does not exist", "create it"),
        ("nosa", "ServiceAccount bad/missing-sa does not exist", "create it"),
        ("over", "ResourceQuota quota/q is used up", "raise the quota or free some of it"),
        (
            "nonode",
            "no node takes its pod: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
            "",
        ),
        ("toobig", "no node takes its pod: 0/1 nodes are available: 1 Insufficient cpu", ""),
    ],
)
def test_what_a_real_cluster_says_is_understood(name: str, what: str, fix: str) -> None:
    (deployment,) = (one for one in recorded("Deployment") if one.metadata.name == name)
    around = Surroundings(replica_sets=recorded("ReplicaSet"), pods=recorded("Pod"))
    assert explain(deployment, around) == DeploymentCause(what, fix)


def one(kind: str, uid: str, owner: str = "", **parts: JsonValue) -> Unstructured:
    owners: JsonValue = [{"apiVersion": "apps/v1", "kind": "x", "name": "x", "uid": owner}] if owner else []
    metadata: JsonObject = {"name": uid, "namespace": "n", "uid": uid, "ownerReferences": owners}
    revision = parts.pop("revision", None)
    if revision is not None:
        metadata["annotations"] = {"deployment.kubernetes.io/revision": revision}
    return Unstructured.of({"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts})


DEPLOYMENT = one("Deployment", "d")
REPLICA_SET = one("ReplicaSet", "r", "d", revision="2")


def told(container: JsonObject, *events: Unstructured) -> str:
    pod = one("Pod", "p", "r", status={"phase": "Running", "containerStatuses": [container]})
    return str(explain(DEPLOYMENT, Surroundings([REPLICA_SET], [pod], events)))


def waiting(reason: str, message: str = "", **more: JsonValue) -> JsonObject:
    return {"name": "app", "image": "reg/app:1", "state": {"waiting": {"reason": reason, "message": message}}, **more}


CONTAINERS: list[tuple[JsonObject, str]] = [
    (waiting("ErrImagePull", "long words"), "image reg/app:1 cannot be pulled (check the image's name"),
    (waiting("ImagePullBackOff"), "image reg/app:1 cannot be pulled"),
    (waiting("InvalidImageName"), "image reg/app:1 cannot be pulled"),
    (
        waiting("CreateContainerConfigError", 'secret "cert" not found'),
        'container app cannot be started: secret "cert" not found',
    ),
    (
        waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 2, "reason": "Error"}}),
        "container app crashes again and again: it ended with exit code 2 (see its log)",
    ),
    (
        waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
        "container app crashes again and again: it was killed for using more memory than its limit",
    ),
    (waiting("CrashLoopBackOff"), "container app crashes again and again: it ends soon after its start"),
    (
        {"name": "app", "state": {"terminated": {"exitCode": 1}}},
        "container app ended with exit code 1 (see its log)",
    ),
    (waiting("ContainerCreating"), "None"),
    ({"name": "app", "state": {"terminated": {"exitCode": 0}}}, "None"),
    ({"name": "app", "state": {"running": {}}}, "None"),
]


@pytest.mark.parametrize(("container", "sentence"), CONTAINERS)
def test_a_container_that_does_not_run_is_explained(container: JsonObject, sentence: str) -> None:
    assert told(container).startswith(sentence)


def event(reason: str, message: str, pod: str = "p", last: str = "2026-01-01T00:00:00Z") -> Unstructured:
    about: JsonObject = {"kind": "Pod", "uid": pod}
    return one("Event", "e", reason=reason, message=message, lastTimestamp=last, involvedObject=about)


RUNNING: JsonObject = {"name": "app", "ready": False, "state": {"running": {}}}
EVENTS = [
    (
        event("Unhealthy", "Readiness probe failed: Get http://10.0.0.1/readyz: connection refused"),
        "its readiness probe fails: Get http://10.0.0.1/readyz: connection refused (see its log)",
    ),
    (event("Unhealthy", "Liveness probe errored: timeout"), "its liveness probe fails: timeout"),
    (
        event("FailedMount", 'MountVolume.SetUp failed for volume "cert" : secret "webhook" not found'),
        'a volume of its pod cannot be mounted: MountVolume.SetUp failed for volume "cert" : secret "webhook"',
    ),
    (event("FailedCreatePodSandBox", "cni"), "the network or runtime of its node cannot start the pod"),
    (event("Scheduled", "fine"), "None"),
    (event("Unhealthy", "Readiness probe failed: x", pod="other"), "None"),
]


@pytest.mark.parametrize(("told_by", "sentence"), EVENTS)
def test_what_only_events_know_is_told(told_by: Unstructured, sentence: str) -> None:
    assert told(RUNNING, told_by).startswith(sentence)


def test_the_latest_event_is_told() -> None:
    old = event("Unhealthy", "Readiness probe failed: old", last="2026-01-01T00:00:00Z")
    new = event("FailedMount", "new", last="2026-01-01T00:00:09Z")
    for order in ([old, new], [new, old]):
        assert told(RUNNING, *order) == "a volume of its pod cannot be mounted: new"


def test_pods_of_older_revisions_are_not_asked() -> None:
    older = one("ReplicaSet", "r0", "d", revision="1")
    pod = one("Pod", "p", "r0", status={"containerStatuses": [waiting("ErrImagePull")]})
    assert explain(DEPLOYMENT, Surroundings([older, REPLICA_SET], [pod])) is None
    assert explain(DEPLOYMENT, Surroundings([older], [pod])) is not None


def test_revisions_are_numbers() -> None:
    nine, ten = (one("ReplicaSet", f"r{number}", "d", revision=str(number)) for number in (9, 10))
    pod = one("Pod", "p", "r10", status={"containerStatuses": [waiting("ErrImagePull")]})
    assert explain(DEPLOYMENT, Surroundings([nine, ten], [pod])) is not None


def test_what_belongs_to_others_is_left_out() -> None:
    pod = one("Pod", "p", "stranger", status={"containerStatuses": [waiting("ErrImagePull")]})
    assert explain(DEPLOYMENT, Surroundings([one("ReplicaSet", "x", "other")], [pod])) is None


def test_a_deadline_is_told_when_nothing_else_is_known() -> None:
    message = "ReplicaSet has timed out progressing."
    status: JsonObject = {"conditions": [{"type": "Progressing", "status": "False", "message": message}]}
    assert explain(one("Deployment", "d", status=status), Surroundings()) == DeploymentCause(message)


def test_a_paused_rollout_is_told() -> None:
    found = explain(one("Deployment", "d", spec={"paused": True}), Surroundings())
    assert found == DeploymentCause("its rollout is paused", "set spec.paused to false")


def test_pod_security_is_told() -> None:
    message = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    status: JsonObject = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}
    found = explain(one("Deployment", "d", status=status), Surroundings())
    assert found is not None
    assert found.what == "Namespace n refuses its pods: PodSecurity restricted:latest"


def test_a_refusal_of_unknown_words_is_passed_on_without_the_pods_name() -> None:
    status: JsonObject = {
        "conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": 'pods "d-abc12" is forbidden: not today'}
        ]
    }
    assert explain(one("Deployment", "d", status=status), Surroundings()) == DeploymentCause(
        "no pod can be created: not today"
    )


def test_a_ready_deployment_has_no_cause() -> None:
    assert explain(DEPLOYMENT, Surroundings()) is None


def test_a_pod_that_runs_and_is_not_ready_is_told_where_no_event_tells_more() -> None:
    unready: JsonValue = [{"type": "Ready", "status": "False", "message": "containers with unready status: [main]"}]
    runs: JsonValue = [{"name": "main", "ready": False, "state": {"running": {}}}]
    pod = one("Pod", "p", "r", status={"phase": "Running", "conditions": unready, "containerStatuses": runs})
    starts = one("Pod", "p", "r", status={"phase": "Pending", "conditions": unready})
    around = Surroundings([REPLICA_SET], [pod], [event("Unhealthy", "Readiness probe failed: 503")])

    assert explain(DEPLOYMENT, Surroundings([REPLICA_SET], [pod])) == DeploymentCause(
        "its containers run, but are not ready", "see its log"
    )
    assert explain(DEPLOYMENT, around) == DeploymentCause("its readiness probe fails: 503", "see its log")
    assert explain(DEPLOYMENT, Surroundings([REPLICA_SET], [starts])) is None


def test_between_two_crashes_of_a_container_the_crash_is_told() -> None:
    unready: JsonValue = [{"type": "Ready", "status": "False"}]
    last: JsonValue = {"terminated": {"exitCode": 3}}
    runs: JsonValue = [{"name": "main", "ready": False, "state": {"running": {}}, "lastState": last}]
    pod = one("Pod", "p", "r", status={"phase": "Running", "conditions": unready, "containerStatuses": runs})

    assert explain(DEPLOYMENT, Surroundings([REPLICA_SET], [pod])) == DeploymentCause(
        "container main crashes again and again: it ended with exit code 3", "see its log"
    )


def test_events_are_worth_reading_of_a_pod_that_does_not_say_itself_what_it_lacks() -> None:
    unready: JsonValue = [{"type": "Ready", "status": "False"}]
    silent = one("Pod", "p", "r", status={"phase": "Pending", "conditions": unready})
    containers: JsonValue = [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    clear = one("Pod", "q", "r", status={"conditions": unready, "containerStatuses": containers})
    ready = one("Pod", "s", "r", status={"conditions": [{"type": "Ready", "status": "True"}]})

    assert unready_pod(DEPLOYMENT, Surroundings([REPLICA_SET], [ready, silent])) == silent
    assert unready_pod(DEPLOYMENT, Surroundings([REPLICA_SET], [silent, clear])) is None
    assert unready_pod(DEPLOYMENT, Surroundings([REPLICA_SET], [ready])) is None
