"""The inventory in a store means what the original meant by it, also where it says something unheard of."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, InventoryEntry, ManagedType, Phase
from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey

ENTRIES = (
    InventoryEntry(
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
        status=EntryStatus.IN_PROGRESS,
        last_applied_at=datetime(2026, 5, 1, 12, tzinfo=UTC),
    ),
    InventoryEntry(
        gvk=GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        key=ObjectKey("", "widgets.example.com"),
        managed_types=(ManagedType("example.com", "*", "Widget"),),
        phase=Phase.SCHEDULED_FOR_DELETION,
        status=EntryStatus.TERMINATING,
    ),
)


def test_an_inventory_is_read_as_it_was_written() -> None:
    assert inventory_codec.read(inventory_codec.write(Inventory(ENTRIES))) == Inventory(ENTRIES)


def test_the_uid_tells_one_object_from_another_of_its_name_and_an_entry_of_the_original_from_none() -> None:
    ours, theirs = inventory_codec.read(inventory_codec.write(Inventory(ENTRIES)))
    assert ours.is_replaced_by("whatever")
    assert not ours.is_replaced_by(ENTRIES[0].uid)
    assert not theirs.is_replaced_by("whatever")


def test_words_are_those_of_the_original() -> None:
    first, second = inventory_codec.write(Inventory(ENTRIES))
    assert (first.adoption_policy, first.update_policy) == ("Always", "SsaMerge")
    assert (first.reconcile_policy, first.delete_policy) == ("OnObjectOrComponentChange", "OrphanOnApply")
    assert (first.phase, first.status, first.apply_order, first.delete_order) == ("Updating", "InProgress", -3, 5)
    assert (second.phase, second.digest) == ("ScheduledForDeletion", "")
    assert [(one.group, one.version, one.kind) for one in second.managed_types] == [("example.com", "*", "Widget")]


@pytest.mark.req("R-505")
def test_words_that_nobody_knows_never_make_an_object_one_that_may_be_deleted() -> None:
    (item,) = inventory_codec.write(Inventory(ENTRIES[:1]))
    odd = msgspec.structs.replace(item, phase="Dancing", delete_policy="Perhaps", status="Well")
    (entry,) = inventory_codec.read([odd])
    assert (entry.phase, entry.delete, entry.status) == (
        Phase.SCHEDULED_FOR_APPLICATION,
        DeletePolicy.ORPHAN,
        EntryStatus.UNKNOWN,
    )


def test_a_summary_counts_what_is_ready_and_what_is_leaving() -> None:
    assert inventory_codec.summary(Inventory()) == ""
    assert inventory_codec.summary(Inventory(ENTRIES)) == "0 of 1 ready, 1 leaving"


GARBAGE: dict[str, tuple[str, ...]] = {
    "group": ("../x", "a/b", "A", "a" * 300, "a b"),
    "version": ("", "v1/namespaces/x", "..", "V1", "v1%2f"),
    "kind": ("", "Pod/log", "a b", "x" * 100),
    "namespace": ("../kube-system", "a/b", "A", "n" * 100, "kube-system%2f"),
    "name": ("", ".", "..", "x/scale", "x%2Fscale", "a\nb", "\0", "x" * 2_000),
    "uid": ("u" * 1_000_000, "a b", "ü", "\n"),
    "digest": ("d" * 100_000, "\n"),
}


@pytest.mark.req("R-509")
@pytest.mark.req("R-413")
@pytest.mark.parametrize(("field", "word"), [(field, word) for field, words in GARBAGE.items() for word in words])
def test_an_entry_that_nobody_has_written_is_named_by_its_place_and_field(field: str, word: str) -> None:
    items = inventory_codec.write(Inventory(ENTRIES))
    forged = msgspec.structs.replace(items[0], **{field: word})
    found = inventory_codec.complaint([items[1], forged])
    assert found is not None
    assert found[0] == 1
    assert found[1].startswith(f"its {field} cannot be ")
    assert len(found[1]) < 500


@pytest.mark.req("R-413")
def test_a_former_digest_that_nobody_has_written_is_named() -> None:
    forged = msgspec.structs.replace(inventory_codec.write(Inventory(ENTRIES))[0], former_digest="d" * 100_000)
    found = inventory_codec.complaint([forged])
    assert found is not None
    assert found[1].startswith("its formerDigest cannot be ")


@pytest.mark.req("R-509")
def test_an_entry_that_is_there_twice_or_brings_too_many_kinds_is_named() -> None:
    items = inventory_codec.write(Inventory(ENTRIES))
    assert inventory_codec.complaint([*items, items[0]]) == (2, "it is there twice")
    greedy = msgspec.structs.replace(items[1], managed_types=items[1].managed_types * 65)
    assert inventory_codec.complaint([greedy]) == (0, "it brings more than 64 kinds")


def test_entries_of_every_usual_kind_of_name_can_be_worked_with() -> None:
    items = inventory_codec.write(Inventory(ENTRIES))
    role = msgspec.structs.replace(
        items[1], group="rbac.authorization.k8s.io", kind="ClusterRole", name="system:a b:ü?"
    )
    once = msgspec.structs.replace(items[0], digest=f"{'a' * 64}@{'b' * 64}", name="...")
    assert inventory_codec.complaint([*items, role, once]) is None
    assert inventory_codec.complaint([]) is None
