"""An operator that is shown the past deletes and changes nothing of the present."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.testing.faults import READS, WATCHES, FaultProxy, OlderView, requests
from stellwerk.testing.scenarios.recorder import LASTING_WRITES
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

FIRST = {"kept.yaml": config_map("kept", a="1"), "dropped.yaml": config_map("dropped")}
SECOND = {"kept.yaml": config_map("kept", a="2"), "new.yaml": config_map("new")}


async def versions(client: Client, namespace: str) -> dict[str, tuple[str, str]]:
    """Each ConfigMap's identity and version."""
    listed = await client.list(metadata_of(ConfigMap), namespace)
    return {one.metadata.name: (one.metadata.uid, one.metadata.resource_version) for one in listed.items}


async def healed(older: OlderView, running: Running, component: Component) -> None:
    """The view is the present one with this Component, and the operator has made of it what it will."""
    older.heal()
    await running.has_seen(component)
    await running.rests()


@pytest.mark.req("R-104")
async def test_after_a_restart_onto_a_view_with_a_former_component_of_its_name_nothing_is_deleted(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    await given.source(FIRST, revision="r1")
    await behind.start()
    await given.component()
    await then.ready(revision="r1")
    await behind.stop()
    await given.deleted()
    leaving = await given.client.get(Component, "comp", given.namespace)
    await behind.start()
    await then.gone()
    await given.source(SECOND, revision="r2")
    await given.component()
    await then.ready(revision="r2")
    await behind.stop()
    before = await versions(given.client, given.namespace)
    proxy.history.clear()

    older = OlderView(leaving.metadata.resource_version)
    proxy.on_requests(READS | WATCHES, older)
    await behind.start()
    await proxy.history.seen(1, requests("patch", Component.resource.group_resource))
    await proxy.history.settled()
    await behind.rests()
    assert proxy.history.writes(LASTING_WRITES) == []
    await healed(older, behind, await given.client.get(Component, "comp", given.namespace))
    await then.ready(revision="r2")
    assert await versions(given.client, given.namespace) == before
    assert (await given.client.get(Component, "comp", given.namespace)).metadata.finalizers
