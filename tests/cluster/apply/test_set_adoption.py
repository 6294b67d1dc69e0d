"""An object that exists is taken only where the set may have it, and nobody is robbed unseen."""

from __future__ import annotations

import pytest
from tests.cluster.apply.object_sets import KeptSet, Place, R, annotated, joined
from tests.cluster.apply.sets import CONFIG

from stellwerk.apply.errors import InvalidSet, Obstacle
from stellwerk.apply.set.model.inventory import Inventory

ALWAYS = annotated(CONFIG, adoption_policy="always")
NEVER = annotated(CONFIG, adoption_policy="Never")
OTHER = "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"


def unowned(place: Place) -> None:
    """An object of nobody's is there."""
    place.kubectl("create", "configmap", "config", "--from-literal=A=0", "--from-literal=THEIRS=1")


async def owner_of(place: Place) -> str:
    """Whose the object is, as it says itself."""
    return (await place.body("ConfigMap", "config")).metadata.annotations.get(f"{R}/owner-id", "")


async def refused(kept: KeptSet, text: str) -> str:
    """Why a set is refused."""
    with pytest.raises(InvalidSet) as found:
        await kept.apply(text)
    return str(found.value)


async def test_an_unowned_object_is_adopted(place: Place) -> None:
    unowned(place)
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    assert (await owner_of(place)) == kept.owner.id
    assert (await place.body("ConfigMap", "config")).at("data") == {"A": "1", "B": "2"}


@pytest.mark.req("R-111")
async def test_an_unowned_object_is_not_adopted_where_that_is_forbidden_and_nothing_else_is_written(
    place: Place,
) -> None:
    unowned(place)
    kept = place.new_set()
    assert "ConfigMap" in (why := await refused(kept, joined(NEVER, OTHER)))
    assert "found existing object without owner" in why
    assert await place.find("ConfigMap", "other") is None
    assert kept.inventory == Inventory()


@pytest.mark.req("R-111")
async def test_another_owners_object_is_not_taken_and_its_owner_is_named(place: Place) -> None:
    first, second = place.new_set("first"), place.new_set("second")
    await first.rolled_out(CONFIG)
    assert f"owner conflict; the object is owned by {first.owner.id}" in await refused(second, CONFIG)
    assert await owner_of(place) == first.owner.id


@pytest.mark.req("R-111", "R-505")
async def test_an_object_may_move_from_one_set_to_another_and_the_first_does_not_delete_it(place: Place) -> None:
    first, second = place.new_set("first"), place.new_set("second")
    await first.rolled_out(CONFIG)
    uid = (await place.body("ConfigMap", "config")).metadata.uid
    await second.rolled_out(ALWAYS)
    assert await owner_of(place) == second.owner.id
    progress = await first.apply(CONFIG)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.OWNED
    assert f"owned by {second.owner.id}" in str(failure)
    await first.rolled_out(OTHER)
    assert [entry.key.name for entry in first.inventory] == ["other"]
    await first.deleted()
    assert (await place.body("ConfigMap", "config")).metadata.uid == uid


async def test_what_is_made_once_moves_to_another_set_as_it_is(place: Place) -> None:
    once = annotated(CONFIG, reconcile_policy="once", adoption_policy="always")
    first, second = place.new_set("first"), place.new_set("second")
    await first.rolled_out(once)
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"mine"}}')
    await second.rolled_out(once)
    found = await place.body("ConfigMap", "config")
    assert (found.metadata.annotations[f"{R}/owner-id"], found.at("data", "A")) == (second.owner.id, "mine")
    await first.rolled_out(OTHER)
    assert await place.find("ConfigMap", "config") is not None


@pytest.mark.parametrize("policy", ["ssa-override", "replace"])
async def test_an_object_that_somebody_makes_at_the_same_moment_is_met_and_adopted(place: Place, policy: str) -> None:
    kept = place.new_set()
    text = annotated(CONFIG, update_policy=policy)
    await kept.apply(text)
    unowned(place)
    place.audit.mark()
    progress = await kept.apply(text)
    assert progress.done
    assert await owner_of(place) == kept.owner.id
    first, *_ = [each for each in place.requests() if each.verb in ("patch", "create")]
    assert first.status == 409


@pytest.mark.parametrize("policy", ["ssa-override", "replace"])
@pytest.mark.req("R-111")
async def test_an_object_that_another_owner_makes_at_the_same_moment_is_left_to_him(place: Place, policy: str) -> None:
    first, second = place.new_set("first"), place.new_set("second")
    text = annotated(CONFIG, update_policy=policy)
    await second.apply(text)
    await first.rolled_out(CONFIG)
    progress = await second.apply(text)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.OWNED
    assert await owner_of(place) == first.owner.id


@pytest.mark.req("R-106", "R-111")
async def test_an_object_that_changed_hands_behind_our_cache_is_not_taken_back(place: Place) -> None:
    """Our view of it is older than the move; the update is meant for the state that was seen."""
    first, second = place.new_set("first"), place.new_set("second")
    await first.rolled_out(CONFIG)
    wanted = await first.wanted(CONFIG.replace('A: "1"', 'A: "9"'))
    resources = await first.resources(wanted)
    stale = await first.seen(resources)
    await second.rolled_out(ALWAYS)
    progress = await (await first.object_set()).apply(wanted, first.inventory, stale, resources)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.OWNED
    assert await owner_of(place) == second.owner.id


@pytest.mark.req("R-111")
async def test_two_sets_that_both_always_want_an_object_take_turns_every_ten_seconds_and_name_each_other(
    place: Place,
) -> None:
    first, second = place.new_set("first"), place.new_set("second")
    other = ALWAYS.replace('A: "1"', 'A: "2"')
    await first.rolled_out(ALWAYS)
    await second.rolled_out(other)
    await first.passing(ALWAYS)
    await second.passing(other)
    assert await owner_of(place) == second.owner.id
    held = await first.passing(ALWAYS)
    assert (held.done, held.carried) == (False, ())
    assert "again and again" in str(held.waits[0])
    assert held.again_at is not None
    first.passes(10)
    assert (await first.passing(ALWAYS)).done


@pytest.mark.req("R-111")
async def test_where_owners_are_watched_another_owners_object_and_a_forbidden_one_are_refused_before_any_write(
    place: Place,
) -> None:
    first, second = place.new_set("first"), place.new_set("second")
    second.watches_owners = True
    await first.rolled_out(CONFIG)
    place.kubectl("create", "configmap", "other")
    place.audit.mark()
    why = await refused(second, joined(CONFIG, annotated(OTHER, adoption_policy="never")))
    assert f"owned by {first.owner.id}" in why
    assert "found existing object without owner" in why
    assert place.asked() == ["get configmaps other"]
