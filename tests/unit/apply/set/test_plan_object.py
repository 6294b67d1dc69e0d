"""What a single object needs is decided from what is seen, and told in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from tests.unit.apply.set.given import (
    KUBECTL,
    NOW,
    READY_DEFINITION,
    THEM,
    US,
    R,
    World,
    api_service,
    config_map,
    definition,
    document,
    ending,
    live,
    one,
    registered,
)

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.set.model.confirmation import Live, confirm
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import EntryStatus, InventoryEntry, Phase
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.plan.actions import Create, Remove, RemoveFinalizer, Update
from stellwerk.apply.set.plan.plan_input import ApplyOptions
from stellwerk.apply.set.plan.plan_object import ObjectDecision, decide, drifted, is_interval_over, reapply_at
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import FieldManager

THEIR_DIGEST = "ab" * 32
OTHER = FieldManager(manager="other", operation="Update")
CHANGED_BY_HAND = {"data": {"A": "by hand"}}


def entry(obj: DesiredObject, phase: Phase = Phase.READY, *, applied: bool = True) -> InventoryEntry:
    """The object's entry."""
    (found,) = registered([obj])
    status = EntryStatus.CURRENT if phase is Phase.READY else EntryStatus.IN_PROGRESS
    return replace(found, phase=phase, status=status, last_applied_at=NOW if applied else None)


def decided(obj: DesiredObject, world: World, phase: Phase = Phase.READY, *, applied: bool = True) -> ObjectDecision:
    """What would be done now."""
    found = entry(obj, phase, applied=applied)
    return decide(obj, found, world.state(registered([obj])))


def written(obj: DesiredObject, world: World, found: Live | None = None) -> None:
    """We have written the object, and were answered `found`."""
    found = found or live(obj.desired)
    world.put(obj, found)
    memory = confirm(obj.desired, found, R)
    world.confirmations[obj.address] = replace(memory, written_at=world.clock)


def unmarked(obj: DesiredObject, **more: object) -> Live:
    """The object without any mark of ours, as somebody else would have made it."""
    found = live(obj.desired, without_marks=True)
    return found if not more else live(obj.desired, without_marks=True, more=dict(more))  # type: ignore[arg-type]


def with_digest(obj: DesiredObject, digest: str, owner: object = US, **more: object) -> Live:
    """The object as it was written for another digest, or by another owner."""
    stamper = THEM if owner is THEM else US
    body = stamper.stamped(obj.desired.body, digest)
    return live(replace(obj.desired, body=body), more=dict(more))  # type: ignore[arg-type]


def update_of(decision: ObjectDecision) -> Update:
    assert isinstance(decision.action, Update), decision
    return decision.action


# ---- it does not exist


def test_what_does_not_exist_is_created_with_the_objects_own_policy() -> None:
    obj = one(config_map(update_policy="replace"))
    found = decided(obj, World(), Phase.SCHEDULED_FOR_APPLICATION, applied=False)
    assert found.action == Create(obj.desired, UpdatePolicy.REPLACE)
    assert (found.entry.phase, found.entry.status) == (Phase.CREATING, EntryStatus.IN_PROGRESS)
    assert found.waits == "is being created"


@pytest.mark.req("R-110")
def test_what_was_deleted_by_hand_is_restored_at_once() -> None:
    found = decided(one(config_map()), World())
    assert isinstance(found.action, Create)
    assert found.action.restores


def test_what_is_made_once_is_made_again_when_it_was_deleted() -> None:
    assert isinstance(decided(one(config_map(reconcile_policy="once")), World()).action, Create)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.CREATING])
@pytest.mark.req("R-110")
def test_what_is_deleted_again_and_again_is_restored_every_ten_seconds_only(phase: Phase) -> None:
    obj, world = one(config_map()), World()
    written(obj, world)
    world.confirmations[obj.address] = replace(world.confirmations[obj.address], restored_at=world.clock)
    world.gone(obj.identity)
    world.passes(9)
    held = decided(obj, world, phase)
    assert held.action is None
    assert (held.waits, held.again_at) == ("it is deleted again and again; restored every 10 s only", 110.0)
    world.passes(1)
    assert isinstance(decided(obj, world, phase).action, Create)


def test_a_new_content_is_not_held_back_by_a_fight_about_the_old_one() -> None:
    obj, world = one(config_map()), World()
    written(obj, world)
    world.confirmations[obj.address] = replace(world.confirmations[obj.address], restored_at=world.clock)
    newer = one(config_map(value="2"))
    assert isinstance(update_of(decided(newer, world, Phase.SCHEDULED_FOR_APPLICATION)), Update)


