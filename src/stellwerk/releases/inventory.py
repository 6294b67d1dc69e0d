"""The inventory of a release, as text in its ConfigMap: YAML by `clm`, JSON by us (pure).

An API server validates a status, but not this text. A missing field is read as unknown; only an entry that does not
identify its object, or that no program has written, makes the inventory unreadable.
"""

from __future__ import annotations

import msgspec

from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.kube import yaml
from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue

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


_ORDERS = ("applyOrder", "deleteOrder")


def read(text: str) -> Inventory:
    """The inventory that a store holds. Raises ValueError, UnreadableYaml."""
    kept = _value(text)
    if isinstance(kept, list):
        kept = [{**_UNSAID, **item} if isinstance(item, dict) else item for item in kept]
    items = msgspec.convert(kept or [], tuple[Item, ...])
    if found := inventory_codec.complaint(items):
        place, why = found
        raise ValueError(f"entry {place + 1}: {why}")
    return inventory_codec.read(items)


def write(inventory: Inventory) -> str:
    """The inventory as a store holds it, without orders that are 0: JSON has to be smaller than YAML was."""
    items = (msgspec.to_builtins(item) for item in inventory_codec.write(inventory))
    kept = [{name: value for name, value in item.items() if value or name not in _ORDERS} for item in items]
    return msgspec.json.encode(kept).decode()


def _value(text: str) -> JsonValue:
    if not text.startswith("["):
        return yaml.read_value(text)
    try:
        found: JsonValue = msgspec.json.decode(text)
    except UNREADABLE:  # a list of YAML in one line
        return yaml.read_value(text)
    return found
