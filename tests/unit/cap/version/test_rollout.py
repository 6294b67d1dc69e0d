"""A Deployment gets new credentials by one patch of its containers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.apps import Deployment
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unstructured, owner_reference
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap.pods.credentials import BindingSecrets, CredentialSecrets, secret_name
from stellwerk.operators.cap.version.resources import VersionObjects
from stellwerk.operators.cap.version.rollout import CredentialRollout, is_rolled_out, reading
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock


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


@dataclass
class Server:
    """The API server that has a Deployment and the Secret that it reads."""

    deployment: Unstructured
    secret: PartialObjectMetadata

    async def find(self, _: object, name: str, namespace: str) -> object:
        found = (self.deployment, self.secret)
        return next((each for each in found if each.key == ObjectKey(namespace, name)), None)


@pytest.mark.parametrize("obstacle", ["it is being deleted", "it is another's"])
async def test_a_secret_in_the_way_is_looked_at_again_because_no_watch_may_show_that_it_goes(obstacle: str) -> None:
    """A Secret that has lost its label is in no cache, so that its end wakes nothing."""
    version = given.version(given.deployment("srv", "CAP"))
    name = "bookshop-v1-srv"
    read, owner = secret_name(version, name), cast("JsonValue", msgspec.to_builtins(owner_reference(version)))
    deleted = "another" not in obstacle
    marks: JsonObject = {"deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]} if deleted else {}
    secret = msgspec.convert({"metadata": given.metadata(read, **marks)}, PartialObjectMetadata)
    binding = msgspec.convert({"metadata": given.metadata("uaa-secret", resourceVersion="5")}, PartialObjectMetadata)
    body: JsonObject = {
        "metadata": given.metadata(name, ownerReferences=[owner]),
        "spec": {"template": {"spec": {"containers": [{"name": "srv", "envFrom": sources(read)}]}}},
    }
    found = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    found.secrets(given.NAMESPACE).take(Synced((binding,), "5"))
    found.deployments.take(Synced((msgspec.convert(body, Deployment),), "5"))
    client = cast("Client", Server(Unstructured.of({"apiVersion": "apps/v1", "kind": "Deployment", **body}), secret))
    rollout = CredentialRollout(
        client=client,
        credentials=CredentialSecrets(client, BindingSecrets(client, found.secrets), found.credentials),
        deployments=found.deployments,
        clock=FakeClock(),
        delay=timedelta(),
    )

    assert await rollout.keep(VersionObjects(application=given.application(), version=version), {}) == ([], 30.0)
