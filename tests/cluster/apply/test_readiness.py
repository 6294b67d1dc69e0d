"""Readiness follows what really happens, and what goes wrong is explained."""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.sets import DEFINITION, DEPLOYMENT, MODULE

from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.readiness.deployment_diagnosis import Surroundings, explain
from stellwerk.apply.readiness.readiness import NO_HINTS, Hints, StatusVerdict, assess
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually

REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", True)
PODS = Resource("", "v1", "Pod", "pods", True)
EVENTS = Resource("", "v1", "Event", "events", True)
ACCOUNT = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager}}"
CLOCK = SystemClock()
AVAILABLE = Hints(conditions=("Available", "Progressing"))


async def all_of(ground: Ground, resource: Resource) -> list[Unstructured]:
    return (await ground.client.list(unstructured(resource), ground.namespace)).items


async def cause(ground: Ground, deployment: Desired) -> str:
    """Why the Deployment is not ready; empty where nothing says so."""
    around = Surroundings(await all_of(ground, REPLICA_SETS), await all_of(ground, PODS), await all_of(ground, EVENTS))
    found = explain(await ground.body(deployment), around)
    return str(found) if found is not None else ""


async def test_every_object_of_a_set_becomes_ready(ground: Ground) -> None:
    desired = await ground.wanted("---".join([MODULE, DEFINITION]))
    await ground.kept(desired)

    async def are_ready() -> bool:
        found = [assess(await ground.body(one), now=CLOCK.now(), hints=hints(one)) for one in desired]
        return all(readiness.is_ready for readiness in found)

    await eventually(are_ready, describe="all objects to be ready")


def hints(one: Desired) -> Hints:
    return AVAILABLE if one.resource.kind == "Deployment" else NO_HINTS


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        (
            "serviceAccountName: manager",
            "priorityClassName: no-such",
            "PriorityClass no-such does not exist",
        ),
        ("serviceAccountName: manager", "serviceAccountName: nobody", "ServiceAccount NAMESPACE/nobody does not exist"),
        ("serviceAccountName: manager", "nodeSelector: {disk: ssd}", "no node takes its pod: 0/1 nodes are available"),
        (
            "{labels: {app: manager}}\n    spec",
            "{labels: {app: manager, stellwerk.local/fate: pull-error}}\n    spec",
            "image registry.example.org/manager:1 cannot be pulled",
        ),
    ],
)
async def test_a_deployment_that_cannot_start_is_explained_and_mended(
    ground: Ground, right: str, wrong: str, expected: str
) -> None:
    assert right in DEPLOYMENT
    (broken, account) = await ground.wanted(f"{DEPLOYMENT.replace(right, wrong)}---\n{ACCOUNT}")
    await ground.kept((broken, account))

    async def is_explained() -> bool:
        sentence = await cause(ground, broken)
        assert sentence.startswith(expected.replace("NAMESPACE", ground.namespace)), sentence
        return True

    await eventually(is_explained, describe="the cause")
    assert assess(await ground.body(broken), now=CLOCK.now()).verdict is StatusVerdict.IN_PROGRESS

    mended = await ground.wanted(f"{DEPLOYMENT}---\n{ACCOUNT}")
    await ground.kept(mended)

    async def is_ready() -> bool:
        return assess(await ground.body(mended[0]), now=CLOCK.now()).is_ready

    await eventually(is_ready, describe="the mended Deployment to be ready")

    async def has_no_cause() -> bool:  # for a moment it also tells of the replica set that is being scaled down
        return await cause(ground, mended[0]) == ""

    await eventually(has_no_cause, describe="nothing left to explain")
