"""A Component that would not fit into the store with its inventory is refused, and told how large it would be."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.operators.component.component import set_checks


def inventory(objects: int) -> Inventory:
    kind = GroupVersionKind("", "v1", "ConfigMap")
    return Inventory(
        tuple(InventoryEntry(gvk=kind, key=ObjectKey("home", f"config-{n}"), digest="d" * 32) for n in range(objects))
    )


@pytest.mark.parametrize("objects", [0, 499, 500, 2_500])
def test_what_fits_is_not_refused(objects: int) -> None:
    set_checks.check_size(component(), inventory(objects))


@pytest.mark.req("R-209")
def test_what_does_not_fit_is_refused_with_its_size() -> None:
    with pytest.raises(InvalidSet, match=r"with 5000 objects it would take \d{4} KiB.*several Components"):
        set_checks.check_size(component(), inventory(5_000))


@pytest.mark.req("R-209")
def test_a_large_spec_leaves_less_room() -> None:
    with pytest.raises(InvalidSet, match="with 1000 objects"):
        set_checks.check_size(component(spec={"values": {"large": "x" * 1_200_000}}), inventory(1_000))
