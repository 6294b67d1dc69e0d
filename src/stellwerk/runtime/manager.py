"""Starts everything in the right order, and ends it in reverse.

    servers and health  ->  caches  ->  (caches are full)  ->  leadership  ->  controllers

Each stage is a block inside the one before, so the order of ending needs no code of its own. A task that fails takes
the whole manager down: a process that half works is harder to notice than one that is started again.

Ending in order: controllers take no new key and have `grace_seconds` for the passes under way; then these are cancelled
where they wait, which is a write boundary or a write whose outcome the next process finds out (R-101 and R-303 ask for
no more). Then the lease is given back, then the caches and servers end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from stellwerk.kube.client import Client, Target
from stellwerk.kube.model import HasMetadata
from stellwerk.kube.watch import SILENCE_SECONDS
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.clusters import Cluster
from stellwerk.runtime.controller import Controller, LeadershipLost
from stellwerk.runtime.informer import VERIFY_SECONDS, Informer
from stellwerk.runtime.metrics import Metrics
from stellwerk.runtime.tasks import background, first_of

T = TypeVar("T", bound=HasMetadata)

_log = logging.getLogger(__name__)


class Runnable(Protocol):
    """Anything that runs until cancelled: a server, a recorder, a watchdog, a remote cluster."""

    async def run(self) -> None:
        """Run until cancelled. What it raises ends the manager."""
        ...


class Leadership(Protocol):
    """Who may write; `leader.LeaderElector` is one."""

    async def run(self, on_started: Callable[[], Awaitable[None]]) -> None:
        """Become the leader, run `on_started`, give the lease back when that returns. Raises LeadershipLost."""
        ...


class Worker(Protocol):
    """What a manager needs to know of a controller."""

    name: str

    async def run(self) -> None: ...
    def stop(self) -> None: ...


class Manager:
    """The parts of one operator process, and their order."""

    def __init__(
        self,
        client: Client,
        *,
        leadership: Leadership | None = None,
        grace_seconds: float = 6.0,
        metrics: Metrics | None = None,
        verify_seconds: float = VERIFY_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.clock = clock or SystemClock()
        self.client = client
        self.home = Cluster(
            client,
            clock=self.clock,
            metrics=self.metrics,
            verify_seconds=verify_seconds,
            silence_seconds=silence_seconds,
            name="home",
        )
        self._leadership = leadership
        self._grace_seconds = grace_seconds
        self._servers: list[tuple[str, Runnable]] = []
        self._controllers: list[Worker] = []
        self._stopping = asyncio.Event()
        self._leads = False

    def informer(self, target: Target[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[T]:
        """The shared informer over these objects of the home cluster. Asked for while running, it starts at once."""
        return self.home.informer(target, namespace=namespace, labels=labels, fields=fields)

    def add_server(self, name: str, server: Runnable) -> None:
        """Run this from the first moment to the last: health, metrics, webhooks, the Event recorder, the watchdog."""
        self._servers.append((name, server))

    def add_controller(self, controller: Worker) -> None:
        """Run this controller, mostly a `controller.Controller`, while we lead."""
        self._controllers.append(controller)

    @property
    def leads(self) -> bool:
        """Whether the controllers run."""
        return self._leads

    def unready(self) -> str | None:
        """Why this process should get no requests: caches that are not full, or stale (R-202). For `health.Health`."""
        return "; ".join(self.home.unready()) or None

    def try_again(self) -> None:
        """Something that no watch tells has changed for the better: look at what is parked, and at what has failed."""
        for informer in self.home.informers:
            if informer.parked is not None:
                informer.wake()
        for controller in self._controllers:
            if isinstance(controller, Controller):
                controller.try_again()

    def stop(self) -> None:
        """End in order. `run` returns when all has ended."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`. Raises LeadershipLost, or an ExceptionGroup with what a part raised."""
        try:
            async with background() as servers:
                for name, server in self._servers:
                    servers.start(server.run(), name)
                async with background() as caches:
                    caches.start(self.home.run(), "home cluster")
                    await self._until_stopped(caches.start(self._work(), "leading"))
        except* LeadershipLost as lost:
            raise first_of(lost) from None

    async def run_until_signal(self) -> None:
        """Run until `stop`, SIGTERM or SIGINT."""
        with stopped_by_signals(self.stop):
            await self.run()

    async def _work(self) -> None:
        """Everything that a stop may interrupt: fill the caches, get the lease, lead."""
        await self.home.wait_settled()
        if self._leadership is None:
            await self._lead()
        else:
            await self._leadership.run(self._lead)

    async def _lead(self) -> None:
        self._leads = True
        try:
            async with self._running_controllers():
                await self._stopping.wait()
        finally:
            self._leads = False

    @asynccontextmanager
    async def _running_controllers(self) -> AsyncIterator[None]:
        async with background() as controllers:
            running = [controllers.start(each.run(), each.name) for each in self._controllers]
            yield
            for each in self._controllers:
                each.stop()
            await self._let_finish(running)

    async def _let_finish(self, running: Sequence[asyncio.Task[None]]) -> None:
        if running:
            _, late = await asyncio.wait(running, timeout=self._grace_seconds)
            for task in late:
                _log.warning("%s did not end within %g s and is cancelled", task.get_name(), self._grace_seconds)

    async def _until_stopped(self, work: asyncio.Task[None]) -> None:
        """Wait for the stop, and for the work to end; before we lead there is nothing to end in order."""
        await self._stopping.wait()
        if not self._leads:
            work.cancel()
        await asyncio.wait([work])


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT while the block runs."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
