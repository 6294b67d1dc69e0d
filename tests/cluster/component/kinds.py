"""Our kinds, served by the test's cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import metadata_of, unstructured
from stellwerk.operators.component import api
from stellwerk.testing.eventually import eventually


async def serve(client: Client, *definitions: Definition) -> None:
    """Have the cluster serve our kinds, strictly as we define them."""
    wanted = definitions or api.DEFINITIONS
    target = unstructured(CustomResourceDefinition.resource)
    await asyncio.gather(*(client.apply(target, one.body(), field_validation="Strict") for one in wanted))
    for one in wanted:
        await eventually(lambda name=one.name: established(client, name))  # type: ignore[misc]


async def established(client: Client, name: str) -> bool:
    """Whether objects of a kind can be written: the API server serves it a moment after it has said that it would."""
    found = await client.get(CustomResourceDefinition, name)
    return found.is_established and all([await _is_served(client, resource) for resource in _resources(found)])


async def is_listed(client: Client, resource: Resource) -> bool:
    """Whether discovery lists a kind, which it does a moment after it is served: operators and the program find kinds
    there."""
    client.mapper.invalidate()
    return resource in await client.mapper.all()


async def removed(client: Client, name: str) -> None:
    """Take a definition away, and return when its end cannot meet one that is made anew."""

    async def is_gone() -> bool:
        return await client.find(CustomResourceDefinition, name) is None

    await client.delete(CustomResourceDefinition, name)
    await eventually(is_gone, describe=f"{name} is gone")


def _resources(definition: CustomResourceDefinition) -> Iterator[Resource]:
    spec = definition.spec
    for version in spec.versions:
        if version.served:
            yield Resource(
                spec.group, version.name, spec.names.kind, spec.names.plural, namespaced=spec.scope == "Namespaced"
            )


async def _is_served(client: Client, resource: Resource) -> bool:
    try:
        await client.find(metadata_of(resource), "nobody", "default" if resource.namespaced else "")
    except NotServed:
        return False
    return True
