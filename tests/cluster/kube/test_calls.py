"""Every verb does on a real API server what it says, and a refusal is the error that says why."""

from __future__ import annotations

import base64

import pytest
from tests.cluster.kube.conftest import config_map

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.authorization import SelfSubjectAccessReview
from stellwerk.api.core import ConfigMap, Secret, ServiceAccount
from stellwerk.kube.client.client import Client, Deletion
from stellwerk.kube.client.patch import JsonPatch, MergePatch, add, remove, test
from stellwerk.kube.http.transport import RequestFacts
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    StatusError,
)
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.local.cluster import LocalCluster
from stellwerk.render.request.capabilities import facts_of
from stellwerk.testing.cluster import AuditLog

UNKNOWN = Resource("nowhere.example.com", "v1", "Ghost", "ghosts", namespaced=True)


def body(namespace: str, name: str, **data: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


async def test_an_object_is_created_read_and_deleted(client: Client, namespace: str) -> None:
    made = await client.create(ConfigMap, body(namespace, "one", key="value"))
    assert made.metadata.uid
    assert (await client.get(ConfigMap, "one", namespace)).data == {"key": "value"}
    assert await client.delete(ConfigMap, "one", namespace) is Deletion.GONE
    assert await client.find(ConfigMap, "one", namespace) is None
    assert await client.delete(ConfigMap, "one", namespace) is Deletion.ABSENT


async def test_a_typed_object_can_be_created(client: Client, namespace: str) -> None:
    named = ServiceAccount(metadata=ObjectMeta(name="worker", namespace=namespace))
    assert (await client.create(ServiceAccount, named)).metadata.uid


async def test_a_question_about_rights_is_answered(client: Client) -> None:
    review = await client.create(
        SelfSubjectAccessReview, {"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets"}}}
    )
    assert review.status.allowed


async def test_a_second_create_says_that_it_exists(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, body(namespace, "one"))
    with pytest.raises(AlreadyExists, match=rf"cannot create ConfigMap {namespace}/one: "):
        await client.create(ConfigMap, body(namespace, "one"))


async def test_an_absent_object_is_not_found_by_its_name(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match=rf"cannot get ConfigMap {namespace}/absent: "):
        await client.get(ConfigMap, "absent", namespace)


async def test_an_unknown_kind_is_told_apart_from_an_absent_object(client: Client, namespace: str) -> None:
    ghosts = unstructured(UNKNOWN)
    for call in (
        client.get(ghosts, "one", namespace),
        client.list(ghosts),
        client.apply(ghosts, {"metadata": {"name": "one", "namespace": namespace}}),
        client.delete(ghosts, "one", namespace),
    ):
        with pytest.raises(NotServed, match=r"the API server serves no nowhere\.example\.com/v1 Ghost"):
            await call


async def test_a_create_in_an_absent_namespace_is_not_taken_for_an_unknown_kind(client: Client) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await client.create(ConfigMap, body("nowhere", "one"))


async def test_an_apply_owns_what_it_names_and_takes_back_what_it_no_longer_names(
    client: Client, namespace: str
) -> None:
    first = await client.apply(ConfigMap, body(namespace, "one", a="1", b="1"))
    assert [(entry.manager, entry.operation) for entry in first.metadata.managers] == [("wire-test", "Apply")]
    second = await client.apply(ConfigMap, body(namespace, "one", a="2"))
    assert second.data == {"a": "2"}


async def test_an_apply_without_force_names_the_other_manager(client: Client, namespace: str) -> None:
    await client.apply(ConfigMap, body(namespace, "one", a="1"), field_manager="first")
    with pytest.raises(Conflict, match='conflict with "first"'):
        await client.apply(ConfigMap, body(namespace, "one", a="2"), field_manager="second", force=False)
    taken = await client.with_field_manager("second").apply(ConfigMap, body(namespace, "one", a="2"))
    assert taken.data == {"a": "2"}


