"""A kind for tests of the engine: a lamp that is asked to be lit and shows whether it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AlreadyExists, NotServed, Unexplained
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, unstructured
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.reconciler import Next, ReconcileError, SimpleReconciler
from stellwerk.testing.eventually import Signal

GROUP = "engine.test"
CRD = unstructured(
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
)


class LampSpec(Record, frozen=True, kw_only=True):
    lit: bool = False


class LampStatus(Record, frozen=True, kw_only=True):
    shines: bool | None = None
    conditions: tuple[Condition, ...] = ()


class Lamp(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1", "Lamp", "lamps", namespaced=True)

    spec: LampSpec = LampSpec()
    status: LampStatus | None = None


def definition(plural: str = "lamps", kind: str = "Lamp", group: str = GROUP) -> JsonObject:
    """The CustomResourceDefinition of lamps, or of a kind just like them."""
    free: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    status: JsonObject = {**free, "properties": {"shines": {"type": "boolean"}}}
    schema: JsonObject = {"type": "object", "properties": {"spec": free, "status": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


async def install(client: Client) -> None:
    """Have the API server serve lamps."""
    with contextlib.suppress(AlreadyExists):  # another test process was first
        await client.create(CRD, definition())
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(Lamp, "default", limit=1)
            except (NotServed, Unexplained):
                await asyncio.sleep(0.05)  # the API server says nowhere that it has begun to serve a kind
            else:
                return


def lamp(name: str, namespace: str, *, lit: bool = True, **metadata: object) -> JsonObject:
    """A lamp to be created."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lamp",
        "metadata": {"name": name, "namespace": namespace, **metadata},  # type: ignore[dict-item]
        "spec": {"lit": lit},
    }


def shining(obj: Lamp, shines: bool = True, reason: str = "Switched", message: str = "") -> LampStatus:
    """The status of a lamp that was looked at."""
    held = obj.status.conditions if obj.status is not None else ()
    ready = Condition(type="Ready", status="True" if shines else "False", reason=reason, message=message)
    return LampStatus(shines=shines, conditions=conditions.set_condition(held, ready, SystemClock().now()))


async def switch(obj: Lamp) -> Next[LampStatus]:
    """The plainest pass: the status shows what the spec asks for."""
    return Next.done(shining(obj, obj.spec.lit))


@dataclass
class Electrician(SimpleReconciler[Lamp, LampStatus]):
    """A reconciler that does what the test says and writes down what it was asked."""

    work: Callable[[Lamp], Awaitable[Next[LampStatus]]] = switch
    seen: list[Lamp] = field(default_factory=list)
    forgotten: list[ObjectKey] = field(default_factory=list)
    rang: Signal = field(default_factory=Signal)

    async def reconcile(self, obj: Lamp) -> Next[LampStatus]:
        self.seen.append(obj)
        try:
            return await self.work(obj)
        finally:
            self.rang.ring()

    def report(self, obj: Lamp, failure: ReconcileError) -> LampStatus | None:
        return shining(obj, False, failure.reason, str(failure))

    async def forget(self, key: ObjectKey) -> None:
        self.forgotten.append(key)
        self.rang.ring()

    def names(self) -> list[str]:
        return [obj.metadata.name for obj in self.seen]

    def of(self, name: str) -> list[Lamp]:
        return [obj for obj in self.seen if obj.metadata.name == name]
