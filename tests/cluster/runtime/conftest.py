"""Lamps on the shared cluster, and a manager that tends them while a test runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from tests.cluster.runtime.example_kind import Electrician, Lamp, LampStatus, install

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import HasMetadata
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.testing.eventually import eventually


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    """A client of the shared cluster, which serves lamps."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="engine-test") as client:
        await install(client)
        yield client


@dataclass
class Bell:
    """Receives the Events that a controller sends."""

    heard: list[tuple[str, Notice]] = field(default_factory=list)

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        self.heard.append((obj.metadata.name, notice))


@dataclass
class Works:
    """A manager with one controller of the lamps of one namespace, running."""

    manager: Manager
    controller: Controller[Lamp, LampStatus]
    electrician: Electrician
    bell: Bell
    task: asyncio.Task[None]

    async def rests(self, *, passes: int = 1, within: float = 30) -> None:
        """Wait until so many passes have ended, told what they came to, and there is nothing more to do."""

        def is_calm() -> bool:
            queue = self.controller.queue
            return len(self.electrician.seen) >= passes and not queue.running and not len(queue)

        await eventually(is_calm, within=within, describe=f"{passes} passes and then calm")


class Start:
    """Starts managers and ends them with the test."""

    def __init__(self, client: Client, namespace: str, stack: contextlib.AsyncExitStack) -> None:
        self.client = client
        self.namespace = namespace
        self._stack = stack

    async def __call__(
        self,
        electrician: Electrician,
        *,
        workers: int = 1,
        timeout: float = 300.0,
        wire: Callable[[Controller[Lamp, LampStatus], Manager], None] = lambda controller, manager: None,
        client: Client | None = None,
        verify_seconds: float = 600.0,
        grace_seconds: float = 2.0,
    ) -> Works:
        client = client or self.client
        manager = Manager(client, grace_seconds=grace_seconds, verify_seconds=verify_seconds)
        bell = Bell()
        controller = Controller(
            "lamps",
            manager.informer(Lamp, namespace=self.namespace),
            electrician,
            write_status=StatusWriter(client=client),
            workers=workers,
            pass_timeout_seconds=timeout,
            backoff=Backoff(first_seconds=0.01, limit_seconds=0.5),
            recorder=bell,
            metrics=manager.metrics,
        )
        wire(controller, manager)
        manager.add_controller(controller)
        task = asyncio.create_task(manager.run())
        self._stack.push_async_callback(_end, manager, task)
        return Works(manager, controller, electrician, bell, task)


async def _end(manager: Manager, task: asyncio.Task[None]) -> None:
    manager.stop()
    async with asyncio.timeout(30):
        with contextlib.suppress(Exception):  # the test has looked at what it expected
            await task


@pytest.fixture
async def start(client: Client, namespace: str) -> AsyncIterator[Start]:
    async with contextlib.AsyncExitStack() as stack:
        yield Start(client, namespace, stack)
