"""What the manager watches, and what wakes a CAPOperator."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stellwerk.api.core import Pod, Service
from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.cap_manager import watches
from stellwerk.operators.cap_manager.api import OWNER_ID, CAPOperator
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


@pytest.mark.parametrize("is_own", [False, True])
async def test_each_change_of_the_spec_of_a_definition_of_others_has_the_served_kinds_looked_at(
    is_own: bool,
) -> None:
    """An update may bring another version of a kind; the chart's own definitions do not count."""
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    apis = ServedApis(manager.clock, were_asked_for=True)
    seen = watches.watches(manager, apis)
    woken: list[str] = []
    queue = SimpleNamespace(add=lambda key: woken.append(key.name))
    seen.controllers.append(cast(Any, SimpleNamespace(queue=queue)))
    seen.capoperators.take(Synced((CAPOperator(metadata=ObjectMeta(name="cap", namespace="here", uid="u")),), "1"))
    woken.clear()

    def definition(version: int, generation: int = 1) -> PartialObjectMetadata:
        labels = {OWNER_ID: "cap"} if is_own else {}
        name = "servicemonitors.monitoring.coreos.com"
        return PartialObjectMetadata(
            metadata=ObjectMeta(name=name, uid="d", resource_version=str(version), generation=generation, labels=labels)
        )

    seen.definitions.take(Synced((), "1"))
    changes: list[tuple[Changed[PartialObjectMetadata] | Removed[PartialObjectMetadata], bool]] = [
        (Changed(definition(2)), True),
        (Changed(definition(3)), False),
        (Changed(definition(4, generation=2)), True),
        (Removed(definition(5, generation=2)), True),
    ]
    for change, is_news in changes:
        apis.doubted_until = 0.0
        seen.definitions.take(change)
        assert (apis.doubted_until > 0.0) is (is_news and not is_own)
    assert woken == ([] if is_own else ["cap"] * 3)
