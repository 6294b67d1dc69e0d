"""An operator that may not list tenants does not take them for absent."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names, rights
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop

USER = "cap-without-tenants"


@pytest.mark.req("R-206")
async def test_an_application_with_tenants_stays_while_the_operator_may_not_list_them(
    cap_cluster: LocalCluster, admin: Client, shop: Shop
) -> None:
    await permissions.grant(admin, USER, [each for each in rights.GRANTS if "captenants" not in each.rule.resources])
    await shop.apply()
    await shop.subscribe()
    held = MergePatch({"metadata": {"finalizers": [names.APPLICATION_FINALIZER]}})
    await admin.patch(metadata_of(CAPApplication), "shop", shop.namespace, held)
    await admin.delete(metadata_of(CAPApplication), "shop", shop.namespace)

    running = Running(cap_cluster.kubeconfig_for(USER))
    starting = asyncio.create_task(running.start())
    try:

        def only_tenants_are_unseen() -> bool:
            why = running.manager.unready() or ""
            return why.startswith("captenants.sme.sap.com cannot be watched") and ";" not in why

        await asyncio.sleep(0)  # it has begun
        await eventually(only_tenants_are_unseen, describe="all kinds but tenants are listed")
        assert not running.manager.leads
        await permissions.grant(admin, USER, rights.GRANTS)
        await starting

        async def waits() -> bool:
            found = await admin.get(CAPApplication, "shop", shop.namespace)
            assert any(each.reason == "TenantsExist" for each in found.status.conditions), found.status
            return True

        await eventually(waits, within=30, describe="the application waits for its tenants")
    finally:
        starting.cancel()
        await running.stop()
