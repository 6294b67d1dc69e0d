"""The Component operator in the test's own process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import (
    LARGEST_FOREIGN_ANSWER_BYTES,
    LARGEST_FOREIGN_LIST_BYTES,
    RequestFacts,
    ServerBounds,
)
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.operators.component import controllers
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.controllers import ComponentOperator
from stellwerk.operators.component.settings import Settings
from stellwerk.render.binary import renderer_path
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import Saboteur
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock, let_others_run

LOOPBACK = Settings(egress_allow_networks=(ip_network("127.0.0.0/8"),), http_repository_interval=timedelta(seconds=1))
"""Tests serve artifacts on loopback, which is refused unless it is named."""


HOME = "default"
"""The operator's own namespace."""


def _elsewhere(config: ClusterConfig, bounds: ServerBounds, metrics: Metrics, saboteur: Saboteur) -> Client:
    def requested(facts: RequestFacts) -> None:
        metrics.requested(facts.method, facts.host, facts.code)
        saboteur.requested_elsewhere(facts)

    return Client.connect(
        config,
        bounds,
        field_manager=RECONCILER,
        user_agent=RECONCILER,
        on_request=requested,
        largest_answer_bytes=LARGEST_FOREIGN_ANSWER_BYTES,
        largest_list_bytes=LARGEST_FOREIGN_LIST_BYTES,
    )


@dataclass
class Running(OperatorHarness):
    """Starts and stops the operator. What it waits for, `clock` may skip."""

    bounds: Bounds = field(default_factory=Bounds)
    """What one rendering may take."""
    clock: SkippingClock = field(default_factory=SkippingClock)
    grace_seconds: float = 6.0
    """How long passes under way may take when it stops."""
    namespace: str = HOME
    """The operator's own."""
    _operator: ComponentOperator | None = None

    async def start(self, settings: Settings = LOOPBACK, **changes: object) -> None:
        """Start, and return when it leads and its caches are full."""
        chosen = replace(settings, **changes)  # type: ignore[arg-type]
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig),
            field_manager=RECONCILER,
            user_agent=RECONCILER,
            on_request=self.saboteur.requested,
        )
        manager = self._begin(client, component=RECONCILER, grace_seconds=self.grace_seconds, clock=self.clock)
        saboteur = self.saboteur
        downloads = saboteur.around(Downloads(shelf=controllers.shelf(chosen, manager.metrics)), "fetch", "head")
        renderer = saboteur.around(Renderer(renderer_path, bounds=self.bounds), "render")
        self._closing += [downloads.close, renderer.close]
        self._operator = controllers.install(
            manager,
            chosen,
            renderer=renderer,
            downloads=downloads,
            connect=lambda config, bounds: _elsewhere(config, bounds, manager.metrics, saboteur),
            recorder=self.recorder,
            namespace=self.namespace,
        )
        self._start()
        await self.leads()

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """The controller of Components."""
        return (self.operator.controller,)

    @property
    def operator(self) -> ComponentOperator:
        """The running operator."""
        assert self._operator is not None
        return self._operator

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
        while self.is_busy:
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
