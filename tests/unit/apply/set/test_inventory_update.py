"""The inventory follows from what is wanted, and nobody's objects are taken by mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.unit.apply.set.given import (
    NOW,
    THEM,
    US,
    config_map,
    definition,
    document,
    entry_of,
    live,
    one,
    registered,
    wanted,
)

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import (
    EntryStatus,
    Inventory,
    InventoryEntry,
    ManagedType,
    ObjectIdentity,
    Phase,
)
from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.apply.set.plan.inventory_update import newcomers, refusal, register, taken_over
from stellwerk.apply.set.plan.plan_input import LiveObject

NOTHING: Mapping[ObjectIdentity, LiveObject] = {}


def settled(inventory: Inventory) -> Inventory:
    """The inventory when everything in it has been applied and is ready."""
    return Inventory(
        tuple(replace(entry, phase=Phase.READY, status=EntryStatus.CURRENT, last_applied_at=NOW) for entry in inventory)
    )


def existing(obj: DesiredObject, owner: str = "") -> dict[ObjectIdentity, LiveObject]:
    """The object as it exists already: unowned, `ours` or `theirs`."""
    body = {"ours": US, "theirs": THEM}[owner].stamped(obj.desired.body, "d") if owner else obj.desired.body
    found = live(replace(obj.desired, body=body), without_marks=not owner)
    return {obj.identity: LiveObject(obj.address, found)}


# ---- newcomers


def test_what_is_new_is_saved_before_it_is_touched() -> None:
    objects = wanted(config_map("a") + config_map("b"))
    found = register(objects, Inventory(), NOTHING, US)
    assert found.must_be_saved
    assert [(entry.phase, entry.status) for entry in found.inventory] == [
        (Phase.SCHEDULED_FOR_APPLICATION, EntryStatus.IN_PROGRESS)
    ] * 2
    assert newcomers(objects, Inventory()) == objects


@pytest.mark.req("R-108")
def test_a_set_that_has_not_changed_leaves_its_inventory_as_it_is() -> None:
    objects = wanted(config_map("a") + config_map("b"))
    before = settled(registered(objects))
    after = register(objects, before, NOTHING, US)
    assert (after.inventory, after.must_be_saved) == (before, False)
    assert newcomers(objects, before) == ()


def test_an_entry_knows_what_its_object_asks_for() -> None:
    text = config_map(
        adoption_policy="always",
        reconcile_policy="once",
        update_policy="recreate",
        delete_policy="orphan",
        apply_order=1,
        delete_order=2,
    )
    (entry,) = registered(wanted(text))
    assert entry == InventoryEntry(
        gvk=one(text).address.resource.gvk,
        key=one(text).address.key,
        adoption=AdoptionPolicy.ALWAYS,
        reconcile=ReconcilePolicy.ONCE,
        update=UpdatePolicy.RECREATE,
        delete=DeletePolicy.ORPHAN,
        apply_order=1,
        delete_order=2,
        digest="__once__",
        phase=Phase.SCHEDULED_FOR_APPLICATION,
        status=EntryStatus.IN_PROGRESS,
    )


def test_an_entry_knows_what_its_object_brings() -> None:
    assert entry_of(registered(wanted(definition())), "things.example.org").managed_types == (
        ManagedType("example.org", "*", "Thing"),
    )


# ---- whose an object may be


@pytest.mark.parametrize(
    ("policy", "owner", "refused"),
    [
        ("if-unowned", "", ""),
        ("if-unowned", "ours", ""),
        ("if-unowned", "theirs", "owner conflict; the object is owned by uid/there/other"),
        ("never", "", "found existing object without owner, and adoption policy Never forbids to take it"),
        ("never", "ours", ""),
        ("never", "theirs", "owner conflict; the object is owned by uid/there/other"),
        ("always", "", ""),
        ("always", "ours", ""),
        ("always", "theirs", ""),
    ],
)
@pytest.mark.req("R-111")
def test_an_object_that_exists_is_taken_only_where_its_policy_allows_it(policy: str, owner: str, refused: str) -> None:
    obj = one(config_map(adoption_policy=policy))
    found = existing(obj, owner)
    assert refusal(obj, found[obj.identity].live, US) == refused
    if refused:
        with pytest.raises(InvalidSet, match=f"ConfigMap there/c: {refused}"):
            register([obj], Inventory(), found, US)
    else:
        assert len(register([obj], Inventory(), found, US).inventory) == 1


def test_who_is_in_the_inventory_is_not_asked_for_again() -> None:
    obj = one(config_map(adoption_policy="never"))
    known = registered([obj])
    assert register([obj], known, existing(obj, "theirs"), US).inventory == known


def test_all_refusals_come_at_once() -> None:
    objects = wanted(config_map("a") + config_map("b") + config_map("c"))
    found = {**existing(objects[0], "theirs"), **existing(objects[2], "theirs")}
    with pytest.raises(InvalidSet) as refused:
        register(objects, Inventory(), found, US)
    assert [problem.what for problem in refused.value.problems] == ["ConfigMap there/a", "ConfigMap there/c"]


# ---- what changes


def test_a_changed_object_is_scheduled_anew_and_the_time_of_its_last_write_is_kept() -> None:
    before = settled(registered(wanted(config_map())))
    found = register(wanted(config_map(value="2")), before, NOTHING, US)
    (entry,) = found.inventory
    assert (entry.phase, entry.status) == (Phase.SCHEDULED_FOR_APPLICATION, EntryStatus.IN_PROGRESS)
    assert entry.last_applied_at == NOW
    assert not found.must_be_saved


def test_a_changed_policy_alone_schedules_nothing() -> None:
    before = settled(registered(wanted(config_map())))
    changed = replace(one(config_map()), directive=one(config_map(delete_policy="orphan")).directive)
    (entry,) = register([changed], before, NOTHING, US).inventory
    assert (entry.phase, entry.delete) == (Phase.READY, DeletePolicy.ORPHAN)


def test_another_version_of_the_kind_is_the_same_object() -> None:
    obj = one(config_map())
    older = Inventory(
        tuple(replace(entry, gvk=entry.gvk._replace(version="v1beta1")) for entry in settled(registered([obj])))
    )
    found = register([obj], older, NOTHING, US)
    assert [entry.gvk.version for entry in found.inventory] == ["v1"]
    assert not found.must_be_saved


def test_what_is_no_longer_wanted_is_scheduled_to_go_with_its_last_policies() -> None:
    before = settled(registered(wanted(config_map("a", delete_policy="orphan", delete_order=7) + config_map("b"))))
    entry = entry_of(register(wanted(config_map("b")), before, NOTHING, US).inventory, "a")
    assert (entry.digest, entry.phase, entry.status) == ("", Phase.SCHEDULED_FOR_DELETION, EntryStatus.TERMINATING)
    assert (entry.delete, entry.delete_order, entry.is_wanted) == (DeletePolicy.ORPHAN, 7, False)


def test_what_is_on_its_way_out_goes_on() -> None:
    going = Inventory(
        tuple(replace(entry, digest="", phase=Phase.DELETING) for entry in registered(wanted(config_map())))
    )
    assert register((), going, NOTHING, US).inventory == going


@pytest.mark.req("R-107")
def test_what_is_wanted_again_comes_back() -> None:
    gone = register((), settled(registered(wanted(config_map()))), NOTHING, US).inventory
    (entry,) = register(wanted(config_map()), gone, NOTHING, US).inventory
    assert (entry.phase, entry.is_wanted) == (Phase.SCHEDULED_FOR_APPLICATION, True)


def test_a_completed_object_stays_completed_until_it_changes() -> None:
    done = Inventory(
        tuple(replace(entry, phase=Phase.COMPLETED) for entry in registered(wanted(config_map(purge_order=1))))
    )
    assert register(wanted(config_map(purge_order=1)), done, NOTHING, US).inventory == done
    (entry,) = register(wanted(config_map(purge_order=1, value="2")), done, NOTHING, US).inventory
    assert entry.phase is Phase.SCHEDULED_FOR_APPLICATION


@pytest.mark.req("R-306")
@pytest.mark.parametrize(
    ("digest", "phase", "runs_again"),
    [
        ("f" * 64, Phase.COMPLETED, False),
        (f"{'f' * 64}@{'e' * 64}", Phase.COMPLETED, False),
        ("f" * 64, Phase.READY, True),
        ("f" * 32, Phase.COMPLETED, True),
    ],
    ids=["theirs and done", "done for a component", "theirs and there", "ours and changed"],
)
def test_what_has_done_its_work_for_an_original_is_not_set_to_work_again(
    digest: str, phase: Phase, runs_again: bool
) -> None:
    (obj,) = wanted(config_map("done", purge_order=0))
    (entry,) = registered([obj])
    theirs = Inventory((replace(entry, digest=digest, phase=phase, status=EntryStatus.NONE),))
    (found,) = register([obj], taken_over([obj], theirs), NOTHING, US).inventory
    assert found.digest == obj.digest
    assert (found.phase is Phase.SCHEDULED_FOR_APPLICATION) is runs_again


def test_the_inventory_lies_in_the_order_of_deletion_and_else_in_that_of_the_manifest() -> None:
    text = "".join(
        [
            document("Namespace", "space"),
            config_map("b"),
            config_map("a"),
            document("ServiceAccount", "x"),
            definition(),
            document("Service", "s"),
        ]
    )
    assert [entry.key.name for entry in registered(wanted(text))] == [
        "things.example.org",
        "x",
        "b",
        "a",
        "s",
        "space",
    ]


# ---- orders that contradict each other


def inside(space: str, *, delete_order: int = 0) -> str:
    """A ConfigMap in a namespace of the set."""
    return config_map(delete_order=delete_order).replace("{name: c,", f"{{name: c, namespace: {space},")


@pytest.mark.parametrize(
    ("text", "contradiction"),
    [
        (
            definition(apply_order=1) + document("Thing", "t"),
            "Thing there/t: its apply order 0 is before 1 of CustomResourceDefinition things.example.org",
        ),
        (
            definition(delete_order=-1) + document("Thing", "t"),
            "Thing there/t: its delete order 0 is after -1 of CustomResourceDefinition things.example.org",
        ),
        (
            document("Namespace", "space", apply_order=1) + inside("space"),
            "ConfigMap space/c: its apply order 0 is before 1 of Namespace space",
        ),
        (
            document("Namespace", "space") + inside("space", delete_order=3),
            "ConfigMap space/c: its delete order 3 is after 0 of Namespace space",
        ),
    ],
)
def test_an_order_that_could_never_be_kept_is_refused(text: str, contradiction: str) -> None:
    with pytest.raises(InvalidSet) as refused:
        registered(wanted(text))
    assert [str(problem) for problem in refused.value.problems] == [contradiction]


@pytest.mark.parametrize(
    "text",
    [
        definition(apply_order=-1, delete_order=1) + document("Thing", "t"),
        document("Namespace", "space", apply_order=-1, delete_order=1) + inside("space"),
        document("Namespace", "space", apply_order=5) + config_map(),
    ],
)
def test_instances_may_come_later_and_go_earlier_than_what_holds_them(text: str) -> None:
    assert registered(wanted(text))


def test_a_definition_must_not_go_while_its_instances_stay() -> None:
    before = settled(registered(wanted(definition() + document("Thing", "t"))))
    with pytest.raises(InvalidSet, match="it is no longer wanted, but Thing there/t is"):
        register(wanted(document("Thing", "t")), before, NOTHING, US)


def test_a_definition_that_is_orphaned_may_leave_its_instances_behind() -> None:
    before = settled(registered(wanted(definition(delete_policy="orphan-on-apply") + document("Thing", "t"))))
    assert len(register(wanted(document("Thing", "t")), before, NOTHING, US).inventory) == 2


def test_instances_may_go_with_their_definition_whatever_the_apply_orders_were() -> None:
    before = settled(registered(wanted(definition() + document("Thing", "t"))))
    assert [entry.is_wanted for entry in register((), before, NOTHING, US).inventory] == [False, False]
