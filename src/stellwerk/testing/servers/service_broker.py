"""A stand-in for the SAP BTP service operator: instances become ready, and bindings get a Secret with credentials.

    async with ServiceBroker(client, namespace, credentials={"xsuaa": {"clientid": "id"}}): ...

It behaves as the operator does towards others: it holds its objects by a finalizer, an instance waits for its bindings
when it is deleted, and the Secret describes its keys in `.metadata`. There is no broker behind it: the credentials are
those that the test gives for each service offering.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from types import TracebackType

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, Unstructured, metadata_of, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.runtime.clock import SystemClock

FINALIZER = "services.cloud.sap.com/sap-btp-service-operator"
_METADATA = ("instance_name", "label", "plan", "type")


class ServiceBroker:
    """Serves the instances and bindings of one namespace while the block lasts."""

    def __init__(self, client: Client, namespace: str, credentials: Mapping[str, JsonObject]) -> None:
        self._client = client
        self._namespace = namespace
        self._credentials = credentials
        self._objects: dict[tuple[str, str], Unstructured] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> ServiceBroker:
        self._tasks = [
            asyncio.create_task(self._watch(kind), name=f"broker {kind.resource.plural}")
            for kind in (ServiceInstance, ServiceBinding)
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled() and (failure := task.exception()) is not None and error is None:
                raise failure

    async def _watch(self, kind: type[Kind]) -> None:
        watcher = Watcher(self._client, unstructured(kind.resource), self._namespace, clock=SystemClock())
        async for change in watcher.changes():
            match change:
                case Synced(objects=objects):
                    self._objects |= {_key(obj): obj for obj in objects}
                case Changed(obj=obj):
                    self._objects[_key(obj)] = obj
                case Removed(obj=obj) if isinstance(obj, Unstructured):
                    self._objects.pop(_key(obj), None)
                case _:
                    continue
            for obj in [*self._objects.values()]:
                await self._serve(obj)

    async def _serve(self, obj: Unstructured) -> None:
        try:
            if obj.metadata.is_terminating:
                await self._release(obj)
            elif FINALIZER not in obj.metadata.finalizers:
                await self._patch(obj, {"metadata": {"finalizers": [*obj.metadata.finalizers, FINALIZER]}})
            elif obj.at("status", "ready") != "True" and await self._provide(obj):
                await self._report(obj)
        except NotFound:
            return

    async def _release(self, obj: Unstructured) -> None:
        if FINALIZER not in obj.metadata.finalizers or any(_instance_of(each) == _key(obj) for each in self._bindings):
            return
        kept: list[JsonValue] = [each for each in obj.metadata.finalizers if each != FINALIZER]
        await self._patch(obj, {"metadata": {"finalizers": kept}})

    async def _provide(self, obj: Unstructured) -> bool:
        """Have the Secret of a binding whose instance is ready; an instance needs nothing."""
        if obj.gvk.kind == ServiceInstance.resource.kind:
            return True
        instance = self._objects.get(_instance_of(obj))
        if instance is None or instance.at("status", "ready") != "True":
            return False
        name, owner = str(obj.at("spec", "secretName") or obj.metadata.name), obj.metadata
        reference: JsonObject = {
            "apiVersion": ServiceBinding.resource.api_version,
            "kind": ServiceBinding.resource.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata: JsonObject = {"name": name, "namespace": self._namespace, "ownerReferences": [reference]}
        data = {key: base64.b64encode(value.encode()).decode() for key, value in self._values(obj, instance).items()}
        await self._client.apply(Secret, {"metadata": metadata, "data": {**data}}, force=True)
        return True

    def _values(self, binding: Unstructured, instance: Unstructured) -> Mapping[str, str]:
        """The keys of the Secret: all credentials under one key where the binding names it, else each under its own."""
        offering = str(instance.at("spec", "serviceOfferingName"))
        credentials = self._credentials.get(offering, {})
        of_instance = (instance.metadata.name, offering, str(instance.at("spec", "servicePlanName")), offering)
        described = dict(zip(_METADATA, of_instance, strict=True))
        key = binding.at("spec", "secretKey")
        if isinstance(key, str) and key:
            listed: list[JsonValue] = [{"name": key, "format": "json", "container": True}]
            values = {key: json.dumps(credentials)}
        else:
            listed = [{"name": name, "format": _format(value)} for name, value in credentials.items()]
            values = {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in credentials.items()
            }
        properties: list[JsonValue] = [{"name": name, "format": "text"} for name in _METADATA]
        metadata = {"metaDataProperties": properties, "credentialProperties": listed}
        return {**described, **values, ".metadata": json.dumps(metadata)}

    @property
    def _bindings(self) -> Sequence[Unstructured]:
        return [obj for (kind, _), obj in self._objects.items() if kind == ServiceBinding.resource.kind]

    async def _report(self, obj: Unstructured) -> None:
        conditions: list[JsonValue] = [
            {
                "type": type_,
                "status": "True",
                "reason": "Created",
                "message": "",
                "observedGeneration": obj.metadata.generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_ in ("Succeeded", "Ready")
        ]
        await self._patch(obj, {"status": {"ready": "True", "conditions": conditions}}, subresource="status")

    async def _patch(self, obj: Unstructured, content: JsonObject, *, subresource: str = "") -> None:
        kinds = {kind.resource.kind: kind for kind in (ServiceInstance, ServiceBinding)}
        target = metadata_of(kinds[obj.gvk.kind].resource)
        await self._client.patch(
            target, obj.metadata.name, self._namespace, MergePatch(content), subresource=subresource
        )


def _key(obj: Unstructured) -> tuple[str, str]:
    return obj.gvk.kind, obj.metadata.name


def _instance_of(binding: Unstructured) -> tuple[str, str]:
    return ServiceInstance.resource.kind, str(binding.at("spec", "serviceInstanceName"))


def _format(value: JsonValue) -> str:
    return "text" if isinstance(value, str) else "json"
