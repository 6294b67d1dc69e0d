"""Starts everything in the right order, and ends it in reverse.

    servers and health  ->  caches  ->  (caches are full)  ->  leadership  ->  controllers

Each stage is a block inside the one before, so the order of ending needs no code of its own. Each part has a border: an
unexpected exception in it is counted and logged, and the part starts again after a pause while the others go on. Only
the loss of leadership, and a part that cannot start, end the manager.

Ending in order: controllers take no new key and have `grace_seconds` for the passes under way; then these are cancelled
where they wait, which is a write boundary or a write whose outcome the next process finds out (R-101 and R-303 ask for
no more). Then the lease is given back, then the caches and servers end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.types.model import HasMetadata, Unreadable
from stellwerk.kube.watch.watch import SILENCE_SECONDS
from stellwerk.runtime.cache.cache_budget import CacheBudget
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import VERIFY_SECONDS, Informer
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.supervision.tasks import Border, ProcessEnds, background, first_of
from stellwerk.runtime.telemetry.metrics import Metrics

T = TypeVar("T", bound=HasMetadata)

UNREADABLE = "ObjectUnreadable"
"""The reason of Events about objects that cannot be decoded."""

_log = logging.getLogger(__name__)


class Runnable(Protocol):
    """Anything that runs until cancelled: a server, a recorder, a watchdog, a remote cluster."""

    async def run(self) -> None:
        """Run until cancelled. It is called again after an unexpected exception; ProcessEnds, and StartFailed in the
        first run, end the manager."""
        ...


class Leadership(Protocol):
    """Who may write; `leader.LeaderElector` is one."""

    async def run(self, on_started: Callable[[], Awaitable[None]]) -> None:
        """Become the leader, run `on_started`, give the lease back when that returns. Raises LeadershipLost."""
        ...


class ManagedController(Protocol):
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
        recorder: EventSink | None = None,
        budget: CacheBudget | None = None,
        namespaces: Sequence[str] = (),
    ) -> None:
        """`recorder` sends Events about objects that cannot be decoded. `budget`: of memory for cached objects.

        `namespaces`: no objects of others are watched; empty: those of all are.
        """
        self._recorder = recorder
        self.metrics = metrics or Metrics()
        self.clock = clock or SystemClock()
        self.client = client
        self.border = Border(self.metrics, self.clock)
        self.home = Cluster(
            client,
            clock=self.clock,
            metrics=self.metrics,
            verify_seconds=verify_seconds,
            silence_seconds=silence_seconds,
            name="home",
            on_unreadable=self._announce,
            on_repair=self._retry_failed,
            budget=budget,
            namespaces=namespaces,
        )
        if budget is not None:
            self.metrics.cache_memory(budget.usage)
        self._better_handlers: list[Callable[[], None]] = []
        self._leadership = leadership
        self._grace_seconds = grace_seconds
        self._servers: list[tuple[str, Runnable]] = []
        self._controllers: list[ManagedController] = []
        self._stopping = asyncio.Event()
        self._leads = False
        self.checks: dict[str, Callable[[], str | None]] = {}
        """Readiness checks of parts, by name."""

    def informer(
        self,
        target: Target[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        required: bool = False,
        awaited: bool = True,
        optional: bool = False,
        places: Iterable[str] = (),
    ) -> Informer[T]:
        """The shared informer over these objects of the home cluster. Asked for while running, it starts at once.

        `required`: the process is not ready while they cannot be watched, and no controller starts before they were
        listed once, or their kind is not served; unless they are not `awaited`, because controllers ask whether they
        were. `optional`: the cluster may not have the kind, which a CustomResourceDefinition defines; the watch waits
        for that and asks nothing meanwhile. `places`: of a manager with `namespaces`, those to watch instead.
        """
        return self.home.informer(
            target,
            namespace=namespace,
            labels=labels,
            fields=fields,
            required=required,
            awaited=awaited,
            optional=optional,
            places=places,
        )

    def release(self, informer: Informer[T]) -> None:
        """End the watch of an informer of the home cluster; see `Cluster.release`."""
        self.home.release(informer)

    def add_server(self, name: str, server: Runnable) -> None:
        """Run this from the first moment to the last: health, metrics, webhooks, the Event recorder, the watchdog."""
        self._servers.append((name, server))

    def add_controller(self, controller: ManagedController) -> None:
        """Run this controller, mostly a `controller.Controller`, while we lead."""
        self._controllers.append(controller)

    @property
    def leads(self) -> bool:
        """Whether the controllers run."""
        return self._leads

    def unready(self) -> str | None:
        """Why this process is not ready: caches that are not full, or stale (R-202), or that it needs and cannot fill.

        For `health.Health`.
        """
        return "; ".join(self.home.unready()) or None

    def ready_when(self, name: str, check: Callable[[], str | None]) -> None:
        """The process is ready only while this check of a part finds nothing wrong. For `health.Health`."""
        self.checks[name] = check

    def try_again(self) -> None:
        """Something that no watch shows has changed for the better: look at what is parked, and at what has failed."""
        for informer in self.home.informers:
            if informer.parked is not None:
                informer.wake()
        for handler in self._better_handlers:
            handler()
        self._retry_failed()

    def on_try_again(self, handler: Callable[[], None]) -> None:
        """Call the handler in each `try_again`, before what has failed is looked at."""
        self._better_handlers.append(handler)

    def _retry_failed(self) -> None:
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
                    servers.start(self.border.keep(name, name, server.run), name)
                async with background() as caches:
                    caches.start(self.border.keep("home cluster", "home cluster", self.home.run), "home cluster")
                    leading = self.border.keep("leading", "leading", self._work)
                    await self._until_stopped(caches.start(leading, "leading"))
        except* ProcessEnds as ends:
            raise first_of(ends) from None

    async def run_until_signal(self) -> None:
        """Run until `stop`, SIGTERM or SIGINT."""
        with stopped_by_signals(self.stop):
            await self.run()

    def _announce(self, obj: Unreadable) -> None:
        """Send the Event about an object that cannot be decoded; of several processes only the leader does."""
        if self._leads and self._recorder is not None:
            message = f"object cannot be read: {obj.why}"
            self._recorder.send(obj, Notice(UNREADABLE, message, Severity.WARNING, action="Read"))

    async def _work(self) -> None:
        """Everything that a stop may interrupt: fill the caches, get the lease, lead."""
        await self.home.wait_settled()
        if self._leadership is None:
            await self._lead()
        else:
            await self._leadership.run(self._lead)

    async def _lead(self) -> None:
        self._leads = True
        for obj in self.home.unreadable():
            self._announce(obj)
        try:
            async with self._running_controllers():
                await self._stopping.wait()
        finally:
            self._leads = False

    @asynccontextmanager
    async def _running_controllers(self) -> AsyncIterator[None]:
        async with background() as controllers:
            running = [
                controllers.start(self.border.keep(each.name, each.name, each.run), each.name)
                for each in self._controllers
            ]
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