def test_an_object_of_a_kind_that_is_not_served_yet_waits_and_is_looked_at_soon() -> None:
    obj = one(document("Measure", "m"))
    unserved = replace(obj.address.resource, plural="")
    waiting = replace(obj, desired=replace(obj.desired, address=replace(obj.address, resource=unserved)))
    found = decided(waiting, World(), Phase.SCHEDULED_FOR_APPLICATION)
    assert (found.action, found.waits, found.again_at) == (None, "its kind is not served yet", 101.0)
    assert isinstance(unserved, Resource)


# ---- it is being deleted


def test_the_end_of_an_object_is_waited_for_with_the_names_of_what_holds_it() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, ending(live(obj.desired, more={"metadata": {"finalizers": ["a/b", "c"]}})))
    found = decided(obj, world)
    assert (found.action, found.waits) == (None, "is being deleted and waits for finalizers a/b, c")
    assert (found.entry.phase, found.entry.status) == (Phase.READY, EntryStatus.TERMINATING)


@pytest.mark.parametrize("text", [definition(), api_service()])
@pytest.mark.req("R-110", "R-112")
def test_a_definition_that_somebody_deletes_is_let_go_of_so_that_it_can_be_made_anew(text: str) -> None:
    obj, world = one(text), World()
    world.put(obj, ending(live(obj.desired)))
    found = decided(obj, world)
    assert isinstance(found.action, RemoveFinalizer)
    assert found.action.finalizers == (R,)


@pytest.mark.req("R-112")
def test_a_definition_that_somebody_deletes_while_others_use_it_is_held_and_the_wait_says_so() -> None:
    obj, world = one(definition()), World()
    world.put(obj, ending(live(obj.desired)))
    world.in_use[obj.identity] = "crd things.example.org is still in use (instances exist)"
    found = decided(obj, world)
    assert found.action is None
    assert found.waits == "is being deleted: crd things.example.org is still in use (instances exist)"
    assert found.again_at == world.clock + 10.0, "nobody tells that their instances are gone"


def test_another_ones_definition_is_not_released_by_us() -> None:
    obj, world = one(definition()), World()
    world.put(obj, ending(with_digest(obj, "d", THEM)))
    assert decided(obj, world).action is None


@pytest.mark.parametrize("owner", [None, THEM])
def test_the_end_of_an_object_that_is_not_ours_is_looked_for_because_no_watch_shows_it(owner: Owner | None) -> None:
    obj, world = one(config_map()), World()
    world.put(obj, ending(unmarked(obj) if owner is None else with_digest(obj, "d", owner)))
    found = decided(obj, world, Phase.CREATING)
    assert (found.action, found.waits, found.again_at) == (None, "is being deleted", world.clock + 10.0)


def test_the_end_of_our_own_object_is_shown_by_a_watch() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, ending(live(obj.desired)))
    found = decided(obj, world)
    assert (found.waits, found.again_at) == ("is being deleted", None)


# ---- whose it is


@pytest.mark.req("R-111")
def test_an_object_that_has_become_another_ones_is_left_alone_and_both_are_named() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, with_digest(obj, obj.digest, THEM))
    found = decided(obj, world)
    assert (found.action, found.obstacle) == (None, Obstacle.OWNED)
    assert found.waits == "owner conflict; the object is owned by uid/there/other"


@pytest.mark.parametrize("digest", ["old", ""])
def test_an_object_of_another_owner_is_taken_where_the_policy_says_always(digest: str) -> None:
    obj, world = one(config_map(adoption_policy="always")), World()
    world.put(obj, with_digest(obj, digest or obj.digest, THEM))
    assert update_of(decided(obj, world)).why == "its owner's marks were changed"


@pytest.mark.req("R-110", "R-111")
def test_two_owners_who_both_always_want_an_object_do_not_fight_in_a_loop() -> None:
    obj, world = one(config_map(adoption_policy="always")), World()
    written(obj, world)
    world.put(obj, with_digest(obj, "theirs", THEM))
    taken_back = update_of(decided(obj, world))
    assert taken_back.restores
    world.confirmations[obj.address] = replace(world.confirmations[obj.address], restored_at=world.clock)
    held = decided(obj, world)
    assert (held.action, held.again_at) == (None, 110.0)
    assert "again and again" in held.waits


