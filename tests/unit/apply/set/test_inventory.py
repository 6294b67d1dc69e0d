"""An inventory is a value that says what a set consists of."""

from __future__ import annotations

import pytest
from tests.unit.apply.set.given import api_service, config_map, definition, entry_of, one, registered, wanted

from stellwerk.apply.set.model.inventory import (
    EntryStatus,
    Inventory,
    InventoryEntry,
    ManagedType,
    ObjectIdentity,
    Phase,
    is_managed,
)
from stellwerk.kube.types.identifiers import GroupVersionKind

THING = GroupVersionKind("example.org", "v1", "Thing")


@pytest.mark.parametrize(
    ("type_", "is_meant"),
    [
        (ManagedType("example.org", "*", "Thing"), True),
        (ManagedType("example.org", "v1", "*"), True),
        (ManagedType("example.org", "v2", "*"), False),
        (ManagedType("example.org", "*", "Other"), False),
        (ManagedType("other.org", "*", "*"), False),
    ],
)
def test_a_kind_is_one_that_a_definition_brings_or_not(type_: ManagedType, is_meant: bool) -> None:
    assert type_.matches(THING) is is_meant
    assert is_managed(THING, [ManagedType("x", "*", "*"), type_]) is is_meant


def test_the_version_of_a_kind_makes_no_other_object() -> None:
    first, second = (
        InventoryEntry(gvk=THING._replace(version=version), key=one(config_map()).address.key) for version in "ab"
    )
    assert first.identity == second.identity
    assert first.identity == ObjectIdentity.of(second.ref)


def test_a_change_is_a_new_inventory_in_the_same_order() -> None:
    before = registered(wanted(config_map("a") + config_map("b") + config_map("c")))
    a, b, _ = before
    after = before.changed({a.identity: a.now(Phase.READY, EntryStatus.CURRENT), b.identity: None})
    assert [(entry.key.name, entry.phase.value) for entry in after] == [
        ("a", "Ready"),
        ("c", "ScheduledForApplication"),
    ]
    assert len(before) == 3
    assert before.changed({}) is before


def test_an_entry_that_is_there_already_is_the_same_entry() -> None:
    entry = entry_of(registered(wanted(config_map())), "c")
    ready = entry.now(Phase.READY, EntryStatus.CURRENT)
    assert ready.now(Phase.READY, EntryStatus.CURRENT) is ready


def test_the_kinds_that_a_set_brings_are_those_of_its_definitions_each_once() -> None:
    found = registered(wanted(definition() + api_service() + config_map())).managed_types
    assert sorted(map(str, found)) == sorted(
        map(str, [ManagedType("example.org", "*", "Thing"), ManagedType("metrics.example.org", "v1", "*")])
    )
    assert Inventory().managed_types == ()


@pytest.mark.parametrize("phase", Phase)
def test_what_is_settled_is_ready_or_completed(phase: Phase) -> None:
    assert phase.is_settled is (phase in (Phase.READY, Phase.COMPLETED))


@pytest.mark.parametrize("phase", Phase)
def test_what_leaves_is_scheduled_for_deletion_or_being_deleted(phase: Phase) -> None:
    assert phase.is_leaving is (phase in (Phase.SCHEDULED_FOR_DELETION, Phase.DELETING))
