"""A watcher rests between two tries for as long as it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden, Status, TooManyRequests
from stellwerk.kube.watch.watch import Watcher
from stellwerk.testing.clock import FakeClock


class Refusing:
    """Answers each list with a refusal."""

    def __init__(self, error: ApiError) -> None:
        self.error = error
        self.lists = 0

    async def list(self, *_: object, **__: object) -> None:
        self.lists += 1
        raise self.error


@asynccontextmanager
async def following(watcher: Watcher[ConfigMap]) -> AsyncIterator[None]:
    async def follow() -> None:
        async for _ in watcher.changes():
            pass

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.req("R-207")
@pytest.mark.parametrize(
    ("error", "lists"),
    [
        (TooManyRequests(Status(code=429), "list configmaps", retry_after=30.0), 1),
        (Forbidden(Status(code=403), "list configmaps"), 6),
    ],
    ids=["the server asked for a wait", "the pause is our own"],
)
async def test_a_wake_does_not_shorten_a_wait_that_the_server_asked_for(error: ApiError, lists: int) -> None:
    clock, server = FakeClock(), Refusing(error)
    watcher = Watcher(cast(Client, server), ConfigMap, clock=clock)
    async with following(watcher):
        await clock.until_sleeping()
        for _ in range(5):
            watcher.wake()
            for _ in range(10):
                await asyncio.sleep(0)
        assert server.lists == lists
        await clock.advance(60.0)
        assert server.lists > lists


@pytest.mark.req("R-207")
@pytest.mark.parametrize("wakes_at", [20.0, 40.0], ids=["while the wait is kept", "later"])
async def test_a_wake_ends_a_long_wait_after_half_a_minute(wakes_at: float) -> None:
    clock = FakeClock()
    server = Refusing(TooManyRequests(Status(code=429), "list configmaps", retry_after=3600.0))
    watcher = Watcher(cast(Client, server), ConfigMap, clock=clock)
    async with following(watcher):
        await clock.until_sleeping()
        await clock.advance(wakes_at)
        assert server.lists == 1
        watcher.wake()
        await clock.advance(15.0)
        assert server.lists == 2
        await clock.advance(600.0)
        assert server.lists == 2, "without another wake, the wait is kept"
