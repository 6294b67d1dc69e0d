"""`OperatorHarness.settled` returns when the operator has seen everything and has nothing more to do."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.api.events import Event
from stellwerk.operators.component.api import Component
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import Delay, FaultProxy, Hold, events, requests
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_an_object_of_another_client_and_all_that_follows_from_it_has_been_seen(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.source({"one.yaml": config_map("one")})
    component = await given.component()
    await running.settled(given.client)
    shown = running.operator.watches.components.store.get(component.key)
    assert shown is not None
    assert shown.is_ready
    assert await then.exists(ConfigMap, "one")
    assert not running.is_busy


async def test_an_object_that_is_gone_is_gone_from_the_caches(given: Given, running: Running) -> None:
    await running.start()
    await given.source({"one.yaml": config_map("one")})
    component = await given.component()
    await running.settled(given.client)
    await given.deleted()
    await eventually(lambda: running.passes > 0)
    await running.settled(given.client)
    assert running.operator.watches.components.store.get(component.key) is None


async def test_a_watch_that_lags_is_waited_for(proxy: FaultProxy, behind: Running, given: Given, then: Then) -> None:
    await given.source({"one.yaml": config_map("one")})
    await behind.start()
    await given.component()
    await then.ready()
    await behind.settled(given.client)  # no write of its own is on the way
    hold = Hold()
    with proxy.on_events(events("MODIFIED", Component.resource.group_resource), hold):
        await given.labelled(seen="late")
        await hold.caught()
        waiting = asyncio.create_task(behind.settled(given.client))
        with pytest.raises(StillUntrue, match="comp"):
            await behind.settled(given.client, within=5.0)
        assert not waiting.done()
        hold.release()
        await waiting


async def test_an_event_that_is_being_sent_is_waited_for(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await behind.start()
    with proxy.on_requests(requests("create", Event.resource.group_resource), Delay(3.0)) as delayed:
        await given.component()
        await then.ready()
        await eventually(lambda: delayed.fired, on=proxy.history.changed)
        with pytest.raises(StillUntrue, match="Events are being sent"):
            await behind.settled(given.client, within=1.0)
    await behind.settled(given.client)
    await then.event("Ready", about="comp")


async def test_a_key_that_is_due_later_counts_as_settled(given: Given, running: Running, then: Then) -> None:
    await running.start()
    await given.component(retryInterval="5m")  # its source does not exist
    await then.shows("Pending", "Retrying")
    await running.settled(given.client)
    assert running.operator.controller.queue.delayed
