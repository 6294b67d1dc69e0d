"""A kind without a definition is not asked for while a watch would show that it comes."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, metadata_of
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
from stellwerk.runtime.cache.definitions import Definitions
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

LANTERNS = Resource("example.com", "v1", "Lantern", "lanterns", namespaced=True)


@pytest.mark.req("R-206", "R-207")
async def test_a_kind_without_a_definition_is_asked_for_as_long_as_definitions_may_not_be_watched_any_more() -> None:
    clock = FakeClock()
    client = Client.connect(ClusterConfig(server="http://127.0.0.1:1"))  # nothing answers there, so it pauses and asks
    definitions = Informer(client, metadata_of(CustomResourceDefinition))
    definitions.take(Synced((), "1"))
    lanterns = Informer(client, metadata_of(LANTERNS), clock=clock)
    await Definitions(definitions).follow(cast("Informer[HasMetadata]", lanterns))
    running = asyncio.create_task(lanterns.run())
    try:
        await eventually(lambda: lanterns.parked is not None, describe="it is suspended")
        assert clock.sleeping == 0, "no pause after which it would ask"
        definitions.take(WatchSuspended("not permitted to list customresourcedefinitions", is_forbidden=True))
        await clock.until_sleeping(2)
        definitions.take(Synced((), "2"))
        await eventually(lambda: clock.sleeping == 0, describe="it is suspended again")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()
