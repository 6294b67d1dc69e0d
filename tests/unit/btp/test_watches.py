"""For how long passes wait for the lists of what users have."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.btp import ServiceInstance
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.btp.settings import Settings
from stellwerk.operators.btp.watches import SETTLED_WITHIN_SECONDS, Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock

SERVED = msgspec.convert(
    {
        "metadata": {"name": ServiceInstance.resource.group_resource, "uid": "u", "resourceVersion": "1"},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    },
    CustomResourceDefinition,
)


async def test_passes_wait_once_for_a_list_that_the_api_server_refuses_and_not_each_of_them_again() -> None:
    clock = FakeClock()
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")), clock=clock)
    caches = Caches(manager, wake=lambda: None, settings=Settings())
    for informer in manager.home.informers:
        if ServiceInstance.resource.group_resource in informer.name:
            cast("Any", informer).take(Synced((SERVED,), "1"))
    assert ServiceInstance.resource in caches.users

    first = asyncio.create_task(caches.users_settled())
    await clock.until_sleeping()
    assert not first.done()
    await clock.advance(SETTLED_WITHIN_SECONDS)
    await first
    await asyncio.wait_for(caches.users_settled(), timeout=1)
