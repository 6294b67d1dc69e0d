"""What one tenant stores, and nobody can decode, is one tenant's trouble: it is named there, and all others go on."""

from __future__ import annotations

import json

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import UnreadableObject
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, to_json_object, unstructured
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.operators.component.insight import why
from stellwerk.runtime.insight.diagnosis import root_causes
from stellwerk.testing.eventually import eventually
from tests.cluster.component import kinds, world
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import GATE, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

NO_TIME = "2020-01-01T00:00:00+99:99"
LEVELS = 9_000
PATCHED_LEVELS = 2_000
"""Of a merge patch, because the API server reads the rest of it again at each level: 9,000 of them take it 5 s."""
FILES = {"one.yaml": config_map("one")}


async def create_deep(client: Client, resource: Resource, body: JsonObject) -> None:
    """Create an object with something very deep where it says HERE; no encoder of ours writes such JSON."""
    deep = "[" * LEVELS + "]" * LEVELS
    stamped = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    text = json.dumps(stamped).replace('"HERE"', deep)
    await client.raw("POST", resource.path(str(body["metadata"]["namespace"])), body=text.encode())  # type: ignore[index, call-overload]


async def create_deep_component(given: Given, name: str = "deep") -> None:
    spec: JsonObject = {"sourceRef": {"fluxGitRepository": {"name": "source"}}, "values": {"a": "HERE"}}
    metadata: JsonObject = {"name": name, "namespace": given.namespace}
    await create_deep(given.client, Component.resource, {"metadata": metadata, "spec": spec})


async def replace_with_deep(given: Given) -> None:
    """Give the Component values that cannot be decoded."""
    patch = '{"spec":{"values":{"a":%s}}}' % ("[" * PATCHED_LEVELS + "]" * PATCHED_LEVELS)
    await _patch_spec(given, patch)


async def mend(given: Given) -> None:
    """Take the values away again."""
    await _patch_spec(given, '{"spec":{"values":null}}')


async def _patch_spec(given: Given, patch: str) -> None:
    path = Component.resource.path(given.namespace, "comp")
    await given.client.raw("PATCH", path, body=patch.encode(), content_type="application/merge-patch+json")


