"""Where the kinds of a set are served now, whatever version a manifest once had."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity
from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import Resource


async def resources_of(
    wanted: Sequence[DesiredObject], inventory: Inventory, mapper: ResourceMapper
) -> dict[ObjectIdentity, Resource]:
    """The resource of every object that is wanted or still there; nothing of a kind that is not served can be left.

    Raises `ApiError` where the server cannot be asked.
    """
    found = {obj.identity: obj.address.resource for obj in wanted}
    for entry in inventory:
        if entry.identity not in found and (resource := await _resource_of(entry, mapper)) is not None:
            found[entry.identity] = resource
    return found


async def _resource_of(entry: InventoryEntry, mapper: ResourceMapper) -> Resource | None:
    try:
        return await mapper.resource(entry.gvk)
    except NotServed:
        pass
    try:
        return await mapper.preferred(entry.gvk.group, entry.gvk.kind)
    except NotServed:
        return None
