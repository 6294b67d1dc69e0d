"""`stellwerk cap subscribe` and `unsubscribe` on a running operator."""

from __future__ import annotations

import base64
import json

import yaml
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.testing.eventually import eventually


async def open_shop(shop: Shop) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1")
    await shop.version_shows("WorkloadsReady")


async def tenants(shop: Shop) -> list[CAPTenant]:
    return [*(await shop.client.list(CAPTenant, shop.namespace)).items]


async def former_payload(shop: Shop, stellwerk: Stellwerk) -> str:
    """The name that the payload of a subscriber had, who has gone again."""
    await open_shop(shop)
    await stellwerk("cap", "subscribe", "shop", "acme-id", "acme")
    [first] = await tenants(shop)
    context = first.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION]
    await stellwerk("cap", "unsubscribe", first.metadata.name, "--yes", "--wait")
    return context


async def test_a_subscriber_becomes_a_tenant_with_the_payload_of_its_subscription(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await open_shop(shop)
    done = await stellwerk("cap", "subscribe", "shop", "acme-id", "acme", "--wait")

    assert done.returncode == 0, done.stderr
    [tenant] = await tenants(shop)
    assert done.stdout.splitlines()[0] == f"{tenant.ref} of CAPApplication {shop.namespace}/shop is created"
    assert f"{tenant.ref} is ready" in done.stdout.splitlines()[-1]
    assert (tenant.status.state, tenant.spec.sub_domain) == ("Ready", "acme")
    context = tenant.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION]
    secret = await shop.client.get(Secret, context, shop.namespace)
    assert secret.metadata.controller is not None
    assert secret.metadata.controller.uid == tenant.metadata.uid
    payload = json.loads(secret.decoded()[names.CONTEXT_KEY])
    assert payload["subscribedTenantId"] == "acme-id"
    assert payload["subscriptionGUID"] == tenant.metadata.labels[names.SUBSCRIPTION_GUID]


async def test_the_same_subscriber_gets_no_second_tenant(running: Running, shop: Shop, stellwerk: Stellwerk) -> None:
    await open_shop(shop)
    await stellwerk("cap", "subscribe", "ca/shop", "acme-id", "acme")
    again = await stellwerk("cap", "subscribe", "ca/shop", "acme-id", "acme", "--wait")
    other = await stellwerk("cap", "subscribe", "ca/shop", "acme-id", "elsewhere")
    taken = await stellwerk("cap", "subscribe", "ca/shop", "other-id", "acme")

    [tenant] = await tenants(shop)
    assert again.returncode == 0
    assert f"{tenant.ref} is the tenant of this subscriber already" in again.stderr
    assert (other.returncode, taken.returncode) == (2, 2)
    assert "Cause:   CAPTenant" in other.stderr
    assert "has the subdomain acme" in taken.stderr