async def test_a_dry_run_changes_nothing_and_passes_no_fence(cluster: LocalCluster, namespace: str) -> None:
    fenced: list[str] = []
    async with Client.connect(
        ClusterConfig.load(cluster.kubeconfig), before_write=lambda: fenced.append("write")
    ) as client:
        await client.apply(ConfigMap, body(namespace, "one"), dry_run=True)
        await client.create(ConfigMap, body(namespace, "two"), dry_run=True)
        assert fenced == []
        assert (await client.list(metadata_of(ConfigMap), namespace, fields="metadata.name=one")).items == []
        await client.apply(ConfigMap, body(namespace, "one"))
        await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"a": "1"}}))
        assert await client.delete(ConfigMap, "one", namespace, dry_run=True)
        assert await client.delete(ConfigMap, "one", namespace)
        await client.delete_collection(ConfigMap, namespace, labels="none=such")
        assert len(fenced) == 4


class LeaseLost(Exception):
    pass


async def test_a_fence_that_raises_prevents_the_write(cluster: LocalCluster, namespace: str, audit: AuditLog) -> None:
    def refuse() -> None:
        raise LeaseLost

    config = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, before_write=refuse, user_agent="fenced-writer") as client:
        for write in (
            client.apply(ConfigMap, body(namespace, "one")),
            client.create(ConfigMap, body(namespace, "one")),
            client.update(ConfigMap, body(namespace, "one")),
            client.delete(ConfigMap, "one", namespace),
            client.delete_collection(ConfigMap, namespace),
            client.raw("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=b"{}"),
        ):
            with pytest.raises(LeaseLost):
                await write
    assert audit.count(agent="fenced-writer") == 0


async def test_an_unknown_field_is_refused_when_validation_is_strict(client: Client, namespace: str) -> None:
    wrong = {**body(namespace, "one"), "dta": {}}
    with pytest.raises(BadRequest, match='unknown field "dta"'):
        await client.create(ConfigMap, wrong, field_validation="Strict")
    assert (await client.create(ConfigMap, wrong, field_validation="Ignore")).metadata.name == "one"


async def test_an_update_of_an_older_version_is_a_conflict(client: Client, namespace: str) -> None:
    configs = unstructured(ConfigMap.resource)
    old = await client.create(configs, body(namespace, "one", a="1"))
    await client.update(configs, {**old.body, "data": {"a": "2"}})
    with pytest.raises(Conflict):
        await client.update(configs, {**old.body, "data": {"a": "3"}})


async def test_a_patch_changes_only_what_it_names(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, body(namespace, "one", a="1", b="1"))
    merged = await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"a": "2", "b": None}}))
    assert merged.data == {"a": "2"}
    patched = await client.patch(
        ConfigMap,
        "one",
        namespace,
        JsonPatch(
            [
                test("/metadata/uid", merged.metadata.uid),
                add(("metadata", "annotations"), {}),
                add(("metadata", "annotations", "example.com/paused"), "yes"),
                remove("/data/a"),
            ]
        ),
    )
    assert (patched.metadata.annotations, patched.data) == ({"example.com/paused": "yes"}, {})


async def test_a_patch_whose_test_fails_changes_nothing(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, body(namespace, "one", a="1"))
    patch = JsonPatch([test("/metadata/uid", "another"), add("/data/a", "2")])
    with pytest.raises(Invalid):
        await client.patch(ConfigMap, "one", namespace, patch)
    assert (await client.get(ConfigMap, "one", namespace)).data == {"a": "1"}


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_patch_of_an_object_that_another_one_has_replaced_is_a_conflict(
    client: Client, namespace: str, dry_run: bool
) -> None:
    former = await client.create(ConfigMap, body(namespace, "one", a="1"))
    await client.delete(ConfigMap, "one", namespace)
    present = await client.create(ConfigMap, body(namespace, "one", a="2"))
    patch = MergePatch({"metadata": {"uid": former.metadata.uid}, "data": {"a": "3"}})
    with pytest.raises(Conflict, match=r"metadata\.uid"):
        await client.patch(ConfigMap, "one", namespace, patch, dry_run=dry_run)
    assert await client.get(ConfigMap, "one", namespace) == present


