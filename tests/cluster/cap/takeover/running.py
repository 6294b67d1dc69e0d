"""The whole CAP Operator in the test's own process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.operators.cap import controllers, names
from stellwerk.operators.cap.controllers import ApplicationControllers
from stellwerk.operators.cap.domain import controllers as domain_controllers
from stellwerk.operators.cap.domain import ingress
from stellwerk.operators.cap.domain.plan import DomainSettings
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.settings import Settings
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import WorkQueue
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing.scenarios.harness import OperatorHarness


@dataclass
class WholeOperator(OperatorHarness):
    """Starts and stops all controllers."""

    settings: dict[str, Any] = field(default_factory=dict)
    dns_target: str = ""
    """Of domains that name none."""
    _domains: Sequence[Controller[Any, Any]] = field(default=(), init=False)
    _applications: ApplicationControllers | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start, and return when it leads with full caches."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig),
            field_manager=names.OPERATOR_NAME,
            user_agent=names.OPERATOR_NAME,
            on_request=self.saboteur.requested,
        )
        manager = self._begin(client, component=names.OPERATOR_NAME, grace_seconds=6.0)
        renderer = Renderer()
        manager.add_server("renderer", Closing(renderer.close))
        counts = CapMetrics(manager.metrics, detailed=False)
        self._domains = domain_controllers.install(
            manager,
            DomainSettings(namespace=NAMESPACE, dns_target=self.dns_target, ingress_namespaces=(ingress.ALL,)),
            renderer=renderer,
            counts=counts,
            recorder=self.recorder,
        )
        self._applications = controllers.install_applications(
            manager, Settings(**self.settings), NAMESPACE, counts=counts, recorder=self.recorder
        )
        self._start()
        await self.leads()

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """All that the operator has."""
        assert self._applications is not None
        cap = self._applications
        return (*self._domains, cap.applications, cap.versions, cap.tenants, cap.operations)

    @property
    def queues(self) -> Sequence[WorkQueue]:
        """Those of the controllers, and what is being loaded."""
        assert self._applications is not None
        return (*super().queues, self._applications.loads.queue)
