"""What the operator waits for before its first pass."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
from stellwerk.operators.component.watches import watches
from stellwerk.runtime.process.manager import Manager


@pytest.mark.req("R-206")
async def test_components_are_served_without_rights_to_blueprints_and_definitions_and_the_process_is_not_ready() -> (
    None
):
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        manager = Manager(client)
        seen = watches(manager)
        for informer in manager.home.informers:
            informer.take(WatchSuspended(f"not permitted to list {informer.name}", is_forbidden=True))
        settled = asyncio.create_task(manager.home.wait_settled())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not settled.done(), "Components are missing"
        seen.components.take(Synced((), "1"))
        await asyncio.wait_for(settled, 5)
        missing = str(manager.unready())
        for name in (seen.blueprints.name, seen.blueprint_versions.name, seen.definitions.name):
            assert f"not permitted to list {name}" in missing