async def test_what_the_server_would_refuse_is_refused_before_anything_is_written(
    shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.apply()
    refused = await stellwerk("cap", "subscribe", "shop", "acme-id", "not_a_host")
    absent = await stellwerk("cap", "subscribe", "nowhere", "acme-id", "acme")
    odd = await stellwerk("cap", "subscribe", "cat/shop", "acme-id", "acme")

    assert refused.returncode == 2
    assert "subscribedSubdomain must have at most 63" in refused.stderr
    assert (absent.returncode, odd.returncode) == (1, 1)
    assert "there is no CAPApplication nowhere" in absent.stderr
    assert await tenants(shop) == []


async def test_a_dry_run_creates_nothing(shop: Shop, stellwerk: Stellwerk) -> None:
    await shop.apply()
    done = await stellwerk("cap", "subscribe", "shop", "acme-id", "acme", "--dry-run", "--wait")

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("is created (dry run)\n")
    assert await tenants(shop) == []


async def test_a_dry_run_prints_what_it_would_create_for_programs(shop: Shop, stellwerk: Stellwerk) -> None:
    await shop.apply()
    done = await stellwerk("cap", "subscribe", "shop", "acme-id", "acme", "--dry-run", "-o", "yaml")

    created = yaml.safe_load(done.stdout)
    assert [each["kind"] for each in created["items"]] == ["Secret", "CAPTenant"]
    assert created["items"][1]["spec"]["subDomain"] == "acme"
    assert "is created (dry run)" in done.stderr


async def test_another_secret_with_the_name_of_a_payload_stays_and_is_named(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    context = await former_payload(shop, stellwerk)

    async def is_gone() -> bool:
        return await shop.client.find(metadata_of(Secret), context, shop.namespace) is None

    await eventually(is_gone)
    before = await shop.client.create(Secret, {"metadata": {"name": context, "namespace": shop.namespace}})

    refused = await stellwerk("cap", "subscribe", "shop", "acme-id", "acme")

    assert refused.returncode == 2
    assert f"Secret {shop.namespace}/{context} has the name of the payload of this tenant" in refused.stderr
    assert await shop.client.get(Secret, context, shop.namespace) == before
    assert await tenants(shop) == []


async def test_what_a_subscription_left_behind_before_a_crash_is_used(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    context = await former_payload(shop, stellwerk)
    data = {names.CONTEXT_KEY: base64.b64encode(b"{}").decode()}
    labels = {names.TENANT_ID_LABEL: "acme-id"}
    orphan = {"metadata": {"name": context, "namespace": shop.namespace, "labels": labels}, "data": data}
    if await shop.client.find(metadata_of(Secret), context, shop.namespace) is None:
        await shop.client.create(Secret, orphan)  # type: ignore[arg-type]
    done = await stellwerk("cap", "subscribe", "shop", "acme-id", "acme", "--wait")

    assert done.returncode == 0, done.stderr
    [tenant] = await tenants(shop)
    secret = await shop.client.get(metadata_of(Secret), context, shop.namespace)
    assert [owner.uid for owner in secret.metadata.owner_references] == [tenant.metadata.uid]


async def test_a_tenant_goes_only_after_a_yes_and_with_its_deprovisioning(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    asked = await stellwerk("cap", "unsubscribe", "acme")
    tried = await stellwerk("cap", "unsubscribe", "acme", "--dry-run")
    await shop.tenant_shows("ProvisioningCompleted")
    done = await stellwerk("cap", "unsubscribe", "acme", "--yes", "--wait")

    assert asked.returncode == 2
    assert "with all data is not removed: there is no terminal to ask at" in asked.stderr
    assert tried.stdout == f"CAPTenant {shop.namespace}/acme is asked to go (dry run)\n"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"CAPTenant {shop.namespace}/acme is gone"
    assert await tenants(shop) == []


async def test_a_tenant_is_found_by_its_subdomain_and_tenant_id_and_listed_with_both(
    shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.apply()
    for tenant_id in ("one", "two"):
        await shop.client.apply(
            CAPTenant,
            {
                "metadata": {"name": f"shop-{tenant_id}", "namespace": shop.namespace},
                "spec": {"capApplicationInstance": "shop", "subDomain": "acme", "tenantId": tenant_id},
            },
        )
    named = await stellwerk("cap", "unsubscribe", "one", "--dry-run")
    ambiguous = await stellwerk("cap", "unsubscribe", "acme", "--dry-run")
    absent = await stellwerk("cap", "unsubscribe", "three", "--dry-run")
    retried = await stellwerk("cap", "retry", "cat/two")
    listed = await stellwerk("get", "cat", "-o", "wide")

    assert named.stdout == f"CAPTenant {shop.namespace}/shop-one is asked to go (dry run)\n"
    assert f"one is CAPTenant {shop.namespace}/shop-one" in named.stderr
    assert (ambiguous.returncode, absent.returncode) == (2, 1)
    assert f"it names CAPTenant {shop.namespace}/shop-one, CAPTenant {shop.namespace}/shop-two" in ambiguous.stderr
    assert "there is no CAPTenant three" in absent.stderr
    assert f"CAPTenant {shop.namespace}/shop-two has not failed" in retried.stderr
    titles, first, _ = listed.stdout.splitlines()
    assert "SUBDOMAIN" in titles
    assert {"acme", "one"} <= set(first.split())


async def test_a_deprovisioning_that_fails_ends_the_wait_with_its_cause(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.mend(job("mtxs", fate="fail"))
    failed = await stellwerk("cap", "unsubscribe", "acme", "--yes", "--wait")
    await shop.mend(job("mtxs"))
    again = await stellwerk("cap", "retry", "cat/acme", "--wait")

    assert failed.returncode == 1
    assert "Last exit code 1" in failed.stdout
    assert "stellwerk cap retry" in failed.stdout
    assert again.returncode == 0, again.stdout
    assert again.stdout.splitlines()[-1] == f"CAPTenant {shop.namespace}/acme is gone"


async def test_the_tenant_of_the_provider_is_not_unsubscribed(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.bind()
    await shop.apply(provider={"subDomain": "own", "tenantId": "own-id"})
    await shop.release("1", job("mtxs"), router())
    await shop.shows_application("VersionExists", state="Consistent")
    refused = await stellwerk("cap", "unsubscribe", "shop-provider", "--yes")

    assert refused.returncode == 2
    assert "is the tenant of the application's provider" in refused.stderr
