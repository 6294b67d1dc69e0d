"""The domain controllers in the test's own process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import controllers, ingress
from stellwerk.operators.cap.domain.plan import DomainSettings
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing.scenarios.harness import OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock

OPERATOR = "cap-operator"
"""The user that the controllers are, with their rights and nothing more."""


@dataclass
class RunningDomains(OperatorHarness):
    """Starts and stops the controllers."""

    namespace: str
    """The operator's own."""
    clock: SkippingClock = field(default_factory=SkippingClock)
    """A test may skip what the controllers wait for."""
    _domains: Sequence[Controller[Any, Any]] = field(default=(), init=False)

    async def start(self, **settings: Any) -> None:
        """Start, and return when they lead with full caches."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig),
            field_manager=names.OPERATOR_NAME,
            user_agent=names.OPERATOR_NAME,
            on_request=self.saboteur.requested,
        )
        manager = self._begin(client, component="cap-controller.sme.sap.com", grace_seconds=6.0, clock=self.clock)
        renderer = Renderer()
        manager.add_server("renderer", Closing(renderer.close))
        self._domains = controllers.install(
            manager,
            DomainSettings(namespace=self.namespace, **{"ingress_namespaces": (ingress.ALL,), **settings}),
            renderer=renderer,
            counts=CapMetrics(manager.metrics, detailed=False),
            recorder=self.recorder,
        )
        self._start()
        await self.leads()

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """Those of Domains and ClusterDomains."""
        return self._domains
