"""What the server promises holds although its watch of tenants has gone silent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster import permissions
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop, Serving

from stellwerk.kube.client.client import Client
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import rights
from stellwerk.testing.faults import ANY_FRAME, FaultProxy, Hold, nth, of_watch, requests
from stellwerk.testing.servers.registries import Registries


@pytest.fixture
async def proxy(cap_cluster: LocalCluster, admin: Client) -> AsyncIterator[FaultProxy]:
    """A line to the control plane that can be made bad."""
    await permissions.grant(admin, SERVER, (*rights.GRANTS, *rights.HOME_GRANTS))
    async with FaultProxy(cap_cluster.kubeconfig_for(SERVER)) as made:
        yield made


@pytest.fixture
async def serving(proxy: FaultProxy, registries: Registries) -> AsyncIterator[Serving]:
    """The server, which gives a silent watch up after a second."""
    made = Serving(proxy.kubeconfig, registries, silence_seconds=1.0)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.req("R-202", "R-307")
async def test_a_half_open_watch_of_tenants_is_given_up_and_the_callback_is_sent(
    proxy: FaultProxy, shop: Bookshop
) -> None:
    assert (await shop.subscribe()).status == 202
    silent = Hold()
    half_open = proxy.on_events(
        ANY_FRAME & of_watch(requests("watch", CAPTenant.resource.group_resource)), silent, nth(1)
    )
    await shop.shows("Ready")
    await silent.caught()
    half_open.end()
    (callback,) = await shop.registries.received()
    assert (callback.path, callback.body["status"]) == ("/callback/1", "SUCCEEDED")
    silent.release()
    await shop.promises_show("delivered")
    assert len(shop.registries.callbacks) == 1


@pytest.mark.req("R-202")
async def test_the_end_of_a_tenant_that_its_watch_does_not_show_yet_is_carried_out(
    proxy: FaultProxy, shop: Bookshop
) -> None:
    silent = Hold()
    half_open = proxy.on_events(
        ANY_FRAME & of_watch(requests("watch", CAPTenant.resource.group_resource)), silent, nth(1)
    )
    assert (await shop.subscribe()).status == 202
    await silent.caught()
    reply = await shop.unsubscribe(guid="another")
    half_open.end()
    silent.release()
    assert reply.status == 202
    await shop.gone()
