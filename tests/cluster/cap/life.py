"""The life of an application, in parts, and what is there after each of them.

It is deployed, gets a provider and a subscriber, is upgraded in waves, moves to another domain, comes from the first
releases, loses its subscriber, and is deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.istio import VirtualService
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.watches import VERSION_KINDS
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.crash_sweep import SweepStep, each_once
from stellwerk.testing.scenarios.recorder import Run
from tests.cluster.cap.shop import Shop, job, router, server
from tests.cluster.cap.takeover import legacy

PROVIDER, SUBSCRIBER = "shop-provider", "acme"
TENANTS = (PROVIDER, SUBSCRIBER)
_PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Life:
    """What is asked for, and when it has come to pass."""

    shop: Shop

    def parts(self) -> tuple[SweepStep, ...]:
        """One after the other."""
        return (
            SweepStep("the deployment", self.deploy, self._until(self.is_deployed), least_points=10),
            SweepStep("the provider", self.add_provider, self._until(self.have("shop-v1", PROVIDER)), least_points=8),
            SweepStep("the subscription", self.subscribe, self._until(self.have("shop-v1", *TENANTS)), least_points=6),
            SweepStep("a further version", self.release, self._until(self.is_released), least_points=6),
            SweepStep("the upgrade", self.follow, self._until(self.have("shop-v2", *TENANTS)), least_points=10),
            SweepStep("the move", self.move, self._until(self.has_moved), each_once, least_points=5),
            SweepStep("the end of the subscription", self.unsubscribe, self._until(self.is_gone), least_points=6),
            SweepStep("the deletion", self.delete, self._until(self.nothing_is_left), least_points=8),
        )

    def _until(self, check: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[object]]:
        return lambda: eventually(check, within=_PATIENCE_SECONDS, describe="the part is over")

    # ---- what is asked for

    async def deploy(self) -> None:
        """An application with a content job, whose tenants follow in waves."""
        await self.shop.bind()
        await self.shop.apply(
            host="shop.example.com",
            globalAccountId=legacy.ACCOUNT,
            tenantUpgrade={"canaryTenants": [f"{SUBSCRIBER}-id"], "maxParallel": 1},
        )
        await self.shop.release("1", job("load", "Content"), job("mtxs"), router(), server("srv"))

    async def add_provider(self) -> None:
        """The application gets a provider."""
        await self._patch(CAPApplication, "shop", {"provider": {"subDomain": "provider", "tenantId": "provider-id"}})

    async def subscribe(self) -> None:
        """A subscriber comes."""
        await self.shop.subscribe(SUBSCRIBER)

    async def release(self) -> None:
        """A further version comes, to which no tenant follows yet."""
        for name in TENANTS:
            await self._patch(CAPTenant, name, {"versionUpgradeStrategy": "never"})
        await self.shop.release("2")

    async def follow(self) -> None:
        """The tenants may follow."""
        for name in TENANTS:
            await self._patch(CAPTenant, name, {"versionUpgradeStrategy": None})

    async def move(self) -> None:
        """The domain gets another host, and all objects the identity of the first releases."""
        await self.shop.serve("other.example.com")
        await legacy.put_back(self.shop)

    async def unsubscribe(self) -> None:
        """The subscriber goes."""
        await self.shop.client.delete(metadata_of(CAPTenant), SUBSCRIBER, self.shop.namespace)

    async def delete(self) -> None:
        """The application goes."""
        await self.shop.client.delete(metadata_of(CAPApplication), "shop", self.shop.namespace)

    async def _patch(self, kind: type[CAPApplication | CAPTenant], name: str, spec: JsonObject) -> None:
        await self.shop.client.patch(metadata_of(kind), name, self.shop.namespace, MergePatch({"spec": spec}))

    # ---- when it has come to pass

    async def is_deployed(self) -> bool:
        """Whether the first version is Ready, and the application Consistent."""
        return await self._is_consistent("shop-v1")

    async def is_released(self) -> bool:
        """Whether the second version is Ready, and the application Consistent."""
        return await self._is_consistent("shop-v2")

    def have(self, version: str, *tenants: str) -> Callable[[], Awaitable[bool]]:
        """Whether tenants are Ready with a version, and the application shows it."""

        async def do() -> bool:
            for name in tenants:
                tenant = await self.shop.client.find(CAPTenant, name, self.shop.namespace)
                assert tenant is not None, f"there is no {name}"
                shown = tenant.status.state, tenant.status.current_version
                assert shown == ("Ready", version), f"{name}: {tenant.status}"
            return await self._is_consistent(version, tenants=len(tenants))

        return do

    async def has_moved(self) -> bool:
        """Whether all requests come to the new host, and all objects have the present identity."""
        routes = (await self.shop.client.list(VirtualService, self.shop.namespace)).items
        assert all(host.endswith(".other.example.com") for each in routes for host in each.spec.hosts)
        return await legacy.is_migrated(self.shop) and await self._is_consistent("shop-v2", tenants=2)

    async def is_gone(self) -> bool:
        """Whether the subscriber does not exist, nor what it had, and the application shows it."""
        assert await self.shop.client.find(CAPTenant, SUBSCRIBER, self.shop.namespace) is None
        counts = await self._counts()
        left = {kind: counts.get(kind, 0) for kind in ("VirtualService", "CAPTenantOperation", "Job")}
        assert left == {"VirtualService": 1, "CAPTenantOperation": 2, "Job": 3}, f"{left} besides those of the others"
        credentials = counts[f"Secret {names.SECRET_OWNER_HASH_LABEL}"]
        assert credentials == 6, f"{credentials} Secrets: each Deployment and each Job has one"
        return await self._is_consistent("shop-v2", tenants=1)

    async def nothing_is_left(self) -> bool:
        """Whether nothing of the application exists."""
        left = await self._counts()
        assert not left, left
        return True

    async def _is_consistent(self, version: str, tenants: int = -1) -> bool:
        application = await self.shop.client.get(CAPApplication, "shop", self.shop.namespace)
        latest = conditions.find(application.status.conditions, "LatestVersionReady")
        assert latest is not None, application.status
        assert latest.is_true, latest
        assert f"/{version} " in latest.message, latest
        assert application.status.state == "Consistent", application.status
        if tenants >= 0:
            ready = conditions.find(application.status.conditions, "AllTenantsReady")
            assert ready is not None
            assert ready.message == f"{tenants}/{tenants} tenants are ready", ready
        return True

    # ---- what is there

    async def end_state(self) -> Run:
        """All that belongs to the application, without what differs from life to life."""
        found: dict[str, JsonObject] = {"counts": {**await self._counts()}}
        shop = self.shop
        for application in (await shop.client.list(CAPApplication, shop.namespace)).items:
            status = application.status
            shown: list[JsonValue] = [f"{each.type} {each.status} {each.reason}" for each in status.conditions]
            hosts, subdomains = status.domain_spec_hash, [*status.observed_subdomains]
            found["application"] = {"state": status.state, "shown": shown, "hosts": hosts, "subdomains": [*subdomains]}
        for version in (await shop.client.list(CAPApplicationVersion, shop.namespace)).items:
            objects = [name for kind in (Deployment.resource, *VERSION_KINDS) for name in await shop.names_of(kind)]
            finished: list[JsonValue] = [*version.status.finished_jobs]
            state = version.status.state
            found[version.metadata.name] = {"state": state, "objects": [*objects], "finished": finished}
        for tenant in (await shop.client.list(CAPTenant, shop.namespace)).items:
            found[tenant.metadata.name] = await self._of_tenant(tenant)
        return Run((), found)

    async def _of_tenant(self, tenant: CAPTenant) -> JsonObject:
        status, shop = tenant.status, self.shop
        routes = await shop.client.find(VirtualService, tenant.metadata.name, shop.namespace)
        jobs = await shop.all_jobs()
        operations: list[JsonValue] = []
        for operation in await shop.operations():
            if operation.metadata.controller is None or operation.metadata.controller.uid != tenant.metadata.uid:
                continue
            owned = sum(
                each.metadata.controller is not None and each.metadata.controller.uid == operation.metadata.uid
                for each in jobs
            )
            operations.append(
                f"{operation.spec.operation} {operation.spec.version_name} {operation.status.state} {owned}"
            )
        previous: list[JsonValue] = [*status.previous_versions]
        return {
            "state": status.state,
            "current": status.current_version,
            "previous": previous,
            "routes": routes.metadata.annotations.get(names.RESOURCE_HASH_ANNOTATION, "") if routes else "",
            "operations": sorted(map(str, operations)),  # type: ignore[dict-item]
        }

    async def _counts(self) -> dict[str, int]:
        """How many objects of each kind there are; of Secrets, only those that the operator makes."""
        shop, found = self.shop, {}
        kinds = (CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation, Deployment, Job, VirtualService)
        for resource in (*(kind.resource for kind in kinds), *VERSION_KINDS):
            found[resource.kind] = len(await shop.names_of(resource))
        for label in (names.SECRET_OWNER_HASH_LABEL, names.TENANT_ID_LABEL):
            listed = await shop.client.list(metadata_of(Secret), shop.namespace, labels=label)
            found[f"Secret {label}"] = len(listed.items)
        return {kind: count for kind, count in found.items() if count}