def test_marks_that_somebody_took_off_are_put_back_at_once_because_without_them_the_object_is_lost() -> None:
    obj, world = one(config_map()), World()
    written(obj, world)
    world.put(obj, unmarked(obj))
    found = update_of(decided(obj, world))
    assert (found.why, found.restores, found.marks_only) == ("it was not ours", True, False)


@pytest.mark.parametrize("uid", ["u1", "new"])
def test_with_adoption_policy_never_only_the_very_object_that_we_wrote_gets_its_marks_back(uid: str) -> None:
    obj, world = one(config_map(adoption_policy="never")), World()
    world.put(obj, live(obj.desired, uid=uid, without_marks=True))
    found = decide(obj, replace(entry(obj), uid="u1"), world.state(registered([obj])))
    if uid == "u1":
        assert update_of(found).why == "it was not ours"
    else:
        assert (found.action, found.obstacle) == (None, Obstacle.OWNED)


def test_marks_taken_off_what_is_made_once_are_put_back_and_nothing_else() -> None:
    obj, world = one(config_map(reconcile_policy="once")), World()
    found = with_digest(obj, obj.digest, data={"A": "mine"})
    metadata = msgspec.structs.replace(found.metadata, labels={})
    assert isinstance(found, Unstructured)
    world.put(obj, Unstructured(found.body, metadata))
    assert update_of(decided(obj, world)).marks_only


@pytest.mark.req("R-105")
def test_an_object_made_anew_by_somebody_else_is_a_new_one() -> None:
    obj, world = one(config_map()), World()
    written(obj, world, live(obj.desired, uid="old"))
    world.put(obj, live(obj.desired, uid="new", without_marks=True))
    assert update_of(decided(obj, world)).uid == "new"


# ---- its manifest has changed


@pytest.mark.parametrize("policy", ["replace", "ssa-merge", "ssa-override"])
def test_a_changed_object_is_updated_in_the_state_that_was_seen(policy: str) -> None:
    obj, world = one(config_map(update_policy=policy, value="2")), World()
    world.put(obj, with_digest(obj, "0" * 32, data={"A": "1"}))
    found = decided(obj, world, Phase.SCHEDULED_FOR_APPLICATION)
    update = update_of(found)
    assert (update.uid, update.resource_version, update.why) == ("u1", "1", "its manifest has changed")
    assert [difference.path for difference in update.differences if difference.path.startswith("data")] == ["data.A"]
    assert (found.entry.phase, found.entry.status) == (Phase.UPDATING, EntryStatus.IN_PROGRESS)


def test_a_takeover_comes_first_where_others_wrote_what_becomes_ours() -> None:
    obj, world = one(config_map(value="2")), World()
    for policy, takes_over in (("ssa-override", True), ("ssa-merge", False), ("replace", False)):
        obj = one(config_map(value="2", update_policy=policy))
        world.put(obj, live(replace(obj.desired, body=US.stamped(obj.desired.body, "0" * 32)), KUBECTL))
        assert bool(update_of(decided(obj, world)).claimed) is takes_over


def test_what_we_wrote_by_other_verbs_is_folded_in_also_by_a_merge() -> None:
    obj, world = one(config_map(value="2", update_policy="ssa-merge")), World()
    mine = FieldManager(manager=R, operation="Update")
    world.put(obj, live(replace(obj.desired, body=US.stamped(obj.desired.body, "0" * 32)), mine))
    assert update_of(decided(obj, world)).claimed


def test_what_is_made_once_is_never_changed_by_its_manifest() -> None:
    obj, world = one(config_map(reconcile_policy="once", value="2")), World(options=ApplyOptions(repairs_drift=True))
    world.put(obj, live(obj.desired, more={"data": {"A": "1"}}))
    assert decided(obj, world) == ObjectDecision(entry(obj))


def test_what_follows_its_component_is_updated_for_the_component_alone() -> None:
    text = config_map(reconcile_policy="on-object-or-component-change")
    obj, world = one(text, set_digest="s2"), World()
    world.put(obj, with_digest(obj, one(text, set_digest="s1").digest))
    assert update_of(decided(obj, world)).why == "its manifest has changed"


# ---- Recreate


def test_recreate_deletes_the_very_object_that_was_seen_and_makes_it_later() -> None:
    obj, world = one(config_map(update_policy="recreate", value="2")), World()
    world.put(obj, with_digest(obj, "0" * 32, data={"A": "1"}))
    found = decided(obj, world)
    assert isinstance(found.action, Remove)
    assert (found.action.uid, found.action.resource_version) == ("u1", "1")
    assert found.entry.phase is Phase.UPDATING
    world.gone(obj.identity)
    again = decided(obj, world, Phase.UPDATING)
    assert again.action == Create(obj.desired, UpdatePolicy.RECREATE)


