"""What a cluster serves is asked for again after a change of definitions, and not by each of many sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.unit.kube.scripted import Server, serving

from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.testing.clock import FakeClock

_BODY = b'{"kind": "APIGroupDiscoveryList", "items": []}'
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


@dataclass
class Asked:
    """What a cluster serves, and the server that is asked."""

    apis: ServedApis
    clock: FakeClock
    client: Client
    server: Server

    async def requests(self, times: int = 1) -> int:
        """How many requests it takes to read the facts so often."""
        before = len(self.server.asked)
        for _ in range(times):
            await self.apis.facts(self.client)
        return len(self.server.asked) - before


@asynccontextmanager
async def asked() -> AsyncIterator[Asked]:
    clock = FakeClock()
    async with serving(EMPTY) as (server, _), connected_to(server) as client:
        yield Asked(ServedApis(clock), clock, client, server)


def connected_to(server: Server) -> Client:
    return Client.connect(ClusterConfig(server=f"http://127.0.0.1:{server.port}"))


async def test_many_sets_that_are_rendered_after_a_change_ask_once_a_second() -> None:
    async with asked() as made:
        first = await made.requests()
        assert first
        assert not await made.requests()
        made.apis.changed()
        assert await made.requests(300) == first
        await made.clock.advance(1)
        assert await made.requests(300) == first


async def test_each_change_is_asked_about_at_once() -> None:
    async with asked() as made:
        first = await made.requests()
        for _ in range(3):
            made.apis.changed()
            assert await made.requests() == first


async def test_what_was_asked_for_before_a_change_is_not_used_after_it() -> None:
    async with asked() as made:
        first = await made.requests()
        made.apis.changed()
        asking = asyncio.create_task(made.apis.facts(made.client))
        await asyncio.sleep(0)
        made.apis.changed()
        await asking
        assert await made.requests() == first


async def test_facts_of_a_time_of_doubt_are_not_believed_for_long_after_it() -> None:
    async with asked() as made:
        first = await made.requests()
        made.apis.changed()
        await made.clock.advance(9.5)
        assert await made.requests() == first
        await made.clock.advance(0.6)
        assert await made.requests()
        assert not await made.requests()
