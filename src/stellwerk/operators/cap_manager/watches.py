"""What the manager watches besides CAPOperators and their objects, and when it looks at CAPOperators again.

Nothing is polled: the domain of the cluster, the pods and load balancers of the ingress gateway, and the kinds that the
cluster serves arrive as events. The pods are watched for the labels that a CAPOperator names, from its first pass on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Pod, Service
from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, metadata_of
from stellwerk.operators.cap_manager.api import OWNER_ID, CAPOperator
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.process.manager import Manager

T = TypeVar("T", bound=HasMetadata)

SHOOT_INFO = ObjectKey("kube-system", "shoot-info")
"""The ConfigMap in which Gardener writes facts about a cluster."""
ISTIO_SYSTEM = "istio-system"
PODS_THAT_RUN = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of the pods that a gateway may have."""
PATIENCE_SECONDS = 30.0
"""How long a pass waits for the first list of a new watch."""


class NotWatched(Exception):
    """A kind cannot be watched; the message has the reason."""


@dataclass(slots=True)
class Watches:
    """The informers of the manager."""

    manager: Manager
    capoperators: Informer[CAPOperator]
    shoot_info: Informer[ConfigMap]
    definitions: Informer[PartialObjectMetadata]
    apis: ServedApis
    controllers: list[Controller[CAPOperator, Any]] = field(default_factory=list)
    """The one controller, as soon as there is one."""
    _pods: Informer[PartialObjectMetadata] | None = None
    """Those of the gateway that was asked for last: a cluster has one CAPOperator, and its labels may change."""
    _services: Informer[Service] | None = None

    async def cluster_domain(self) -> str:
        """The domain of the cluster; empty where the ConfigMap does not have it. Raises NotWatched."""
        await _settled(self.shoot_info)
        found = self.shoot_info.store.get(SHOOT_INFO)
        return found.data.get("domain", "").strip() if found is not None else ""

    async def gateway(self, selector: str) -> tuple[Sequence[PartialObjectMetadata], Sequence[Service]]:
        """The pods with these labels that run, in all namespaces, and the Services of Istio. Raises NotWatched."""
        pods = self._pods
        if pods is None or pods.selection.labels != selector:
            if pods is not None:
                self.manager.release(pods)
            pods = self._pods = self.manager.informer(metadata_of(Pod), labels=selector, fields=PODS_THAT_RUN)
            pods.on_change(self._on_pod)
        if self._services is None:
            self._services = self.manager.informer(Service, namespace=ISTIO_SYSTEM)
            self._services.on_change(lambda _: self.wake_all())
        await _settled(pods)
        await _settled(self._services)
        return pods.store.all(), self._services.store.all()

    def wake_all(self) -> None:
        """Have all CAPOperators looked at."""
        for controller in self.controllers:
            for obj in self.capoperators.store.all():
                controller.queue.add(obj.key)

    def __post_init__(self) -> None:
        self.capoperators.on_change(self._on_capoperator)
        self.shoot_info.on_change(lambda _: self.wake_all())
        self.definitions.on_change(self._on_definition)

    def _on_capoperator(self, delta: Delta[CAPOperator]) -> None:
        """One came or went: others may be the only one now, or no longer."""
        if delta.old is None or delta.new is None:
            self.wake_all()

    def _on_definition(self, delta: Delta[PartialObjectMetadata]) -> None:
        """The chart asks which kinds the cluster serves. The kinds that it brings itself do not count.

        An update may bring another version of a kind.
        """
        old, new = delta.old, delta.new
        is_news = old is None or new is None or old.metadata.generation != new.metadata.generation
        if is_news and OWNER_ID not in delta.latest.metadata.labels:
            self.apis.changed()
            self.wake_all()

    def _on_pod(self, delta: Delta[PartialObjectMetadata]) -> None:
        """Pods of the gateway came or went. Nothing else of a pod concerns a CAPOperator, except its labels."""
        old, new = delta.old, delta.new
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self.wake_all()


def watches(manager: Manager, apis: ServedApis) -> Watches:
    """The watches that are open from the start."""
    return Watches(
        manager,
        manager.informer(CAPOperator, required=True),
        manager.informer(ConfigMap, namespace=SHOOT_INFO.namespace, fields=f"metadata.name={SHOOT_INFO.name}"),
        manager.informer(metadata_of(CustomResourceDefinition)),
        apis,
    )


async def _settled(informer: Informer[T]) -> None:
    """Return when the cache is full. Raises NotWatched."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_settled()
    except TimeoutError:
        raise NotWatched(f"{informer.view.resource.plural} are not listed by the API server") from None
    if informer.parked is not None:
        raise NotWatched(f"{informer.view.resource.plural} cannot be watched: {informer.parked.why}")
