"""Dependencies order what is applied and, reversed, what is deleted; circles are named and end with their members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.component.given import component, depending

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.dependencies import dependencies
from stellwerk.operators.component.dependencies.dependencies import Waiting
from stellwerk.operators.component.dependencies.dependency_graph import DependencyGraph
from stellwerk.operators.component.dependencies.ready_expressions import ReadyRequirement
from stellwerk.operators.component.errors import DependencyCycle, DependencyNotReady, InvalidSpec, StillNeeded
from stellwerk.operators.component.watches import renamed, woken
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.cache.store import Store
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls

pytestmark = pytest.mark.heavy

ARTIFACT = Artifact(url="u", digest="d", revision="r")
NAMES = "abcde"


def key(name: str) -> ObjectKey:
    return ObjectKey("shop", name)


class World:
    """Components as a cache has them."""

    def __init__(self, *components: Component) -> None:
        self.components = {one.key: one for one in components}

    @property
    def graph(self) -> DependencyGraph:
        graph = DependencyGraph(self.dependants)
        for one in self.components.values():
            graph.change(None, one)
        return graph

    def __getitem__(self, name: str) -> Component:
        return self.components[key(name)]

    def find(self, wanted: ObjectKey) -> Component | None:
        return self.components.get(wanted)

    def dependants(self, wanted: ObjectKey) -> Iterable[Component]:
        return [one for one in self.components.values() if wanted in one.dependencies]

    def blocking(self, name: str) -> list[str]:
        return [one.name for one in dependencies.blocking(self[name], self.graph)]

    def check(self, name: str, artifact: Artifact | None = None, *, is_new: bool = False) -> None:
        dependencies.check(self[name], self.find, self.graph, artifact, is_new=is_new)

    def open(self, name: str) -> list[ReadyRequirement]:
        return [*dependencies.check(self[name], self.find, self.graph, ARTIFACT)]


def ready(name: str, *others: str, digest: str = "d", revision: str = "r") -> Component:
    return depending(
        name, *others, state="Ready", observedGeneration=1, lastAttemptedDigest=digest, lastAttemptedRevision=revision
    )


def test_a_component_waits_for_each_dependency_to_exist_and_be_ready() -> None:
    with pytest.raises(DependencyNotReady, match="dependent component shop/b not found"):
        World(depending("a", "b")).check("a")
    with pytest.raises(DependencyNotReady, match="dependent component shop/b not ready: its state is Processing"):
        World(depending("a", "b"), depending("b", state="Processing", observedGeneration=1)).check("a")
    with pytest.raises(DependencyNotReady, match="its latest change has not been looked at"):
        World(depending("a", "b"), depending("b", state="Ready", observedGeneration=0)).check("a")
    World(depending("a", "b"), ready("b")).check("a")


def suspended(name: str) -> Component:
    status: JsonObject = {
        "state": "Pending",
        "observedGeneration": 1,
        "lastAttemptedDigest": "d",
        "lastAttemptedRevision": "r",
    }
    return component(name, spec={"suspend": True}, status=status)


def test_a_suspended_dependency_leaves_those_ready_that_have_nothing_to_apply() -> None:
    World(ready("a", "b"), suspended("b")).check("a", ARTIFACT)
    World(ready("a", "b"), suspended("b")).check("a")
    for waiting in (depending("a", "b"), ready("a", "b", revision="q")):
        with pytest.raises(DependencyNotReady, match="shop/b not ready: it is suspended"):
            World(waiting, suspended("b")).check("a", ARTIFACT)
    with pytest.raises(DependencyNotReady, match="shop/b not ready: it is suspended"):
        World(ready("a", "b"), suspended("b")).check("a", ARTIFACT, is_new=True)
    with pytest.raises(DependencyNotReady, match="not ready: its state is Error"):
        World(ready("a", "b"), depending("b", state="Error", observedGeneration=1)).check("a")


def failed(name: str, reason: str, cause: str) -> Component:
    conditions: list[JsonValue] = [
        {"type": "Ready", "status": "False", "reason": reason},
        {"type": "Stalled", "status": "True", "reason": cause},
    ]
    return depending(name, state="Error", observedGeneration=1, conditions=conditions)


@pytest.mark.parametrize(
    ("reason", "cause", "shown"),
    [
        ("Error", "RenderingFailed", "RenderingFailed"),
        ("Timeout", "ObjectsNotReady", "Timeout"),
        ("Error", "DependencyCycle", "DependencyCycle"),
    ],
)
def test_a_dependency_in_error_is_named_with_its_precise_reason(reason: str, cause: str, shown: str) -> None:
    with pytest.raises(DependencyNotReady) as caught:
        World(depending("a", "b"), failed("b", reason, cause)).check("a")
    assert str(caught.value) == f"dependent component shop/b not ready: its state is Error ({shown})"


def test_with_a_common_source_the_dependency_must_have_taken_over_the_same_revision() -> None:
    behind = World(depending("a", "b"), ready("b", revision="q"))
    elsewhere = component("b", spec={"sourceRef": {"fluxBucket": {"name": "x"}}}, status={"state": "Ready"})

    with pytest.raises(DependencyNotReady, match="shop/b not synced: it has not taken over revision r yet"):
        behind.check("a", ARTIFACT)
    World(depending("a", "b"), ready("b")).check("a", ARTIFACT)
    with pytest.raises(DependencyNotReady, match="not ready"):
        World(depending("a", "b"), elsewhere).check("a", ARTIFACT)


@pytest.mark.req("R-409")
@pytest.mark.parametrize(
    ("components", "circle"),
    [
        ([depending("a", "a")], "shop/a -> shop/a"),
        ([depending("a", "b"), depending("b", "a")], "shop/a -> shop/b -> shop/a"),
        ([depending("a", "b"), depending("b", "c"), depending("c", "a", "d")], "shop/a -> shop/b -> shop/c -> shop/a"),
    ],
)
def test_a_circle_is_named_on_each_of_its_members(components: list[Component], circle: str) -> None:
    with pytest.raises(DependencyCycle, match=f"dependency cycle: {circle};"):
        World(*components).check("a")


@pytest.mark.req("R-409")
def test_who_depends_on_a_circle_is_not_in_it() -> None:
    world = World(depending("a", "b"), depending("b", "c"), depending("c", "b"))

    with pytest.raises(DependencyNotReady, match="shop/b not ready"):
        world.check("a")


def test_a_component_is_kept_until_nobody_depends_on_it() -> None:
    world = World(depending("a"), depending("b", "a"), depending("c", "a", deleting=True))

    assert world.blocking("a") == ["b", "c"]
    assert world.blocking("b") == []
    with pytest.raises(StillNeeded, match=r"deletion blocked by depending component shop/b \(and 1 others\)"):
        dependencies.check_deletion(world["a"], world.graph)
    dependencies.check_deletion(world["b"], world.graph)


@pytest.mark.req("R-409")
def test_a_component_that_depends_on_itself_can_be_deleted() -> None:
    assert World(depending("a", "a", deleting=True)).blocking("a") == []


@pytest.mark.req("R-409")
def test_a_circle_that_is_deleted_as_a_whole_does_not_wait_for_itself() -> None:
    world = World(
        depending("a", "b", deleting=True), depending("b", "c", deleting=True), depending("c", "a", deleting=True)
    )

    assert [world.blocking(name) for name in "abc"] == [[], [], []]


@pytest.mark.req("R-409")
def test_a_circle_waits_for_members_that_stay_and_for_those_outside() -> None:
    staying = World(depending("a", "b", deleting=True), depending("b", "a"))
    outside = World(depending("a", "b", deleting=True), depending("b", "a", deleting=True), depending("c", "a"))

    assert staying.blocking("a") == ["b"]
    assert outside.blocking("a") == ["c"]
    assert outside.blocking("b") == ["c"]


def test_those_are_woken_who_may_come_further() -> None:
    world = World(depending("a"), depending("b", "a"), depending("c", "a", "b"))

    assert list(Waiting(world.dependants).woken_by_readiness(key("a"))) == [key("b"), key("c")]
    assert list(woken(Delta(world["c"], None), Waiting(world.dependants))) == [key("a"), key("b")]
    assert list(dependencies.index_by_dependency(world["c"])) == ["shop/a", "shop/b"]


def judging(name: str, *dependencies: str, expression: str = "dep.status.revision > 2") -> Component:
    """A Component with an expression about each of those that it depends on."""
    listed: list[JsonValue] = [{"name": other, "readyExpr": expression} for other in dependencies]
    return component(name, spec={"dependencies": listed})


def test_an_expression_takes_the_place_of_all_conditions_but_existence_and_circles() -> None:
    assert World(depending("a", "b"), ready("b")).open("a") == []
    [asked] = World(judging("a", "b"), ready("b", revision="q")).open("a")
    assert (asked.field, asked.dependency) == ("dependencies[0].readyExpr", key("b"))
    with pytest.raises(DependencyNotReady, match="dependent component shop/b not found"):
        World(judging("a", "b")).check("a")
    with pytest.raises(DependencyCycle, match="shop/a -> shop/b -> shop/a"):
        World(judging("a", "b"), judging("b", "a")).check("a")


def test_who_has_an_expression_about_a_component_is_woken_by_any_change_of_it() -> None:
    world = World(depending("a"), depending("b", "a"), judging("c", "a"), judging("d", "b"))

    assert list(Waiting(world.dependants).woken_by_any_change(key("a"))) == [key("c")]
    assert dependencies.has_expressions(world["c"])
    assert not dependencies.has_expressions(world["b"])


def test_only_where_every_entry_has_an_expression_the_state_of_a_dependency_tells_nothing() -> None:
    listed: list[JsonValue] = [{"name": "b", "readyExpr": "true"}, {"name": "c", "readyExpr": "true"}, {"name": "c"}]

    assert dependencies.judged(component("a", spec={"dependencies": listed})) == {key("b")}
    assert dependencies.judged(depending("a", "b")) == frozenset()


@pytest.mark.req("R-409")
def test_those_that_a_change_brings_into_a_cycle_or_out_of_it_look_again() -> None:
    world = World(depending("a", "b"), depending("b", "c"), depending("c", "a"), depending("d", "a"), depending("e"))
    graph = world.graph

    assert graph.change(world["b"], depending("b")) == {key("a"), key("c")}
    assert graph.change(depending("b"), world["b"]) == {key("a"), key("c")}
    assert graph.change(world["b"], depending("b", "c", state="Ready")) == frozenset()
    assert graph.change(world["b"], depending("b", "a")) == {key("c")}
    assert graph.change(depending("b", "a"), None) == {key("a")}
    assert graph.cycle_through(key("b")) == graph.cycle_through(key("a")) == ()


class History:
    """Components that come, change and go, as a cache tells of them."""

    def __init__(self) -> None:
        self.world = World()
        self.graph = DependencyGraph(self.world.dependants)

    def take(self, name: str, new: Component | None) -> frozenset[ObjectKey]:
        old = self.world.components.pop(key(name), None)
        if new is not None:
            self.world.components[new.key] = new
        return self.graph.change(old, new) if old is not None or new is not None else frozenset()


changes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.none() | st.sets(st.sampled_from(NAMES)), st.booleans()), max_size=20
)


@pytest.mark.req("R-409")
@given(changes)
def test_whatever_comes_changes_and_goes_the_graph_is_what_the_specs_say(
    history: list[tuple[str, set[str] | None, bool]],
) -> None:
    seen = History()
    for name, others, deleting in history:
        before = {one: len(seen.graph.cycle_through(key(one))) for one in NAMES}
        new = depending(name, *sorted(others), deleting=deleting) if others is not None else None
        woken = seen.take(name, new)
        fresh = seen.world.graph
        for one in NAMES:
            cycle = seen.graph.cycle_through(key(one))
            assert len(cycle) == len(fresh.cycle_through(key(one)))
            assert seen.graph.listing(key(one)) == fresh.listing(key(one))
            assert seen.graph.deleted_together(key(one)) == fresh.deleted_together(key(one))
            if one != name and bool(cycle) != bool(before[one]):
                assert key(one) in woken


@pytest.mark.req("R-412")
async def test_a_thousand_components_that_all_depend_on_each_other_do_not_stop_the_loop() -> None:
    names = [f"c{number:04}" for number in range(1_000)]
    all_ = [ready(name, *names[:number]) for number, name in enumerate(names)]
    store: Store[Component] = Store()
    store.add_index("dependency", dependencies.index_by_dependency)
    steps = store.replacing({one.key: one for one in all_})
    graph = DependencyGraph(lambda wanted: store.by("dependency", str(wanted)))
    last, first = all_[-1], all_[0]
    closing = ready(names[0], names[-1])
    with measured_stalls() as stalls:
        for _ in steps:
            await asyncio.sleep(0)
        for one in all_:
            graph.change(None, one)
            await asyncio.sleep(0)
        dependencies.check(last, store.get, graph, ARTIFACT)
        await asyncio.sleep(0)
        dependencies.check_deletion(last, graph)
        await asyncio.sleep(0)
        assert len(graph.change(first, closing)) == 999
        await asyncio.sleep(0)
        with pytest.raises(DependencyCycle):
            dependencies.check(last, store.get, graph, ARTIFACT)
        await asyncio.sleep(0)
        assert dependencies.blocking(last, graph) == [closing.key]
        await asyncio.sleep(0)
        assert len(graph.change(closing, None)) == 999
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-413")
def test_a_component_that_lists_too_many_others_is_refused_by_its_field() -> None:
    many = depending("a", *(f"c{number}" for number in range(1_001)))
    with pytest.raises(InvalidSpec, match=r"spec.dependencies: lists 1001 components; at most 1000 are allowed"):
        World(many).check("a")
    assert len(many.dependencies) == 1_000


graphs = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)), min_size=1)


def of(graph: dict[str, set[str]], *, deleting: Callable[[str], bool] = lambda _: False) -> World:
    return World(*(depending(name, *sorted(others), deleting=deleting(name)) for name, others in graph.items()))


@pytest.mark.req("R-409")
@given(graphs)
def test_whatever_depends_on_what_deleting_all_comes_to_an_end(graph: dict[str, set[str]]) -> None:
    world = of(graph, deleting=lambda _: True)

    while world.components:
        free = [one for one in world.components if not world.blocking(one.name)]
        assert free
        for gone in free:
            del world.components[gone]


@given(graphs)
def test_without_circles_nobody_is_deleted_before_those_that_need_him(graph: dict[str, set[str]]) -> None:
    world = of(graph, deleting=lambda _: True)
    if any(world.graph.cycle_through(one.key) for one in world.components.values()):
        return

    for one in world.components.values():
        assert world.blocking(one.key.name) == sorted(d.key.name for d in world.dependants(one.key))


@given(graphs, st.sampled_from(NAMES))
def test_a_circle_that_is_named_is_one(graph: dict[str, set[str]], start: str) -> None:
    world = of(graph)
    if key(start) not in world.components:
        return
    circle = world.graph.cycle_through(key(start))

    for one, following in zip(circle, (*circle[1:], *circle[:1]), strict=True):
        assert following in world.components[one].dependencies
    assert not circle or circle[0] == key(start)


@pytest.mark.req("R-502")
def test_a_refused_reference_delays_no_deletion_in_another_namespace() -> None:
    base = component("base")
    near = component("near", spec={"dependencies": [{"name": "base"}]})
    far = component("far", "infra", spec={"dependencies": [{"namespace": "shop", "name": "base"}]})
    graph = World(base, near, far).graph
    assert dependencies.blocking(base, graph, cross_namespace=False) == [near.key]
    assert dependencies.blocking(base, graph) == [far.key, near.key]


# ---- storms of wakes


class Rollout:
    """Components that become ready one after the other, each as soon as a pass on it finds nothing to wait for."""

    def __init__(self, *components: Component) -> None:
        self.world = World(*components)
        self.waiting = Waiting(self.world.dependants)
        self.graph = self.world.graph
        self.passes = 0

    def run(self) -> None:
        """Pass on all, then on those that are woken, until nobody is."""
        queue = dict.fromkeys(self.world.components)
        while queue:
            waiting = next(iter(queue))
            del queue[waiting]
            queue |= dict.fromkeys(self.pass_on(waiting))

    def pass_on(self, one: ObjectKey) -> list[ObjectKey]:
        self.passes += 1
        self.waiting.forget(one)
        component = self.world.components[one]
        if component.is_ready:
            return []
        try:
            dependencies.check(component, self.world.find, self.graph, ARTIFACT)
        except DependencyNotReady as failure:
            self.waiting.note(component, failure.dependency, self.world.find)
            return []
        done = ready(one.name, *(other.name for other in component.dependencies))
        self.world.components[one] = done
        return list(self.waiting.woken_by_readiness(one))

    @property
    def is_ready(self) -> bool:
        return all(one.is_ready for one in self.world.components.values())


@pytest.mark.req("R-412")
def test_in_a_dense_graph_each_component_is_woken_by_its_last_dependency_and_not_by_all() -> None:
    names = [f"c{number:03}" for number in range(120)]
    rollout = Rollout(*(depending(name, *names[:number]) for number, name in reversed([*enumerate(names)])))
    rollout.run()
    assert rollout.is_ready
    assert rollout.passes <= 3 * len(names)


@given(st.permutations(range(7)), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_whatever_depends_on_what_nobody_is_forgotten(order: list[int], edges: set[tuple[int, int]]) -> None:
    below: dict[int, list[str]] = {number: [] for number in order}
    for one, other in sorted(edges):
        if one > other:
            below[one].append(f"c{other}")
    rollout = Rollout(*(depending(f"c{number}", *below[number]) for number in order))
    rollout.run()
    assert rollout.is_ready


def test_who_names_a_component_that_is_ready_now_and_waits_for_another_looks_again_later() -> None:
    world = World(depending("a"), depending("b", "a"), depending("c", "a", "b"))
    waiting = Waiting(world.dependants)
    waiting.note(world["c"], key("a"), world.find)
    assert list(waiting.woken_by_readiness(key("a"))) == [key("b")]
    assert list(waiting.renamed_by_readiness(key("a"))) == [key("c")]
    assert list(waiting.woken_by_readiness(key("b"))) == [key("c")]
    assert list(waiting.renamed_by_readiness(key("b"))) == []


def test_what_an_expression_judges_is_not_waited_for_to_become_ready() -> None:
    listed: list[JsonValue] = [{"name": "a"}, {"name": "b", "readyExpr": "true"}]
    waiter = component("c", spec={"dependencies": listed})
    world = World(depending("a"), depending("b", "a"), waiter)
    waiting = Waiting(world.dependants)
    waiting.note(waiter, key("a"), world.find)
    assert key("c") in waiting.woken_by_readiness(key("a"))


def woken_later(waiting: Waiting, old: Component | None, new: Component) -> list[ObjectKey]:
    return [*renamed(Delta(old, new), waiting)]


def test_a_component_that_names_a_dependency_looks_again_when_that_fails_or_recovers() -> None:
    world = World(depending("a"), depending("b", "a"), depending("c", "b"))
    waiting = Waiting(world.dependants)
    waiting.note(world["b"], key("a"), world.find)
    waiting.note(world["c"], key("b"), world.find)
    starts = depending("a", state="Processing", observedGeneration=1)
    refused, late = failed("a", "Error", "ApplyFailed"), failed("a", "Timeout", "ObjectsNotReady")

    assert woken_later(waiting, starts, refused) == [key("b")]
    assert woken_later(waiting, refused, late) == [key("b")], "the message names the reason"
    assert woken_later(waiting, late, starts) == [key("b")]
    stopped = component("a", spec={"suspend": True}, status={"state": "Processing", "observedGeneration": 1})
    assert woken_later(waiting, starts, stopped) == [key("b")]


def test_a_dependency_on_its_way_or_with_the_same_failure_wakes_no_component() -> None:
    world = World(depending("a"), depending("b", "a"))
    waiting = Waiting(world.dependants)
    waiting.note(world["b"], key("a"), world.find)
    refused = failed("a", "Error", "ApplyFailed")
    pending, starts = (depending("a", state=state, observedGeneration=1) for state in ("Pending", "Processing"))

    assert woken_later(waiting, pending, starts) == []
    assert woken_later(waiting, refused, refused) == []
    waiting.forget(key("b"))
    assert woken_later(waiting, starts, refused) == [], "it does not name the dependency"
