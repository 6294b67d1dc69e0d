"""A deletion waits, without taking anything away, for as long as somebody else needs what would go."""

from __future__ import annotations

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.component.api import FINALIZER, Component
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given
from tests.cluster.component.kinds import established, is_listed
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.cluster.component.world import free_definition

THING = Resource("sub.managed.example.com", "v1", "Thing", "things", namespaced=True)
"""A kind that is not part of any Component, and whose controller a Component brings."""


@pytest.fixture
async def thing(given: Given) -> str:
    """Somebody's instance of the kind."""
    await given.client.apply(unstructured(CustomResourceDefinition.resource), free_definition(THING))
    await eventually(lambda: established(given.client, THING.group_resource))
    await eventually(lambda: is_listed(given.client, THING))
    body: JsonObject = {"metadata": {"name": "mine", "namespace": given.namespace}}
    await given.client.apply(unstructured(THING), body)
    return "mine"


@pytest.mark.req("R-112")
async def test_instances_of_a_kind_that_a_component_says_it_manages_keep_it(
    given: Given, running: Running, then: Then, thing: str
) -> None:
    await given.source({"comp/one.yaml": config("one"), "other/two.yaml": config("two")})
    await given.component(path="comp", additionalManagedTypes=[{"group": "*.managed.example.com", "kind": "*"}])
    others = [{"group": "managed.example.com", "kind": "*"}, {"group": "*", "kind": "Unheard"}]
    await given.component("other", path="other", additionalManagedTypes=others)
    await running.start()
    await then.ready()
    await then.ready("other")
    await given.deleted("other")
    await then.gone("other")
    await given.deleted()
    await then.shows(
        "Deleting",
        "DeletionBlocked",
        saying="type *.*.managed.example.com is still in use (instances exist)",
    )
    await running.rests()
    assert await then.exists(ConfigMap, "one")
    await given.client.delete(metadata_of(THING), thing, given.namespace)
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


@pytest.mark.req("R-112")
async def test_finalizers_of_others_on_the_component_are_waited_for(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": config("one")})
    await given.component()
    await running.start()
    await then.ready()
    both = MergePatch({"metadata": {"finalizers": [FINALIZER, "test.example.com/hold"]}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, both)
    await given.deleted()
    await then.shows("Deleting", "DeletionBlocked", saying="finalizers of others: test.example.com/hold")
    await running.rests()
    assert await then.exists(ConfigMap, "one")
    ours = MergePatch({"metadata": {"finalizers": [FINALIZER]}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, ours)
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


@pytest.mark.parametrize("spec", [{}, {"suspend": True}, {"digest": "of another artifact"}])
async def test_a_finalizer_of_ours_that_a_client_removes_is_put_back_before_a_deletion_could_orphan_objects(
    given: Given, running: Running, then: Then, spec: dict[str, object]
) -> None:
    await given.source({"one.yaml": config("one")})
    await given.component()
    await running.start()
    await then.ready()
    await running.has_seen(await given.component(**spec))
    await running.rests()
    none = MergePatch({"metadata": {"finalizers": []}})
    await given.client.patch(metadata_of(Component), "comp", given.namespace, none)

    async def is_back() -> bool:
        return FINALIZER in (await given.client.get(Component, "comp", given.namespace)).metadata.finalizers

    await eventually(is_back, describe="our finalizer is back")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


@pytest.mark.req("R-407")
async def test_a_spec_that_has_come_to_say_nonsense_keeps_nobody_from_deleting_what_it_made(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config("one")})
    await given.component()
    await running.start()
    await then.ready()
    await given.component(reapplyInterval="soon")
    await then.shows("Error", "Error", saying="spec.reapplyInterval: 'soon' is not a duration")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")
