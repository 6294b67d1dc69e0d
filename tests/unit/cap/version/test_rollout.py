"""A Deployment gets new credentials by one patch of its containers."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unstructured, owner_reference
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap import names
from stellwerk.operators.cap.pods.credentials import BindingSecrets, CredentialSecrets, mark_of, secret_name
from stellwerk.operators.cap.version.resources import VersionObjects
from stellwerk.operators.cap.version.rollout import CredentialRollout, RolloutMemo, is_rolled_out, reading
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock


def sources(*secrets: str) -> list[Any]:
    return [{"secretRef": {"name": name, "optional": True}} for name in secrets]


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


NAME = "bookshop-v1-srv"
VERSION = given.version(given.deployment("srv", "CAP"))
OWNER = cast("JsonValue", msgspec.to_builtins(owner_reference(VERSION)))


@dataclass
class Server:
    """The API server that has some Secrets and a Deployment, and remembers what was written."""

    deployment: JsonObject
    secrets: list[JsonObject]
    created: list[str] = field(default_factory=list[str])
    patches: list[Any] = field(default_factory=list[Any])

    async def find(self, kind: Any, name: str, namespace: str) -> object:
        if kind is not Secret and kind.resource != Secret.resource:
            return Unstructured.of(self.deployment)
        found = next((each for each in self.secrets if each["metadata"]["name"] == name), None)  # type: ignore[index, call-overload]
        return found and msgspec.convert(found, Secret)

    async def create(self, kind: object, body: JsonObject, **_: object) -> Secret:
        made = msgspec.convert(body, Secret)
        self.created.append(made.metadata.name)
        return made

    async def patch(self, kind: Any, name: str, namespace: str, patch: Any, **_: object) -> Unstructured:
        self.patches.append(patch)
        return Unstructured.of(self.deployment)


def secret(name: str, *, versions: str = "", labelled: bool = True, fields: JsonObject | None = None) -> JsonObject:
    labels: JsonObject = {names.SECRET_OWNER_HASH_LABEL: mark_of(VERSION, NAME)} if labelled else {}
    annotations: JsonObject = {names.BINDINGS_ANNOTATION: versions}
    marks: JsonObject = {"labels": labels, "annotations": annotations, "ownerReferences": [OWNER], **(fields or {})}
    return {"metadata": given.metadata(name, resourceVersion="5", **marks)}


def rollout_of(read: str, *secrets: JsonObject, delay: timedelta = timedelta()) -> tuple[CredentialRollout, Server]:
    """A rollout whose Deployment reads the Secret `read`. The cache shows those of the Secrets that have the label."""
    credentials = base64.b64encode(b'{"clientid": "id"}').decode()
    binding: JsonObject = {
        "metadata": given.metadata("uaa-secret", resourceVersion="5"),
        "data": {"credentials": credentials},
    }
    body: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": given.metadata(NAME, ownerReferences=[OWNER], resourceVersion="5"),
        "spec": {"template": {"spec": {"containers": [{"name": "srv", "envFrom": sources(read)}]}}},
    }
    shown = [msgspec.convert(each, PartialObjectMetadata) for each in secrets]
    found = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    found.secrets(given.NAMESPACE).take(Synced((msgspec.convert(binding, PartialObjectMetadata),), "5"))
    found.credentials.take(Synced(tuple(each for each in shown if each.metadata.labels), "5"))
    found.deployments.take(Synced((msgspec.convert(body, Deployment),), "5"))
    server = Server(body, [binding, *secrets])
    client = cast("Client", server)
    rollout = CredentialRollout(
        client=client,
        credentials=CredentialSecrets(client, BindingSecrets(client, found.secrets), found.credentials),
        deployments=found.deployments,
        clock=FakeClock(),
        delay=delay,
    )
    return rollout, server


OBJECTS = VersionObjects(application=given.application(), version=VERSION)
CURRENT = names.sha1(f"{given.NAMESPACE}/uaa-secret=5;")


@pytest.mark.parametrize(
    ("marks", "pause"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 30.0),
        ({"ownerReferences": []}, 600.0),
    ],
)
async def test_a_secret_in_the_way_is_looked_at_again_because_no_watch_may_show_that_it_goes_and_logged_once(
    marks: JsonObject, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A Secret that has lost its label is in no cache, so that its end wakes nothing."""
    read = secret_name(VERSION, NAME)
    rollout, _ = rollout_of(read, secret(read, labelled=False, fields=marks))
    memo = RolloutMemo()
    for _ in range(2):
        assert await rollout.keep(OBJECTS, memo) == ([], pause)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_a_secret_that_is_deleted_while_a_former_one_is_still_there_is_back_at_once() -> None:
    former, read = f"{NAME}-aaaaa", f"{NAME}-bbbbb"
    rollout, server = rollout_of(read, secret(former, versions="before"), delay=timedelta(hours=1))
    assert await rollout.keep(OBJECTS, RolloutMemo()) == ([], 0.0)
    assert server.created == [read]


async def test_a_secret_in_the_way_does_not_keep_a_deployment_from_credentials_under_another_name() -> None:
    read, former = secret(f"{NAME}-bbbbb", labelled=False, fields={"ownerReferences": []}), f"{NAME}-aaaaa"
    rollout, server = rollout_of(f"{NAME}-bbbbb", secret(former, versions="before"), read)
    server.secrets[1]["data"] = {}
    assert await rollout.keep(OBJECTS, RolloutMemo()) == ([], 0.0)
    (created,) = server.created
    assert created not in (former, f"{NAME}-bbbbb")


async def test_a_deployment_that_reads_an_absent_secret_is_given_the_current_one() -> None:
    rollout, server = rollout_of(f"{NAME}-aaaaa", secret(f"{NAME}-bbbbb", versions=CURRENT))
    assert await rollout.keep(OBJECTS, RolloutMemo()) == ([NAME], None)
    (patch,) = server.patches
    assert patch.operations[1]["value"] == sources(f"{NAME}-bbbbb")


async def test_a_deployment_that_reads_the_current_secret_costs_no_request() -> None:
    read = f"{NAME}-bbbbb"
    rollout, server = rollout_of(read, secret(read, versions=CURRENT))
    server.find = None  # type: ignore[method-assign, assignment]
    assert await rollout.keep(OBJECTS, RolloutMemo()) == ([], None)
    assert (server.created, server.patches) == ([], [])
