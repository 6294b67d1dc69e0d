"""A set is rolled out wave by wave, and nothing is touched before its time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.apply.set.given import (
    AVAILABLE,
    NO_STATUS,
    SSA,
    THEM,
    World,
    api_service,
    calm_world,
    config_map,
    definition,
    document,
    ending,
    entry_of,
    live,
    names,
    one,
    registered,
    wanted,
)

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, Phase
from stellwerk.apply.set.model.policy import TypePattern
from stellwerk.apply.set.plan import plan_apply
from stellwerk.apply.set.plan.actions import Create, LookUp, Remove, Update
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.types.model import JsonObject

NOT_READY = {"Deployment": NO_STATUS}
NOT_YET: JsonObject = {"conditions": [{"type": "Ready", "status": "False", "message": "it waits"}]}
RUNNING: JsonObject = {
    "replicas": 1,
    "updatedReplicas": 1,
    "availableReplicas": 1,
    "readyReplicas": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}
FAILED: JsonObject = {"conditions": [{"type": "Failed", "status": "True", "message": "x"}]}


def rolled_out(text: str, world: World | None = None) -> tuple[World, Inventory, Stage]:
    """A world after one pass over a new set."""
    world = world or calm_world()
    objects = wanted(text, policies=world.policies)
    inventory, stage = world.roll(objects, registered(objects))
    return world, inventory, stage


def made(world: World) -> list[str]:
    """What was created, in order."""
    return names(action for action in world.carried if isinstance(action, Create))


def phases(inventory: Inventory) -> dict[str, str]:
    """How far each object is."""
    return {entry.key.name: entry.phase.value for entry in inventory}


# ---- one pass


def test_a_set_that_is_ready_at_once_is_through_in_one_pass() -> None:
    world, inventory, stage = rolled_out(config_map("a") + config_map("b"))
    assert stage.done
    assert {entry.phase for entry in inventory} == {Phase.READY}
    assert {entry.status for entry in inventory} == {EntryStatus.CURRENT}
    assert {entry.last_applied_at for entry in inventory} == {world.now}


@pytest.mark.req("R-108")
def test_a_calm_set_needs_nothing() -> None:
    world, inventory, _ = rolled_out(config_map("a") + document("Role", "r"))
    calm = world.stage(wanted(config_map("a") + document("Role", "r")), inventory)
    assert (calm.done, calm.actions, calm.waits, calm.inventory) == (True, (), (), inventory)


def test_an_empty_set_is_done() -> None:
    assert World().stage((), Inventory()).done


# ---- waves


@pytest.mark.req("R-101")
def test_a_wave_waits_until_the_one_before_is_ready() -> None:
    text = config_map("last", apply_order=1) + document("Deployment", "slow") + config_map("first", apply_order=-1)
    world, inventory, stage = rolled_out(text, World(status=NOT_READY))
    assert made(world) == ["first", "slow"]
    assert phases(inventory) == {"first": "Ready", "slow": "Creating", "last": "ScheduledForApplication"}
    assert [str(each.ref) for each in stage.waits] == ["Deployment there/slow"]
    assert not stage.done


def a_hook(kind: str, name: str) -> str:
    """A hook of a chart, for after the installation."""
    text = document(kind, name, apply_order=101)
    return text.replace("annotations: {", 'annotations: {"helm.sh/hook": post-install, ')


def test_a_hook_that_is_a_custom_resource_does_not_wait_for_resources_of_its_own_group() -> None:
    text = document("Thing", "application") + a_hook("Thing", "version") + config_map("last", apply_order=102)
    world, inventory, stage = rolled_out(text, World(status={"Thing": NOT_YET}))
    assert made(world) == ["application", "version"]
    assert phases(inventory)["last"] == "ScheduledForApplication"
    assert [each.ref.key.name for each in stage.waits] == ["application", "version"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(document("Deployment", "slow") + a_hook("Job", "hook"), id="a hook of Kubernetes' own kinds"),
        pytest.param(document("Alien", "slow") + a_hook("Thing", "hook"), id="a resource of another group"),
        pytest.param(
            document("Thing", "slow") + document("Deployment", "app") + a_hook("Thing", "hook"),
            id="a Deployment besides",
        ),
        pytest.param(document("Thing", "slow") + document("Thing", "hook", apply_order=101), id="no hook"),
    ],
)
def test_everything_else_in_its_wave_is_waited_for(text: str) -> None:
    status = {"Thing": NOT_YET, "Alien": NOT_YET, "Deployment": NO_STATUS}
    world, _, _ = rolled_out(text, World(status=status))
    assert "hook" not in made(world)


def test_a_wave_falls_back_when_an_earlier_one_falters() -> None:
    objects = wanted(document("Deployment", "slow", apply_order=-1) + config_map("late"))
    world = World(status={"Deployment": RUNNING})
    inventory, stage = world.roll(objects, registered(objects))
    assert stage.done
    slow, late = objects
    world.put(slow, live(slow.desired, more={"status": {"replicas": 0}}))
    world.gone(late.identity)
    stage = world.stage(objects, inventory)
    assert (stage.actions, [each.ref.key.name for each in stage.waits]) == ((), ["slow"])


def test_within_a_step_kinds_go_in_their_order_without_waiting() -> None:
    text = "".join(
        [
            document("Deployment", "deployment"),
            config_map("map"),
            document("Role", "role"),
            document("Namespace", "space"),
            document("Secret", "secret"),
        ]
    )
    world = World(status=NOT_READY)
    objects = wanted(text)
    stage = world.stage(objects, registered(objects))
    assert [sorted(names(group)) for group in stage.groups] == [["space"], ["role"], ["map", "secret"], ["deployment"]]


def test_api_services_wait_for_what_is_plain_and_instances_for_both() -> None:
    text = document("Measure", "instance") + api_service() + document("Deployment", "server")
    world = calm_world(Deployment=NO_STATUS)
    objects = wanted(text)
    inventory, _ = world.roll(objects, registered(objects))
    assert made(world) == ["server"]
    world.put(objects[2], live(objects[2].desired, more={"status": RUNNING}))
    world.status["APIService"] = {"conditions": [{"type": "Available", "status": "False"}]}
    inventory, stage = world.roll(objects, inventory)
    assert made(world) == ["server", "v1.metrics.example.org"]
    assert [wait.ref.gvk.kind for wait in stage.waits] == ["APIService"]
    world.put(objects[1], live(objects[1].desired, more={"status": AVAILABLE}))
    inventory, stage = world.roll(objects, inventory)
    assert made(world) == ["server", "v1.metrics.example.org", "instance"]
    assert stage.done


def test_instances_wait_for_their_definition_and_its_controller() -> None:
    text = document("Thing", "instance") + document("Deployment", "controller") + definition()
    world, _, stage = rolled_out(text, calm_world(Deployment=NO_STATUS))
    assert made(world) == ["things.example.org", "controller"]
    assert [each.ref.key.name for each in stage.waits] == ["controller"]


def test_instances_of_kinds_that_the_author_names_wait_too() -> None:
    patterns = replace(SSA, managed_types=(TypePattern("*.org", "Alien"),))
    text = document("Alien", "alien") + document("Deployment", "controller")
    for policies, expected in ((patterns, ["controller"]), (SSA, ["alien", "controller"])):
        world = World(policies=policies, status=NOT_READY)
        rolled_out(text, world)
        assert made(world) == expected


def test_an_object_that_must_not_be_touched_stops_its_step_and_is_told() -> None:
    objects = wanted(config_map("theirs") + config_map("ours"))
    world = World()
    world.put(objects[0], live(replace(objects[0].desired, body=THEM.stamped(objects[0].desired.body, "d"))))
    stage = world.stage(objects, registered(objects))
    assert stage.actions == ()
    assert [str(each) for each in stage.refused] == [
        "ConfigMap there/theirs: owner conflict; the object is owned by uid/there/other"
    ]
    assert not stage.done


def test_a_status_that_cannot_be_read_stops_the_set_when_everything_of_its_step_is_written() -> None:
    odd: JsonObject = {"conditions": {}}
    world = World(status={"Thing": odd})
    text = document("Thing", "odd") + config_map("fine")
    world, inventory, stage = rolled_out(text + config_map("late", apply_order=1), world)
    assert sorted(made(world)) == ["fine", "odd"]
    assert [(str(each), each.obstacle) for each in stage.refused] == [
        ("Thing there/odd: status.conditions is not a list", Obstacle.UNREADABLE)
    ]
    assert not stage.done
    world.put(wanted(text)[0], live(wanted(text)[0].desired))
    assert world.stage(wanted(text), inventory).refused == ()


# ---- purge and completion


def test_what_was_needed_for_a_while_is_purged_at_the_end_of_its_wave() -> None:
    text = document("Job", "hook", apply_order=-1, purge_order=-1) + config_map("main")
    world, inventory, stage = rolled_out(text)
    assert stage.done
    assert [f"{type(action).__name__} {action.address.key.name}" for action in world.carried] == [
        "Create hook",
        "Remove hook",
        "Create main",
    ]
    assert phases(inventory) == {"hook": "Completed", "main": "Ready"}
    assert entry_of(inventory, "hook").status is EntryStatus.NONE


def test_a_purge_is_saved_before_it_is_done() -> None:
    objects = wanted(document("Job", "hook", purge_order=0))
    world = calm_world()
    stage = world.stage(objects, registered(objects))
    inventory = world.carry_out(stage)
    purging = world.stage(objects, inventory)
    assert (purging.must_be_saved, purging.actions) == (True, ())
    assert phases(purging.inventory) == {"hook": "ScheduledForCompletion"}


def test_a_purge_waits_for_its_own_wave_which_may_be_a_later_one() -> None:
    text = (
        document("Job", "hook", apply_order=-1, purge_order=1)
        + config_map("zero")
        + document("Deployment", "slow", apply_order=1)
    )
    _, inventory, _ = rolled_out(text, calm_world(Deployment=NO_STATUS))
    assert phases(inventory) == {"hook": "Ready", "zero": "Ready", "slow": "Creating"}


def test_in_the_last_wave_everything_with_a_purge_order_goes() -> None:
    _, inventory, stage = rolled_out(document("Job", "hook", purge_order=99) + config_map("main", apply_order=1))
    assert stage.done
    assert phases(inventory)["hook"] == "Completed"


def test_a_purged_object_is_waited_for_before_anything_else() -> None:
    objects = wanted(document("Job", "hook", apply_order=-1, purge_order=-1) + config_map("main"))
    world = calm_world()
    world.lingering.add(objects[0].identity)
    inventory, stage = world.roll(objects, registered(objects))
    assert [str(each) for each in stage.waits] == ["Job there/hook: has done its work and is being deleted"]
    assert phases(inventory) == {"hook": "Completing", "main": "ScheduledForApplication"}
    assert made(world) == ["hook"]
    world.finish()
    inventory, stage = world.roll(objects, inventory)
    assert stage.done


def test_a_purged_object_is_not_made_again_until_it_changes() -> None:
    text = document("Job", "hook", purge_order=0, reconcile_policy="on-object-or-component-change")
    world, inventory, _ = rolled_out(text)
    again = wanted(text)
    assert world.roll(again, registered(again, inventory))[1].done
    assert made(world) == ["hook"]
    newer = wanted(text, set_digest="s2")
    inventory, stage = world.roll(newer, registered(newer, inventory))
    assert stage.done
    assert made(world) == ["hook", "hook"]
    assert phases(inventory) == {"hook": "Completed"}


def test_a_purged_object_of_a_kind_that_is_not_served_yet_is_looked_for_again_soon() -> None:
    objects = wanted(document("Measure", "hook", purge_order=0))
    world = calm_world()
    inventory = Inventory(tuple(replace(entry, phase=Phase.COMPLETING) for entry in registered(objects)))
    state = world.state(inventory)
    silent = {identity: replace(resource, plural="") for identity, resource in state.resources.items()}
    stage = plan_apply.next_stage(objects, inventory, replace(state, resources=silent))
    assert [str(each) for each in stage.waits] == ["Measure there/hook: its kind is not served yet"]
    assert (stage.actions, stage.again_at) == ((), world.clock + 1)
    assert phases(stage.inventory) == {"hook": "Completing"}


def test_a_purged_object_that_has_become_another_ones_is_not_deleted() -> None:
    objects = wanted(document("Job", "hook", purge_order=0))
    world = calm_world()
    entries = tuple(replace(entry, phase=Phase.COMPLETING) for entry in registered(objects))
    world.put(objects[0], live(replace(objects[0].desired, body=THEM.stamped(objects[0].desired.body, "d"))))
    inventory, stage = world.roll(objects, Inventory(entries))
    assert (stage.done, phases(inventory), world.carried) == (True, {"hook": "Completed"}, [])


@pytest.mark.req("R-104")
def test_a_purged_object_that_a_cache_does_not_show_is_looked_up_once() -> None:
    objects = wanted(document("Job", "hook", purge_order=0))
    world = calm_world()
    entries = tuple(replace(entry, phase=Phase.COMPLETING) for entry in registered(objects))
    _, stage = world.roll(objects, Inventory(entries))
    assert [type(action) for action in world.carried] == [LookUp]
    assert stage.done


def test_what_was_to_be_purged_and_is_wanted_otherwise_now_is_applied_anew() -> None:
    objects = wanted(document("Job", "hook", purge_order=0))
    entries = tuple(replace(entry, phase=Phase.COMPLETING) for entry in registered(objects))
    world = calm_world()
    world.put(objects[0], ending(live(objects[0].desired)))
    kept = wanted(document("Job", "hook", "spec: {parallelism: 2}"))
    inventory, stage = world.roll(kept, registered(kept, Inventory(entries)))
    assert [str(each) for each in stage.waits] == ["Job there/hook: is being deleted"]
    world.gone(kept[0].identity)
    inventory, stage = world.roll(kept, inventory)
    assert (stage.done, phases(inventory)) == (True, {"hook": "Ready"})


# ---- what is no longer wanted


def test_what_is_no_longer_wanted_goes_only_when_everything_new_is_ready() -> None:
    world, inventory, _ = rolled_out(config_map("old"), World(status=NOT_READY))
    newer = wanted(document("Deployment", "new"))
    inventory, stage = world.roll(newer, registered(newer, inventory))
    assert phases(inventory) == {"old": "ScheduledForDeletion", "new": "Creating"}
    (new,) = newer
    world.put(new, live(new.desired, more={"status": RUNNING}))
    inventory, stage = world.roll(newer, inventory)
    assert (stage.done, phases(inventory)) == (True, {"new": "Ready"})
    assert isinstance(world.carried[-1], Remove)


# ---- policies of one object, along the way


@pytest.mark.parametrize("policy", ["replace", "ssa-merge", "ssa-override"])
def test_a_changed_manifest_is_one_update(policy: str) -> None:
    world, inventory, _ = rolled_out(config_map(update_policy=policy))
    newer = wanted(config_map(update_policy=policy, value="2"))
    _, stage = world.roll(newer, registered(newer, inventory))
    assert stage.done
    assert [type(action) for action in world.carried] == [Create, Update]


def test_a_changed_manifest_with_recreate_is_a_deletion_and_a_creation_in_one_pass() -> None:
    world, inventory, _ = rolled_out(config_map(update_policy="recreate"))
    newer = wanted(config_map(update_policy="recreate", value="2"))
    _, stage = world.roll(newer, registered(newer, inventory))
    assert stage.done
    assert [type(action) for action in world.carried] == [Create, Remove, Create]
    assert not any(action.restores for action in world.carried if isinstance(action, Create))


def test_recreate_waits_for_an_object_that_takes_its_time_to_go() -> None:
    world, inventory, _ = rolled_out(config_map(update_policy="recreate"))
    newer = wanted(config_map(update_policy="recreate", value="2"))
    world.lingering.add(newer[0].identity)
    inventory, stage = world.roll(newer, registered(newer, inventory))
    assert [str(each) for each in stage.waits] == ["ConfigMap there/c: is being deleted"]
    world.finish()
    inventory, stage = world.roll(newer, inventory)
    assert (stage.done, phases(inventory)) == (True, {"c": "Ready"})


@pytest.mark.req("R-110")
def test_a_definition_that_somebody_deleted_is_let_go_of_and_made_anew() -> None:
    world, inventory, _ = rolled_out(definition() + document("Thing", "t"))
    crd: DesiredObject = one(definition())
    world.put(crd, ending(world.seen[crd.identity].live))
    inventory, stage = world.roll(wanted(definition() + document("Thing", "t")), inventory)
    assert stage.done
    assert [type(action).__name__ for action in world.carried[-2:]] == ["RemoveFinalizer", "Create"]


def test_the_earliest_moment_of_all_that_is_held_is_when_to_look_again() -> None:
    objects = wanted(config_map("a") + config_map("b"))
    world, inventory, _ = rolled_out(config_map("a") + config_map("b"))
    for obj, at in zip(objects, (95.0, 97.0), strict=True):
        world.confirmations[obj.address] = replace(world.confirmations[obj.address], restored_at=at)
        world.gone(obj.identity)
    assert world.stage(objects, inventory).again_at == 105.0


def test_a_stage_can_be_read_by_people() -> None:
    objects = wanted(config_map("a") + document("Deployment", "d"))
    world = World(status=NOT_READY)
    stage = world.stage(objects, registered(objects))
    assert str(stage).splitlines() == [
        "create ConfigMap there/a",
        "create Deployment there/d",
        "ConfigMap there/a: is being created",
        "Deployment there/d: is being created",
    ]


def test_a_job_that_failed_is_never_ready() -> None:
    _, inventory, stage = rolled_out(document("Job", "j"), World(status={"Job": FAILED}))
    assert [str(each) for each in stage.waits] == ["Job there/j: Failed: x"]
    assert entry_of(inventory, "j").status is EntryStatus.FAILED
