"""The inventory in a store means what the original meant by it, also where it says something unheard of."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from stellwerk.apply.rollout import stored
from stellwerk.apply.rollout.inventory import Entry, Inventory, ManagedType, Phase, Status
from stellwerk.apply.rollout.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.names import GroupVersionKind, ObjectKey

ENTRIES = (
    Entry(
        gvk=GroupVersionKind("apps", "v1", "Deployment"),
        key=ObjectKey("shop", "web"),
        uid="1c9a2b1e-0000-4000-8000-000000000001",
        adoption=AdoptionPolicy.ALWAYS,
        reconcile=ReconcilePolicy.ON_OBJECT_OR_COMPONENT_CHANGE,
        update=UpdatePolicy.SSA_MERGE,
        delete=DeletePolicy.ORPHAN_ON_APPLY,
        apply_order=-3,
        delete_order=5,
        digest="d",
        phase=Phase.UPDATING,
        status=Status.IN_PROGRESS,
        last_applied_at=datetime(2026, 5, 1, 12, tzinfo=UTC),
    ),
    Entry(
        gvk=GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        key=ObjectKey("", "widgets.example.com"),
        managed_types=(ManagedType("example.com", "*", "Widget"),),
        phase=Phase.SCHEDULED_FOR_DELETION,
        status=Status.TERMINATING,
    ),
)


def test_an_inventory_is_read_as_it_was_written() -> None:
    assert stored.read(stored.write(Inventory(ENTRIES))) == Inventory(ENTRIES)


def test_the_uid_tells_one_object_from_another_of_its_name_and_an_entry_of_the_original_from_none() -> None:
    ours, theirs = stored.read(stored.write(Inventory(ENTRIES)))
    assert ours.is_replaced_by("whatever")
    assert not ours.is_replaced_by(ENTRIES[0].uid)
    assert not theirs.is_replaced_by("whatever")


def test_words_are_those_of_the_original() -> None:
    first, second = stored.write(Inventory(ENTRIES))
    assert (first.adoption_policy, first.update_policy) == ("Always", "SsaMerge")
    assert (first.reconcile_policy, first.delete_policy) == ("OnObjectOrComponentChange", "OrphanOnApply")
    assert (first.phase, first.status, first.apply_order, first.delete_order) == ("Updating", "InProgress", -3, 5)
    assert (second.phase, second.digest) == ("ScheduledForDeletion", "")
    assert [(one.group, one.version, one.kind) for one in second.managed_types] == [("example.com", "*", "Widget")]


@pytest.mark.req("R-505")
def test_words_that_nobody_knows_never_make_an_object_one_that_may_be_deleted() -> None:
    (item,) = stored.write(Inventory(ENTRIES[:1]))
    odd = msgspec.structs.replace(item, phase="Dancing", delete_policy="Perhaps", status="Well")
    (entry,) = stored.read([odd])
    assert (entry.phase, entry.delete, entry.status) == (
        Phase.SCHEDULED_FOR_APPLICATION,
        DeletePolicy.ORPHAN,
        Status.UNKNOWN,
    )


def test_a_summary_counts_what_is_ready_and_what_is_leaving() -> None:
    assert stored.summary(Inventory()) == ""
    assert stored.summary(Inventory(ENTRIES)) == "0 of 1 ready, 1 leaving"
