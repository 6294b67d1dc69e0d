"""The state of a module because of its manager."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.manifest.readiness import cause_of, may_be_manager, state_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE = "NewReplicaSetAvailable"


def workload(kind: str, name: str = "m", /, api: str = "apps/v1", **status: Any) -> Unstructured:
    """A live workload of generation 2 that wants two pods."""
    return Unstructured.of(
        {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, "namespace": "a", "generation": 2},
            "spec": {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
            "status": {"observedGeneration": 2, **status},
        }
    )


def deployment(progressing: str, available: str, reason: str = DONE, **status: Any) -> Unstructured:
    """A Deployment with its two conditions; an empty text leaves one out."""
    conditions: list[dict[str, Any]] = [
        {"type": type_, "status": value, "reason": reason}
        for type_, value in (("Progressing", progressing), ("Available", available))
        if value
    ]
    return workload("Deployment", conditions=conditions, **status)


@pytest.mark.req("KYMA-11")
@pytest.mark.parametrize(
    ("live", "state"),
    [
        pytest.param(deployment("True", "True"), State.Ready, id="rolled out"),
        pytest.param(deployment("True", "True", "FoundNewReplicaSet"), State.Processing, id="found"),
        pytest.param(deployment("True", "True", "NewReplicaSetCreated"), State.Processing, id="created"),
        pytest.param(deployment("True", "True", "ReplicaSetUpdated"), State.Processing, id="updated"),
        pytest.param(deployment("True", "False"), State.Processing, id="rolled out, not available"),
        pytest.param(deployment("True", "", "ReplicaSetUpdated"), State.Processing, id="updated, not available yet"),
        pytest.param(deployment("True", "True", "DeploymentPaused"), State.Error, id="another reason"),
        pytest.param(deployment("False", "True", "ProgressDeadlineExceeded"), State.Error, id="no progress"),
        pytest.param(deployment("", "True"), State.Error, id="nothing said about progress"),
        pytest.param(deployment("", "", observedGeneration=0), State.Processing, id="brand new"),
        pytest.param(deployment("True", "True", observedGeneration=1), State.Processing, id="an earlier spec"),
    ],
)
def test_a_deployment_is_judged_by_progress_and_availability(live: Unstructured, state: State) -> None:
    assert state_of(live, (), NOW) is state


ROLLED_OUT: dict[str, Any] = {
    "readyReplicas": 2,
    "replicas": 2,
    "currentReplicas": 2,
    "updatedReplicas": 2,
    "availableReplicas": 2,
}


def pod(**container: Any) -> Unstructured:
    """A pod with one container."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    return Unstructured.of({**body, "status": {"containerStatuses": [container] if container else []}})


@pytest.mark.req("KYMA-11")
@pytest.mark.parametrize(
    ("status", "pods", "state"),
    [
        pytest.param(ROLLED_OUT, [], State.Ready, id="all ready"),
        pytest.param({**ROLLED_OUT, "updatedReplicas": 1}, [], State.Processing, id="all ready, one of them outdated"),
        pytest.param({"readyReplicas": 1}, [pod(started=True, ready=True)], State.Ready, id="the first is ready"),
        pytest.param({}, [pod(started=True, ready=False)], State.Processing, id="the first has started"),
        pytest.param({}, [pod(started=False, ready=False)], State.Error, id="the first has not started"),
        pytest.param({}, [pod()], State.Error, id="no container"),
        pytest.param({}, [], State.Error, id="no pod"),
        pytest.param({"observedGeneration": 1}, [], State.Processing, id="an earlier spec"),
    ],
)
def test_a_stateful_set_is_judged_by_its_replicas_and_else_by_its_first_pod(
    status: dict[str, Any], pods: list[Unstructured], state: State
) -> None:
    assert state_of(workload("StatefulSet", **status), pods, NOW) is state


def test_a_daemon_set_is_ready_once_it_is_rolled_out_and_other_kinds_once_they_exist() -> None:
    counts: dict[str, Any] = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2}
    rolled_out = {**counts, "numberAvailable": 2, "numberReady": 2}

    assert state_of(workload("DaemonSet", **rolled_out), (), NOW) is State.Ready
    assert state_of(workload("DaemonSet", **{**rolled_out, "numberReady": 1}), (), NOW) is State.Processing
    assert state_of(workload("Sample", api="example.org/v1"), (), NOW) is State.Ready


@pytest.mark.parametrize(
    ("group", "kind", "may"),
    [
        ("apps", "Deployment", True),
        ("apps", "StatefulSet", True),
        ("apps", "DaemonSet", False),
        ("x.y", "Deployment", False),
    ],
)
def test_a_deployment_or_a_stateful_set_may_be_the_manager(group: str, kind: str, may: bool) -> None:
    assert may_be_manager(Resource(group, "v1", kind, "plural", True)) is may


def test_a_workload_that_fails_says_why() -> None:
    failing = workload("Deployment", conditions=[{"type": "Progressing", "status": "False", "message": "no image"}])
    assert cause_of(failing) == "no image"
    assert cause_of(workload("StatefulSet")) == ""