def test_a_job_runs_again_for_a_changed_component_though_its_own_content_is_the_same() -> None:
    text = document("Job", "j", update_policy="recreate", reconcile_policy="on-object-or-component-change")
    obj, world = one(text, set_digest="s2"), World()
    world.put(obj, with_digest(obj, one(text, set_digest="s1").digest))
    assert isinstance(decided(obj, world).action, Remove)


@pytest.mark.parametrize("owner", [None, THEM])
def test_what_somebody_has_put_in_the_place_of_ours_is_written_over_and_not_deleted(owner: Owner | None) -> None:
    obj, world = one(config_map(update_policy="recreate", adoption_policy="always")), World()
    theirs = unmarked(obj, data={"A": "theirs"}) if owner is None else with_digest(obj, "0" * 32, owner)
    world.put(obj, theirs)
    other, same = (decide(obj, replace(entry(obj), uid=uid), world.state(registered([obj]))) for uid in ("u0", "u1"))
    assert (update_of(other).update, update_of(other).why) == (
        UpdatePolicy.SSA_MERGE,
        "another client has created it again",
    )
    assert isinstance(same.action, Remove), "an object of the same uid is ours, and its content was changed"


def test_an_object_with_our_marks_is_ours_whatever_its_uid() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, live(obj.desired))
    found = decide(obj, replace(entry(obj), uid="before the restore"), world.state(registered([obj])))
    assert (found.action, found.waits) == (None, "")


def test_which_object_it_is_is_found_out_again_after_a_crash_and_not_noted_of_what_others_wrote() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, live(obj.desired))

    def uid_of(known: str, *, applied: bool) -> str:
        found = replace(entry(obj, applied=applied), uid=known)
        return decide(obj, found, world.state(registered([obj]))).entry.uid

    assert uid_of("", applied=False) == "u1", "it was made, and the process died before it could say so"
    assert uid_of("u0", applied=True) == "u1", "it was made anew, or came back from a backup"
    assert uid_of("", applied=True) == "", "an original operator wrote it"


def test_what_somebody_has_put_in_the_place_of_ours_stays_his_where_nothing_of_nobody_may_be_taken() -> None:
    obj, world = one(config_map(adoption_policy="never")), World()
    world.put(obj, unmarked(obj))
    assert decide(obj, replace(entry(obj), uid="u0"), world.state(registered([obj]))).obstacle is Obstacle.OWNED


@pytest.mark.parametrize("digest", [THEIR_DIGEST, f"{THEIR_DIGEST}@{THEIR_DIGEST}"])
@pytest.mark.req("R-306")
def test_recreate_loses_no_object_for_a_digest_in_another_spelling(digest: str) -> None:
    obj, world = one(config_map(update_policy="recreate")), World()
    world.put(obj, with_digest(obj, digest))
    assert update_of(decided(obj, world)).marks_only


@pytest.mark.req("R-306")
def test_recreate_loses_no_object_that_is_adopted_as_it_is() -> None:
    obj, world = one(config_map(update_policy="recreate")), World()
    world.put(obj, unmarked(obj))
    assert update_of(decided(obj, world, Phase.SCHEDULED_FOR_APPLICATION, applied=False)).marks_only


def test_recreate_makes_an_adopted_object_anew_where_it_differs() -> None:
    obj, world = one(config_map(update_policy="recreate")), World()
    world.put(obj, unmarked(obj, data={"A": "other"}))
    assert isinstance(decided(obj, world, Phase.SCHEDULED_FOR_APPLICATION, applied=False).action, Remove)


@pytest.mark.req("R-306")
def test_a_secret_that_an_original_made_is_not_recreated_unread() -> None:
    obj, world = one(document("Secret", "s", update_policy="recreate")), World()
    world.put(obj, with_digest(obj, THEIR_DIGEST))
    assert update_of(decided(obj, world)).marks_only
    world.put(obj, with_digest(obj, "0" * 32))
    assert isinstance(decided(obj, world).action, Remove)
    world.put(obj, with_digest(obj, "__once__"))
    assert isinstance(decided(obj, world).action, Remove)


