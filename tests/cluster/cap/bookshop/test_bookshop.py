"""A bookshop, as the CAP tooling generates it, is deployed with its services, upgraded, and deleted without a rest."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cluster.cap.bookshop.shop import APP, FIXTURES, NAME, SERVICES_ONLY, Bookshop, merge
from tests.cluster.component.given import Given as Components

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.api.istio import VirtualService
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant

pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the charts of the CAP tooling are not beside this one")


async def test_a_bookshop_is_a_release_with_a_tenant_that_follows_to_a_new_image(
    bookshop: Bookshop, tmp_path: Path
) -> None:
    deploying = asyncio.create_task(bookshop.deploy(APP))
    await bookshop.domain_is_served()
    done = await deploying
    assert done.returncode == 0, done
    await bookshop.is_consistent()
    await reads_its_credentials(bookshop)
    await bookshop.has_provider()
    await bookshop.tenant_has(f"{NAME}-1", "provider")
    await bookshop.subscribe()
    tenant = await bookshop.tenant_has(f"{NAME}-1")
    routes = await bookshop.client.get(VirtualService, tenant.metadata.name, bookshop.namespace)
    assert routes.spec.hosts == (f"acme.{bookshop.host}",)

    another = tmp_path / "another-image.yaml"
    another.write_text(
        json.dumps({"workloads": {"server": {"deploymentDefinition": {"image": "registry.invalid/srv:2"}}}})
    )
    done = await bookshop.deploy(APP, "-f", str(another))
    assert done.returncode == 0, done
    await bookshop.is_consistent(f"{NAME}-2")
    for name in ("provider", "acme"):
        await bookshop.tenant_has(f"{NAME}-2", name)

    await bookshop.client.delete(metadata_of(CAPTenant), f"{NAME}-acme", bookshop.namespace)
    done = await bookshop.stellwerk("delete", NAME, "--yes", "--timeout", "100s")
    assert done.returncode == 0, done
    await bookshop.nothing_is_left()


async def reads_its_credentials(bookshop: Bookshop) -> None:
    """The server reads the credentials of the services that it consumes, as its broker gave them."""
    deployment = await bookshop.client.get(metadata_of(Deployment), f"{NAME}-1-server", bookshop.namespace)
    assert deployment.metadata.controller is not None
    secrets = (await bookshop.client.list(Secret, bookshop.namespace, labels="sme.sap.com/secret-owner-hash")).items
    (secret,) = (each for each in secrets if each.metadata.name.startswith(f"{NAME}-1-server-"))
    variable = json.loads(secret.decoded()["VCAP_SERVICES"])
    assert sorted(variable) == ["saas-registry", "service-manager", "xsuaa"]
    (uaa,) = variable["xsuaa"]
    assert uaa["credentials"] == bookshop.credentials["xsuaa"]
    assert (uaa["instance_name"], uaa["name"], uaa["plan"]) == ("bookshop-uaa", "bookshop-uaa", "broker")


async def test_a_bookshop_of_services_alone_is_a_release_without_tenants(bookshop: Bookshop) -> None:
    await bookshop.given.a_domain(bookshop.host, name=f"{NAME}-primary", dnsMode="Wildcard")
    deploying = asyncio.create_task(bookshop.deploy(SERVICES_ONLY))
    await bookshop.domain_is_served()
    done = await deploying
    assert done.returncode == 0, done
    application = await bookshop.is_consistent()
    assert application.status.services_only is True
    assert application.status.observed_subdomains == ("bookshop",)
    (routes,) = (await bookshop.client.list(VirtualService, bookshop.namespace)).items
    assert routes.spec.hosts == (f"bookshop.{bookshop.host}",)
    done = await bookshop.stellwerk("delete", NAME, "--yes", "--timeout", "100s")
    assert done.returncode == 0, done
    await bookshop.client.delete(metadata_of(Domain), f"{NAME}-primary", bookshop.namespace)
    await bookshop.nothing_is_left()


async def test_a_bookshop_of_services_alone_is_a_component(bookshop: Bookshop, components: Components) -> None:
    await bookshop.given.a_domain(bookshop.host, name=f"{NAME}-primary", dnsMode="Wildcard")
    await components.source(bookshop.files(SERVICES_ONLY))
    await components.component(NAME, values=bookshop.all_values(SERVICES_ONLY))
    await bookshop.domain_is_served()
    application = await bookshop.is_consistent()
    assert application.status.services_only is True
    await components.deleted(NAME)
    await bookshop.client.delete(metadata_of(Domain), f"{NAME}-primary", bookshop.namespace)
    await bookshop.nothing_is_left()


async def test_a_bookshop_is_a_component_with_a_tenant(bookshop: Bookshop, components: Components) -> None:
    await components.source(bookshop.files(APP))
    await components.component(NAME, values=bookshop.all_values(APP))
    await bookshop.domain_is_served()
    await bookshop.is_consistent()
    await bookshop.subscribe()
    await bookshop.tenant_has(f"{NAME}-1")

    other: JsonObject = {"workloads": {"server": {"deploymentDefinition": {"image": "registry.invalid/srv:2"}}}}
    await components.component(NAME, values=merge(bookshop.all_values(APP), other))
    await bookshop.is_consistent(f"{NAME}-2")
    await bookshop.tenant_has(f"{NAME}-2")
    await bookshop.client.delete(metadata_of(CAPTenant), f"{NAME}-acme", bookshop.namespace)
    await components.deleted(NAME)
    await bookshop.nothing_is_left()
