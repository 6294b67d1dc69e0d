"""Pods live, and go wrong on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stellwerk.local.cluster import LocalCluster

_CONTAINERS = [{"name": "main", "image": "example.com/main:1"}]


class Workloads:
    """Creates and watches things in one namespace."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self.wire = cluster.wire()
        self.core = f"/api/v1/namespaces/{namespace}"
        self.batch = f"/apis/batch/v1/namespaces/{namespace}"
        self.apps = f"/apis/apps/v1/namespaces/{namespace}"

    def create(
        self,
        collection: str,
        name: str,
        spec: Mapping[str, object],
        fate: str | None = None,
        **metadata: Mapping[str, str],
    ) -> str:
        marks = metadata if fate is None else {"annotations": {"stellwerk.local/fate": fate}}
        answer = self.wire.ask("POST", collection, {"metadata": {"name": name, **marks}, "spec": spec})
        assert answer is not None
        assert answer.status == 201, answer.body
        return f"{collection}/{name}"

    def pod(self, name: str, **metadata: Mapping[str, str]) -> None:
        self.create(f"{self.core}/pods", name, {"containers": _CONTAINERS}, None, **metadata)

    def deployment(self, name: str, replicas: int, fate: str | None = None) -> str:
        labels = {"app": name}
        annotations = {} if fate is None else {"stellwerk.local/fate": fate}
        template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": _CONTAINERS}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        return self.create(f"{self.apps}/deployments", name, spec)

    def pods(self, app: str) -> list[Mapping[str, object]]:
        answer = self.wire.ask("GET", f"{self.core}/pods?labelSelector=app={app}")
        assert answer is not None
        items = answer.json()["items"]
        assert isinstance(items, list)
        return items

    def job(self, name: str, fate: str | None = None, restart_policy: str = "Never") -> str:
        pod = {"restartPolicy": restart_policy, "containers": _CONTAINERS}
        annotations = {} if fate is None else {"stellwerk.local/fate": fate}
        template = {"metadata": {"annotations": annotations}, "spec": pod}
        return self.create(f"{self.batch}/jobs", name, {"backoffLimit": 0, "template": template})

    def give_fate(self, pod: str, fate: str | None) -> None:
        changed = self.wire.ask("PATCH", pod, {"metadata": {"annotations": {"stellwerk.local/fate": fate}}})
        assert changed is not None
        assert changed.status == 200

    def wait(self, path: str, reached: Callable[[Mapping[str, object]], bool], within_seconds: int = 40) -> None:
        """Follow one object's status by a watch until it is as wished."""
        collection, _, name = path.rpartition("/")
        self.wait_for_one(collection, f"fieldSelector=metadata.name={name}", reached, within_seconds)

    def wait_for_one(
        self,
        collection: str,
        selector: str,
        reached: Callable[[Mapping[str, object]], bool],
        within_seconds: int = 40,
    ) -> None:
        """Follow the status of the objects that a selector finds until one of them is as wished."""
        seen: Mapping[str, object] = {}
        for line in self.wire.follow(f"{collection}?watch=1&timeoutSeconds={within_seconds}&{selector}"):
            seen = json.loads(line)["object"].get("status", {})
            if reached(seen):
                return
        pytest.fail(f"{selector} in {collection} was last seen with {json.dumps(seen)}")


@pytest.fixture
def workloads(cluster: LocalCluster, namespace: str) -> Workloads:
    return Workloads(cluster, namespace)


def has_condition(kind: str, status: str = "True") -> Callable[[Mapping[str, object]], bool]:
    def check(seen: Mapping[str, object]) -> bool:
        conditions = seen.get("conditions", [])
        assert isinstance(conditions, list)
        return any(condition["type"] == kind and condition["status"] == status for condition in conditions)

    return check


def test_a_deployment_becomes_available(workloads: Workloads) -> None:
    path = workloads.deployment("shop", replicas=2)
    workloads.wait(path, lambda status: status.get("availableReplicas") == 2)


def test_a_job_completes(workloads: Workloads) -> None:
    workloads.wait(workloads.job("good"), has_condition("Complete"))


def test_a_job_with_the_fate_fail_fails(workloads: Workloads) -> None:
    workloads.wait(workloads.job("bad", "fail"), has_condition("Failed"))


@pytest.mark.parametrize("fate", ["fail", "crash-loop"])
def test_a_deployment_whose_containers_crash_keeps_its_pods(workloads: Workloads, fate: str) -> None:
    workloads.deployment(fate, replicas=1, fate=fate)
    pods = f"{workloads.core}/pods"
    workloads.wait_for_one(pods, f"labelSelector=app={fate}", restarted)
    (pod,) = workloads.pods(fate)
    status = pod["status"]
    assert isinstance(status, dict)
    assert status["phase"] == "Running"
    assert has_condition("Ready", "False")(status)


def test_a_job_whose_pods_restart_fails_when_they_were_restarted_too_often(workloads: Workloads) -> None:
    workloads.wait(workloads.job("again", "fail", restart_policy="OnFailure"), has_condition("Failed"))


