"""Which pods the manager watches."""

from __future__ import annotations

import asyncio

from stellwerk.api.core import Pod, Service
from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import metadata_of
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap_manager import watches
from stellwerk.operators.cap_manager.watches import ISTIO_SYSTEM, PODS_THAT_RUN
from stellwerk.runtime.process.manager import Manager


async def test_the_pods_of_a_former_gateway_are_watched_no_longer() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    seen = watches.watches(manager, ServedApis(manager.clock))
    manager.informer(Service, namespace=ISTIO_SYSTEM).take(Synced((), "1"))
    for number in range(30):
        selector = f"istio=gateway-{number}"
        looking = asyncio.create_task(seen.gateway(selector))
        await asyncio.sleep(0)
        manager.informer(metadata_of(Pod), labels=selector, fields=PODS_THAT_RUN).take(Synced((), "1"))
        assert await asyncio.wait_for(looking, 5) == ((), ())
    watched = [each.selection for each in manager.home.informers if each.view.resource == Pod.resource]
    assert [(each.labels, each.fields) for each in watched] == [("istio=gateway-29", PODS_THAT_RUN)]
