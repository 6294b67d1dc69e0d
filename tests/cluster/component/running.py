"""The Component operator in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

from tests.cluster.component.hurried import HurriedClock, let_others_run

from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES, LARGEST_FOREIGN_LIST_BYTES, RequestFacts
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import HasMetadata, metadata_of
from stellwerk.kube.watch.watch import SILENCE_SECONDS
from stellwerk.operators.component import controllers
from stellwerk.operators.component.api import CONTROLLER, RECONCILER, Component
from stellwerk.operators.component.controllers import ComponentOperator
from stellwerk.operators.component.settings import Settings
from stellwerk.render.binary import renderer_path
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.eventually import eventually
from stellwerk.testing.surprises import Saboteur

LOOPBACK = Settings(egress_allow_networks=(ip_network("127.0.0.0/8"),), http_repository_interval=timedelta(seconds=1))
"""Tests serve artifacts on loopback, which is refused unless it is named."""


HOME = "default"
"""The operator's own namespace."""


def _elsewhere(config: ClusterConfig, metrics: Metrics, saboteur: Saboteur) -> Client:
    def requested(facts: RequestFacts) -> None:
        metrics.requested(facts.method, facts.host, facts.code)
        saboteur.requested_elsewhere(facts)

    return Client.connect(
        config,
        field_manager=RECONCILER,
        user_agent=RECONCILER,
        on_request=requested,
        largest_answer_bytes=LARGEST_FOREIGN_ANSWER_BYTES,
        largest_list_bytes=LARGEST_FOREIGN_LIST_BYTES,
    )


