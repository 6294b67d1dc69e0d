"""Objects land in the namespace that the Component names, and it is made where that is wished."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.types.model import metadata_of
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config, config_of
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_objects_without_a_namespace_go_to_the_components_or_to_the_one_that_it_names(
    given: Given, running: Running, then: Then
) -> None:
    there = given.a_namespace_to_be_made()
    elsewhere = given.a_namespace_to_be_made()
    await given.source({"one.yaml": config_map("one"), "two.yaml": config("two", namespace=elsewhere)})
    await running.start()
    await given.component()
    await then.ready()
    assert await then.exists(ConfigMap, "one")
    assert await then.exists(ConfigMap, "two", elsewhere)

    await given.component(namespace=there)
    moved = await then.ready()
    assert await then.exists(ConfigMap, "one", there)
    assert not await then.exists(ConfigMap, "one")
    assert await then.exists(ConfigMap, "two", elsewhere)
    assert [(item.kind, item.namespace, item.name) for item in moved.status.inventory] == [
        ("ConfigMap", there, "one"),
        ("ConfigMap", elsewhere, "two"),
    ]


async def test_templates_are_told_the_name_and_the_namespace_of_the_deployment(
    given: Given, running: Running, then: Then
) -> None:
    there = await given.a_namespace()
    told = config_of("told", {"name": "{{ name }}", "namespace": "{{ namespace }}"})
    await given.source({"told.yaml": told})
    await running.start()
    await given.component()
    await then.ready()
    assert (await then.config("told")).data == {"name": "comp", "namespace": then.namespace}
    await given.component(name="shop", namespace=there)
    await then.ready()
    assert (await then.config("told", there)).data == {"name": "shop", "namespace": there}


async def test_a_namespace_that_was_made_belongs_to_nobody_and_stays(
    given: Given, running: Running, then: Then
) -> None:
    there = given.a_namespace_to_be_made()
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(namespace=there)
    await then.ready()
    made = await given.client.get(metadata_of(Namespace), there)
    assert [*made.metadata.labels] == ["kubernetes.io/metadata.name"]
    assert not made.metadata.annotations
    await given.deleted()
    await then.gone()
    assert await then.exists(Namespace, there, "")
    assert not await then.exists(ConfigMap, "one", there)


async def test_where_namespaces_must_not_be_made_a_missing_one_is_named_until_somebody_makes_it(
    given: Given, running: Running, then: Then
) -> None:
    there = given.a_namespace_to_be_made()
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(namespace=there, missingNamespacesPolicy="DoNotCreate")
    await then.shows("Error", "Error", saying=there)
    assert not await then.exists(Namespace, there, "")
    await given.a_namespace(there)
    await running.waits(minutes=20)
    await then.ready()
    assert await then.exists(ConfigMap, "one", there)
