"""The short way to an operator of one kind: a class with one method, and `run`.

Everything here is made of the engine's parts (`Manager`, `Controller`, `Children`), which are used one by one where an
operator outgrows it: several kinds, several clusters, indices, servers of its own.
"""

from __future__ import annotations

import asyncio
import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from stellwerk.apply.set.model.confirmation import Live
from stellwerk.delivery.children import KEEPER_LABEL, Children, owners
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, unstructured
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.runtime import conditions
from stellwerk.runtime.access.permission_check import Rights
from stellwerk.runtime.control import status_writer as statuses
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process import process
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, ReconcileError, SimpleReconciler
from stellwerk.runtime.settings.process_settings import ProcessSettings

K = TypeVar("K", bound=Kind)

READY = "Ready"
ON_A_DESK = ProcessSettings(
    metrics_bind_address="0", health_probe_bind_address="0", zap_encoder="", zap_time_encoding="iso8601"
)
"""How a program on a desk runs: no ports, no lease, and log lines for the eye where there is a terminal."""


class ReadyStatus(Record, frozen=True, kw_only=True):
    """A status with the condition Ready. A subclass adds further fields."""

    observed_generation: int = 0
    """The generation of the spec that this status is about; an older one means: not looked at yet."""
    conditions: tuple[Condition, ...] = ()


class Operator(SimpleReconciler[K, ReadyStatus], Generic[K]):
    """Base of an operator of one kind. Its `reconcile` is all that a subclass has to write."""

    def __init__(self, manager: Manager, kind: type[K], *, owns: Iterable[type[Kind]] = (), name: str = "") -> None:
        """`owns`: the kinds of the children that it keeps. `name`: who it is to the cluster; else its class's name."""
        self.name = name or type(self).__name__.lower()
        self.kind = kind
        self.client = manager.client.with_field_manager(self.name)
        self.clock = manager.clock
        self._controller: Controller[K, ReadyStatus] | None = None
        self.children: Mapping[Resource, Children] = {
            child.resource: self._keeping(manager, child.resource) for child in owns
        }

    @abstractmethod
    async def reconcile(self, obj: K) -> Next[ReadyStatus]:
        """Bring one object one step closer to its spec. Raises ReconcileError for failures the user should read."""

    def report(self, obj: K, failure: ReconcileError) -> ReadyStatus | None:
        """The status that reports a failure: not ready, for its reason."""
        return self._status(obj, "False", failure.reason, str(failure), _shown(obj))

    async def forget(self, key: ObjectKey) -> None:
        """The object is gone. For subclasses that remember something; children go by themselves."""

    def wake(self, key: ObjectKey) -> None:
        """Look at an object again: something that no watch of the operator shows has changed."""
        if self._controller is not None:
            self._controller.queue.add(key)

    async def keep(self, kind: type[Kind], owner: K, content: JsonObject, *, name: str = "") -> Live:
        """Have a child of `owner`: written where it is not as wanted, left alone where it is. See `Children.keep`."""
        return await self.children[kind.resource].keep(owner, content, name=name)

    def ready(self, obj: K, reason: str, message: str = "", *, showing: ReadyStatus | None = None) -> Next[ReadyStatus]:
        """The object is as it asks to be. `showing`: what a status of one's own shows besides."""
        return Next.done(self._status(obj, "True", reason, message, showing or _shown(obj)))

    def waiting(
        self, obj: K, reason: str, message: str, *, seconds: float | None = None, showing: ReadyStatus | None = None
    ) -> Next[ReadyStatus]:
        """It is on its way: looked at again at a change, or after so many seconds where no watch shows it."""
        return Next(self._status(obj, "False", reason, message, showing or _shown(obj)), seconds)

    def install(self, manager: Manager, *, recorder: EventSink | None = None, workers: int = 1) -> None:
        """Give the operator to a manager."""
        controller = Controller(
            self.name,
            manager.informer(self.kind, required=True),
            self,
            write_status=StatusWriter(client=self.client, clock=self.clock),
            workers=workers,
            recorder=recorder,
            metrics=manager.metrics,
            clock=self.clock,
        )
        self._controller = controller
        for children in self.children.values():
            controller.watches(children.informer, owners(self.kind.resource))
        manager.add_controller(controller)

    def _keeping(self, manager: Manager, resource: Resource) -> Children:
        informer = manager.informer(unstructured(resource), labels=f"{KEEPER_LABEL}={self.name}")
        return Children(self.client, informer, keeper=self.name, clock=self.clock, metrics=manager.metrics)

    def _status(self, obj: K, status: str, reason: str, message: str, showing: ReadyStatus) -> ReadyStatus:
        generation = obj.metadata.generation
        ready = Condition(type=READY, status=status, reason=reason, message=message, observed_generation=generation)
        settled = conditions.set_condition(_shown(obj).conditions, ready, self.clock.now())
        return msgspec.structs.replace(showing, observed_generation=generation, conditions=settled)


def run(
    operator: type[Operator[K]],
    kind: type[K],
    *,
    owns: Iterable[type[Kind]] = (),
    workers: int = 1,
    settings: ProcessSettings = ON_A_DESK,
    rights: Rights | None = None,
) -> None:
    """Run an operator until SIGTERM or SIGINT, on the cluster of the kubeconfig or of the pod.

    `settings` open its metrics and probes and have it wait for a lease, named like the operator. `rights` are asked
    about at the start, and missing ones are logged. Raises LoginFailed; LeadershipLost when another process may
    lead.
    """
    name = operator.__name__.lower()

    def install(parts: process.Parts) -> None:
        made = operator(parts.manager, kind, owns=owns, name=name)
        made.install(parts.manager, recorder=parts.recorder, workers=workers)

    process.configure_logs(settings, tty=sys.stderr.isatty())
    identity = process.OperatorIdentity(component=name, lease=name, rights=rights or Rights())
    asyncio.run(process.run(settings, identity, install))


def _shown(obj: Kind) -> ReadyStatus:
    status = statuses.status_of(obj)
    return status if isinstance(status, ReadyStatus) else ReadyStatus()