@pytest.mark.req("R-105")
async def test_a_side_of_an_object_is_read_changed_and_made(client: Client, namespace: str) -> None:
    deployments = unstructured(Deployment.resource)
    labels: JsonObject = {"app": "sleeper"}
    container: JsonObject = {"name": "main", "image": "example.com/main"}
    template: JsonObject = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata: JsonObject = {"name": "sleeper", "namespace": namespace}
    spec: JsonObject = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await client.create(deployments, {"metadata": metadata, "spec": spec})
    scale = await client.get(deployments, "sleeper", namespace, subresource="scale")
    assert (scale.gvk.kind, scale.at("spec", "replicas")) == ("Scale", 1)
    await client.patch(deployments, "sleeper", namespace, MergePatch({"spec": {"replicas": 2}}), subresource="scale")
    assert (await client.get(deployments, "sleeper", namespace)).at("spec", "replicas") == 2

    await client.create(ServiceAccount, ServiceAccount(metadata=ObjectMeta(name="worker", namespace=namespace)))
    asked: JsonObject = {"metadata": {"name": "worker", "namespace": namespace}, "spec": {"expirationSeconds": 600}}
    issued = await client.create(unstructured(ServiceAccount.resource), asked, subresource="token")
    assert issued.gvk.kind == "TokenRequest"
    assert issued.at("status", "token")


async def test_a_delete_that_means_one_object_spares_its_successor(client: Client, namespace: str) -> None:
    old = await client.create(ConfigMap, body(namespace, "one"))
    await client.delete(ConfigMap, "one", namespace)
    new = await client.create(ConfigMap, body(namespace, "one"))
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "one", namespace, uid=old.metadata.uid)
    assert (await client.get(ConfigMap, "one", namespace)).metadata.uid == new.metadata.uid


@pytest.mark.req("R-104")
async def test_a_delete_of_an_older_version_is_a_conflict(client: Client, namespace: str) -> None:
    old = await client.create(ConfigMap, body(namespace, "one"))
    await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"a": "1"}}))
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "one", namespace, resource_version=old.metadata.resource_version)


async def test_a_collection_is_deleted_by_its_labels(client: Client, namespace: str) -> None:
    await config_map(client, ConfigMap, namespace, "ours")
    await client.create(ConfigMap, body(namespace, "theirs"))
    await client.delete_collection(ConfigMap, namespace, labels="made-by=wire-test", propagation="Background")
    names = [obj.metadata.name for obj in (await client.list(metadata_of(ConfigMap), namespace)).items]
    assert "theirs" in names
    assert "ours" not in names


async def test_metadata_can_be_read_without_the_rest(client: Client, namespace: str) -> None:
    await client.create(ConfigMap, body(namespace, "one", a="1"))
    seen = await client.get(metadata_of(ConfigMap), "one", namespace)
    assert seen.metadata.name == "one"
    assert [
        obj.key.name for obj in (await client.list(metadata_of(ConfigMap), namespace)).items if obj.key.name == "one"
    ]


async def test_a_client_acts_as_somebody_with_less_rights(client: Client, namespace: str) -> None:
    nobody = client.acting_as("wire-nobody", ["wire-group"])
    with pytest.raises(Forbidden, match='User "wire-nobody" cannot get resource "configmaps"'):
        await nobody.get(ConfigMap, "one", namespace)
    assert await client.find(ConfigMap, "one", namespace) is None


