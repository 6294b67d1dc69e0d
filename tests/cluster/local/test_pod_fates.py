"""Pods live, and go wrong on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

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

    def create(self, collection: str, name: str, spec: Mapping[str, object], fate: str | None = None) -> str:
        annotations = {} if fate is None else {"stellwerk.local/fate": fate}
        answer = self.wire.ask(
            "POST", collection, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        )
        assert answer is not None
        assert answer.status == 201, answer.body
        return f"{collection}/{name}"

    def job(self, name: str, fate: str | None = None) -> str:
        pod = {"restartPolicy": "Never", "containers": _CONTAINERS}
        annotations = {} if fate is None else {"stellwerk.local/fate": fate}
        template = {"metadata": {"annotations": annotations}, "spec": pod}
        return self.create(f"{self.batch}/jobs", name, {"backoffLimit": 0, "template": template})

    def wait(self, path: str, reached: Callable[[Mapping[str, object]], bool], within_seconds: int = 40) -> None:
        """Follow one object's status by a watch until it is as wished."""
        collection, _, name = path.rpartition("/")
        seen: Mapping[str, object] = {}
        for line in self.wire.follow(
            f"{collection}?watch=1&timeoutSeconds={within_seconds}&fieldSelector=metadata.name={name}"
        ):
            seen = json.loads(line)["object"].get("status", {})
            if reached(seen):
                return
        pytest.fail(f"{path} was last seen with {json.dumps(seen)}")


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
    labels = {"app": "shop"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": _CONTAINERS}},
    }
    path = workloads.create(f"{workloads.apps}/deployments", "shop", spec)
    workloads.wait(path, lambda status: status.get("availableReplicas") == 2)


def test_a_job_completes(workloads: Workloads) -> None:
    workloads.wait(workloads.job("good"), has_condition("Complete"))


def test_a_job_with_the_fate_fail_fails(workloads: Workloads) -> None:
    workloads.wait(workloads.job("bad", "fail"), has_condition("Failed"))


def test_a_job_with_the_fate_hang_runs_and_does_not_end(workloads: Workloads) -> None:
    hanging = workloads.job("endless", "hang")
    workloads.wait(hanging, lambda status: status.get("ready") == 1)
    workloads.wait(workloads.job("later"), has_condition("Complete"))
    workloads.wait(hanging, lambda status: status.get("active") == 1 and "conditions" not in status)


def test_an_unready_pod_becomes_ready_when_its_fate_is_lifted(workloads: Workloads) -> None:
    pod = workloads.create(f"{workloads.core}/pods", "slow", {"containers": _CONTAINERS}, "unready")
    workloads.wait(pod, lambda status: status["phase"] == "Running" and has_condition("Ready", "False")(status))
    lifted = workloads.wire.ask("PATCH", pod, {"metadata": {"annotations": {"stellwerk.local/fate": None}}})
    assert lifted is not None
    assert lifted.status == 200
    workloads.wait(pod, has_condition("Ready"))


def test_a_pod_with_the_fate_pull_error_names_its_image(workloads: Workloads) -> None:
    pod = workloads.create(f"{workloads.core}/pods", "stuck", {"containers": _CONTAINERS}, "pull-error")
    waiting = {"reason": "ErrImagePull", "message": 'image "example.com/main:1" not found'}
    workloads.wait(pod, lambda status: waiting in [state["state"]["waiting"] for state in _containers(status)])


def _containers(status: Mapping[str, object]) -> list[Mapping[str, Mapping[str, object]]]:
    found = status.get("containerStatuses", [])
    assert isinstance(found, list)
    return found
