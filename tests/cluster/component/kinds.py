"""Our kinds, served by the test's cluster."""

from __future__ import annotations

import asyncio

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client import Client
from stellwerk.kube.crd import Definition
from stellwerk.kube.model import unstructured
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
    """Whether objects of a kind can be written."""
    return (await client.get(CustomResourceDefinition, name)).is_established
