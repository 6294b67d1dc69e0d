"""Clients of the shared cluster, with and without a bad line, and a reader of watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

import pytest

from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import HasMetadata
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Bookmark, Change, Changed, Removed, Synced, WatchSuspended
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.faults import FaultProxy

T = TypeVar("T", bound=HasMetadata)


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    """An administrator's client of the shared cluster."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="wire-test") as client:
        yield client


@pytest.fixture
async def behind(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client behind the bad line."""
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig), field_manager="wire-test") as client:
        yield client


class Reader(Generic[T]):
    """Follows a watcher and keeps what it says."""

    def __init__(self, watcher: Watcher[T]) -> None:
        self.watcher = watcher
        self.told: list[Change[T]] = []
        self.present: dict[str, T] = {}
        self._rung = Signal()

    async def run(self) -> None:
        async for change in self.watcher.changes():
            self._take(change)
            self.told.append(change)
            self._rung.ring()

    def _take(self, change: Change[T]) -> None:
        match change:
            case Synced(objects=objects):
                self.present = {obj.metadata.name: obj for obj in objects}
            case Changed(obj=obj):
                self.present[obj.metadata.name] = obj
            case Removed(obj=obj):
                self.present.pop(obj.metadata.name, None)
            case Bookmark() | WatchSuspended():
                pass

    @property
    def lists(self) -> int:
        """How often everything was told anew."""
        return sum(isinstance(change, Synced) for change in self.told)

    @property
    def parked(self) -> list[str]:
        """Why there was no watch, in order."""
        return [change.why for change in self.told if isinstance(change, WatchSuspended)]

    async def until(self, holds: Callable[[], bool], *, within: float = 30.0) -> None:
        """Wait until what was told makes this true."""
        await eventually(lambda: holds() or None, within=within, describe=f"told {self.told}", on=self._rung)

    async def shows(self, *names: str, within: float = 30.0) -> None:
        """Wait until exactly these objects are present."""
        await self.until(lambda: set(self.present) == set(names), within=within)


class Read:
    """Starts readers and ends them with the test."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, watcher: Watcher[T]) -> Reader[T]:
        reader = Reader(watcher)
        self._tasks.append(asyncio.create_task(reader.run()))
        return reader

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def read() -> AsyncIterator[Read]:
    """Follows watchers until the test ends; a watcher that raises fails the test."""
    read = Read()
    yield read
    await read.end()


async def config_map(client: Client, target: Target[T], namespace: str, name: str, **data: str) -> T:
    """Apply a ConfigMap."""
    return await client.apply(
        target,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {"made-by": "wire-test"}},
            "data": dict(data),
        },
    )