@pytest.mark.req("R-801")
async def test_a_refused_secret_is_not_quoted(client: Client, namespace: str) -> None:
    marked = "canary-7d1f-never-shown"
    wrong: JsonObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "one", "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(marked.encode()).decode()},
    }
    with pytest.raises(Invalid) as refused:
        await client.create(Secret, wrong)
    told = f"{refused.value}{refused.value.status}{refused.value!r}"
    assert marked not in told
    assert base64.b64encode(marked.encode()).decode() not in told
    assert "data[.dockerconfigjson]" in str(refused.value)
    not_base64: JsonObject = {**wrong, "type": "Opaque", "data": {"key": f"!{marked}!"}}
    with pytest.raises(BadRequest) as unread:
        await client.create(Secret, not_base64)
    assert marked not in f"{unread.value}{unread.value.status}"
    mistyped: JsonObject = {**wrong, "type": "Opaque", "data": {"key": {marked: marked}}}
    with pytest.raises(StatusError) as quoted:  # the API server answers 500 and quotes the value
        await client.apply(Secret, mistyped)
    assert marked not in f"{quoted.value}{quoted.value.status}{quoted.value!r}"


async def test_a_secret_is_read_and_never_shown(client: Client, namespace: str) -> None:
    made = await client.create(
        Secret,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "one", "namespace": namespace},
            "stringData": {"key": "hidden-value"},
        },
    )
    assert made.decoded() == {"key": b"hidden-value"}
    assert made.text("key") == "hidden-value"
    assert "hidden" not in f"{made} {made!r}"


async def test_every_request_is_reported(cluster: LocalCluster, namespace: str) -> None:
    facts: list[RequestFacts] = []
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), on_request=facts.append) as client:
        await client.apply(ConfigMap, body(namespace, "one"))
        await client.find(ConfigMap, "absent", namespace)
    assert [(fact.method, fact.verb, fact.resource, fact.code) for fact in facts] == [
        ("PATCH", "apply", "configmaps", 201),
        ("GET", "get", "configmaps", 404),
    ]
    assert all(0 < fact.seconds < 60 for fact in facts)


async def test_kinds_are_found_without_a_request_or_with_two(cluster: LocalCluster, audit: AuditLog) -> None:
    config = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, user_agent="mapper-test") as client:
        found = await client.mapper.resource(GroupVersionKind("apps", "v1", "Deployment"))
        assert (found.plural, found.namespaced) == ("deployments", True)
        assert audit.count(agent="mapper-test") == 0
        found = await client.mapper.resource(GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"))
        assert (found.plural, found.namespaced) == ("flowschemas", False)
        assert await client.mapper.preferred("apps", "ReplicaSet") is not None
        assert CustomResourceDefinition.resource in await client.mapper.all()
        details = (await client.mapper.described())[CustomResourceDefinition.resource]
        assert (details.singular, details.short_names) == ("customresourcedefinition", ("crd", "crds"))
        assert {"get", "list", "watch", "create", "delete"} <= {*details.verbs}
        with pytest.raises(NotServed, match="Ghost"):
            await client.mapper.resource(UNKNOWN.gvk)
        assert {(entry.verb, entry.path) for entry in audit.entries(lambda entry: entry.agent == "mapper-test")} == {
            ("get", "/api"),
            ("get", "/apis"),
        }
        assert audit.count(agent="mapper-test") == 2


async def test_templates_are_told_what_a_cluster_serves_under_the_names_that_go_gives_it(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), user_agent="facts-test") as client:
        found = await facts_of(client)
    lists = {str(one["GroupVersion"]): one["APIResources"] for one in found.api_resources}
    assert [*lists] == sorted(lists)
    served = lists["apps/v1"]
    assert isinstance(served, list)
    (deployment,) = (one for one in served if isinstance(one, dict) and one["Name"] == "deployments")
    verbs = deployment.pop("Verbs")
    assert deployment == {
        "Name": "deployments",
        "SingularName": "deployment",
        "Namespaced": True,
        "Kind": "Deployment",
        "ShortNames": ["deploy"],
        "Categories": ["all"],
    }
    assert isinstance(verbs, list)
    assert {"get", "list", "patch"} <= {*map(str, verbs)}
    assert {"apps/v1", "apps/v1/Deployment", "v1/Pod"} <= {*found.api_versions}
    assert found.version["gitVersion"]
