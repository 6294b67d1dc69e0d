"""What a domain needs around it, and what becomes of it, on the real API server.

The ingress gateway is a pod; what the controllers of Gardener and cert-manager report is written by the test.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Namespace, Pod
from stellwerk.api.events import Event
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, Unstructured, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.testing.eventually import eventually

DNS_TARGET = "lb.example.com"


@dataclass(frozen=True, slots=True)
class Given:
    """Makes facts true."""

    client: Client
    namespace: str
    """Of the domain and its applications."""
    ingress: str
    """Of the ingress gateway."""
    namespaces: list[str] = field(default_factory=list)
    """Further ones, which go with the test."""

    @property
    def selector(self) -> dict[str, str]:
        """The labels of the ingress gateway's pods, which no other test has."""
        return {"istio": "ingressgateway", "test": self.ingress}

    async def a_namespace(self, suffix: str) -> str:
        """Another namespace."""
        name = f"{self.namespace}-{suffix}"
        await self.client.create(Namespace, {"metadata": {"name": name}})
        self.namespaces.append(name)
        return name

    async def a_gateway_pod(self, namespace: str = "", name: str = "gateway") -> None:
        """A pod of the ingress gateway."""
        body: JsonObject = {
            "metadata": {"name": name, "namespace": namespace or self.ingress, "labels": {**self.selector}},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [{"name": "proxy", "image": "example.com/proxy:1"}],
            },
        }
        await self.client.create(Pod, body)

    async def a_domain(self, host: str, name: str = "primary", *, namespace: str = "", **spec: JsonValue) -> Domain:
        """A Domain of the test's namespace or another, whose DNS target is its own unless it is given."""
        metadata: JsonObject = {"name": name, "namespace": namespace or self.namespace}
        return await self.client.create(Domain, self._domain(Domain, host, spec, metadata))

    async def a_cluster_domain(self, host: str, name: str = "", **spec: JsonValue) -> ClusterDomain:
        """A ClusterDomain; without a name it has that of the test's namespace."""
        body = self._domain(ClusterDomain, host, spec, {"name": name or self.namespace})
        return await self.client.create(ClusterDomain, body)

    async def granted(self, namespace: str, suffixes: str) -> None:
        """An administrator decides which hosts the Domains of a namespace have."""
        annotations: JsonObject = {names.DOMAIN_SUFFIXES_ANNOTATION: suffixes}
        await self.client.patch(
            metadata_of(Namespace), namespace, "", MergePatch({"metadata": {"annotations": annotations}})
        )

    async def reports(self, domain: AnyDomain, status: JsonObject) -> None:
        """What a former operator has written into the status of a domain."""
        await self._report(domain.resource, domain.metadata.name, domain.metadata.namespace, status)

    async def changed(self, obj: AnyDomain, /, **spec: JsonValue) -> None:
        """A change of the spec by a user."""
        await self.patched(obj, {"spec": {**spec}})

    async def patched(self, obj: Kind, content: JsonObject) -> None:
        """A change by a user."""
        await self.client.patch(
            metadata_of(obj.resource), obj.metadata.name, obj.metadata.namespace, MergePatch(content)
        )

    async def deleted(self, obj: Kind) -> None:
        """A deletion by a user."""
        await self.client.delete(metadata_of(obj.resource), obj.metadata.name, obj.metadata.namespace)

    async def an_application(self, *domains: AnyDomain, name: str = "app", namespace: str = "") -> CAPApplication:
        """A CAPApplication that refers to domains. Its own controller does not run."""
        references: list[JsonValue] = [
            {"kind": domain.resource.kind, "name": domain.metadata.name} for domain in domains
        ]
        body: JsonObject = {
            "apiVersion": CAPApplication.resource.api_version,
            "kind": CAPApplication.resource.kind,
            "metadata": {"name": name, "namespace": namespace or self.namespace},
            "spec": {
                "btpAppName": name,
                "providerSubaccountId": "subaccount",
                "btp": {"services": []},
                "domainRefs": references,
            },
        }
        return await self.client.create(CAPApplication, body)

    async def subdomains(self, application: CAPApplication, *subdomains: str) -> None:
        """The subdomains of an application's tenants, as its controller reports them."""
        status: JsonObject = {"state": "Consistent", "observedSubdomains": [*subdomains]}
        await self._report(CAPApplication.resource, application.metadata.name, self.namespace, status)

    async def certificates_are(self, domain: AnyDomain, state: str, message: str = "") -> None:
        """What Gardener reports about the domain's certificates."""
        await self._all_are(domain, GardenerCertificate, {"state": state, "message": message})

    async def dns_entries_are(self, domain: AnyDomain, state: str, message: str = "") -> None:
        """What Gardener reports about the domain's DNS entries."""
        await self._all_are(domain, DnsEntry, {"state": state, "message": message})

    async def issued(self, domain: AnyDomain, status: str = "True", message: str = "") -> None:
        """What cert-manager reports about the domain's certificate."""
        condition: JsonObject = {
            "type": "Ready",
            "status": status,
            "message": message,
            "reason": "Test",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await self._all_are(domain, CertManagerCertificate, {"conditions": [condition]})

    async def is_ready(self, domain: AnyDomain) -> None:
        """A Gardener domain whose certificate is issued and whose DNS entries exist."""

        async def is_so() -> bool:
            await self.certificates_are(domain, "Ready")
            await self.dns_entries_are(domain, "Ready")
            found = await Then(self.client).domain(domain)
            assert found.status is not None
            assert found.status.state == "Ready", found.status
            assert found.status.observed_generation == found.metadata.generation
            return True

        await eventually(is_so, describe=f"{domain.ref} is Ready")

    async def _all_are(self, domain: AnyDomain, kind: type[Kind], status: JsonObject) -> None:
        for obj in await Then(self.client).objects(domain, kind.resource):
            generation = {"observedGeneration": obj.metadata.generation} if kind is not CertManagerCertificate else {}
            with contextlib.suppress(NotFound):  # the operator may have replaced it meanwhile
                await self._report(kind.resource, obj.metadata.name, obj.metadata.namespace, {**status, **generation})

    async def _report(self, resource: Resource, name: str, namespace: str, status: JsonObject) -> None:
        view = unstructured(resource)
        await self.client.patch(view, name, namespace, MergePatch({"status": status}), subresource="status")

    def _domain(self, kind: type[Kind], host: str, spec: dict[str, JsonValue], metadata: JsonObject) -> JsonObject:
        common: JsonObject = {"domain": host, "ingressSelector": {**self.selector}, "dnsTarget": DNS_TARGET}
        resource = kind.resource
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": {key: value for key, value in {**common, **spec}.items() if value != ""},
        }


