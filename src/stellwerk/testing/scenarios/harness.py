"""An operator in the test's own process, and the one way to wait for it.

A test that looks too early, before a watch has shown what the test did, proves nothing. `settled` returns only when the
operator has seen everything and has nothing more to do until a change or the clock.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, metadata_of
from stellwerk.kube.watch.watch import SILENCE_SECONDS
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.control.queue import WorkQueue
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import Saboteur
from stellwerk.testing.eventually import eventually

SETTLED_WITHIN_SECONDS = 60.0
SOON_SECONDS = 2.0
"""Within this time an operator that gathers changes begins a pass over them, so until then it has not settled. It is
longer than gathering usually takes, and too short for an interval that a user sets.
"""


@dataclass
class OperatorHarness(ABC):
    """Starts and stops an operator. A subclass installs it in the manager."""

    kubeconfig: Path
    saboteur: Saboteur = field(default_factory=Saboteur, kw_only=True)
    """Raises an unexpected exception where a test wants one."""
    silence_seconds: float = field(default=SILENCE_SECONDS, kw_only=True)
    """After how much silence a watch is given up; of real time, as sockets know no other."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _manager: Manager | None = field(default=None, init=False)
    _recorder: EventRecorder | None = field(default=None, init=False)
    _closing: list[Callable[[], Awaitable[object]]] = field(default_factory=list, init=False)

    @property
    @abstractmethod
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """The controllers whose passes are waited for."""

    @property
    def manager(self) -> Manager:
        """The manager of the running operator."""
        assert self._manager is not None, "the operator does not run"
        return self._manager

    @property
    def ended(self) -> bool:
        """Whether the operator has ended, by itself or not."""
        return self._task is None or self._task.done()

    async def stop(self) -> None:
        """Stop in order; raises what the operator raised."""
        if self._manager is None or self._task is None:
            return
        self._manager.stop()
        await self._task
        for close in reversed(self._closing):
            await close()
        self._manager = self._task = None

    async def leads(self) -> None:
        """Return when it leads, with caches as full as they can be."""
        await eventually(self._leads, describe="the operator leads, with full caches")

    async def settled(self, client: Client, within: float = SETTLED_WITHIN_SECONDS) -> None:
        """Return when there is nothing more to do until a change or the clock.

        Each synced cache of the operator's own cluster shows what the API server has, new and deleted objects included;
        no key is due and no pass is under way; all Events are sent. `client` asks the API server itself, not through a
        fault proxy. A key that is due later counts as settled, unless changes are gathered for a moment.
        """
        await eventually(lambda: self._is_settled(client), within=within, describe="the operator has settled")

    async def rests(self) -> None:
        """Return when no key is due and no pass is under way. A change that no watch has shown yet does not count."""
        await eventually(lambda: not self.is_busy, describe="the controllers rest")

    async def has_sent_events(self) -> None:
        """Return when it rests, and every Event of what was done has been sent.

        When it stops, what is left is sent for two seconds only.
        """
        await self.rests()
        await eventually(lambda: not self.recorder.waiting, describe="all Events are sent")

    @property
    def is_busy(self) -> bool:
        """Whether a key is due now or, because of a change, soon; or a pass is under way."""
        return any(len(queue) or queue.running or queue.gathering(SOON_SECONDS) for queue in self.queues)

    @property
    def queues(self) -> Sequence[WorkQueue]:
        """What is to be done: the keys of the controllers."""
        return [controller.queue for controller in self.controllers]

    @property
    def passes(self) -> int:
        """How many passes there have been."""
        samples = (sample for family in self.manager.metrics.registry.collect() for sample in family.samples)
        names = {controller.name for controller in self.controllers}
        return int(
            sum(
                sample.value
                for sample in samples
                if sample.name == "controller_runtime_reconcile_total" and sample.labels["controller"] in names
            )
        )

    async def passed(self, before: int, within: float = 30.0) -> None:
        """Return after at least one more pass than `before`."""
        await eventually(lambda: self.passes > before, within=within, describe=f"a pass after the {before}th")

    def sample(self, name: str, labels: dict[str, str]) -> float | None:
        """The value of a metric with these labels; None where there is no such series."""
        return self.manager.metrics.registry.get_sample_value(name, labels)

    def exposition(self) -> str:
        """The metrics, as a scrape shows them."""
        return self.manager.metrics.exposition().decode()

    # ---- for subclasses

    def _begin(self, client: Client, *, component: str, grace_seconds: float, clock: Clock | None = None) -> Manager:
        """A manager and its recorder of Events, not started yet."""
        metrics, clock = Metrics(), clock or SystemClock()
        self._recorder = EventRecorder(client, clock=clock, component=component, instance="test", metrics=metrics)
        self._manager = Manager(
            client,
            clock=clock,
            metrics=metrics,
            grace_seconds=grace_seconds,
            silence_seconds=self.silence_seconds,
            recorder=self._recorder,
        )
        self._manager.add_server("events", self._recorder)
        self._closing = [client.close]
        return self._manager

    @property
    def recorder(self) -> EventRecorder:
        """The recorder of the running operator."""
        assert self._recorder is not None, "the operator does not run"
        return self._recorder

    def _start(self) -> None:
        self._task = asyncio.create_task(self.manager.run(), name="operator")

    def _leads(self) -> bool:
        if self._task is not None and self._task.done():
            self._task.result()
        return self.manager.leads and self.manager.unready() is None

    async def _is_settled(self, client: Client) -> bool:
        self._check_quiet()
        passes = self.passes
        for informer in self.manager.home.informers:
            if informer.has_synced and informer.parked is None:
                late = await _late(informer, client)
                assert not late, f"the cache of {informer.name} does not show {sorted(map(str, late))}"
        self._check_quiet()
        return self.passes == passes

    def _check_quiet(self) -> None:
        assert not self.is_busy, "a key is due, or a pass is under way"
        assert self._recorder is None or not self._recorder.waiting, "Events are being sent"


async def _late(cache: Informer[HasMetadata], client: Client) -> set[ObjectKey]:
    """The objects that a cache shows otherwise than the API server has them now, or not at all."""
    selection = cache.selection
    listed = await client.list(
        metadata_of(cache.view.resource), selection.namespace, labels=selection.labels, fields=selection.fields
    )
    there = {obj.key: obj.metadata.resource_version for obj in listed.items if obj.key not in cache.unreadable}
    shown = {obj.key: obj.metadata.resource_version for obj in cache.store.all() if obj.key not in cache.unreadable}
    return {key for key in there.keys() | shown.keys() if there.get(key) != shown.get(key)}
