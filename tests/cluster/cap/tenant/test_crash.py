"""The operator may die at any of its writes: no tenant is lost, and no Job runs twice.

A tenant is provisioned, upgraded, and deprovisioned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.cap.shop import OPERATOR, Shop

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.ports import free_port
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_tenant import CAPTenant
from stellwerk.operators.cap.api_version import CAPApplicationVersion
from stellwerk.operators.cap.version.resources import KINDS
from stellwerk.testing.crash_sweep import MakeFault, Sweep, SweepStep, killed_after, killed_before, odd
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.operator_process import OperatorProcess
from stellwerk.testing.recorder import Run

SHARES = 2


def life(shop: Shop) -> tuple[SweepStep, ...]:
    """What is asked for, one after the other."""

    async def provision() -> None:
        await shop.open(host="shop.example.com", waits=False)

    async def provisioned() -> None:
        await shop.tenant_shows("ProvisioningCompleted")

    async def upgrade() -> None:
        await shop.release("2")

    async def upgraded() -> None:
        await shop.tenant_shows("UpgradeCompleted")

    async def delete() -> None:
        """The versions are needed for the tenant, and go after it."""
        for version in ("shop-v1", "shop-v2"):
            await shop.client.delete(metadata_of(CAPApplicationVersion), version, shop.namespace)
        await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def gone() -> None:
        async def is_gone() -> bool:
            kinds = (CAPTenant, CAPApplicationVersion, Deployment, Job)
            left = [await shop.client.list(metadata_of(kind), shop.namespace) for kind in kinds]
            return not any(each.items for each in left)

        await eventually(is_gone, within=60, describe="the tenant and its versions are gone, and all that is theirs")

    return (
        SweepStep("provisioning", provision, provisioned, least_points=8),
        SweepStep("the upgrade", upgrade, upgraded, least_points=6),
        SweepStep("deprovisioning", delete, gone, least_points=6),
    )


async def end_state(shop: Shop) -> Run:
    """The tenant with all that is its own, and the versions with theirs, without what differs from life to life."""
    found: dict[str, JsonObject] = {}
    for version in (await shop.client.list(CAPApplicationVersion, shop.namespace)).items:
        objects = [name for kind in (Deployment.resource, *KINDS) for name in await shop.names_of(kind)]
        found[f"version {version.metadata.name}"] = {"state": version.status.state, "objects": [*objects]}
    tenant = await shop.client.find(CAPTenant, "acme", shop.namespace)
    if tenant is not None:
        status = tenant.status
        previous: list[JsonValue] = [*status.previous_versions]
        found["tenant"] = {"state": status.state, "current": status.current_version, "previous": previous}
        routes = await shop.routes()
        found["routes"] = {
            "hash": routes.metadata.annotations.get(names.RESOURCE_HASH_ANNOTATION, "") if routes else ""
        }
        for operation in await shop.operations():
            kind = operation.spec.operation
            owned = [
                job
                for job in await shop.all_jobs()
                if job.metadata.controller and job.metadata.controller.uid == operation.metadata.uid
            ]
            found[f"operation {kind}"] = {
                "state": operation.status.state,
                "version": operation.spec.version_name,
                "jobs": len(owned),
            }
    return Run((), found)


@pytest.fixture
async def sweep(cap_cluster: LocalCluster, shop: Shop, tmp_path: Path) -> AsyncIterator[Sweep]:
    port = free_port()
    async with (
        FaultProxy(cap_cluster.kubeconfig_for(OPERATOR)) as proxy,
        OperatorProcess(
            [sys.executable, "-m", "tests.cluster.cap.program", str(port)],
            log=tmp_path / "operator.log",
            kubeconfig=proxy.kubeconfig,
            environment={"PYTHONPATH": os.pathsep.join(sys.path)},
            health_url=f"http://127.0.0.1:{port}/readyz",
        ) as process,
    ):
        await process.start()
        yield Sweep(process=process, proxy=proxy, parts=life(shop), end_state=lambda: end_state(shop))


@pytest.mark.req("R-101")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [killed_before, killed_after])
async def test_killed_at_any_write_it_ends_as_if_nothing_had_happened(sweep: Sweep, fault: MakeFault) -> None:
    (share,) = odd(SHARES)
    await sweep.run(fault, share=share, shares=SHARES)
