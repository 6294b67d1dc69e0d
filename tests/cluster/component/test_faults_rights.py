"""Rights that are taken away while Components use them: the one is told which, the others work on, and it recovers.

The API server asks for rights when a watch is opened and not while it is open, so the line is cut as well.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.core import Service
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import ANY_FRAME, CutFrame, FaultProxy, of_watch, requests
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import manifest
from tests.cluster.component.rights import ALL, Rights
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PORTS: JsonObject = {"spec": {"ports": [{"port": 80}]}}
SERVICE = {"service.yaml": manifest("Service", "front", PORTS)}


@pytest.fixture
async def proxy(component_cluster: LocalCluster, may: Rights) -> AsyncIterator[FaultProxy]:
    """The line of somebody who may do what he is granted."""
    async with FaultProxy(component_cluster.kubeconfig_for(may.user)) as made:
        yield made


async def services_are_asked_for_anew(proxy: FaultProxy, given: Given) -> None:
    """The watch of Services breaks at its next event, and the operator is told whether it may have another."""
    asks = requests(("watch", "list"), "services")
    before = proxy.history.count(asks)
    with proxy.on_events(ANY_FRAME & of_watch(requests("watch", "services")), CutFrame()) as cut:
        label = MergePatch({"metadata": {"labels": {"poked": secrets.token_hex(4)}}})
        await given.client.patch(metadata_of(Service), "front", given.namespace, label)
        await eventually(lambda: bool(cut.fired), on=proxy.history.changed)
    await eventually(
        lambda: any(one.status is not None for one in proxy.history.all(asks)[before:]), on=proxy.history.changed
    )


@pytest.mark.req("R-206")
async def test_rights_taken_away_from_a_kind_in_use_are_named_and_their_return_is_noticed(
    proxy: FaultProxy, behind: Running, given: Given, then: Then, may: Rights
) -> None:
    await may.are(("configmaps", ALL), ("services", ALL))
    await given.source({**SERVICE, "one.yaml": config_map("one")}, "with-service", revision="r1")
    await given.source({"two.yaml": config_map("two")}, revision="r1")
    await behind.start()
    await given.component("blocked", "with-service")
    await given.component("fine")
    await then.ready("blocked")
    await then.ready("fine")

    await may.are(("configmaps", ALL))
    await services_are_asked_for_anew(proxy, given)
    await given.source({**SERVICE, "one.yaml": config_map("one", a="2")}, "with-service", revision="r2")
    await given.source({"two.yaml": config_map("two", a="2")}, revision="r2")
    where = f"services in namespace {then.namespace}"
    await then.shows("Error", "Error", "blocked", saying=f"not permitted to list and watch {where}")
    await then.ready("fine", revision="r2")
    assert behind.manager.unready() is None

    await may.are(("configmaps", ALL), ("services", ALL))
    await behind.waits(minutes=20)
    await then.ready("blocked", revision="r2")
    assert await then.exists(Service, "front")


@pytest.mark.req("R-206")
async def test_with_rights_in_its_namespace_only_it_works_as_before(
    proxy: FaultProxy, behind: Running, given: Given, then: Then, may: Rights
) -> None:
    await may.are(("configmaps", ALL), ("services", ALL))
    await given.source(SERVICE, revision="r1")
    await behind.start()
    await given.component()
    await then.ready()
    before = await given.client.get(metadata_of(Service), "front", given.namespace)

    await may.are(("configmaps", ALL))
    await may.are_in(given.namespace, ("services", ALL))
    await services_are_asked_for_anew(proxy, given)
    await given.source({**SERVICE, "back.yaml": manifest("Service", "back", PORTS)}, revision="r2")
    await then.ready(revision="r2", within=8)
    await given.client.delete(metadata_of(Service), "front", given.namespace)

    async def is_another() -> bool:
        found = await given.client.find(metadata_of(Service), "front", given.namespace)
        return found is not None and found.metadata.uid != before.metadata.uid

    await eventually(is_another, within=8, describe="the Service is made again")
