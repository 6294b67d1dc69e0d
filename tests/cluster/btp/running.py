"""The BTP Manager in the test's own process, with the rights of its own service account and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.btp import controllers
from stellwerk.operators.btp.controllers import BtpManager
from stellwerk.operators.btp.credentials.credential_check import TokenService
from stellwerk.operators.btp.settings import TABLE, Settings
from stellwerk.render.worker.renderer import Renderer, RenderFacts
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock
from tests.cluster.btp.modules import Module

IMAGE = "registry.example.com/sap-btp-service-operator:test"
GRACE_SECONDS = 30.0
"""What a pass that is under way may still need on a busy machine, which is longer than what it has in a pod."""


@dataclass
class Running(OperatorHarness):
    """Starts and stops the operator. Tunables are given as the ConfigMap spells them."""

    module: Module
    environment: dict[str, str] = field(default_factory=dict)
    keys: KeyStock = field(default_factory=KeyStock)
    token_server: TokenService | None = None
    """Who says whether credentials are good, in the place of SAP's."""
    clock: SkippingClock = field(default_factory=SkippingClock)
    """The operator's: a test may skip what it waits for."""
    renderings: list[RenderFacts] = field(default_factory=list)
    """What was asked of the renderer so far."""
    _btp: BtpManager | None = field(default=None, init=False)

    async def start(self, image: str = IMAGE, **tunables: str) -> None:
        """Start, and return at once: whoever wants it to lead with full caches waits until it `leads`."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig), user_agent="btp-manager", on_request=self.saboteur.requested
        )
        manager = self._begin(client, component="btp-manager", grace_seconds=GRACE_SECONDS, clock=self.clock)
        self.environment[controllers.IMAGE_VARIABLE] = image
        chosen = self._settings(tunables)
        renderer = Renderer(on_render=self.renderings.append)
        manager.add_server("renderer", Closing(renderer.close))
        self._btp = controllers.install(
            manager,
            chosen,
            self.environment,
            renderer=renderer,
            recorder=self.recorder,
            keys=self.keys,
            token_server=self.token_server,
        )
        self._start()

    async def stop(self) -> None:
        """Stop in order; raises what the operator raised."""
        await super().stop()
        self.keys = KeyStock()  # the operator has closed its stock

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """The controller of BtpOperators."""
        return (self.btp.controller,)

    @property
    def btp(self) -> BtpManager:
        """The running operator."""
        assert self._btp is not None
        return self._btp

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.btp.tunables.settings

    def failures(self, kind: str) -> float:
        """How many unexpected exceptions were counted of this kind of task."""
        return self.sample("stellwerk_task_failures_total", {"kind": kind}) or 0.0

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        for line in self.exposition().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    @property
    def watches_no_users(self) -> bool:
        """Whether the watches of service instances and bindings have ended with their definitions."""
        watches = [informer.parked for informer in self.btp.caches.users.values()]
        return all(parked is not None and "was deleted" in parked.why for parked in watches)

    @property
    def users(self) -> int:
        """How many service instances and bindings its caches show."""
        return sum(len(self.btp.caches.of_users(kind)) for kind in (ServiceInstance, ServiceBinding))

    async def is_idle(self) -> None:
        """Return when the controller has nothing to do and waits for a change or the clock, and all Events are sent."""
        queue, recorder = self.btp.controller.queue, self.recorder
        await eventually(
            lambda: not len(queue) and not queue.running and bool(queue.delayed) and not recorder.waiting,
            describe="the controller rests until a change or the clock",
        )

    async def is_quiet(self) -> None:
        """Return when it leads and its caches are as full as they can be."""
        await self.leads()

    def cached_keys(self) -> set[ObjectKey]:
        """Everything of the module, and what looks like it, that is held in memory."""
        caches = self.btp.caches
        secrets = [secret.key for informer in caches.secrets.sights() for secret in informer.store.all()]
        others = [obj.key for informer in caches.resources.values() for obj in informer.store.all()]
        return {*secrets, *others, *(pod.key for pod in caches.pods.store.all())}

    def wake(self) -> None:
        """Have the CR looked at, as any change would."""
        for obj in self.btp.caches.operators.store.all():
            self.btp.controller.queue.add(obj.key)

    async def has_passed(self, count: int) -> None:
        """Return when there were so many passes, and nothing is under way."""
        await eventually(lambda: self.passes >= count, describe=f"{count} passes")
        await self.is_idle()

    def _settings(self, tunables: dict[str, str]) -> Settings:
        base = Settings(
            resources_path=str(self.module.folder),
            manager_resources_path=str(self.module.manager_resources),
            chart_path=str(self.module.chart),
            rsa_key_bits=1024,  # made in a quarter of the time, and no connection uses them
        )
        effective = TABLE.overridden(base, base, tunables)
        assert not effective.rejections, effective.rejections
        return effective.settings
