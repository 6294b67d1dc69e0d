"""The objects of one set, as watches or single reads show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.checks.resource_lookup import resources_of
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner, Standing
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.delivery.watched_objects import OwnedObjects, Place, places, read
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import Resource


@dataclass(frozen=True, slots=True)
class SetView:
    """What is seen of a set."""

    owned: OwnedObjects
    resources: Mapping[ObjectIdentity, Resource]
    """Where the kinds of the set are served."""
    read: Mapping[ObjectIdentity, LiveObject]
    """Objects that no watch shows, of any owner."""
    unwatched: tuple[str, ...] = ()
    """Why objects are read one by one; empty where watches show all of them."""

    def of(self, owner: Owner) -> dict[ObjectIdentity, LiveObject]:
        """The objects of the set."""
        ours = {name: one for name, one in self.read.items() if owner.standing(one.live.metadata) is Standing.OURS}
        found = self.owned.of(owner.label_value) | ours
        # Without what an API service brought that will not answer: a watch shows it as it was.
        return {name: one for name, one in found.items() if name in self.resources}

    def find(self, address: Address) -> Live | None:
        """An object of any owner."""
        one = self.read.get(ObjectIdentity.of(address.ref))
        return one.live if one is not None else self.owned.find(address)


async def covered(
    wanted: Sequence[DesiredObject], known: Inventory, owned: OwnedObjects, client: Client, now: datetime
) -> SetView:
    """What is seen of a set, whose kinds are watched from now on, as far as rights allow.

    Raises ApiError, Unwatchable.
    """
    resources = await resources_of(wanted, known, client, now)
    unwatched = await owned.cover(await _watched(resources, client))
    found = await read(resources, unwatched, client) if unwatched else {}
    return SetView(owned, resources, found, tuple(dict.fromkeys(unwatched.values())))


async def _watched(resources: Mapping[ObjectIdentity, Resource], client: Client) -> list[Place]:
    """Where objects may be: a kind that a definition of the set has yet to bring has none."""
    served: dict[Resource, bool] = {}
    for resource in dict.fromkeys(resources.values()):
        if not resource.plural:  # an APIService of the set has yet to bring the kind: discovery may know nothing of it
            served[resource] = False
            continue
        try:
            await client.mapper.resource(resource.gvk)
            served[resource] = True
        except NotServed:
            served[resource] = False
    return [place for place in places(resources) if served[place.resource]]
