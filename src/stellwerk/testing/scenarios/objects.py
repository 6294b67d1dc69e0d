"""What users and other controllers do to objects, and what must become true of objects, on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from stellwerk.api.core import Namespace
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, View, metadata_of, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually

PATIENCE_SECONDS = 60.0

_ADMISSION = ("admissionregistration.k8s.io", "v1")
_POLICIES = unstructured(Resource(*_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False))
_POLICY_BINDINGS = unstructured(
    Resource(*_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False)
)


@dataclass(frozen=True, slots=True)
class ObjectActions:
    """Acts on objects as a cluster administrator with kubectl would. Without a `namespace`, in the test's own."""

    client: Client
    namespace: str
    made_namespaces: list[str] = field(default_factory=list)
    """Namespaces that the test made besides."""

    async def replace(self, kind: type[Kind], body: JsonObject) -> None:
        """The object exactly as given: created, or put in the place of the one that exists."""
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
        if await self.client.find(kind, name, namespace) is None:
            await self.client.create(kind, body)
        else:
            await self.client.update(kind, body)

    async def labels_on(self, kind: type[Kind], name: str, namespace: str = "", **labels: str) -> None:
        """Labels set by another client."""
        await self._patch(kind, name, namespace, {"metadata": {"labels": dict(labels)}})

    async def annotations_on(self, kind: type[Kind], name: str, namespace: str = "", **annotations: str) -> None:
        """Annotations set by another client."""
        await self._patch(kind, name, namespace, {"metadata": {"annotations": dict(annotations)}})

    async def no_annotation_on(self, kind: type[Kind], name: str, annotation: str) -> None:
        """An annotation removed by another client."""
        await self._patch(kind, name, "", {"metadata": {"annotations": {annotation: None}}})

    async def data_on(self, kind: type[Kind], name: str, namespace: str = "", **data: str) -> None:
        """Data edited by another client."""
        await self._patch(kind, name, namespace, {"data": dict(data)})

    async def a_namespace(self, name: str) -> str:
        """A namespace that exists."""
        await self.client.apply(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.made_namespaces.append(name)
        return name

    @asynccontextmanager
    async def changes_are_refused(self, target: Resource, name: str, namespace: str) -> AsyncIterator[None]:
        """No client can update one object in this context, not even its finalizers."""
        rule: JsonObject = {
            "apiGroups": [target.group],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": [target.plural],
        }
        policy: JsonObject = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "refused by the test"}],
        }
        binding: JsonObject = {"policyName": "refused", "validationActions": ["Deny"]}
        await self.client.apply(_POLICIES, {"metadata": {"name": "refused"}, "spec": policy})
        await self.client.apply(_POLICY_BINDINGS, {"metadata": {"name": "refused"}, "spec": binding})

        async def is_refused() -> bool:
            patch = MergePatch({"metadata": {"annotations": {"probe": "yes"}}})
            try:
                await self.client.patch(metadata_of(target), name, namespace, patch, dry_run=True)
            except ApiError as error:  # before the policy is in force everywhere, the server may refuse otherwise
                return "refused by the test" in str(error)
            return False

        try:
            await eventually(is_refused, describe="the API server refuses the change")
            yield
        finally:
            await self.client.delete(_POLICY_BINDINGS, "refused")
            await self.client.delete(_POLICIES, "refused")

    async def _patch(self, kind: type[Kind], name: str, namespace: str, content: JsonObject) -> None:
        await self.client.patch(metadata_of(kind), name, namespace or self.namespace, MergePatch(content))


@dataclass(frozen=True, slots=True)
class ObjectExpectations:
    """What must become true of objects. Without a `namespace`, of those in the test's own."""

    client: Client

    async def becomes(
        self,
        target: View[Unstructured],
        name: str,
        holds: Callable[[Unstructured | None], bool],
        what: str,
        namespace: str,
        within: float = PATIENCE_SECONDS,
    ) -> Unstructured | None:
        """Wait, on a watch of that one object, until it satisfies a condition (None: it does not exist)."""
        seen: Unstructured | None = None
        watcher = Watcher(
            self.client,
            target,
            namespace if target.resource.namespaced else "",
            fields=f"metadata.name={name}",
            clock=SystemClock(),
        )
        try:
            async with asyncio.timeout(within):
                async for change in watcher.changes():
                    match change:
                        case Synced(objects=objects):
                            seen = next(iter(objects), None)
                        case Changed(obj=obj):
                            seen = obj
                        case Removed():
                            seen = None
                        case _:
                            continue
                    if holds(seen):
                        return seen
        except TimeoutError:
            raise AssertionError(f"{target.resource.kind} {namespace}/{name} should {what}; it is {seen}") from None
        raise AssertionError("the watch ended")

    async def events(self, reason: str, namespace: str) -> list[Event]:
        """The Events with this reason that exist now."""
        return [event for event in (await self.client.list(Event, namespace)).items if event.reason == reason]
