"""Where the kinds of a set are served, when an API service of the set does not answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import pytest
from tests.unit.apply.set.given import NOW, RESOURCES

from stellwerk.api.apiregistration import APIService, APIServiceStatus
from stellwerk.apply.set.checks.resource_lookup import resources_of
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ManagedType, ObjectIdentity
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Undiscovered
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.object_meta import Condition

MEASURE = GroupVersionKind("metrics.example.org", "v1", "Measure")
DEAD = APIService(
    status=APIServiceStatus(conditions=(Condition(type="Available", status="False", reason="MissingEndpoints"),))
)
ALIVE = APIService(status=APIServiceStatus(conditions=(Condition(type="Available", status="True"),)))
INSTANCE = InventoryEntry(gvk=MEASURE, key=ObjectKey("shop", "one"))
SERVICE = InventoryEntry(
    gvk=GroupVersionKind("apiregistration.k8s.io", "v1", "APIService"),
    key=ObjectKey("", "v1.metrics.example.org"),
    managed_types=(ManagedType("metrics.example.org", "v1", "*"),),
)


@dataclass
class Server:
    """A client and its mapper; `knows` is what discovery once showed."""

    service: APIService | None
    knows: bool = False

    @property
    def mapper(self) -> Server:
        return self

    async def find(self, kind: object, name: str) -> APIService | None:
        assert (kind, name) == (APIService, SERVICE.key.name)
        return self.service

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        if gvk == MEASURE and not self.knows:
            raise Undiscovered("does not answer")
        return RESOURCES[gvk]


async def looked_up(server: Server, *wanted: DesiredObject) -> set[ObjectIdentity]:
    return {*await resources_of(wanted, Inventory((INSTANCE, SERVICE)), cast(Client, server), NOW)}


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("service", [DEAD, None])
async def test_objects_behind_an_api_service_that_goes_and_will_not_answer_are_waited_for_no_longer(
    service: APIService | None, knows: bool
) -> None:
    assert await looked_up(Server(service, knows)) == {SERVICE.identity}


async def test_they_are_waited_for_while_it_may_answer_again() -> None:
    with pytest.raises(Undiscovered):
        await looked_up(Server(ALIVE))
    assert await looked_up(Server(ALIVE, knows=True)) == {SERVICE.identity, INSTANCE.identity}


async def test_while_the_api_service_is_wanted_their_kind_has_no_path_until_it_answers() -> None:
    @dataclass
    class Wanted:
        """An object of the manifests."""

        identity: ObjectIdentity = SERVICE.identity
        address: Wanted | None = None
        resource: Resource = RESOURCES[SERVICE.gvk]
        managed_types: tuple[ManagedType, ...] = SERVICE.managed_types

    wanted = cast(DesiredObject, replace(Wanted(), address=Wanted()))
    inventory = Inventory((INSTANCE, SERVICE))
    found = await resources_of([wanted], inventory, cast(Client, Server(DEAD)), NOW)
    assert found[INSTANCE.identity] == Resource(*MEASURE, plural="", namespaced=True)
    found = await resources_of([wanted], inventory, cast(Client, Server(DEAD, knows=True)), NOW)
    assert found[INSTANCE.identity] == RESOURCES[MEASURE]
    elsewhere = cast(DesiredObject, replace(Wanted(), address=Wanted(), managed_types=()))
    with pytest.raises(Undiscovered):
        await resources_of([elsewhere], inventory, cast(Client, Server(DEAD)), NOW)