@dataclass
class Running:
    """Starts and stops the operator. What it waits for, `clock` may skip."""

    kubeconfig: Path
    bounds: Bounds = field(default_factory=Bounds)
    """What one rendering may take."""
    clock: HurriedClock = field(default_factory=HurriedClock)
    grace_seconds: float = 6.0
    """How long passes under way may take when it stops."""
    silence_seconds: float = SILENCE_SECONDS
    """After how much silence a watch is given up; of real time, as sockets know no other."""
    namespace: str = HOME
    """The operator's own."""
    saboteur: Saboteur = field(default_factory=Saboteur)
    """Raises an unexpected exception where a test says so."""
    _task: asyncio.Task[None] | None = None
    _parts: tuple[Manager, ComponentOperator] | None = None
    _recorder: EventRecorder | None = None
    _closing: list[Callable[[], object]] = field(default_factory=list)

    async def start(self, settings: Settings = LOOPBACK, **changes: object) -> None:
        """Start, and return when it leads and its caches are full."""
        chosen = replace(settings, **changes)  # type: ignore[arg-type]
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig),
            field_manager=RECONCILER,
            user_agent=RECONCILER,
            on_request=self.saboteur.requested,
        )
        self._recorder = recorder = EventRecorder(client, clock=self.clock, component=RECONCILER, instance="test")
        manager = Manager(
            client,
            clock=self.clock,
            grace_seconds=self.grace_seconds,
            silence_seconds=self.silence_seconds,
            recorder=recorder,
        )
        manager.add_server("events", recorder)
        saboteur = self.saboteur
        downloads = saboteur.around(Downloads(shelf=controllers.shelf(chosen, manager.metrics)), "fetch", "head")
        renderer = saboteur.around(Renderer(renderer_path, bounds=self.bounds), "render")
        self._closing = [client.close, downloads.close, renderer.close]
        running = controllers.install(
            manager,
            chosen,
            renderer=renderer,
            downloads=downloads,
            connect=lambda config: _elsewhere(config, manager.metrics, saboteur),
            recorder=recorder,
            namespace=self.namespace,
        )
        self._parts = (manager, running)
        self._task = asyncio.create_task(manager.run(), name="operator")
        await eventually(self._leads, describe="the operator leads, with full caches")

    async def stop(self) -> None:
        """Stop in order; raises what the operator raised."""
        if self._parts is None or self._task is None:
            return
        self._parts[0].stop()
        await self._task
        for close in reversed(self._closing):
            await close()  # type: ignore[misc]
        self._parts = self._task = None

    @property
    def ended(self) -> bool:
        """Whether the operator has ended, by itself or not."""
        return self._task is None or self._task.done()

    @property
    def operator(self) -> ComponentOperator:
        """The running operator."""
        assert self._parts is not None
        return self._parts[1]

    @property
    def manager(self) -> Manager:
        """What runs it."""
        assert self._parts is not None
        return self._parts[0]

    async def rests(self) -> None:
        """Return when there is nothing to do until a change or the clock."""
        await eventually(self._is_at_rest, describe="the controller rests")

    def _is_at_rest(self) -> bool:
        queue = self.operator.controller.queue
        return not len(queue) and not queue.running

    async def has_told(self) -> None:
        """Return when there is nothing to do, and every Event of what was done has been written.

        When it stops, what is left is written for two seconds only.
        """
        await self.rests()
        recorder = self._recorder
        assert recorder is not None
        await eventually(lambda: not recorder.waiting, describe="all Events are written")

    async def has_seen_all(self, client: Client) -> None:
        """Return when its caches show each object as the API server does, and there is nothing to do about that.

        Only then does it mean something that nothing came of a change. An object that is new to a cache is not waited
        for.
        """
        for cache in self.manager.home.informers:
            if cache.has_synced:
                await eventually(lambda cache=cache: _shows_what_is_there(cache, client))  # type: ignore[misc]
        await self.rests()

    async def has_seen(self, *components: Component) -> None:
        """Return when its cache shows these Components, or later ones: whom they concern has been woken."""
        cache = self.operator.watches.components
        for one in components:
            await cache.wait_for(one.key, one.metadata.resource_version, 30)

    async def waits(self, **duration: float) -> None:
        """Let time pass, as `waits(minutes=5)`. Only when the controller rests: no pass measures a span across it.

        It rests still after a few turns in which others lie down and changes arrive: a pass that has worked out before
        the jump how long to wait, and begins to wait after it, would wait for all that time anew.
        """
        await self.rests()
        await let_others_run()
        while not self._is_at_rest():
            await self.rests()
            await let_others_run()
        await self.clock.jump(**duration)

    async def tries_until(self, outcome: Callable[[], Awaitable[object]], **duration: float) -> None:
        """Let time pass, and pass again, until a try has this outcome (one that is not there is an AssertionError).

        Parts of the API server hear of a change a moment after it was answered; one try could come before them.
        """

        async def came() -> bool:
            await self.waits(**duration)
            await outcome()
            return True

        await eventually(came, within=60, describe="a later try has the outcome")

    @property
    def passes(self) -> float:
        """How many passes there have been on all Components."""
        samples = (sample for family in self.manager.metrics.registry.collect() for sample in family.samples)
        return sum(
            sample.value
            for sample in samples
            if sample.name == "controller_runtime_reconcile_total" and sample.labels["controller"] == CONTROLLER
        )

    async def passed(self, before: float, within: float = 30.0) -> None:
        """Return after at least one more pass than `before`."""
        await eventually(lambda: self.passes > before, within=within, describe=f"a pass after the {before:g}th")

    async def looks_again(self, *, not_within: float, within: float) -> None:
        """There is no pass in the one number of seconds from now, and there is one in the other.

        Real time passes besides what is skipped: between the two lies as much as a busy machine may lose.
        """
        await self.rests()
        before = self.passes
        await self.waits(seconds=not_within)
        await self.rests()
        assert self.passes == before, "it was looked at too early"
        await self.waits(seconds=within - not_within)
        await self.passed(before)

    def _leads(self) -> bool:
        if self._task is not None and self._task.done():
            self._task.result()
        return self.manager.leads and self.manager.unready() is None


async def _shows_what_is_there(cache: Informer[HasMetadata], client: Client) -> bool:
    listed = (await client.list(metadata_of(cache.view.resource))).items
    there = {one.key: one.metadata.resource_version for one in listed}
    late = {one.key for one in cache.store.all() if there.get(one.key) != one.metadata.resource_version}
    assert not late, f"the cache of {cache.name} is late with {late}"
    return True
