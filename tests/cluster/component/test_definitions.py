"""The API server takes our kinds as they are, refuses what they forbid, and shows what people look for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component import api
from stellwerk.operators.component.api import Blueprint, BlueprintVersion, Component
from stellwerk.testing.eventually import eventually
from tests.cluster.component.kinds import serve
from tests.kubectl import kubectl, tried

COMPONENTS = unstructured(Component.resource)
SIX = "'blueprint' or 'httpRepository' or 'fluxGitRepository' or 'fluxOciRepository' or 'fluxBucket' or 'fluxHelmChart'"
GIT: JsonObject = {"fluxGitRepository": {"name": "repo"}}


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="definitions-test") as client:
        await serve(client)
        yield client


async def create(client: Client, namespace: str, source: JsonObject | None, /, **spec: JsonValue) -> Unstructured:
    """Create a Component, strictly."""
    wanted: JsonObject = {**({"sourceRef": source} if source is not None else {}), **spec}
    metadata: JsonObject = {"generateName": "c-", "namespace": namespace}
    body: JsonObject = {
        "apiVersion": Component.resource.api_version,
        "kind": "Component",
        "metadata": metadata,
        "spec": wanted,
    }
    return await client.create(COMPONENTS, body, field_validation="Strict")


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda one: str(one.name))
async def test_a_definition_is_structural_and_kept_as_it_is(client: Client, definition: Definition) -> None:
    kept = await client.get(unstructured(CustomResourceDefinition.resource), definition.name)

    mine, theirs = dig(definition.body(), "spec", "versions"), kept.at("spec", "versions")
    assert isinstance(mine, list)
    assert isinstance(theirs, list)
    assert [dig(one, "schema") for one in mine] == [dig(one, "schema") for one in theirs]


@pytest.mark.req("R-407")
@pytest.mark.parametrize(
    "source", [{}, {"blueprint": {"name": "a"}, "fluxBucket": {"name": "b"}}, {"httpRepository": {}, **GIT}]
)
async def test_a_component_needs_exactly_one_source(client: Client, namespace: str, source: JsonObject) -> None:
    with pytest.raises(Invalid, match=f"Exactly one of {SIX} must be provided"):
        await create(client, namespace, source)


@pytest.mark.req("R-407")
async def test_an_external_artifact_is_a_source_and_stands_alone(client: Client, namespace: str) -> None:
    external: JsonObject = {"fluxExternalArtifact": {"name": "made"}}

    made = await create(client, namespace, external)
    assert made.at("spec", "sourceRef") == external
    with pytest.raises(Invalid, match="'fluxExternalArtifact' must not be combined with another source"):
        await create(client, namespace, {**external, **GIT})


@pytest.mark.req("R-407")
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"requeueInterval": "10"}, "spec.requeueInterval"),
        ({"timeout": "-5m"}, "spec.timeout"),
        ({"retryInterval": "1 h"}, "spec.retryInterval"),
        ({"adoptionPolicy": "Sometimes"}, "spec.adoptionPolicy"),
        ({"updatePolicy": "ssa-override"}, "spec.updatePolicy"),
        ({"deletePolicy": "Keep"}, "spec.deletePolicy"),
        ({"missingNamespacesPolicy": "Maybe"}, "spec.missingNamespacesPolicy"),
        ({"valuesFrom": [{"name": ""}]}, "spec.valuesFrom[0].name"),
        ({"valuesFrom": [{"name": "a", "kind": "Pod"}]}, "spec.valuesFrom[0].kind"),
        ({"kubeConfig": {}}, "spec.kubeConfig.secretRef"),
        ({"decryption": {"provider": "sops"}}, "spec.decryption.secretRef"),
        ({"additionalManagedTypes": [{"group": "x"}]}, "spec.additionalManagedTypes[0].kind"),
        ({"postBuild": {"images": [{"newTag": "1"}]}}, "spec.postBuild.images[0].name"),
        ({"dependencies": [{"namespace": "x"}]}, "spec.dependencies[0].name"),
    ],
)
async def test_a_field_without_meaning_is_refused_at_the_door(
    client: Client, namespace: str, spec: JsonObject, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await create(client, namespace, GIT, **spec)
    assert field in str(caught.value)


async def test_everything_that_a_spec_can_say_is_kept(client: Client, namespace: str) -> None:
    spec: JsonObject = {
        "namespace": "t", "name": "n", "serviceAccountName": "s", "suspend": True, "sticky": True,
        "kubeConfig": {"secretRef": {"name": "k", "key": "v"}}, "requeueInterval": "1h30m", "retryInterval": "1.5h",
        "timeout": "500ms", "reapplyInterval": "4h", "adoptionPolicy": "Always", "updatePolicy": "SsaMerge",
        "deletePolicy": "OrphanOnApply", "missingNamespacesPolicy": "DoNotCreate",
        "additionalManagedTypes": [{"group": "*.x.io", "kind": "*"}], "digest": "sha256:1", "revision": "main@sha1:2",
        "path": "deploy", "values": {"a": {"b": [1, 2.5, None, "c"]}}, "valuesFrom": [{"name": "v", "key": "k"}],
        "decryption": {"provider": "sops", "secretRef": {"name": "d"}},
        "postBuild": {
            "substitute": {"A": "b"}, "substituteFrom": [{"kind": "ConfigMap", "name": "s"}],
            "patches": [{"patch": "[]", "target": {"kind": "Job", "labelSelector": "a=b"}}],
            "images": [{"name": "nginx", "newName": "n", "newTag": "1", "digest": "sha256:3"}],
        },
        "dependencies": [{"namespace": "x", "name": "y"}],
    }  # fmt: skip

    made = await create(client, namespace, GIT, **spec)

    assert made.at("spec") == {**spec, "sourceRef": GIT}
    assert made.at("status") == {"observedGeneration": -1}


async def test_a_status_of_the_original_is_taken_as_it_is(client: Client, namespace: str) -> None:
    made = await create(client, namespace, GIT)
    condition: JsonObject = {"type": "Ready", "status": "Unknown"}
    status: JsonObject = {"observedGeneration": 1, "state": "Pending", "conditions": [condition]}

    kept = await client.patch(
        COMPONENTS, made.metadata.name, namespace, MergePatch({"status": status}), subresource="status"
    )

    assert kept.at("status") == status
    broken = MergePatch({"status": {"state": "Lost"}})
    with pytest.raises(Invalid, match=r"status\.state"):
        await client.patch(COMPONENTS, made.metadata.name, namespace, broken, subresource="status")


async def test_versions_of_a_blueprint_can_be_selected(client: Client, namespace: str) -> None:
    for blueprint, digest in (("a", "1"), ("a", "2"), ("b", "1")):
        spec: JsonObject = {"blueprint": blueprint, "digest": digest, "revision": "generation:1", "files": {"x": "y"}}
        metadata: JsonObject = {"name": f"{blueprint}--{digest}", "namespace": namespace}
        await client.apply(BlueprintVersion, {"metadata": metadata, "spec": spec})

    found = await client.list(BlueprintVersion, namespace, fields="spec.blueprint=a")

    assert sorted(one.metadata.name for one in found.items) == ["a--1", "a--2"]
    with pytest.raises(Invalid, match=r"spec: Required"):
        await client.apply(Blueprint, {"metadata": {"name": "empty", "namespace": namespace}})


async def test_people_see_state_reason_and_revision(client: Client, cluster: LocalCluster, namespace: str) -> None:
    made = await create(client, namespace, GIT)
    condition: JsonObject = {"type": "Ready", "status": "False", "reason": "Timeout", "message": "pods cannot start"}
    status: JsonObject = {
        "observedGeneration": 1, "state": "Error", "lastAppliedRevision": "main@sha1:2",
        "inventorySummary": "1 of 2 ready", "conditions": [condition],
    }  # fmt: skip
    await client.patch(COMPONENTS, made.metadata.name, namespace, MergePatch({"status": status}), subresource="status")

    await eventually(lambda: _is_explained(cluster))
    table = kubectl(cluster.kubeconfig, "get", "comp", "-n", namespace).splitlines()
    assert [line.split()[:6] for line in table] == [
        ["NAME", "READY", "STATE", "REASON", "CAUSE", "REVISION"],
        [made.metadata.name, "False", "Error", "Timeout", "Timeout", "main@sha1:2"],
    ]
    wide = kubectl(cluster.kubeconfig, "get", "comp", "-n", namespace, "-o", "wide")
    assert "pods cannot start" in wide
    assert "1 of 2 ready" in wide
    assert "Example: 1h30m" in kubectl(cluster.kubeconfig, "explain", "component.spec.requeueInterval")
    assert made.metadata.name in kubectl(cluster.kubeconfig, "get", "sap", "-n", namespace)


def _is_explained(cluster: LocalCluster) -> bool:
    """Whether the API server describes the kind; it begins to some time after the kind can be written."""
    return tried(cluster.kubeconfig, "explain", "component").returncode == 0
