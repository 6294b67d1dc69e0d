"""Where the kinds of a set are served now, whatever version a manifest once had."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from stellwerk.apply.set.checks.crd_usage import has_failed
from stellwerk.apply.set.model.desired_set import API_SERVICE, DesiredObject
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ManagedType, ObjectIdentity, is_managed
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.errors import NotServed, Undiscovered
from stellwerk.kube.types.identifiers import Resource


async def resources_of(
    wanted: Sequence[DesiredObject], inventory: Inventory, client: Client, now: datetime
) -> dict[ObjectIdentity, Resource]:
    """The resource of every object that is wanted or still there; nothing of a kind that is not served can be left.

    Kinds of an APIService that is to go and will not answer are left out as well: no request can delete their objects,
    and the APIService would have to wait for them for ever. A kind of an APIService that is wanted and does not answer
    yet has no plural. Raises `ApiError` where the server cannot be asked.
    """
    promised = [type_ for obj in wanted for type_ in obj.managed_types]
    found = {obj.identity: obj.address.resource for obj in wanted}
    lost = await _lost_types(found, inventory, client, now)
    for entry in inventory:
        if entry.identity in found or is_managed(entry.gvk, lost):
            continue
        try:
            resource = await _resource_of(entry, client.mapper)
        except Undiscovered:
            if not is_managed(entry.gvk, promised):
                raise
            resource = Resource(*entry.gvk, plural="", namespaced=bool(entry.key.namespace))
        if resource is not None:
            found[entry.identity] = resource
    return found


async def _lost_types(
    wanted: Collection[ObjectIdentity], inventory: Inventory, client: Client, now: datetime
) -> list[ManagedType]:
    """What APIServices brought that are to go and will not answer. One request for each that has objects here."""
    kinds = {entry.gvk for entry in inventory}
    going = [
        entry
        for entry in inventory
        if (entry.gvk.group, entry.gvk.kind) == API_SERVICE
        and entry.identity not in wanted
        and any(is_managed(kind, entry.managed_types) for kind in kinds)
    ]
    return [type_ for entry in going if await has_failed(entry, client, now) for type_ in entry.managed_types]


async def _resource_of(entry: InventoryEntry, mapper: ResourceMapper) -> Resource | None:
    try:
        return await mapper.resource(entry.gvk)
    except NotServed:
        pass
    try:
        return await mapper.preferred(entry.gvk.group, entry.gvk.kind)
    except NotServed:
        return None