async def says_deep(given: Given, name: str) -> bool:
    """Whether a Component that we cannot read itself shows why, in the columns that kubectl prints."""
    path = Component.resource.path(given.namespace, name)
    table = await given.client.raw("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    return b"Object cannot be read: " in table and b"nested deeper than 100 levels" in table


async def two_is_there(then: Then) -> bool:
    return await then.exists(ConfigMap, "two")


@pytest.mark.req("R-510", "R-410")
async def test_a_component_whose_managed_fields_are_as_deep_as_its_values_says_so(
    given: Given, running: Running, then: Then
) -> None:
    """Maps in maps are known field by field to the API server, so the metadata of the object are deep, too."""
    await given.source(FILES, revision="r1")
    metadata: JsonObject = {"name": "deep", "namespace": given.namespace}
    spec: JsonObject = {"sourceRef": {"fluxGitRepository": {"name": "source"}}, "values": "HERE"}
    text = json.dumps(
        {"apiVersion": Component.resource.api_version, "kind": "Component", "metadata": metadata, "spec": spec}
    )
    levels = 2_000
    text = text.replace('"HERE"', '{"a":' * levels + "1" + "}" * levels)
    await given.client.raw("POST", Component.resource.path(given.namespace), body=text.encode())
    await running.start()
    await eventually(lambda: says_deep(given, "deep"), within=30, describe="the Component says why")
    await running.rests()
    assert running.operator.controller.queue.failures(then.key("deep")) == 0
    await given.component("good")
    await then.ready("good", revision="r1")
    listed = await given.client.list(metadata_of(Component), given.namespace)
    assert [obj.metadata.name for obj in listed.items] == ["deep", "good"]


@pytest.mark.req("R-510")
async def test_why_names_what_cannot_be_read_wherever_it_is_met(given: Given, running: Running, then: Then) -> None:
    await given.source(FILES, revision="r1")
    await create_deep_component(given, "deep")
    await running.start()
    await given.component("waits", dependencies=[{"name": "deep"}])
    await then.shows("Pending", "Retrying", "waits")
    subject = await given.client.get(unstructured(Component.resource), "waits", given.namespace)
    diagnosis = await why.diagnostician.diagnose(given.client, subject)
    [cause] = root_causes(diagnosis.findings)
    assert cause.text.lower() == "object cannot be read: nested deeper than 100 levels"
    assert cause.reason == "ObjectUnreadable"
    assert "correct the field" in diagnosis.next_step
    with pytest.raises(UnreadableObject, match="object cannot be read: nested deeper than 100 levels"):
        await given.client.get(unstructured(Component.resource), "deep", given.namespace)


@pytest.mark.req("R-510", "R-410")
async def test_a_component_that_is_nested_without_end_says_so_and_others_are_deployed(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(FILES, revision="r1")
    await create_deep_component(given, "before")
    await running.start()
    await given.component("good")
    await then.ready("good", revision="r1")
    await create_deep_component(given, "later")
    for name in ("before", "later"):
        await eventually(lambda name=name: says_deep(given, name), within=30, describe=f"{name} says why")  # type: ignore[misc]
        await then.event("ObjectUnreadable", about=name, saying="nested deeper than 100 levels")
    await given.source({"one.yaml": config_map("one", a="2")}, revision="r2")
    await then.ready("good", revision="r2")
    assert running.manager.unready() is None
    await running.rests()
    assert {key.name for key in running.operator.watches.components.unreadable} == {"before", "later"}


@pytest.mark.req("R-510")
async def test_a_component_that_breaks_keeps_its_objects_and_goes_on_when_it_is_mended(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(FILES, revision="r1")
    await given.component()
    await running.start()
    await then.ready(revision="r1")
    before = await then.config("one")
    await replace_with_deep(given)
    await eventually(lambda: says_deep(given, "comp"), within=30, describe="the Component says why")
    await given.source({"two.yaml": config_map("two")}, revision="r2")
    await running.rests()
    assert (await then.config("one")).metadata.uid == before.metadata.uid
    await mend(given)
    await then.ready(revision="r2")
    await then.absent(ConfigMap, "one")
    assert await then.exists(ConfigMap, "two")


@pytest.mark.req("R-510")
async def test_a_component_whose_status_has_no_time_is_reconciled_and_keeps_its_inventory(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(FILES, revision="r1")
    await given.component()
    await running.start()
    found = await then.ready(revision="r1")
    await running.stop()
    items: list[JsonObject] = [{**to_json_object(item), "lastAppliedAt": NO_TIME} for item in found.status.inventory]
    conditions: list[JsonObject] = [
        {**to_json_object(one), "lastTransitionTime": NO_TIME} for one in found.status.conditions
    ]
    odd: JsonObject = {"lastObservedAt": NO_TIME, "conditions": [*conditions], "inventory": [*items]}
    target = metadata_of(Component)
    await given.client.patch(target, "comp", given.namespace, MergePatch({"status": odd}), subresource="status")
    await given.source({"two.yaml": config_map("two")}, revision="r2")
    await running.start()
    await eventually(lambda: two_is_there(then), within=30, describe="the second revision is applied")
    await then.absent(ConfigMap, "one")
    found = await then.ready(revision="r2")
    assert [item.name for item in found.status.inventory] == ["two"]
    raw = json.dumps((await given.client.get(unstructured(Component.resource), "comp", given.namespace)).body)
    assert NO_TIME not in raw


@pytest.mark.req("R-510")
@pytest.mark.parametrize("starts_broken", [True, False], ids=["from the start", "later"])
async def test_a_source_that_cannot_be_read_is_named_where_it_is_used_and_nowhere_else(
    given: Given, running: Running, then: Then, starts_broken: bool
) -> None:
    await given.source(FILES, revision="r1")
    others = {"other.yaml": config_map("other")}
    await given.source(others, "odd", revision="r1")
    if starts_broken:
        await given.source_says({"conditions": "none"}, "odd")
    await running.start()
    await given.component("good")
    await given.component("bad", "odd")
    await then.ready("good", revision="r1")
    if not starts_broken:
        await then.ready("bad", revision="r1")
        await given.source_says({"conditions": "none"}, "odd")
    await then.shows(
        "Pending",
        "Retrying",
        "bad",
        saying=f"GitRepository {given.namespace}/odd cannot be read: status.conditions: expected array, got str",
    )
    await then.event("ObjectUnreadable", about="odd", saying="status.conditions")
    await given.source({"two.yaml": config_map("two")}, revision="r2")
    await then.ready("good", revision="r2")
    assert running.manager.unready() is None
    await given.source_says({"conditions": None}, "odd")
    await given.source(others, "odd", revision="r3")
    await then.ready("bad", revision="r3")


@pytest.mark.req("R-510")
async def test_a_source_whose_status_has_no_time_is_followed(given: Given, running: Running, then: Then) -> None:
    artifact = await given.source(FILES, revision="r1")
    odd: JsonObject = {
        "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1, "lastTransitionTime": NO_TIME}],
        "artifact": {
            "url": artifact.url,
            "digest": artifact.digest,
            "revision": artifact.revision,
            "lastUpdateTime": NO_TIME,
        },
    }
    await given.source_says(odd)
    await running.start()
    await given.component()
    await then.ready(revision="r1")


@pytest.mark.req("R-510", "R-410")
async def test_an_object_with_our_label_that_is_nested_without_end_stops_no_component_of_its_kind(
    given: Given, running: Running, then: Then
) -> None:
    gates = {"gate.yaml": "apiVersion: test.example.com/v1\nkind: Gate\nmetadata:\n  name: north\n"}
    await given.source(gates, revision="r1")
    label: JsonObject = {OWNER_ID: "a" * 52}
    metadata: JsonObject = {"name": "deep", "namespace": given.namespace, "labels": label}
    await create_deep(given.client, GATE, {"metadata": metadata, "spec": {"deep": "HERE"}})
    await running.start()
    await given.component()
    await given.opened("north")
    await then.ready(revision="r1")
    metadata = {**metadata, "name": "deep-later"}
    await create_deep(given.client, GATE, {"metadata": metadata, "spec": {"deep": "HERE"}})
    await given.opened("north", is_open=False)
    await then.shows("Processing")
    await given.opened("north")
    await then.ready()
    odd = [obj for obj in running.manager.home.unreadable() if obj.resource.kind == GATE.kind]
    assert {obj.key.name for obj in odd} == {"deep", "deep-later"}


async def gate_is_deep(client: Client, namespace: str, deep: str = "[" * LEVELS + "]" * LEVELS) -> None:
    """Give the gate `north` a field that cannot be decoded."""
    patch = f'{{"spec":{{"deep":{deep}}}}}'
    path = GATE.path(namespace, "north")
    await client.raw("PATCH", path, body=patch.encode(), content_type="application/merge-patch+json")


@pytest.mark.req("R-510")
async def test_an_object_of_another_cluster_that_cannot_be_read_is_named_on_its_component(
    given: Given, running: Running, then: Then, remote: Client, login: str
) -> None:
    await remote.apply(CustomResourceDefinition, world.free_definition(GATE))
    await eventually(lambda: kinds.established(remote, GATE.group_resource))
    gate = manifest("Gate", "north", {"spec": {}}, api_version="test.example.com/v1")
    await given.source({"gate.yaml": gate}, revision="r1")
    await given.secret("there", value=login)
    await running.start()
    await given.component(kubeConfig={"secretRef": {"name": "there"}})
    await then.ready(revision="r1")
    await gate_is_deep(remote, given.namespace)
    why = f"Gate {given.namespace}/north cannot be read: nested deeper than 100 levels"
    await then.event("ObjectUnreadable", about="comp", saying=why)
    await given.deleted()
    await then.shows("Error", "Error", saying=f"Gate {given.namespace}/north")
    await gate_is_deep(remote, given.namespace, "null")
    await then.gone()
    assert await remote.find(metadata_of(GATE), "north", given.namespace) is None
