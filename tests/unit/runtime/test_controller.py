"""A controller whose passes find everything in order: nothing is sent, so no API server is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from stellwerk.kube.client import Client
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.errors import Forbidden, Status
from stellwerk.kube.meta import ObjectMeta, Record
from stellwerk.kube.model import Kind
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.kube.watch_states import Changed, Synced
from stellwerk.runtime.contract import Next, ReconcileError
from stellwerk.runtime.controller import Controller
from stellwerk.runtime.informer import Informer
from stellwerk.runtime.manager import Manager
from stellwerk.runtime.queue import Backoff
from stellwerk.runtime.status import StatusWriter
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually


class Stone(Kind, frozen=True, kw_only=True):
    """A kind that is always in order."""

    resource: ClassVar[Resource] = Resource("engine.test", "v1", "Stone", "stones", namespaced=True)


@dataclass
class Watcher:
    """Looks and finds nothing to do."""

    enough: int
    names: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.names.append(stone.metadata.name)
        if len(self.names) == self.enough:
            self.done.set()
        return Next.done()

    def explain(self, stone: Stone, failure: ReconcileError) -> Record | None:
        return None

    async def forget(self, key: ObjectKey) -> None:
        return None


def stone(number: int, version: int = 1) -> Stone:
    metadata = ObjectMeta(namespace="here", name=f"stone-{number}", uid=str(number), resource_version=str(version))
    return Stone(metadata=metadata)


def nowhere() -> Client:
    """A client that never sends anything."""
    return Client.connect(ClusterConfig(server="http://nowhere.invalid"))


@pytest.mark.req("R-304")
async def test_a_sweep_over_many_objects_leaves_the_loop_to_others() -> None:
    client, watcher = nowhere(), Watcher(enough=2_000)
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone(number) for number in range(2_000)), "1"))
    controller = Controller("stones", stones, watcher, write_status=StatusWriter(client=client))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not watcher.done.is_set():
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(30):
        await others()
    controller.stop()
    await running
    assert turns > 1_000


@dataclass
class Refused:
    """May not do what it must, until it may."""

    forbidden: bool = True
    passes: int = 0

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.passes += 1
        if self.forbidden:
            raise Forbidden(Status(code=403))
        return Next.done()

    def explain(self, stone: Stone, failure: ReconcileError) -> Record | None:
        return None

    async def forget(self, key: ObjectKey) -> None:
        return None


@asynccontextmanager
async def refused(clock: FakeClock) -> AsyncIterator[tuple[Refused, Controller[Stone, Record]]]:
    """A controller of one stone whose passes are refused, under way."""
    client, reconciler = nowhere(), Refused()
    stones = Informer(client, Stone)
    stones.take(Synced((stone(1),), "1"))
    backoff = Backoff(first_seconds=500)
    controller = Controller(
        "stones", stones, reconciler, write_status=StatusWriter(client=client), backoff=backoff, clock=clock
    )
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.passes == 1, within=20)
    yield reconciler, controller
    controller.stop()
    await running


@pytest.mark.req("R-206")
async def test_what_fails_for_want_of_a_right_is_tried_again_after_a_minute_at_the_latest() -> None:
    clock = FakeClock()
    async with refused(clock) as (reconciler, _):
        for passes in (2, 3):
            await clock.advance(61)
            assert reconciler.passes == passes


@pytest.mark.req("R-206")
async def test_what_has_failed_is_tried_again_in_a_moment_once_it_may_work() -> None:
    clock = FakeClock()
    manager = Manager(nowhere(), clock=clock)
    async with refused(clock) as (reconciler, controller):
        manager.add_controller(controller)
        reconciler.forbidden = False
        manager.try_again()
        await clock.advance(1.1)
        assert reconciler.passes == 2

        manager.try_again()
        await clock.advance(10)
        assert reconciler.passes == 2, "it works, so there is nothing to try"


async def test_a_change_is_looked_at_before_the_objects_found_at_start() -> None:
    client, watcher = nowhere(), Watcher(enough=100)
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone(number) for number in range(100)), "1"))
    controller = Controller("stones", stones, watcher, write_status=StatusWriter(client=client))
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    stones.take(Changed(stone(99, version=2)))
    async with asyncio.timeout(30):
        await watcher.done.wait()
    controller.stop()
    await running
    assert watcher.names.index("stone-99") < 10
