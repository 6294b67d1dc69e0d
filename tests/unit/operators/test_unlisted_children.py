"""Children that are not listed are not known to be absent, unless their kind is not served."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery.children import Children, ChildrenUnknown, child
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.testing.clock import FakeClock

OWNER = Secret(metadata=ObjectMeta(namespace="shop", name="hall", uid="u1"))


@pytest.mark.req("R-207")
@pytest.mark.parametrize("parked", [None, WatchSuspended("cannot list configmaps: the webhook failed")])
async def test_children_are_neither_found_nor_kept_nor_dropped_before_they_are_listed(
    parked: WatchSuspended | None,
) -> None:
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        informer = Cluster(client, clock=FakeClock()).informer(unstructured(ConfigMap.resource))
        children = Children(client, informer, keeper="keeper", clock=FakeClock())
        if parked is not None:
            informer.take(parked)
        why = "the webhook failed" if parked is not None else "not listed yet"
        with pytest.raises(ChildrenUnknown, match=rf"the configmaps of Secret shop/hall: .*{why}"):
            children.of(OWNER)
        with pytest.raises(ChildrenUnknown):
            await children.keep(OWNER, {"data": {}})
        with pytest.raises(ChildrenUnknown):
            await children.drop(OWNER)
        informer.take(Synced((), "1"))
        assert not children.of(OWNER)
        assert not await children.drop(OWNER)


@pytest.mark.req("R-207")
@pytest.mark.parametrize("was_listed", [False, True])
async def test_there_are_no_children_of_a_kind_that_is_not_served(was_listed: bool) -> None:
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        informer = Cluster(client, clock=FakeClock()).informer(unstructured(ConfigMap.resource))
        children = Children(client, informer, keeper="keeper", clock=FakeClock())
        if was_listed:
            informer.take(Synced((child(OWNER, ConfigMap.resource, {}, keeper="keeper"),), "1"))
            assert children.of(OWNER)
        informer.take(WatchSuspended("there is no such kind", is_not_served=True))
        assert not children.of(OWNER)
        assert not await children.drop(OWNER)
        with pytest.raises(ChildrenUnknown, match="there is no such kind"):
            await children.keep(OWNER, {"data": {}})