def test_a_crashing_pod_becomes_ready_when_its_fate_is_lifted(workloads: Workloads) -> None:
    pod = workloads.create(f"{workloads.core}/pods", "ill", {"containers": _CONTAINERS}, "crash-loop")
    workloads.wait(pod, lambda status: restarted(status, times=2))
    workloads.give_fate(pod, None)
    workloads.wait(pod, has_condition("Ready"))


def test_a_job_with_the_fate_hang_runs_and_does_not_end(workloads: Workloads) -> None:
    hanging = workloads.job("endless", "hang")
    workloads.wait(hanging, lambda status: status.get("ready") == 1)
    workloads.wait(workloads.job("later"), has_condition("Complete"))
    workloads.wait(hanging, lambda status: status.get("active") == 1 and "conditions" not in status)


def test_an_unready_pod_becomes_ready_when_its_fate_is_lifted(workloads: Workloads) -> None:
    pod = workloads.create(f"{workloads.core}/pods", "slow", {"containers": _CONTAINERS}, "unready")
    workloads.wait(pod, lambda status: status["phase"] == "Running" and has_condition("Ready", "False")(status))
    workloads.give_fate(pod, None)
    workloads.wait(pod, has_condition("Ready"))


def test_a_pod_with_the_fate_pull_error_names_its_image(workloads: Workloads) -> None:
    pod = workloads.create(f"{workloads.core}/pods", "stuck", {"containers": _CONTAINERS}, "pull-error")
    waiting = {"reason": "ErrImagePull", "message": 'image "example.com/main:1" not found'}
    workloads.wait(pod, lambda status: waiting in [state["state"]["waiting"] for state in _containers(status)])


KNOWN = "is not one of crash-loop, fail, hang, pull-error, unready"
MISSPELT: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "unredy": {"annotations": {"stellwerk.local/fate": "unredy"}},
    "Fail": {"annotations": {"stellwerk.local/fate": "Fail"}},
    "hang ": {"annotations": {"stellwerk.local/fate": "hang "}},
    'crash "loop"\n': {"annotations": {"stellwerk.local/fate": 'crash "loop"\n'}},
    "pull_error": {"labels": {"stellwerk.local/fate": "pull_error"}},
    "stellwerk.local/fates": {"annotations": {"stellwerk.local/fates": "fail", "stellwerk.local/x": "y"}},
    "stellwerk.local/Fate": {"labels": {"stellwerk.local/Fate": "fail"}},
}
"""By what the message names: the metadata of a pod."""


def test_a_pod_whose_fate_is_misspelt_waits_names_the_fates_and_goes_on_when_it_is_corrected(
    workloads: Workloads,
) -> None:
    pods = f"{workloads.core}/pods"
    for number, metadata in enumerate(MISSPELT.values()):
        workloads.pod(f"p{number}", **metadata)
    for number, name in enumerate(MISSPELT):
        waiting = {"reason": "CreateContainerConfigError", "message": f'stellwerk.local/fate: "{name}" {KNOWN}'}
        workloads.wait(f"{pods}/p{number}", waits(waiting))
    workloads.give_fate(f"{pods}/p0", "pull-error")
    workloads.give_fate(f"{pods}/p1", "unready")
    workloads.give_fate(f"{pods}/p2", None)
    workloads.give_fate(f"{pods}/p3", "")
    workloads.wait(f"{pods}/p0", lambda status: "ErrImagePull" in json.dumps(status))
    workloads.wait(f"{pods}/p1", lambda status: status["phase"] == "Running")
    workloads.wait(f"{pods}/p2", has_condition("Ready"))
    workloads.wait(f"{pods}/p3", has_condition("Ready"))
    workloads.give_fate(f"{pods}/p3", "hangs")
    workloads.wait(f"{pods}/p3", lambda status: '\\"hangs\\" is not one of' in json.dumps(status))


def test_an_empty_fate_is_none_and_hides_no_label(workloads: Workloads) -> None:
    workloads.wait(workloads.job("empty", ""), has_condition("Complete"))
    pods = f"{workloads.core}/pods"
    fates = {"annotations": {"stellwerk.local/fate": ""}, "labels": {"stellwerk.local/fate": "pull-error"}}
    workloads.pod("both", **fates)
    workloads.wait(f"{pods}/both", lambda status: "ErrImagePull" in json.dumps(status))


def waits(waiting: Mapping[str, str]) -> Callable[[Mapping[str, object]], bool]:
    """Whether every container waits so."""

    def do(status: Mapping[str, object]) -> bool:
        found = [each["state"].get("waiting") for each in _containers(status)]
        return bool(found) and all(each == waiting for each in found)

    return do


def restarted(status: Mapping[str, object], times: int = 1) -> bool:
    """Whether a container waits for its next start, after so many."""
    return any(
        state["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" and state["restartCount"] >= times
        for state in _containers(status)
    )


def _containers(status: Mapping[str, object]) -> list[dict[str, Any]]:
    found = status.get("containerStatuses", [])
    assert isinstance(found, list)
    return found
