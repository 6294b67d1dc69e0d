"""What must become true: each method waits on a watch of the real API server, never on the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Pod
from stellwerk.api.events import Event
from stellwerk.kube.types.model import Kind, PartialObjectMetadata, Unstructured, View, metadata_of, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Removed, Synced
from stellwerk.operators.btp.api import OPERAND_POD_SELECTOR
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.objects import ObjectExpectations
from stellwerk.testing.scenarios.status_history import Shown
from tests.cluster.btp.shown import StatusHistory

MODULE = "btpoperator"
DEPLOYMENTS, OPERAND_NAME = unstructured(Deployment.resource), "sap-btp-operator-controller-manager"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Then(ObjectExpectations):
    """What must become true of the cluster."""

    history: StatusHistory

    async def shows(
        self,
        state: str,
        reason: str,
        name: str = MODULE,
        namespace: str = "kyma-system",
        *,
        saying: Sequence[str] = (),
        within: float = PATIENCE_SECONDS,
    ) -> Shown:
        """The CR's latest entry has this state and reason, and its message holds all of `saying`."""

        def latest() -> Shown | None:
            page = self.history.of(name, namespace)
            return page[-1] if page and self.history.has(name, namespace) else None

        def holds() -> bool:
            seen = latest()
            return (
                seen is not None
                and (seen.state, seen.reason) == (state, reason)
                and all(part in seen.message for part in saying)
            )

        await self.history.until(
            holds,
            lambda: (
                f"{namespace}/{name} should show {state}/{reason} saying {list(saying)}; "
                f"it showed {[str(shown) for shown in self.history.of(name, namespace)]}"
            ),
            within,
        )
        seen = latest()
        assert seen is not None
        return seen

    async def has_shown(self, *states: tuple[str, str], name: str = MODULE, namespace: str = "kyma-system") -> None:
        """These states and reasons appeared in this order, others may lie between."""

        def holds() -> bool:
            page = iter([(shown.state, shown.reason) for shown in self.history.of(name, namespace)])
            return all(wanted in page for wanted in states)

        await self.history.until(
            holds,
            lambda: f"{namespace}/{name} should have shown {states}; it showed {self.history.of(name, namespace)}",
            PATIENCE_SECONDS,
        )

    async def is_gone(
        self, name: str = MODULE, namespace: str = "kyma-system", within: float = PATIENCE_SECONDS
    ) -> None:
        """The CR no longer exists."""
        await self.history.until(
            lambda: not self.history.has(name, namespace),
            lambda: f"{namespace}/{name} should be gone; it showed {self.history.of(name, namespace)}",
            within,
        )

    async def exists(self, kind: type[Kind] | View[Unstructured], name: str, namespace: str = "kyma-system") -> None:
        """The object is there now."""
        assert await self.client.find(_metadata(kind), name, namespace) is not None, (
            f"{kind} {namespace}/{name} should exist"
        )

    async def absent(self, kind: type[Kind] | View[Unstructured], name: str, namespace: str = "kyma-system") -> None:
        """The object is not there now."""
        assert await self.client.find(_metadata(kind), name, namespace) is None, (
            f"{kind} {namespace}/{name} should be absent"
        )

    async def becomes(
        self,
        target: View[Unstructured],
        name: str,
        holds: Callable[[Unstructured | None], bool],
        what: str,
        namespace: str = "kyma-system",
        within: float = PATIENCE_SECONDS,
    ) -> Unstructured | None:
        """As `ObjectExpectations.becomes`, in the module's namespace."""
        return await ObjectExpectations.becomes(self, target, name, holds, what, namespace, within)

    async def disappears(self, target: View[Unstructured], name: str, namespace: str = "kyma-system") -> None:
        """Wait until the object does not exist."""
        await self.becomes(target, name, lambda seen: seen is None, "disappear", namespace)

    async def service_instance_survives(self, name: str, namespace: str = "default") -> None:
        """The user's instance is there and nobody has asked for its end."""
        seen = await self.client.get(ServiceInstance, name, namespace)
        assert not seen.metadata.is_terminating

    async def service_binding_survives(self, name: str, namespace: str = "default") -> None:
        """The user's binding is there and nobody has asked for its end."""
        seen = await self.client.get(ServiceBinding, name, namespace)
        assert not seen.metadata.is_terminating

    async def event(
        self, reason: str, *, saying: Sequence[str] = (), namespace: str = "kyma-system", type_: str = ""
    ) -> None:
        """An Event with this reason comes, whose note holds all of `saying`; and of this type, where one is named."""

        async def came() -> bool:
            found = [one for one in await self.events(reason, namespace) if all(part in one.note for part in saying)]
            return any(type_ in ("", one.type) for one in found)

        await eventually(came, within=PATIENCE_SECONDS, describe=f"an Event {reason} {type_} saying {list(saying)}")

    async def events(self, reason: str, namespace: str = "kyma-system") -> list[Event]:
        """As `ObjectExpectations.events`, in the module's namespace."""
        return await ObjectExpectations.events(self, reason, namespace)

    async def operand_has_rolled(self) -> Unstructured:
        """The Deployment is as its last change wants it, and Kubernetes has nothing more to say about it."""

        def has_rolled(seen: Unstructured | None) -> bool:
            if seen is None or seen.at("status", "observedGeneration") != seen.metadata.generation:
                return False  # what its status says is of a former change
            counts = {seen.at("status", key) for key in ("replicas", "updatedReplicas", "availableReplicas")}
            return counts == {1} and "NewReplicaSetAvailable" in str(seen.at("status", "conditions"))

        rolled = await self.becomes(DEPLOYMENTS, OPERAND_NAME, has_rolled, "have rolled to its end")
        assert rolled is not None
        return rolled

    async def operand_pods_are_others_than(self, before: set[str]) -> None:
        """None of the operand's former pods is left."""
        pods = Watcher(self.client, Pod, "kyma-system", labels=OPERAND_POD_SELECTOR, clock=SystemClock())
        left = set(before)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async for change in pods.changes():
                    match change:
                        case Synced(objects=objects):
                            left &= {pod.metadata.uid for pod in objects}
                        case Removed(obj=pod):
                            left.discard(pod.metadata.uid)
                    if not left:
                        return
        except TimeoutError:
            raise AssertionError(f"the operand's pods {left} should have been replaced") from None


def _metadata(kind: type[Kind] | View[Unstructured]) -> View[PartialObjectMetadata]:
    return metadata_of(kind.resource)
