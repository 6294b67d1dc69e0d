"""A Deployment gets new credentials by one patch of its containers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stellwerk.api.apps import Deployment
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap.version.rollout import is_rolled_out, reading


def sources(*names: str) -> list[Any]:
    return [{"secretRef": {"name": name, "optional": True}} for name in names]


def live(**containers: Any) -> Unstructured:
    return Unstructured.of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"},
            "spec": {"template": {"spec": {**containers}}},
        }
    )


def test_all_containers_read_the_new_secret_and_keep_what_else_they_read() -> None:
    other: JsonObject = {"configMapRef": {"name": "settings"}}
    patch = reading(
        live(
            containers=[{"name": "a", "envFrom": [other, *sources("old")]}, {"name": "side", "envFrom": [other]}],
            initContainers=[{"name": "i", "envFrom": sources("old")}],
        ),
        "new",
        {"old", "older"},
    )
    assert patch is not None
    assert patch.operations == (
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/spec/template/spec/containers/0/envFrom", "value": [other, *sources("new")]},
        {"op": "replace", "path": "/spec/template/spec/initContainers/0/envFrom", "value": sources("new")},
    )


@pytest.mark.parametrize("containers", [[{"name": "a", "envFrom": sources("new")}], [{"name": "a"}], [], "odd", [1]])
def test_a_deployment_that_does_not_read_a_former_secret_is_left_alone(containers: Any) -> None:
    assert reading(live(containers=containers), "new", {"old"}) is None


@pytest.mark.parametrize(
    ("status", "rolled_out"),
    [
        ({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}, True),
        ({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}, False),
        ({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 0}, False),
    ],
)
def test_the_former_secret_is_needed_until_all_pods_are_new(status: JsonObject, rolled_out: bool) -> None:
    body = {"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 1}, "status": status}
    assert is_rolled_out(msgspec.convert(body, Deployment)) is rolled_out
