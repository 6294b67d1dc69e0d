"""An object that nobody can decode shows so, and that costs neither its data nor anything of the others."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, dig, metadata_of, unstructured
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.eventually import eventually
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router
from tests.cluster.component.world import free_definition

BROKEN: dict[type[Kind], tuple[JsonObject, str]] = {
    CAPApplication: ({"domainRefs": 7}, "spec.domainRefs: expected array, got int"),
    CAPApplicationVersion: ({"workloads": 7}, "spec.workloads: expected array, got int"),
    CAPTenant: ({"versionUpgradeStrategy": 7}, "spec.versionUpgradeStrategy: expected str, got int"),
    CAPTenantOperation: ({"steps": 7}, "spec.steps: expected array, got int"),
}
BROKEN_DOMAIN: JsonObject = {"ingressSelector": 7}


@pytest.fixture
async def free(admin: Client) -> AsyncIterator[None]:
    """The API server takes any spec for a while, as with definitions of another release, and no status without a state,
    as with those of the original.
    """
    view = unstructured(CustomResourceDefinition.resource)
    kinds: tuple[type[Kind], ...] = (*BROKEN, Domain)
    for kind in kinds:
        body = free_definition(kind.resource)
        stated: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["state"]}
        (version,) = cast("list[Any]", dig(body, "spec", "versions"))
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = stated
        await admin.apply(view, body, force=True)
    yield
    for definition in DEFINITIONS:
        await admin.apply(view, definition.body(), force=True)


async def spec_of(shop: Shop, kind: type[Kind], name: str) -> JsonObject:
    found = await shop.client.get(unstructured(kind.resource), name, shop.namespace)
    spec = found.at("spec")
    assert isinstance(spec, dict)
    return spec


async def broken(shop: Shop, kind: type[Kind], name: str, spec: JsonObject) -> None:
    """Store a spec that is none. The API server may act by the former definition for a while."""

    async def is_taken() -> bool:
        try:
            await shop.client.patch(metadata_of(kind), name, shop.namespace, MergePatch({"spec": spec}))
        except Invalid:
            return False
        return True

    await eventually(is_taken, within=30, describe=f"{kind.__name__} {name} is taken")


async def mended(shop: Shop, kind: type[Kind], name: str, spec: JsonObject, broken: JsonObject) -> None:
    """Put the fields back."""
    patch = MergePatch({"spec": {field: spec.get(field) for field in broken}})
    await shop.client.patch(metadata_of(kind), name, shop.namespace, patch)


def shown(obj: Unstructured) -> dict[str, tuple[str, str]]:
    """Status and message of each condition."""
    listed = obj.at("status", "conditions")
    return {
        str(dig(each, "type")): (str(dig(each, "status")), str(dig(each, "message")))
        for each in (listed if isinstance(listed, list) else [])
    }


@pytest.mark.req("R-510")
@pytest.mark.parametrize("kind", BROKEN)
async def test_an_object_that_cannot_be_read_says_so_and_keeps_state_and_ready(
    running: Running, shop: Shop, free: None, kind: type[Kind]
) -> None:
    await shop.open(job("load", "Content"), job("mtxs"), router(), host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    (operation,) = await shop.operations()
    names: dict[type[Kind], str] = {CAPApplication: "shop", CAPApplicationVersion: "shop-v1", CAPTenant: "acme"}
    name = names.get(kind, operation.metadata.name)
    view = unstructured(kind.resource)
    before, jobs = await shop.client.get(view, name, shop.namespace), await shop.all_jobs()
    spec = await spec_of(shop, kind, name)
    fields, why = BROKEN[kind]

    await broken(shop, kind, name, fields)

    async def is_told() -> bool:
        status, message = shown(await shop.client.get(view, name, shop.namespace)).get("Stalled", ("", ""))
        assert (status, message) == ("True", f"object cannot be read: {why}; correct the field")
        return True

    await eventually(is_told, within=30, describe="the object says that it cannot be read")
    told = await shop.client.get(view, name, shop.namespace)
    assert told.at("status", "state") == before.at("status", "state")
    assert shown(told) == {**shown(before), "Stalled": shown(told)["Stalled"]}

    await running.stop()
    await running.start()
    await running.settled(shop.client)
    for other, own in names.items():
        found = await shop.client.get(unstructured(other.resource), own, shop.namespace)
        assert found.at("status", "state") == ("Consistent" if other is CAPApplication else "Ready")
        assert shown(found)["Ready"][0] == "True", f"{own}: {shown(found)}"
        assert "does not exist" not in str(shown(found))
    events = (await shop.client.list(Event, shop.namespace)).items
    assert "InvalidReference" not in {each.reason for each in events}
    await mended(shop, kind, name, spec, fields)

    async def is_over() -> bool:
        return "Stalled" not in shown(await shop.client.get(view, name, shop.namespace))

    await eventually(is_over, within=30, describe="the object says no longer that it cannot be read")
    await running.settled(shop.client)
    after = await shop.client.get(view, name, shop.namespace)
    assert after.at("status", "state") == before.at("status", "state")
    statuses = {type_: status for type_, (status, _) in shown(before).items()}
    assert {type_: status for type_, (status, _) in shown(after).items()} == statuses
    assert {each.metadata.uid for each in await shop.all_jobs()} == {each.metadata.uid for each in jobs}


@pytest.mark.req("R-510")
async def test_a_deletion_waits_for_a_tenant_that_cannot_be_read(running: Running, shop: Shop, free: None) -> None:
    await shop.open(job("mtxs"), router(), host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    await running.stop()
    spec, (fields, _) = await spec_of(shop, CAPTenant, "acme"), BROKEN[CAPTenant]
    await broken(shop, CAPTenant, "acme", fields)
    await running.start()
    for kind, name in ((CAPApplication, "shop"), (CAPApplicationVersion, "shop-v1")):
        await shop.client.delete(metadata_of(kind), name, shop.namespace)

    application = await shop.shows_application("TenantsExist", state="Deleting")
    assert "waiting for tenants that cannot be read" in str(application.status.conditions)
    await running.settled(shop.client)
    assert await shop.client.find(metadata_of(CAPApplicationVersion), "shop-v1", shop.namespace)

    await mended(shop, CAPTenant, "acme", spec, fields)
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def is_gone() -> bool:
        return await shop.client.find(metadata_of(CAPApplication), "shop", shop.namespace) is None

    await eventually(is_gone, within=60, describe="the application is gone")


async def hosts(shop: Shop) -> Sequence[str]:
    found = await shop.routes()
    return found.spec.hosts if found is not None else ()


@pytest.mark.req("R-510")
async def test_a_host_stays_in_the_routes_of_a_tenant_while_its_domain_cannot_be_read(
    running: Running, shop: Shop, free: None
) -> None:
    both = [DomainRef(kind="Domain", name="primary"), DomainRef(kind="Domain", name="second")]
    await shop.serve("other.example.com", name="second")
    await shop.serve("shop.example.com")
    await shop.open(job("mtxs"), router(), domainRefs=[msgspec.to_builtins(each) for each in both])
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    before = await hosts(shop)
    assert before == ("acme.shop.example.com", "acme.other.example.com")
    spec = await spec_of(shop, Domain, "second")

    await running.stop()
    await broken(shop, Domain, "second", BROKEN_DOMAIN)
    await running.start()
    await running.settled(shop.client)
    assert running.caches.is_hidden(shop.namespace, both[1])
    application = await shop.shows_application("VersionExists", state="Consistent")
    assert "waiting for domains that cannot be read: Domain second" in application.status.conditions[0].message
    assert await hosts(shop) == before

    await mended(shop, Domain, "second", {**spec, "domain": "new.example.com"}, {**BROKEN_DOMAIN, "domain": ""})

    async def follows() -> bool:
        return await hosts(shop) == ("acme.shop.example.com", "acme.new.example.com")

    await eventually(follows, within=30, describe="the routes follow the domain again")


@pytest.mark.req("R-510")
async def test_no_tenant_leaves_a_version_that_cannot_be_read(
    running: Running, shop: Shop, free: None, stellwerk: Stellwerk
) -> None:
    """An older version would run its Jobs on what the newer one has made of the data."""
    await shop.open(job("mtxs"), router(), host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2")
    await shop.tenant_shows("UpgradeCompleted")
    await running.settled(shop.client)
    before, jobs = await shop.client.get(CAPApplication, "shop", shop.namespace), await shop.all_jobs()
    spec, (fields, _) = await spec_of(shop, CAPApplicationVersion, "shop-v2"), BROKEN[CAPApplicationVersion]
    await running.stop()
    await broken(shop, CAPApplicationVersion, "shop-v2", fields)
    await running.start()
    await running.settled(shop.client)

    tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
    assert (tenant.spec.version, tenant.status.current_version, tenant.status.state) == ("2.0.0", "shop-v2", "Ready")
    after = await shop.shows_application("VersionExists", state="Consistent")
    assert f"cannot be read: {shop.namespace}/shop-v2" in after.status.conditions[0].message
    asked, preview = await stellwerk("cap", "upgrade", "shop"), await stellwerk("diff", "ca/shop")
    assert (asked.returncode, preview.returncode) == (0, 0), (asked, preview)
    assert "spec.version" not in preview.stdout
    stays = f"stays above version 1.0.0: CAPApplicationVersion {shop.namespace}/shop-v2 cannot be read"
    assert (asked.stdout, stays in asked.stderr) == ("", True), asked
    statuses = {each.type: each.status for each in before.status.conditions}
    assert {each.type: each.status for each in after.status.conditions} == statuses

    await mended(shop, CAPApplicationVersion, "shop-v2", spec, fields)

    async def is_over() -> bool:
        shown = await shop.client.get(CAPApplication, "shop", shop.namespace)
        return shown.status.conditions[0].message == "version 2.0.0 is in use"

    await eventually(is_over, within=30, describe="the application uses the version again")
    await running.settled(shop.client)
    assert {each.metadata.uid for each in await shop.all_jobs()} == {each.metadata.uid for each in jobs}


@pytest.mark.req("R-510")
async def test_an_object_without_a_state_shows_why_where_the_state_is_required(
    running: Running, shop: Shop, free: None, admin: Client
) -> None:
    await shop.bind()
    await shop.apply()
    await shop.subscribe(follows=False)
    await shop.tenant_shows("ProcessingStarted", state="", saying="spec.version is empty")
    fields, why = BROKEN[CAPTenant]
    spec: JsonObject = {"capApplicationInstance": "shop", "subDomain": "other", "tenantId": "other", **fields}
    view = unstructured(CAPTenant.resource)

    async def is_taken() -> bool:
        with contextlib.suppress(Invalid):
            metadata: JsonObject = {"name": "other", "namespace": shop.namespace}
            return bool(await admin.create(view, {**_head(CAPTenant), "metadata": metadata, "spec": spec}))
        return False

    await eventually(is_taken, within=30, describe="the API server takes the tenant")

    async def is_reported() -> bool:
        found = await admin.get(view, "other", shop.namespace)
        return found.at("status", "state") == "" and why in shown(found).get("Stalled", ("", ""))[1]

    await eventually(is_reported, within=30, describe="the tenant shows that it cannot be read")


def _head(kind: type[Kind]) -> JsonObject:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}


@pytest.mark.req("R-510")
async def test_the_subdomain_of_a_tenant_that_cannot_be_read_stays_until_the_tenant_is_gone(
    running: Running, shop: Shop, free: None
) -> None:
    """The DNS entries of domains follow the subdomains that an application shows."""
    await shop.open(job("mtxs"), router(), host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    before = await shop.client.get(CAPApplication, "shop", shop.namespace)
    await running.stop()
    fields, _ = BROKEN[CAPTenant]
    await broken(shop, CAPTenant, "acme", fields)
    await running.start()
    await running.settled(shop.client)
    after = await shop.client.get(CAPApplication, "shop", shop.namespace)
    assert after.status.observed_subdomains == before.status.observed_subdomains == ("acme",)

    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.client.patch(
        metadata_of(CAPTenant), "acme", shop.namespace, MergePatch({"metadata": {"finalizers": None}})
    )

    async def is_gone() -> bool:
        return not (await shop.client.get(CAPApplication, "shop", shop.namespace)).status.observed_subdomains

    await eventually(is_gone, describe="the application shows no subdomain")
