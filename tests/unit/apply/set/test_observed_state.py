"""What we did ourselves is known better than by a cache that lags behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.apply.set.given import NOW, R, config_map, ending, live, one, registered

from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.confirmation import Live, confirm
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.observed_state import BELIEVED_SECONDS, DeletedObject, ObservedSet, ObservedState
from stellwerk.apply.set.plan.actions import Create, LookUp, Remove, RemoveFinalizer
from stellwerk.apply.set.plan.plan_input import LiveObject

THING = one(config_map())
SHOWN = live(THING.desired)
REMOVE = Remove(THING.address, "u1", "1", "it goes")


def sight(memory: ObservedState, found: Live | None, *, clock: float = 100.0, in_set: bool = True) -> ObservedSet:
    """What a pass begins with when a cache shows `found`."""
    seen = {THING.identity: LiveObject(THING.address, found)} if found is not None else {}
    resources = {THING.identity: THING.address.resource} if in_set else {}
    return ObservedSet(seen, resources, memory, now=NOW, clock=clock)


def after(carried: ActionResult, found: Live | None = SHOWN) -> tuple[ObservedSet, ObservedState]:
    """What is known after an answer."""
    memory = ObservedState()
    view = sight(memory, found)
    view.learn(THING.identity, carried)
    return view, memory


def test_what_the_server_answers_is_seen_at_once() -> None:
    create = Create(THING.desired, UpdatePolicy.REPLACE)
    memory = replace(confirm(THING.desired, SHOWN, R), written_at=100.0)
    view, remembered = after(ActionResult(create, SHOWN, confirmation=memory), None)
    assert view.seen[THING.identity].live is SHOWN
    assert remembered.confirmations[THING.address] == memory


def test_when_we_last_restored_an_object_is_not_forgotten_with_the_next_write() -> None:
    create = Create(THING.desired, UpdatePolicy.REPLACE)
    memory = ObservedState()
    view = sight(memory, SHOWN)
    for restored_at in (50.0, None):
        confirmation = replace(confirm(THING.desired, SHOWN, R), restored_at=restored_at)
        view.learn(THING.identity, ActionResult(create, SHOWN, confirmation=confirmation))
    assert memory.confirmations[THING.address].restored_at == 50.0


def test_when_an_object_was_last_checked_is_forgotten_with_the_object() -> None:
    memory = ObservedState()
    view = sight(memory, SHOWN)
    view.note_checked([THING.address])
    assert memory.checked == {THING.address: NOW}
    view.forget(registered([THING]), Inventory())
    assert memory.checked == {}


# ---- deletions


@pytest.mark.req("R-106")
def test_what_we_deleted_is_gone_though_a_cache_still_shows_it() -> None:
    view, memory = after(ActionResult(REMOVE, None))
    assert (view.seen, view.absent) == ({}, {THING.identity})
    later = sight(memory, SHOWN, clock=101.0)
    assert (later.seen, later.absent) == ({}, {THING.identity})


@pytest.mark.req("R-106")
def test_what_we_asked_to_go_is_going_though_a_cache_does_not_show_it_yet() -> None:
    view, memory = after(ActionResult(REMOVE, None, stays=True))
    for shown in (view, sight(memory, SHOWN, clock=101.0)):
        found = shown.seen[THING.identity].live.metadata
        assert (found.is_terminating, found.labels) == (True, SHOWN.metadata.labels)
    assert sight(memory, None, clock=5000.0).absent == {THING.identity}


@pytest.mark.req("R-106")
@pytest.mark.parametrize("shown", [None, SHOWN], ids=["nothing", "what we deleted"])
def test_what_we_deleted_is_not_known_to_be_gone_once_its_creation_was_sent_and_not_answered(
    shown: Live | None,
) -> None:
    view, memory = after(ActionResult(REMOVE, None))
    view.begin([Create(THING.desired, UpdatePolicy.RECREATE)])
    assert view.absent == set()
    soon = sight(memory, shown, clock=101.0)
    assert (soon.seen, soon.absent) == ({}, set())
    later = sight(memory, None, clock=5000.0)
    assert (later.seen, later.absent) == ({}, set())
    later.learn(THING.identity, ActionResult(LookUp(THING.address), None))
    assert later.absent == {THING.identity}


@pytest.mark.req("R-105")
def test_another_object_of_the_same_name_is_none_that_we_deleted() -> None:
    _, memory = after(ActionResult(REMOVE, None))
    other = live(THING.desired, uid="u2")
    assert sight(memory, other).seen[THING.identity].live is other
    assert memory.removed == {}


@pytest.mark.req("R-204")
def test_an_object_that_comes_back_from_a_backup_is_believed_after_a_while() -> None:
    _, memory = after(ActionResult(REMOVE, None))
    back = sight(memory, SHOWN, clock=100.0 + BELIEVED_SECONDS)
    assert back.seen[THING.identity].live is SHOWN
    assert memory.removed == {}


def test_an_object_that_takes_long_to_go_is_remembered_as_long() -> None:
    _, memory = after(ActionResult(REMOVE, None, stays=True))
    assert sight(memory, ending(SHOWN), clock=9000.0).seen
    assert sight(memory, None, clock=9001.0).absent == {THING.identity}


def test_a_deletion_is_forgotten_when_its_object_is_no_longer_part_of_the_set() -> None:
    _, memory = after(ActionResult(REMOVE, None))
    sight(memory, None, clock=101.0, in_set=False)
    assert THING.identity in memory.removed
    sight(memory, None, clock=9000.0, in_set=False)
    assert memory.removed == {}


def test_an_object_that_we_made_again_is_not_deleted_any_more() -> None:
    view, memory = after(ActionResult(REMOVE, None))
    view.learn(THING.identity, ActionResult(Create(THING.desired, UpdatePolicy.REPLACE), SHOWN))
    assert (view.absent, memory.removed) == (set(), {})


def test_a_released_object_that_is_going_is_still_going() -> None:
    view, memory = after(ActionResult(REMOVE, None, stays=True))
    view.learn(THING.identity, ActionResult(RemoveFinalizer(THING.address, "u1", "1", (R,)), ending(SHOWN)))
    assert memory.removed == {THING.identity: DeletedObject("u1", gone=False, at=100.0)}


# ---- looking


def test_what_was_looked_up_in_vain_is_gone() -> None:
    view, _ = after(ActionResult(LookUp(THING.address), None), None)
    assert view.absent == {THING.identity}


@pytest.mark.req("R-104")
def test_a_reading_after_a_conflict_that_shows_nothing_proves_nothing() -> None:
    view, _ = after(ActionResult(REMOVE, None, done=False))
    assert (view.seen, view.absent) == ({}, set())


def test_what_has_left_the_set_is_not_held_against_a_successor() -> None:
    memory = ObservedState({THING.address: confirm(THING.desired, SHOWN, R)})
    view = sight(memory, SHOWN)
    inventory = registered([THING])
    view.forget(inventory, inventory)
    assert memory.confirmations
    view.forget(inventory, Inventory())
    assert memory.confirmations == {}


def test_the_callers_view_is_not_changed() -> None:
    seen = {THING.identity: LiveObject(THING.address, SHOWN)}
    ObservedSet(seen, {}, ObservedState(), now=NOW, clock=0.0).learn(THING.identity, ActionResult(REMOVE, None))
    assert THING.identity in seen
