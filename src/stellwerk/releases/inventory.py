"""The inventory of a release, as JSON in its ConfigMap (pure).

An API server validates a status, but not this JSON. A missing field is read as unknown; only an entry that does not
identify its object, or that no program has written, makes the inventory unreadable.
"""

from __future__ import annotations

import msgspec

from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.kube.types.model import JsonObject, JsonValue, to_json_object

_UNSAID: JsonObject = {
    "group": "",
    "adoptionPolicy": "",
    "reconcilePolicy": "",
    "updatePolicy": "",
    "deletePolicy": "",
    "applyOrder": 0,
    "deleteOrder": 0,
    "digest": "",
}


def read(kept: JsonValue) -> Inventory:
    """The inventory that a store holds. Raises ValueError."""
    if isinstance(kept, list):
        kept = [{**_UNSAID, **item} if isinstance(item, dict) else item for item in kept]
    items = msgspec.convert(kept or [], tuple[Item, ...])
    if found := inventory_codec.complaint(items):
        place, why = found
        raise ValueError(f"entry {place + 1}: {why}")
    return inventory_codec.read(items)


def write(inventory: Inventory) -> list[JsonObject]:
    """The inventory as a store holds it."""
    return [to_json_object(item) for item in inventory_codec.write(inventory)]