@contextlib.asynccontextmanager
async def with_gateway(client: Client, home: str) -> AsyncIterator[Given]:
    """The namespaces around a test's own, which go with it; an ingress gateway runs."""
    given = Given(client, home, f"{home}-ingress")
    await given.a_namespace("ingress")
    await given.a_gateway_pod()
    yield given
    for name in given.namespaces:
        await client.delete(metadata_of(Namespace), name)


@dataclass(frozen=True, slots=True)
class Then:
    """Waits for what must become true."""

    client: Client

    async def domain(self, domain: AnyDomain) -> Any:
        """The domain as it is now."""
        return await self.client.get(type(domain), domain.metadata.name, domain.metadata.namespace)

    async def becomes(self, domain: AnyDomain, state: str, reason: str, message: str = "") -> Any:
        """Wait until the domain is in a state, for a reason, with words in the message."""

        async def is_so() -> Any:
            found = await self.domain(domain)
            status = found.status
            assert status is not None, "no status"
            assert status.conditions, "no conditions"
            shown = status.state, status.conditions[0].reason
            assert shown == (state, reason), f"{shown}: {status.conditions[0].message}"
            assert message in status.conditions[0].message
            assert status.observed_generation == found.metadata.generation
            return found

        return await eventually(is_so, describe=f"{domain.ref} is {state}, {reason}")

    async def objects(self, domain: AnyDomain, resource: Resource) -> list[Unstructured]:
        """The domain's objects of a kind in all namespaces."""
        selector = f"{names.OWNER_HASH_LABEL}={naming.owner_hash(domain)}"
        listed = await self.client.list(unstructured(resource), labels=selector)
        return sorted(listed.items, key=lambda obj: obj.key)

    async def count(
        self, domain: AnyDomain, resource: Resource, count: int, *, within: float = 30.0
    ) -> list[Unstructured]:
        """Wait until the domain has so many objects of a kind."""

        async def are_there() -> list[Unstructured]:
            found = await self.objects(domain, resource)
            assert len(found) == count, f"{[str(obj.key) for obj in found]}"
            return found or [Unstructured.of({"metadata": {}})]

        what = f"{domain.ref} has {count} {resource.plural}"
        found = await eventually(are_there, within=within, describe=what)
        return found if count else []

    async def the(self, domain: AnyDomain, resource: Resource, holds: Callable[[Unstructured], bool]) -> Unstructured:
        """Wait until the one object of a kind satisfies a condition."""

        async def is_so() -> Unstructured:
            (found,) = await self.count(domain, resource, 1)
            assert holds(found), f"{found.body}"
            return found

        return await eventually(is_so, describe=f"the {resource.kind} of {domain.ref}")

    async def gone(self, domain: AnyDomain) -> None:
        """Wait until the domain does not exist."""

        async def is_gone() -> bool:
            return await self.client.find(type(domain), domain.metadata.name, domain.metadata.namespace) is None

        await eventually(is_gone, describe=f"{domain.ref} is gone")

    async def event(self, obj: Kind, reason: str, words: str = "") -> Event:
        """Wait for an Event about an object."""

        async def is_there() -> Event:
            namespace = obj.metadata.namespace or "default"
            found = [
                event
                for event in (await self.client.list(Event, namespace)).items
                if event.reason == reason and event.regarding.uid == obj.metadata.uid and words in event.note
            ]
            assert found, f"no Event {reason}"
            return found[0]

        return await eventually(is_there, describe=f"an Event {reason} about {obj.ref}")


def values(objects: Sequence[Unstructured], *path: str) -> list[JsonValue]:
    """A value of each object."""
    return [obj.at(*path) for obj in objects]
