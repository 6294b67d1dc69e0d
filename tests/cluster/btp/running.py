"""The BTP Manager in the test's own process, with the rights of its own service account and nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.btp.modules import Module

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.operators.btp import controllers
from stellwerk.operators.btp.api import STANDARD_KEY, BtpOperator
from stellwerk.operators.btp.controllers import BtpManager
from stellwerk.operators.btp.credentials.credential_check import TokenService
from stellwerk.operators.btp.settings import TABLE, Settings
from stellwerk.render.worker.renderer import Renderer, RenderFacts
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing.eventually import eventually
from stellwerk.testing.surprises import Saboteur

IMAGE = "registry.example.com/sap-btp-service-operator:test"
GRACE_SECONDS = 30.0
"""What a pass that is under way may still need on a busy machine, which is longer than what it has in a pod."""


@dataclass
class Running:
    """Starts and stops the operator. Tunables are given as the ConfigMap spells them."""

    kubeconfig: Path
    module: Module
    environment: dict[str, str] = field(default_factory=dict)
    keys: KeyStock = field(default_factory=KeyStock)
    token_server: TokenService | None = None
    """Who says whether credentials are good, in the place of SAP's."""
    renderings: list[RenderFacts] = field(default_factory=list)
    """What was asked of the renderer so far."""
    saboteur: Saboteur = field(default_factory=Saboteur)
    """Raises an unexpected exception where a test says so."""
    _task: asyncio.Task[None] | None = None
    _manager: Manager | None = None
    _client: Client | None = None
    _btp: BtpManager | None = None
    _recorder: EventRecorder | None = None

    async def start(self, image: str = IMAGE, **tunables: str) -> None:
        """Start, and return at once: whoever wants it to lead with full caches waits until it `is_quiet`."""
        self._client = Client.connect(
            ClusterConfig.load(self.kubeconfig), user_agent="btp-manager", on_request=self.saboteur.requested
        )
        self._manager = Manager(self._client, grace_seconds=GRACE_SECONDS)
        recorder = self._recorder = EventRecorder(
            self._client,
            clock=self._manager.clock,
            component="btp-manager",
            instance="test",
            metrics=self._manager.metrics,
        )
        self._manager.add_server("events", recorder)
        self.environment[controllers.IMAGE_VARIABLE] = image
        chosen = self._settings(tunables)
        renderer = Renderer(on_render=self.renderings.append)
        self._manager.add_server("renderer", Closing(renderer.close))
        self._btp = controllers.install(
            self._manager,
            chosen,
            self.environment,
            renderer=renderer,
            recorder=recorder,
            keys=self.keys,
            token_server=self.token_server,
        )
        self._task = asyncio.create_task(self._manager.run(), name="operator")

    async def stop(self) -> None:
        """Stop in order; raises what the operator raised."""
        if self._manager is None or self._task is None or self._client is None:
            return
        self._manager.stop()
        await self._task
        await self._client.close()
        self._manager = self._task = None
        self.keys = KeyStock()  # the operator has closed its stock

    @property
    def ended(self) -> bool:
        """Whether the operator has ended, by itself or not."""
        return self._task is None or self._task.done()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        assert self._btp is not None
        return self._btp.tunables.settings

    def failures(self, kind: str) -> float:
        """How many unexpected exceptions were counted of this kind of task."""
        return self.sample("stellwerk_task_failures_total", {"kind": kind}) or 0.0

    def sample(self, name: str, labels: dict[str, str]) -> float | None:
        """The value of a metric with these labels; None where there is no such series."""
        assert self._manager is not None
        return self._manager.metrics.registry.get_sample_value(name, labels)

    def exposition(self) -> str:
        """What a scrape shows."""
        assert self._manager is not None
        return self._manager.metrics.exposition().decode()

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        for line in self.exposition().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    @property
    def watches_no_users(self) -> bool:
        """Whether the watches of service instances and bindings have ended with their definitions."""
        assert self._btp is not None
        watches = [informer.parked for informer in self._btp.caches.users.values()]
        return all(parked is not None and "was deleted" in parked.why for parked in watches)

    @property
    def users(self) -> int:
        """How many service instances and bindings its caches show."""
        assert self._btp is not None
        return sum(len(self._btp.caches.of_users(kind)) for kind in (ServiceInstance, ServiceBinding))

    @property
    def is_busy(self) -> bool:
        """Whether something is done, or about to be."""
        assert self._btp is not None
        queue = self._btp.controller.queue
        return bool(len(queue) or queue.running)

    async def is_idle(self) -> None:
        """Return when the controller has nothing to do and waits for a change or the clock, and all Events are sent."""
        assert self._btp is not None
        assert self._recorder is not None
        queue, recorder = self._btp.controller.queue, self._recorder
        await eventually(
            lambda: not len(queue) and not queue.running and bool(queue.delayed) and not recorder.waiting,
            describe="the controller rests until a change or the clock",
        )

    async def is_quiet(self) -> None:
        """Return when it leads and its caches are as full as they can be."""
        manager = self._manager
        assert manager is not None
        await eventually(
            lambda: manager.leads and manager.unready() is None, describe="the operator leads, with caches"
        )

    @property
    def passes(self) -> int:
        """How many passes there were so far."""
        assert self._manager is not None
        lines = self._manager.metrics.exposition().decode().splitlines()
        counted = [line for line in lines if line.startswith("controller_runtime_reconcile_total{")]
        return int(sum(float(line.rsplit(" ", 1)[1]) for line in counted))

    async def has_seen_wishes(self, client: Client) -> None:
        """Return when its caches show the CR, the required Secret and the tunables as they are now.

        Whom they concern has been woken then; before, it may only seem to rest.
        """
        assert self._btp is not None
        caches = self._btp.caches
        required = caches.secrets.of(ObjectKey(STANDARD_KEY.namespace, self.settings.secret_name))
        assert required is not None
        wishes: tuple[
            tuple[Informer[BtpOperator] | Informer[PartialObjectMetadata] | Informer[ConfigMap], str], ...
        ] = (
            (caches.operators, STANDARD_KEY.name),
            (required, self.settings.secret_name),
            (caches.tunables, self.settings.config_name),
        )
        for informer, name in wishes:
            found = await client.find(metadata_of(informer.view.resource), name, STANDARD_KEY.namespace)
            if found is not None:
                await informer.wait_for(found.key, found.metadata.resource_version, 30)

    def cached_keys(self) -> set[ObjectKey]:
        """Everything of the module, and what looks like it, that is held in memory."""
        assert self._btp is not None
        caches = self._btp.caches
        secrets = [secret.key for informer in caches.secrets.sights() for secret in informer.store.all()]
        others = [obj.key for informer in caches.resources.values() for obj in informer.store.all()]
        return {*secrets, *others, *(pod.key for pod in caches.pods.store.all())}

    def wake(self) -> None:
        """Have the CR looked at, as any change would."""
        assert self._btp is not None
        for obj in self._btp.caches.operators.store.all():
            self._btp.controller.queue.add(obj.key)

    async def has_passed(self, count: int) -> None:
        """Return when there were so many passes, and nothing is under way."""
        await eventually(lambda: self.passes >= count, describe=f"{count} passes")
        await self.is_idle()

    def _settings(self, tunables: dict[str, str]) -> Settings:
        base = Settings(
            resources_path=str(self.module.folder),
            manager_resources_path=str(self.module.manager_resources),
            chart_path=str(self.module.chart),
            rsa_key_bits=2048,
        )
        effective = TABLE.overridden(base, base, tunables)
        assert not effective.rejections, effective.rejections
        return effective.settings
