"""Whatever the set, and wherever the process dies: it comes to rest, in order, nothing lost and nothing doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from tests.unit.apply.set.given import (
    AVAILABLE,
    COMPLETE,
    NO_STATUS,
    READY_DEFINITION,
    R,
    World,
    api_service,
    config_map,
    definition,
    document,
    wanted,
)

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.readiness.readiness import assess
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity, Phase
from stellwerk.apply.set.plan import plan_prune
from stellwerk.apply.set.plan.actions import Create, Remove, Update
from stellwerk.apply.set.plan.inventory_update import register
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.types.model import JsonObject, Unstructured

pytestmark = pytest.mark.heavy

RUNNING: JsonObject = {
    "replicas": 1,
    "updatedReplicas": 1,
    "availableReplicas": 1,
    "readyReplicas": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}
SETTLED: dict[str, JsonObject] = {
    "Deployment": RUNNING,
    "Job": COMPLETE,
    "CustomResourceDefinition": READY_DEFINITION,
    "APIService": AVAILABLE,
    "Thing": {"phase": "fine"},
    "Measure": {"phase": "fine"},
}

ORDERS = st.integers(-1, 1)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "apply_order": ORDERS,
        "delete_order": ORDERS,
        "update_policy": st.sampled_from(["replace", "recreate", "ssa-merge", "ssa-override"]),
        "delete_policy": st.sampled_from(["delete", "orphan", "orphan-on-apply", "orphan-on-delete"]),
        "reconcile_policy": st.sampled_from(["on-object-change", "once", "on-object-or-component-change"]),
    },
)
PURGES = st.none() | st.integers(-2, 3)
KINDS = ["ConfigMap", "Secret", "Deployment", "Job", "Thing", "Measure", "Inside", "Space", "Definition", "Service"]


@st.composite
def sets(draw: st.DrawFn) -> str:
    """The YAML of a set, its objects in any order, with any policies."""
    texts = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=7)):
        number, policies = draw(st.integers(1, 2)), draw(POLICIES)
        if kind in ("ConfigMap", "Job", "Deployment") and (purge := draw(PURGES)) is not None:
            policies["purge_order"] = purge
        texts.append(_text(kind, number, draw(st.sampled_from("12")), policies))
    return "".join(dict.fromkeys(texts))


def _text(kind: str, number: int, value: str, policies: dict[str, object]) -> str:
    match kind:
        case "Space":
            return document("Namespace", "space", **policies)
        case "Inside":
            inside = f"{{name: c{number}, namespace: space,"
            return config_map(f"c{number}", value=value, **policies).replace(f"{{name: c{number},", inside)
        case "Definition":
            return definition(**policies)
        case "Service":
            return api_service(**policies)
        case "ConfigMap":
            return config_map(f"c{number}", value=value, **policies)
        case _:
            return document(kind, f"x{number}", f'spec: {{value: "{value}"}}', **policies)


def objects_of(text: str, known: Inventory | None = None, set_digest: str = "s1") -> tuple[DesiredObject, ...]:
    """The objects of a set that is not refused."""
    try:
        objects = wanted(text, set_digest=set_digest)
        register(objects, known or Inventory(), {}, World().owner)
    except InvalidSet:
        assume(False)
    return objects


@dataclass
class Walk:
    """A process that passes again and again, on a cluster in which things take their time."""

    world: World = field(default_factory=lambda: World(status=dict.fromkeys(SETTLED, NO_STATUS)))
    saved: Inventory = field(default_factory=Inventory)
    crashes: Iterator[bool] = field(default_factory=lambda: iter(()))
    """For each stage that writes, whether the process dies right after its writes."""
    created: Counter[tuple[ObjectIdentity, str]] = field(default_factory=Counter)

    def applies(self, objects: Sequence[DesiredObject]) -> None:
        """Bring the set to what is wanted."""
        for _ in range(12 * (len(objects) + len(self.saved) + 2)):
            registered = register(objects, self.saved, {}, self.world.owner)
            self.saved = registered.inventory
            if self._passes(lambda inventory: self.world.stage(objects, inventory)):
                return
            self._time_goes_on()
        raise AssertionError("a rollout that never ends")

    def deletes(self) -> None:
        """Take the set away."""
        for _ in range(12 * (len(self.saved) + 2)):
            if self._passes(lambda inventory: plan_prune.of_set(inventory, self.world.state(inventory))):
                return
            self._time_goes_on()
        raise AssertionError("a deletion that never ends")

    def _passes(self, decide: Callable[[Inventory], Stage]) -> bool:
        """One pass. Whether all is done."""
        inventory = self.saved
        for _ in range(20 * (len(inventory) + 1)):
            stage = decide(inventory)
            hidden = {*self.world.hidden}
            inventory = self.world.carry_out(stage)
            for action in stage.actions:
                if isinstance(action, Create) and ObjectIdentity.of(action.address.ref) not in hidden:
                    identity = ObjectIdentity.of(action.address.ref)
                    self.created[identity, action.desired.digest] += 1
            dies = next(self.crashes, False) if stage.groups else False
            if dies:
                self._dies()
                return False
            if stage.done or stage.must_be_saved or not (stage.groups or stage.again):
                self.saved = inventory
                return stage.done
        raise AssertionError("a pass that never comes to rest")

    def _dies(self) -> None:
        """What was not saved is lost; what only the process knew, too."""
        self.world.confirmations.clear()
        self.world.absent.clear()

    def _time_goes_on(self) -> None:
        """Controllers do their work: statuses appear, and what was leaving is gone."""
        world = self.world
        world.passes(2)
        for identity, seen in [*world.seen.items()]:
            metadata = seen.live.metadata
            if metadata.is_terminating and R not in metadata.finalizers:
                world.gone(identity)
            elif isinstance(seen.live, Unstructured) and identity.kind in SETTLED:
                body = {**seen.live.body, "status": SETTLED[identity.kind]}
                world.seen[identity] = LiveObject(seen.address, Unstructured(body, metadata))


def is_ready(found: Live | None) -> bool:
    """Whether an object of the cluster is ready."""
    return found is not None and (not isinstance(found, Unstructured) or assess(found, now=World().now).is_ready)


def watch_waves(walk: Walk, objects: Sequence[DesiredObject]) -> None:
    """Fail as soon as an object is written before everything of earlier waves is ready."""
    order = {one.identity: one.directive.apply_order for one in objects}

    def look(stage: Stage) -> None:
        for action in stage.actions:
            identity = ObjectIdentity.of(action.address.ref)
            if not isinstance(action, Create | Update) or identity not in order:
                continue
            entries = stage.inventory.by_identity()
            for one in objects:
                if one.directive.apply_order >= order[identity] or entries[one.identity].phase is Phase.COMPLETED:
                    continue
                seen = walk.world.seen.get(one.identity)
                assert is_ready(seen.live if seen else None), f"{action} before {one.desired.ref} is ready"

    walk.world.before = look


def watch_departures(walk: Walk, going: Inventory) -> None:
    """Fail as soon as something is asked to go before its turn."""
    order = {entry.identity: entry.delete_order for entry in going}
    types = going.managed_types

    def look(stage: Stage) -> None:
        left = [entry for entry in stage.inventory if entry.identity in order]
        for action in stage.actions:
            identity = ObjectIdentity.of(action.address.ref)
            if not isinstance(action, Remove) or identity not in order:
                continue
            assert order[identity] == min(entry.delete_order for entry in left), f"{action} before its wave"
            if (identity.group, identity.kind) == NAMESPACE:
                assert all(entry.key.namespace != identity.key.name for entry in left), f"{action} with objects in it"
            if any(type_.kind in ("*", "Thing") for entry in left for type_ in entry.managed_types):
                same = [entry for entry in left if entry.delete_order == order[identity]]
                instances = [entry for entry in same if any(type_.matches(entry.gvk) for type_ in types)]
                gvk = action.address.resource.gvk
                assert not instances or any(type_.matches(gvk) for type_ in types), f"{action} before instances"

    walk.world.before = look


LIVES = st.lists(st.booleans(), max_size=12)


@for_all(sets(), LIVES)
@settings(max_examples=120, deadline=None)
@pytest.mark.req("R-101", "R-109")
def test_any_set_comes_to_rest_in_order_wherever_the_process_dies(text: str, lives: list[bool]) -> None:
    objects = objects_of(text)
    walk = Walk(crashes=iter(lives))
    watch_waves(walk, objects)
    walk.applies(objects)
    assert {entry.identity: entry.digest for entry in walk.saved} == {one.identity: one.digest for one in objects}
    assert all(entry.phase.is_settled for entry in walk.saved)
    there = {entry.identity for entry in walk.saved if entry.phase is Phase.READY}
    assert walk.world.seen.keys() == there
    assert not walk.created or max(walk.created.values()) == 1


@for_all(sets(), sets(), LIVES)
@settings(max_examples=120, deadline=None)
@pytest.mark.req("R-101", "R-107", "R-109")
def test_any_set_becomes_any_other(before: str, after: str, lives: list[bool]) -> None:
    walk = Walk()
    older = objects_of(before)
    walk.applies(older)
    objects = objects_of(after, walk.saved, "s2")
    walk.crashes = iter(lives)
    watch_waves(walk, objects)
    stays = {entry.identity for entry in walk.saved if entry.delete.orphans_on_apply and entry.phase is Phase.READY}
    walk.applies(objects)
    assert {entry.identity for entry in walk.saved} == {one.identity for one in objects}
    assert all(entry.phase.is_settled for entry in walk.saved)
    ours = {entry.identity for entry in walk.saved}
    assert walk.world.seen.keys() - ours == stays - ours
    assert not walk.created or max(walk.created.values()) == 1 or before == after or _comes_back(older, objects)


def _comes_back(older: Sequence[DesiredObject], newer: Sequence[DesiredObject]) -> bool:
    """Whether an object had to go and come back as it was, because its policies differ."""
    digests = {one.identity: one.desired.digest for one in older}
    return any(digests.get(one.identity) == one.desired.digest for one in newer)


@for_all(sets(), LIVES)
@settings(max_examples=120, deadline=None)
@pytest.mark.req("R-101", "R-505")
def test_any_set_goes_in_order_and_leaves_only_orphans(text: str, lives: list[bool]) -> None:
    walk = Walk()
    walk.applies(objects_of(text))
    stays = {entry.identity for entry in walk.saved if entry.delete.orphans_on_delete and entry.phase is Phase.READY}
    walk.crashes = iter(lives)
    watch_departures(walk, walk.saved)
    walk.deletes()
    assert walk.saved == Inventory()
    assert walk.world.seen.keys() == stays


@for_all(sets(), st.integers(0, 6))
@settings(max_examples=80, deadline=None)
@pytest.mark.req("R-107")
def test_a_set_may_be_deleted_while_it_is_rolled_out(text: str, stages: int) -> None:
    objects = objects_of(text)
    walk = Walk()
    walk.saved = register(objects, walk.saved, {}, walk.world.owner).inventory
    inventory = walk.saved
    for _ in range(stages):
        inventory = walk.world.carry_out(walk.world.stage(objects, inventory))
    walk.world.before = lambda stage: None
    walk.deletes()
    assert walk.saved == Inventory()
    left = {one.identity for one in objects if one.directive.delete.orphans_on_delete}
    assert walk.world.seen.keys() <= left


@for_all(sets())
@settings(max_examples=50, deadline=None)
@pytest.mark.req("R-108")
def test_any_set_that_is_ready_needs_nothing_even_in_a_new_process(text: str) -> None:
    objects = objects_of(text)
    walk = Walk()
    walk.applies(objects)
    walk.world.confirmations.clear()
    calm = walk.world.stage(objects, walk.saved)
    assert (calm.done, calm.actions, calm.inventory) == (True, (), walk.saved)


@for_all(sets(), st.data())
@settings(max_examples=50, deadline=None)
@pytest.mark.req("R-110")
def test_whatever_others_delete_comes_back(text: str, data: st.DataObject) -> None:
    objects = objects_of(text)
    walk = Walk()
    walk.applies(objects)
    for identity in [*walk.world.seen]:
        if data.draw(st.booleans()):
            walk.world.seen.pop(identity)
    walk.applies(objects)
    ready = {entry.identity for entry in walk.saved if entry.phase is Phase.READY}
    assert walk.world.seen.keys() == ready


def hide_some(walk: Walk, data: st.DataObject) -> None:
    """A cache that is older than some of the objects."""
    walk.world.hidden |= {identity for identity in walk.world.seen if data.draw(st.booleans())}


@for_all(sets(), st.data())
@settings(max_examples=80, deadline=None)
@pytest.mark.req("R-104")
def test_an_older_view_makes_nothing_twice(text: str, data: st.DataObject) -> None:
    objects = objects_of(text)
    walk = Walk()
    walk.applies(objects)
    hide_some(walk, data)
    walk.applies(objects)
    assert not walk.created or max(walk.created.values()) == 1
    assert all(entry.phase.is_settled for entry in walk.saved)


@for_all(sets(), st.data())
@settings(max_examples=80, deadline=None)
@pytest.mark.req("R-104")
def test_an_older_view_makes_nothing_forgotten(text: str, data: st.DataObject) -> None:
    walk = Walk()
    walk.applies(objects_of(text))
    hide_some(walk, data)
    stays = {entry.identity for entry in walk.saved if entry.delete.orphans_on_delete and entry.phase is Phase.READY}
    walk.deletes()
    assert walk.world.seen.keys() == stays
