"""Why an object of the module is not ready, as its ReplicaSets, pods and their Events show.

Read only when the start takes longer than a normal one, or when the Deployment itself reports that no pod can be
made: the original shows `Initialized` for ever in both cases.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from stellwerk.api.apps import Deployment, ReplicaSet
from stellwerk.api.core import Event, Pod
from stellwerk.apply.readiness.deployment_diagnosis import Surroundings, explain
from stellwerk.apply.set.plan.stage import Unready
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.operators.btp.btpoperator.observe import Observer


@dataclass(frozen=True, slots=True)
class OperandDiagnosis:
    """Finds the first cause behind an object that is not ready."""

    client: Client
    observer: Observer

    def is_obvious(self, unready: Unready) -> bool:
        """Whether waiting does not help: the Deployment itself reports that no pod can be created."""
        deployment = self._deployment(unready)
        return deployment is not None and _cause(deployment, Surroundings()) != ""

    async def why(self, unready: Unready) -> str:
        """The first cause, in one sentence; the object's own message where nothing more is known."""
        deployment = self._deployment(unready)
        if deployment is None:
            return unready.why
        if cause := _cause(deployment, Surroundings()):
            return cause
        return _cause(deployment, await self._surroundings(deployment.metadata.namespace)) or unready.why

    def _deployment(self, unready: Unready) -> Unstructured | None:
        if unready.ref.gvk != Deployment.resource.gvk:
            return None
        return self.observer.caches.resources[Deployment.resource].store.get(unready.ref.key)

    async def _surroundings(self, namespace: str) -> Surroundings:
        """The surrounding objects; nothing where they may not be read, because a diagnosis is not worth a failure."""
        with suppress(ApiError):
            kinds = (ReplicaSet.resource, Pod.resource, Event.resource)
            return Surroundings(*[(await self.client.list(unstructured(kind), namespace)).items for kind in kinds])
        return Surroundings()


def _cause(deployment: Unstructured, around: Surroundings) -> str:
    found = explain(deployment, around)
    return str(found) if found is not None else ""
