"""The bookshop: charts as the CAP tooling generates them, what they are rendered with, and what becomes of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.cap.domain.scenario import Given
from tests.cluster.program import Ended

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Secret, Service
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import DestinationRule, Gateway, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually

FIXTURES = Path(__file__).parents[5] / "shared" / "fixtures" / "cap"
APP, SERVICES_ONLY = "app-chart", "app-chart-services-only"
NAME = "bkshop"

LEFT: tuple[type[Kind], ...] = (
    CAPApplication,
    CAPApplicationVersion,
    CAPTenant,
    CAPTenantOperation,
    Domain,
    ServiceInstance,
    ServiceBinding,
    Deployment,
    Job,
    Service,
    Secret,
    VirtualService,
    DestinationRule,
    Gateway,
    NetworkPolicy,
    GardenerCertificate,
    DnsEntry,
)
"""The kinds of which nothing must be left."""


@dataclass(frozen=True)
class Bookshop:
    """Deploys the bookshop, and waits for what becomes of it."""

    client: Client
    given: Given
    stellwerk: Callable[..., Coroutine[None, None, Ended]]
    """Runs the program in the test's namespace."""
    further_values: Path

    @property
    def namespace(self) -> str:
        """Where it is deployed."""
        return self.given.namespace

    @property
    def host(self) -> str:
        """Its domain, which no other test has."""
        return f"{self.namespace}.example.com"

    @property
    def credentials(self) -> dict[str, JsonObject]:
        """What the services return, by their offering."""
        xsuaa: JsonObject = {
            "clientid": "sb-bkshop",
            "clientsecret": "s3cr3t",
            "xsappname": "bkshop",
            "url": "https://u",
        }
        return {"xsuaa": xsuaa, "saas-registry": {"xsappname": "bkshop"}, "destination": {"uri": "https://d"}}

    def values(self) -> JsonObject:
        """What differs from test to test."""
        labels: JsonObject = {**self.given.selector, "app": None}
        return {"app": {"domains": {"primary": self.host}, "istioIngressGatewayLabels": labels}}

    def files(self, chart: str) -> dict[str, str | bytes]:
        """The files of a chart, by their path in it."""
        folder = FIXTURES / chart
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def all_values(self, chart: str) -> JsonObject:
        """The values of all files, as the program merges them."""
        merged: JsonObject = {}
        for path in (FIXTURES / chart / "runtime-values.yaml", FIXTURES / chart / "images.yaml", self.further_values):
            merged = merge(merged, yaml.safe_load(path.read_text()))
        return merged

    async def deploy(self, chart: str, *further: str) -> Ended:
        """Deploy a chart as a release, as a user does. Returns when the program has ended."""
        folder = FIXTURES / chart
        files = (folder / "runtime-values.yaml", folder / "images.yaml", self.further_values)
        options = [word for path in files for word in ("-f", str(path))]
        return await self.stellwerk("apply", NAME, str(folder), *options, *further, "--timeout", "100s")

    async def domain_is_served(self) -> None:
        """Have the controllers of certificates and DNS do their work, as soon as there is some."""

        async def exists() -> Domain | None:
            return await self.client.find(Domain, f"{NAME}-primary", self.namespace)

        domain = await eventually(exists, within=60, describe="the Domain exists")
        assert domain is not None
        await self.given.is_ready(domain)

    async def has_provider(self) -> None:
        """Give the application a provider, which the charts leave to users."""
        spec: JsonObject = {"provider": {"subDomain": "provider", "tenantId": "provider-id"}}
        patch = MergePatch({"spec": spec})
        await self.client.patch(metadata_of(CAPApplication), NAME, self.namespace, patch)

    async def subscribe(self, name: str = "acme") -> None:
        """Make a tenant as the subscription server does."""
        metadata: JsonObject = {
            "name": f"{NAME}-{name}",
            "namespace": self.namespace,
            "labels": {"sme.sap.com/tenant-type": "consumer", "sme.sap.com/btp-tenant-id": f"{name}-id"},
            "annotations": {"sme.sap.com/subscription-context-secret": f"{name}-context"},
        }
        spec: JsonObject = {"capApplicationInstance": NAME, "subDomain": name, "tenantId": f"{name}-id"}
        tenant = await self.client.apply(CAPTenant, {"metadata": metadata, "spec": spec})
        owner: JsonObject = {
            "apiVersion": CAPTenant.resource.api_version,
            "kind": CAPTenant.resource.kind,
            "name": tenant.metadata.name,
            "uid": tenant.metadata.uid,
        }
        context: JsonObject = {"name": f"{name}-context", "namespace": self.namespace, "ownerReferences": [owner]}
        data: JsonObject = {"subscriptionContext": base64.b64encode(b"{}").decode()}
        await self.client.apply(Secret, {"metadata": context, "data": data})

    async def is_consistent(self, version: str = f"{NAME}-1") -> CAPApplication:
        """Return the application when it is Consistent with a version that is Ready."""

        async def is_so() -> CAPApplication:
            found = await self.client.find(CAPApplication, NAME, self.namespace)
            assert found is not None, "it does not exist"
            latest = conditions.find(found.status.conditions, "LatestVersionReady")
            assert latest is not None, found.status
            assert latest.is_true, latest.message
            assert f"/{version} " in latest.message, latest.message
            assert found.status.state == "Consistent", found.status
            return found

        return await eventually(is_so, within=60, describe=f"the application is Consistent with {version}")

    async def tenant_has(self, version: str, name: str = "acme") -> CAPTenant:
        """Return a tenant when it is Ready with a version."""

        async def does() -> CAPTenant:
            found = await self.client.find(CAPTenant, f"{NAME}-{name}", self.namespace)
            assert found is not None, "it does not exist"
            shown = (found.status.state, found.status.current_version)
            assert shown == ("Ready", version), f"{found.status}"
            return found

        return await eventually(does, within=60, describe=f"tenant {name} is Ready with {version}")

    async def nothing_is_left(self) -> None:
        """Return when nothing of the bookshop exists."""

        async def is_empty() -> bool:
            left = {
                kind.resource.kind: [
                    obj.metadata.name for obj in (await self.client.list(metadata_of(kind), self.namespace)).items
                ]
                for kind in LEFT
            }
            assert not {kind: listed for kind, listed in left.items() if listed}
            return True

        await eventually(is_empty, within=120, describe="nothing of the bookshop is left")


def merge(one: JsonObject, other: dict[str, Any]) -> JsonObject:
    """Values with others on top; null removes a value, as in Helm."""
    merged: JsonObject = {**one}
    for key, value in other.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