@pytest.mark.parametrize("found", ["0" * 32, f"{'0' * 32}@s1", THEIR_DIGEST, f"{THEIR_DIGEST}@{THEIR_DIGEST}"])
@pytest.mark.parametrize("update", ["recreate", "replace", "ssa-merge", "ssa-override"])
def test_a_policy_that_changes_to_once_makes_the_object_due(found: str, update: str) -> None:
    obj, world = one(config_map(update_policy=update, reconcile_policy="once")), World()
    world.put(obj, with_digest(obj, found))
    assert _is_due(decided(obj, world), update)


@pytest.mark.parametrize("asked", ["on-object-change", "on-object-or-component-change"])
@pytest.mark.parametrize("update", ["recreate", "replace", "ssa-merge", "ssa-override"])
def test_a_policy_that_changes_from_once_makes_the_object_due(asked: str, update: str) -> None:
    obj, world = one(config_map(update_policy=update, reconcile_policy=asked)), World()
    world.put(obj, with_digest(obj, "__once__"))
    assert _is_due(decided(obj, world), update)


def _is_due(decision: ObjectDecision, update: str) -> bool:
    """Whether the object is made anew with `recreate`, and written whole with the others."""
    if update == "recreate":
        return isinstance(decision.action, Remove)
    return not update_of(decision).marks_only


@pytest.mark.req("R-112")
def test_a_definition_is_not_made_anew_while_others_use_it() -> None:
    obj, world = one(definition(update_policy="recreate")), World()
    world.put(obj, with_digest(obj, "0" * 32))
    world.in_use[obj.identity] = "crd things.example.org is still in use (instances exist)"
    found = decided(obj, world)
    assert found.action is None
    assert found.waits == "cannot be created again: crd things.example.org is still in use (instances exist)"
    assert found.again_at == world.clock + 10.0, "nobody tells that their instances are gone"


@pytest.mark.req("R-101")
def test_a_job_whose_creation_a_crash_made_us_forget_does_not_run_twice() -> None:
    obj, world = one(document("Job", "j", update_policy="recreate")), World()
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    world.put(obj, live(obj.desired, more=done))  # type: ignore[arg-type]
    found = decided(obj, world, Phase.CREATING, applied=False)
    assert (found.action, found.entry.last_applied_at, found.entry.phase) == (None, NOW, Phase.READY)


@pytest.mark.parametrize(("phase", "runs"), [(Phase.READY, False), (Phase.CREATING, True)])
def test_a_job_that_was_complete_and_goes_by_itself_is_completed_and_not_made_again(phase: Phase, runs: bool) -> None:
    obj, world = one(document("Job", "j", "spec: {ttlSecondsAfterFinished: 0}")), World()
    found = decided(obj, world, phase)
    assert (found.action is not None, found.entry.phase is Phase.COMPLETED) == (runs, not runs)
    plain = one(document("Job", "j"))
    assert decided(plain, world).action is not None, "somebody deleted it"


