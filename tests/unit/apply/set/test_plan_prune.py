"""What goes, goes in order; what is not ours stays; what is not seen is looked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.apply.set.given import (
    SSA,
    THEM,
    World,
    api_service,
    calm_world,
    config_map,
    definition,
    document,
    entry_of,
    live,
    names,
    one,
    registered,
    wanted,
)

from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, InventoryEntry, ObjectIdentity, Phase
from stellwerk.apply.set.model.policy import TypePattern
from stellwerk.apply.set.plan import plan_prune
from stellwerk.apply.set.plan.actions import LookUp, Remove, RemoveFinalizer
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey


def built(text: str, world: World | None = None) -> tuple[World, Inventory]:
    """A set that is rolled out."""
    world = world or calm_world()
    objects = wanted(text)
    inventory, stage = world.roll(objects, registered(objects))
    assert stage.done, str(stage)
    world.carried.clear()
    return world, inventory


def removed(world: World) -> list[str]:
    """What was asked to go, in order."""
    return names(action for action in world.carried if isinstance(action, Remove))


def waits_of(world: World, inventory: Inventory) -> list[str]:
    return [str(each) for each in world.take_away(inventory)[1].waits]


# ---- order


def test_a_whole_set_goes_in_one_pass_where_nothing_takes_its_time() -> None:
    world, inventory = built(config_map("a") + config_map("b"))
    left, stage = world.take_away(inventory)
    assert (stage.done, left) == (True, Inventory())
    assert removed(world) == ["a", "b"]


def test_the_end_of_one_wave_is_waited_for_before_the_next() -> None:
    world, inventory = built(
        config_map("late", delete_order=1) + config_map("early", delete_order=-1) + config_map("middle")
    )
    world.lingering.add(one(config_map("middle")).identity)
    left, stage = world.take_away(inventory)
    assert removed(world) == ["early", "middle"]
    assert [str(each) for each in stage.waits] == ["ConfigMap there/middle: is being deleted"]
    assert entry_of(left, "middle").phase is Phase.DELETING
    world.finish()
    left, stage = world.take_away(left)
    assert (stage.done, removed(world)) == (True, ["early", "middle", "late"])


@pytest.mark.req("R-106")
def test_a_deletion_is_asked_for_once() -> None:
    world, inventory = built(config_map())
    world.lingering.add(one(config_map()).identity)
    left, _ = world.take_away(inventory)
    left, _ = world.take_away(left)
    assert removed(world) == ["c"]
    assert len(left) == 1


def test_within_a_wave_kinds_go_in_their_order() -> None:
    world, inventory = built(document("Service", "service") + document("Role", "role") + definition())
    world.take_away(inventory)
    assert removed(world) == ["things.example.org", "role", "service"]


def test_instances_go_before_their_definition_and_its_controller() -> None:
    text = definition() + document("ServiceAccount", "controller") + document("Thing", "t")
    world, inventory = built(text)
    world.lingering.add(one(document("Thing", "t")).identity)
    left, _ = world.take_away(inventory)
    assert removed(world) == ["t"]
    world.finish()
    world.take_away(left)
    assert removed(world) == ["t", "things.example.org", "controller"]


def test_instances_of_kinds_that_the_author_names_go_first_too() -> None:
    policies = replace(SSA, managed_types=(TypePattern("elsewhere.org", "*"),))
    world, inventory = built(document("Alien", "alien") + config_map(), calm_world())
    world.policies = policies
    world.lingering.add(one(document("Alien", "alien")).identity)
    world.take_away(inventory)
    assert removed(world) == ["alien"]


def test_services_of_sap_btp_go_when_the_rest_of_their_wave_is_gone() -> None:
    """An application deprovisions its tenants with the credentials of a binding before it goes."""
    binding = document("ServiceBinding", "binding")
    world, inventory = built(binding + document("Alien", "application") + config_map())
    world.lingering.add(one(document("Alien", "application")).identity)
    left, stage = world.take_away(inventory)
    assert removed(world) == ["application", "c"]
    assert [str(each) for each in stage.waits] == ["Alien there/application: is being deleted"]
    world.finish()
    left, stage = world.take_away(left)
    assert (stage.done, removed(world)) == (True, ["application", "c", "binding"])


def test_an_order_that_the_author_gives_to_services_counts() -> None:
    binding = document("ServiceBinding", "binding", delete_order=-1)
    world, inventory = built(binding + config_map())
    world.take_away(inventory)
    assert removed(world) == ["binding", "c"]


def test_a_namespace_goes_when_nothing_of_the_set_is_in_it() -> None:
    inside = config_map().replace("{name: c,", "{name: c, namespace: space,")
    world, inventory = built(document("Namespace", "space") + inside + config_map("elsewhere"))
    world.lingering.add(one(inside).identity)
    left, stage = world.take_away(inventory)
    assert sorted(removed(world)) == ["c", "elsewhere"]
    assert "Namespace space: other objects of the set are in it" in [str(each) for each in stage.waits]
    world.finish()
    assert world.take_away(left)[1].done
    assert removed(world)[-1] == "space"


def test_a_namespace_that_stays_is_not_waited_for_by_what_is_in_it() -> None:
    inside = config_map().replace("{name: c,", "{name: c, namespace: space,")
    world, inventory = built(document("Namespace", "space", delete_policy="orphan-on-apply") + inside)
    kept = wanted(inside)
    left, stage = world.roll(kept, registered(kept, inventory))
    assert (stage.done, len(left), world.carried) == (True, 1, [])


def test_a_set_of_nothing_is_gone() -> None:
    assert World().take_away(Inventory())[1].done


# ---- who stays


@pytest.mark.parametrize(
    ("policy", "stays_on_delete", "stays_on_apply"),
    [
        ("delete", False, False),
        ("orphan", True, True),
        ("orphan-on-delete", True, False),
        ("orphan-on-apply", False, True),
    ],
)
def test_an_orphan_stays_in_the_cases_that_its_policy_names(
    policy: str, stays_on_delete: bool, stays_on_apply: bool
) -> None:
    text = config_map(delete_policy=policy)
    world, inventory = built(text)
    left, stage = world.take_away(inventory)
    assert (stage.done, left) == (True, Inventory())
    assert bool(world.seen) is stays_on_delete

    world, inventory = built(text)
    left, stage = world.roll((), registered((), inventory))
    assert (stage.done, left) == (True, Inventory())
    assert bool(world.seen) is stays_on_apply


def test_an_orphaned_definition_is_released_and_keeps_its_marks() -> None:
    world, inventory = built(definition(delete_policy="orphan"))
    assert world.take_away(inventory)[1].done
    assert [type(action) for action in world.carried] == [RemoveFinalizer]
    (left,) = world.seen.values()
    assert left.live.metadata.finalizers == ()
    assert left.live.metadata.labels


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.req("R-111", "R-505")
def test_what_is_not_ours_any_more_is_let_go_of(marked: bool) -> None:
    world, inventory = built(config_map())
    obj = one(config_map())
    theirs = live(replace(obj.desired, body=THEM.stamped(obj.desired.body, "d")), without_marks=not marked)
    world.put(obj, theirs)
    left, stage = world.take_away(inventory)
    assert (stage.done, left, world.carried) == (True, Inventory(), [])
    assert world.seen


@pytest.mark.req("R-105")
def test_what_somebody_else_made_anew_while_we_waited_is_let_go_of() -> None:
    world, inventory = built(config_map())
    obj = one(config_map())
    world.lingering.add(obj.identity)
    left, _ = world.take_away(inventory)
    world.put(obj, live(obj.desired, uid="new", without_marks=True))
    left, stage = world.take_away(left)
    assert (stage.done, left) == (True, Inventory())
    assert removed(world) == ["c"]


@pytest.mark.req("R-509")
@pytest.mark.parametrize("whole", [True, False])
def test_an_object_of_another_uid_stays_though_it_carries_our_label(whole: bool) -> None:
    world, found = built(config_map() + definition())
    inventory = Inventory(tuple(replace(entry, uid="u1") for entry in found))
    for text in (config_map(), definition()):
        obj = one(text)
        world.put(obj, live(replace(obj.desired, body=world.owner.stamped(obj.desired.body, "other")), uid="new"))
    taken = world.take_away(inventory) if whole else world.roll((), registered((), inventory))
    assert (taken[1].done, taken[0], world.carried) == (True, Inventory(), [])


@pytest.mark.req("R-101")
def test_an_object_that_was_made_again_right_before_a_crash_goes_with_the_set() -> None:
    world, found = built(config_map())
    inventory = Inventory(tuple(replace(entry, uid="u1") for entry in found))
    obj = one(config_map())
    world.put(obj, live(obj.desired, uid="new"))
    assert world.take_away(inventory)[1].done
    assert removed(world) == ["c"]


@pytest.mark.req("R-204")
def test_an_object_that_was_made_again_goes_when_it_is_no_longer_wanted() -> None:
    world, found = built(config_map() + config_map("d"))
    inventory = Inventory(tuple(replace(entry, uid="u1") for entry in found))
    for name in ("c", "d"):
        obj = one(config_map(name))
        body = obj.desired.body if name == "c" else world.owner.stamped(obj.desired.body, "another")
        world.put(obj, live(replace(obj.desired, body=body), uid="new"))
    left, stage = world.roll((), registered((), inventory))
    assert (stage.done, left, removed(world)) == (True, Inventory(), ["c"])


@pytest.mark.req("R-509")
def test_an_entry_that_names_no_digest_proves_nothing_of_an_object_with_our_label() -> None:
    world, found = built(config_map())
    forged = Inventory(tuple(replace(entry, uid="u1", digest="") for entry in found))
    obj = one(config_map())
    world.put(obj, live(replace(obj.desired, body=world.owner.stamped(obj.desired.body, "")), uid="new"))
    left, stage = world.take_away(forged)
    assert (stage.done, left, removed(world)) == (True, Inventory(), [])


@pytest.mark.req("R-204")
def test_what_was_wanted_last_is_remembered_until_it_is_wanted_again() -> None:
    _, inventory = built(config_map())
    digest = inventory.entries[0].digest
    gone = registered((), registered((), inventory))
    assert (gone.entries[0].digest, gone.entries[0].former_digest) == ("", digest)
    back = registered(wanted(config_map()), gone)
    assert (back.entries[0].digest, back.entries[0].former_digest) == (digest, "")


@pytest.mark.req("R-509")
def test_an_entry_of_an_object_that_was_never_ours_is_dropped_and_the_object_stays() -> None:
    world, inventory = built(config_map())
    obj = one(config_map("victim"))
    forged = replace(inventory.entries[0], key=obj.address.key, uid="u1")
    world.put(obj, live(obj.desired, without_marks=True))
    left, stage = world.take_away(Inventory((*inventory.entries, forged)))
    assert (stage.done, left, removed(world)) == (True, Inventory(), ["c"])
    assert obj.identity in world.seen


def test_what_takes_its_time_to_go_is_not_taken_for_an_orphan() -> None:
    world, inventory = built(definition())
    world.lingering.add(one(definition()).identity)
    assert isinstance(world.stage((), registered((), inventory)).actions[0], Remove)


# ---- what is not seen


@pytest.mark.req("R-104")
def test_what_a_cache_does_not_show_is_looked_up_before_it_is_forgotten() -> None:
    world, inventory = built(config_map())
    world.seen.clear()
    left, stage = world.take_away(inventory)
    assert [type(action) for action in world.carried] == [LookUp]
    assert (stage.done, left) == (True, Inventory())


@pytest.mark.req("R-104")
@pytest.mark.parametrize(
    ("text", "looked_up"), [(config_map(delete_policy="orphan"), 0), (definition(delete_policy="orphan"), 1)]
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_to_stay_is_not_looked_up_unless_it_may_have_our_finalizer(
    text: str, looked_up: int, whole: bool
) -> None:
    world, inventory = built(text)
    world.seen.clear()
    left, stage = world.take_away(inventory) if whole else world.roll((), registered((), inventory))
    assert [type(action) for action in world.carried] == [LookUp] * looked_up
    assert (stage.done, left) == (True, Inventory())


def test_what_was_found_by_the_look_up_is_deleted() -> None:
    world, inventory = built(config_map())
    obj = one(config_map())
    found = world.seen.pop(obj.identity)
    looking = world.carry_out(world.stage((), registered((), inventory)))
    world.absent.discard(obj.identity)
    world.seen[obj.identity] = found
    assert world.roll((), looking)[1].done
    assert removed(world) == ["c"]


def test_what_is_known_to_be_gone_is_not_looked_up() -> None:
    world, inventory = built(config_map())
    world.gone(one(config_map()).identity)
    assert world.take_away(inventory)[1].done
    assert world.carried == []


def test_what_has_done_its_work_is_not_looked_for() -> None:
    world, inventory = built(document("Job", "hook", purge_order=0) + config_map())
    assert entry_of(inventory, "hook").phase is Phase.COMPLETED
    world.absent.clear()
    assert world.take_away(inventory)[1].done
    assert removed(world) == ["c"]
    assert len(world.carried) == 1


@pytest.mark.req("R-207")
def test_objects_of_a_kind_that_is_not_served_any_more_are_gone_with_it() -> None:
    world, inventory = built(document("Alien", "a"))
    world.seen.clear()
    world.unserved.add(GroupVersionKind("elsewhere.org", "v1", "Alien"))
    assert world.take_away(inventory)[1].done
    assert world.carried == []


def test_nothing_is_asked_about_a_kind_whose_api_service_has_yet_to_answer() -> None:
    world, inventory = built(document("Alien", "a") + config_map())
    world.seen.clear()
    gvk = GroupVersionKind("elsewhere.org", "v1", "Alien")
    state = world.state(inventory)
    silent = {each: replace(where, plural="") if where.gvk == gvk else where for each, where in state.resources.items()}
    stage = plan_prune.of_set(inventory, replace(state, resources=silent))
    assert names(stage.actions) == ["c"]
    assert [str(each) for each in stage.waits if each.ref.gvk == gvk] == ["Alien there/a: its kind is not served yet"]
    assert stage.again_at == world.clock + 1


def test_an_entry_in_a_scope_that_its_kind_does_not_have_is_dropped_and_harms_nobody() -> None:
    gvk = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
    astray = InventoryEntry(gvk=gvk, key=ObjectKey("there", "r"), phase=Phase.SCHEDULED_FOR_DELETION)
    world = World()
    assert world.take_away(Inventory((astray,)))[1].done
    assert world.carried == []
    assert astray.identity == ObjectIdentity(gvk.group, gvk.kind, ObjectKey("there", "r"))


# ---- definitions


@pytest.mark.parametrize("text", [definition(), api_service()])
def test_a_definition_is_held_until_it_is_released_by_us(text: str) -> None:
    world, inventory = built(text)
    left, stage = world.take_away(inventory)
    assert (stage.done, left) == (True, Inventory())
    assert [type(action) for action in world.carried] == [Remove, RemoveFinalizer]


@pytest.mark.req("R-112")
def test_a_definition_that_others_use_stays_and_the_wait_says_so() -> None:
    world, inventory = built(definition() + config_map())
    world.in_use[one(definition()).identity] = "crd things.example.org is still in use (instances exist)"
    left, stage = world.take_away(inventory)
    assert removed(world) == ["c"]
    assert [str(each) for each in stage.waits] == [
        "CustomResourceDefinition things.example.org: crd things.example.org is still in use (instances exist)"
    ]
    assert stage.again_at == world.clock + 10.0, "nobody tells that their instances are gone"
    world.in_use.clear()
    assert world.take_away(left)[1].done


@pytest.mark.req("R-112")
def test_a_set_that_goes_only_unused_stays_whole_while_others_use_one_of_its_kinds() -> None:
    text = definition(delete_order=1) + definition("others.example.org", "Other") + config_map()
    world, inventory = built(text)
    world.in_use[one(definition(delete_order=1)).identity] = "in use"
    stage = plan_prune.of_unused_set(inventory, world.state(inventory))
    assert (stage.actions, stage.inventory, stage.done) == ((), inventory, False)
    assert [str(each) for each in stage.waits] == ["CustomResourceDefinition things.example.org: in use"]
    assert stage.again_at == world.clock + 10.0
    world.in_use.clear()
    assert world.run(inventory, lambda now: plan_prune.of_unused_set(now, world.state(now)))[1].done


def test_a_set_whose_objects_all_stay_is_left_though_others_use_its_kinds() -> None:
    world, inventory = built(definition(delete_policy="orphan") + config_map(delete_policy="orphan-on-delete"))
    world.in_use[one(definition()).identity] = "in use"
    left, stage = world.run(inventory, lambda now: plan_prune.of_unused_set(now, world.state(now)))
    assert (stage.done, left, removed(world)) == (True, Inventory(), [])


@pytest.mark.req("R-112")
def test_a_definition_that_came_into_use_while_it_goes_is_not_released() -> None:
    world, inventory = built(definition())
    left = world.carry_out(world.stage((), registered((), inventory)))
    world.in_use[one(definition()).identity] = "in use"
    left, stage = world.roll((), left)
    assert [str(each.why) for each in stage.waits] == ["in use"]
    assert entry_of(left, "things.example.org").status is EntryStatus.TERMINATING


def test_what_holds_an_object_is_named() -> None:
    world, inventory = built(config_map())
    obj = one(config_map())
    world.put(obj, live(obj.desired, more={"metadata": {"finalizers": ["example.org/hold"]}}))
    world.lingering.add(obj.identity)
    assert waits_of(world, inventory) == [
        "ConfigMap there/c: is being deleted and waits for finalizers example.org/hold"
    ]
