"""Whether a Component still fits into etcd when its inventory is in its status (pure).

etcd takes 1.5 MiB for one object. A set whose inventory does not fit is refused before its first object is touched: it
could neither be saved nor reported, because a status that is too large is not written at all. A store of its own for
large inventories was refused: the originals could not go on from it.
"""

from __future__ import annotations

import msgspec

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.kube.types.model import encode_json
from stellwerk.operators.component.api import Component

LARGEST_BYTES = 1_400_000
"""Leaves a tenth for managedFields and for the words of conditions."""
_FEW = 500
"""So many objects are not worth the reckoning."""
ENTRY_BYTES = 400
"""What an object takes in an inventory, as JSON."""
_LATER_BYTES = 110
"""What an entry gets when its object is written: uid, time and a longer phase."""


def check(component: Component, inventory: Inventory) -> None:
    """Raises InvalidSet where the inventory does not fit."""
    if len(inventory) < _FEW:
        return
    status = msgspec.structs.replace(component.status, inventory=inventory_codec.write(inventory))
    later = sum(not entry.uid for entry in inventory) * _LATER_BYTES
    size = len(encode_json(msgspec.structs.replace(component, status=status))) + later
    if size > LARGEST_BYTES:
        why = (
            f"with {len(inventory)} objects it would take {size >> 10} KiB, and {LARGEST_BYTES >> 10} KiB fit into the "
            "API server's store; divide them among several Components"
        )
        raise InvalidSet([Problem(str(component.ref), why)])