@pytest.mark.req("R-110")
def test_making_an_object_anew_is_throttled_as_any_other_repair() -> None:
    obj, world = one(config_map(update_policy="recreate")), World(options=ApplyOptions(repairs_drift=True))
    written(obj, world)
    world.put(obj, live(obj.desired, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    first = decided(obj, world)
    assert isinstance(first.action, Remove)
    assert first.action.restores
    world.gone(obj.identity)
    again = decided(obj, world, Phase.UPDATING)
    assert again.action == Create(obj.desired, UpdatePolicy.RECREATE, restores=True)


# ---- drift


@pytest.mark.req("R-108")
def test_nothing_is_done_where_nobody_wrote_since() -> None:
    obj, world = one(config_map()), World(options=ApplyOptions(repairs_drift=True))
    written(obj, world)
    world.passes(100_000)
    assert decided(obj, world) == ObjectDecision(entry(obj))


@pytest.mark.req("R-110")
def test_what_others_change_stays_until_the_reapply_interval_is_over() -> None:
    obj, world = one(config_map(reapply_interval="1m")), World()
    written(obj, world)
    world.put(obj, live(obj.desired, KUBECTL, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    world.passes(59)
    assert decided(obj, world).action is None
    world.passes(1)
    update = update_of(decided(obj, world))
    assert (update.why, update.restores, update.claimed) == ("changed by kubectl-edit", True, ("kubectl-edit",))


@pytest.mark.req("R-110")
def test_what_others_change_after_calm_intervals_stays_until_the_next_interval() -> None:
    obj, world = one(config_map(reapply_interval="1m")), World()
    inventory, _ = world.roll([obj], registered([obj]))
    for _ in range(2):
        world.passes(60)
        inventory, _ = world.roll([obj], inventory)
    world.put(obj, live(obj.desired, KUBECTL, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    world.passes(59)
    inventory, _ = world.roll([obj], inventory)
    assert [*map(type, world.carried)] == [Create]
    assert [*drifted([obj], world.state(inventory))] == [obj.address]
    world.passes(1)
    world.roll([obj], inventory)
    assert [*map(type, world.carried)] == [Create, Update]


@pytest.mark.req("R-110")
def test_what_others_change_is_taken_back_at_once_and_then_by_interval_after_the_clock_was_set_back() -> None:
    obj, world = one(config_map(reapply_interval="1m")), World()
    inventory, _ = world.roll([obj], registered([obj]))
    world.passes(60)
    inventory, _ = world.roll([obj], inventory)
    world.now -= timedelta(hours=1)
    world.put(obj, live(obj.desired, KUBECTL, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    inventory, _ = world.roll([obj], inventory)
    assert [*map(type, world.carried)] == [Create, Update]
    world.put(obj, live(obj.desired, KUBECTL, version="4", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    world.passes(59)
    inventory, _ = world.roll([obj], inventory)
    assert [*map(type, world.carried)] == [Create, Update]
    world.passes(1)
    world.roll([obj], inventory)
    assert [*map(type, world.carried)] == [Create, Update, Update]


@pytest.mark.req("R-110")
@pytest.mark.parametrize(("ahead_seconds", "is_over"), [(0, False), (1, False), (2, True), (3600, True)])
def test_a_time_that_is_further_ahead_than_clocks_differ_proves_no_look(ahead_seconds: int, is_over: bool) -> None:
    obj, now = one(config_map(reapply_interval="1m")), World().now
    assert is_interval_over(obj, [now + timedelta(seconds=ahead_seconds), None], now) is is_over
    assert not is_interval_over(obj, [now + timedelta(seconds=ahead_seconds), now], now)


@pytest.mark.req("R-110")
@pytest.mark.parametrize("repairs", [False, True])
def test_what_others_add_to_an_object_that_is_replaced_goes_at_the_reapply_interval(repairs: bool) -> None:
    obj = one(config_map(update_policy="replace", reapply_interval="1m"))
    world = World(options=ApplyOptions(repairs_drift=repairs))
    written(obj, world)
    added = live(obj.desired, OTHER, version="2", more={"data": {"B": "added"}})
    world.put(obj, added)
    world.passes(59)
    assert decided(obj, world).action is None
    world.passes(1)
    update = update_of(decided(obj, world))
    assert (update.update, update.why, update.restores) == (UpdatePolicy.REPLACE, "changed by other", True)
    written(obj, world, added)  # it still names the other
    assert decided(obj, world).action is None


@pytest.mark.req("R-110")
@pytest.mark.parametrize(
    ("policy", "managers"),
    [
        ("replace", (FieldManager(manager=R, operation="Update"),)),
        ("replace", (FieldManager(manager="kube-controller-manager", operation="Update"),)),
        ("replace", (FieldManager(manager="other", operation="Update", subresource="status"),)),
        ("replace", (FieldManager(manager="other", operation="Update", only_holds=True),)),
        ("ssa-merge", (FieldManager(manager="other", operation="Update"),)),
    ],
    ids=["ours", "control plane", "status", "finalizers", "another policy"],
)
def test_an_object_that_is_replaced_is_calm_where_others_added_nothing_to_take_away(
    policy: str, managers: tuple[FieldManager, ...]
) -> None:
    obj, world = one(config_map(update_policy=policy, reapply_interval="1m")), World()
    written(obj, world)
    world.put(obj, live(obj.desired, *managers, version="2", more={"data": {"B": "added"}}))
    world.passes(60)
    assert decided(obj, world).action is None


@pytest.mark.req("R-110")
def test_what_others_change_is_restored_at_once_where_the_operator_says_so() -> None:
    obj, world = one(config_map(update_policy="ssa-merge")), World(options=ApplyOptions(repairs_drift=True))
    written(obj, world)
    world.put(obj, live(obj.desired, KUBECTL, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    assert update_of(decided(obj, world)).why == "data.A differs"


@pytest.mark.req("R-110")
def test_who_changes_an_object_again_and_again_is_named_and_waited_for() -> None:
    obj, world = one(config_map()), World(options=ApplyOptions(repairs_drift=True))
    written(obj, world)
    world.confirmations[obj.address] = replace(world.confirmations[obj.address], restored_at=world.clock - 4)
    world.put(obj, live(obj.desired, KUBECTL, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    held = decided(obj, world)
    assert (held.action, held.again_at) == (None, 106.0)
    assert held.waits == "kubectl-edit changes it again and again; restored every 10 s only"


def test_what_the_server_made_of_our_write_is_no_drift() -> None:
    obj, world = one(config_map()), World(options=ApplyOptions(repairs_drift=True))
    normalised = live(obj.desired, more={"data": {"A": "one"}})
    written(obj, world, normalised)
    world.put(obj, live(obj.desired, version="2", more={"data": {"A": "one"}}))
    assert decided(obj, world).action is None


def test_a_default_that_a_new_process_cannot_tell_from_a_change_is_no_reason_to_recreate() -> None:
    obj, world = one(config_map(update_policy="recreate")), World(options=ApplyOptions(repairs_drift=True))
    world.put(obj, live(obj.desired, more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    assert decided(obj, world).action is None


def test_a_new_process_repairs_what_differs_and_does_not_call_it_a_fight() -> None:
    obj, world = one(config_map()), World(options=ApplyOptions(repairs_drift=True))
    world.put(obj, live(obj.desired, more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    update = update_of(decided(obj, world))
    assert (update.why, update.restores) == ("data.A differs", False)


def test_a_secret_that_somebody_wrote_to_is_restored_unread_when_it_is_due() -> None:
    obj, world = one(document("Secret", "s")), World()
    written(obj, world)
    world.put(obj, live(obj.desired, version="2"))
    assert decided(obj, world).action is None
    world.passes(3600)
    assert update_of(decided(obj, world)).why == "it may have been changed"
    world.put(obj, live(obj.desired, version="1"))
    assert decided(obj, world).action is None


def test_a_secret_is_not_recreated_on_a_mere_suspicion() -> None:
    obj, world = one(document("Secret", "s", update_policy="recreate")), World(options=ApplyOptions(repairs_drift=True))
    written(obj, world)
    world.put(obj, live(obj.desired, version="2"))
    assert update_of(decided(obj, world)).update is UpdatePolicy.SSA_MERGE


def test_an_object_restored_from_a_backup_is_applied_once_so_that_its_fields_are_ours() -> None:
    obj, world = one(config_map()), World()
    found = live(obj.desired)
    assert isinstance(found, Unstructured)
    velero = FieldManager(manager="velero", operation="Update")
    world.put(obj, Unstructured(found.body, msgspec.structs.replace(found.metadata, managers=(velero,))))
    assert update_of(decided(obj, world, Phase.CREATING, applied=False)).why == "it was written by another hand"


@pytest.mark.req("R-101")
def test_what_a_crash_made_us_forget_is_dated_by_the_object_itself_and_not_written_again() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, live(obj.desired))
    found = decided(obj, world, Phase.CREATING, applied=False)
    assert (found.action, found.entry.phase, found.entry.last_applied_at) == (None, Phase.READY, NOW)


# ---- is it ready


def test_an_object_is_ready_when_kstatus_says_so() -> None:
    obj, world = one(document("Deployment", "d", "spec: {replicas: 2}")), World()
    world.put(obj, live(obj.desired, more={"status": {"replicas": 1}}))
    found = decided(obj, world, Phase.CREATING)
    assert (found.entry.phase, found.entry.status) == (Phase.CREATING, EntryStatus.IN_PROGRESS)
    assert found.waits == "InProgress: 1 of 2 replicas created"


def test_a_ready_object_that_falters_is_waited_for_and_keeps_its_phase() -> None:
    obj, world = one(document("Deployment", "d")), World()
    world.put(obj, live(obj.desired, more={"status": {"replicas": 0}}))
    found = decided(obj, world)
    assert (found.entry.phase, found.entry.status) == (Phase.READY, EntryStatus.IN_PROGRESS)
    assert found.waits


def test_the_hints_of_the_author_count() -> None:
    obj, world = one(document("Thing", "t", status_hint="conditions=Synced")), World()
    world.put(obj, live(obj.desired, more={"status": {"phase": "x"}}))
    assert decided(obj, world).waits == "InProgress: condition Synced is not True"
    synced = {"status": {"conditions": [{"type": "Synced", "status": "True"}]}}
    world.put(obj, live(obj.desired, more=synced))  # type: ignore[arg-type]
    assert not decided(obj, world).waits


def test_a_hint_on_an_object_that_has_no_status_of_its_own_is_waited_for() -> None:
    obj, world = one(config_map(status_hint="conditions=Synced")), World()
    world.put(obj, live(obj.desired))
    assert decided(obj, world).waits == "InProgress: condition Synced is not True"


def test_a_status_that_breaks_the_conventions_is_an_error() -> None:
    obj, world = one(document("Thing", "t")), World()
    world.put(obj, live(obj.desired, more={"status": {"conditions": "none"}}))
    found = decided(obj, world)
    assert (found.waits, found.obstacle) == ("status.conditions is not a list", Obstacle.UNREADABLE)
    assert (found.action, found.entry.status) == (None, EntryStatus.UNKNOWN)


def test_an_object_without_a_status_is_given_a_second_after_it_was_written() -> None:
    obj, world = one(document("Thing", "t")), World()
    written(obj, world)
    world.passes(0.75)
    settling = decided(obj, world, Phase.CREATING)
    assert (settling.waits, settling.again_at) == ("InProgress: was just written", 101.0)
    world.passes(0.25)
    assert decided(obj, world, Phase.CREATING).entry.phase is Phase.READY


@pytest.mark.req("R-302")
@pytest.mark.parametrize("back", [timedelta(seconds=2), timedelta(hours=1)])
def test_after_a_restart_with_a_clock_that_was_set_back_no_object_counts_as_just_written(back: timedelta) -> None:
    obj, world = one(document("Thing", "t")), World()
    world.put(obj, live(obj.desired))
    world.now -= back
    assert decided(obj, world, Phase.CREATING).entry.phase is Phase.READY


def test_after_a_restart_the_inventory_tells_when_it_was_written() -> None:
    obj, world = one(document("Thing", "t")), World()
    world.put(obj, live(obj.desired))
    assert decided(obj, world, Phase.CREATING).waits == "InProgress: was just written"
    world.now += timedelta(seconds=1)
    assert not decided(obj, world, Phase.CREATING).waits


@pytest.mark.parametrize(
    "text", [config_map(), document("Secret", "s"), document("Role", "r"), document("Service", "s")]
)
def test_kinds_that_are_as_they_are_written_are_not_waited_for(text: str) -> None:
    obj, world = one(text), World()
    written(obj, world)
    assert decided(obj, world, Phase.CREATING).entry.phase is Phase.READY


def test_a_definition_is_ready_when_it_is_established() -> None:
    obj, world = one(definition()), World()
    world.put(obj, live(obj.desired))
    assert decided(obj, world).waits == "InProgress: the kind is not established yet"
    world.put(obj, live(obj.desired, more={"status": READY_DEFINITION}))
    assert not decided(obj, world).waits


# ---- drift that is only told


def test_drift_that_is_not_due_is_told_and_nothing_that_is_not_proved() -> None:
    world = World()
    changed, calm, secret, once = (
        one(config_map("changed")),
        one(config_map("calm")),
        one(document("Secret", "s")),
        one(config_map("once", reconcile_policy="once")),
    )
    for obj in (changed, calm, secret, once):
        written(obj, world)
        world.put(obj, live(obj.desired, version="2"))
    world.put(changed, live(changed.desired, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    world.put(once, live(once.desired, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    objects = [changed, calm, secret, once]
    found = drifted(objects, world.state(registered(objects)))
    assert {address.key.name: update.why for address, update in found.items()} == {"changed": "data.A differs"}


def test_an_object_that_is_left_as_others_changed_it_is_due_when_its_interval_is_over() -> None:
    often, hourly = one(config_map("often", reapply_interval="20m")), one(config_map("hourly"))
    world, objects = World(), [often, hourly]
    inventory, _ = world.roll(objects, registered(objects))
    world.passes(15 * 60)
    world.checked[often.address] = world.now
    world.passes(10 * 60)
    state = world.state(inventory)
    assert reapply_at([], objects, inventory, state) is None
    assert reapply_at([hourly.address], objects, inventory, state) == world.clock + 35 * 60
    assert reapply_at([often.address, hourly.address], objects, inventory, state) == world.clock + 10 * 60
    world.passes(10 * 60)
    assert reapply_at([often.address], objects, inventory, world.state(inventory)) is None, "no pass follows at once"


def test_a_new_process_tells_no_drift_that_it_cannot_prove() -> None:
    obj, world = one(config_map()), World()
    world.put(obj, live(obj.desired, version="2", more=CHANGED_BY_HAND))  # type: ignore[arg-type]
    assert drifted([obj], world.state(registered([obj]))) == {}
