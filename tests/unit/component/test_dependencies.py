"""Dependencies order what is applied and, reversed, what is deleted; circles are named and end with their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.component.given import component, depending

from stellwerk.kube.model import JsonValue
from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component import dependencies
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import DependencyCycle, DependencyNotReady, StillNeeded
from stellwerk.operators.component.ready_expressions import Asked

ARTIFACT = Artifact(url="u", digest="d", revision="r")
NAMES = "abcde"


def key(name: str) -> ObjectKey:
    return ObjectKey("shop", name)


class World:
    """Components as a cache has them."""

    def __init__(self, *components: Component) -> None:
        self.components = {one.key: one for one in components}

    def __getitem__(self, name: str) -> Component:
        return self.components[key(name)]

    def find(self, wanted: ObjectKey) -> Component | None:
        return self.components.get(wanted)

    def dependants(self, wanted: ObjectKey) -> Iterable[Component]:
        return [one for one in self.components.values() if wanted in one.dependencies]

    def blocking(self, name: str) -> list[str]:
        return [one.name for one in dependencies.blocking(self[name], self.dependants)]

    def check(self, name: str, artifact: Artifact | None = None) -> None:
        dependencies.check(self[name], self.find, artifact)

    def open(self, name: str) -> list[Asked]:
        return [*dependencies.check(self[name], self.find, ARTIFACT)]


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
    with pytest.raises(DependencyCycle, match=f"in a circle: {circle};"):
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
        dependencies.check_deletion(world["a"], world.dependants)
    dependencies.check_deletion(world["b"], world.dependants)


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

    assert list(dependencies.woken_by_readiness(world["a"], world.dependants)) == [key("b"), key("c")]
    assert list(dependencies.woken_by_departure(world["c"])) == [key("a"), key("b")]
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

    assert list(dependencies.woken_by_any_change(world["a"], world.dependants)) == [key("c")]
    assert dependencies.has_expressions(world["c"])
    assert not dependencies.has_expressions(world["b"])


def test_only_where_every_entry_has_an_expression_the_state_of_a_dependency_tells_nothing() -> None:
    listed: list[JsonValue] = [{"name": "b", "readyExpr": "true"}, {"name": "c", "readyExpr": "true"}, {"name": "c"}]

    assert dependencies.judged(component("a", spec={"dependencies": listed})) == {key("b")}
    assert dependencies.judged(depending("a", "b")) == frozenset()


def test_those_above_look_again_when_a_component_lists_others_than_before() -> None:
    world = World(depending("a", "b"), depending("b", "c"), depending("c", "a"), depending("d", "a"), depending("e"))

    assert list(dependencies.woken_by_rewiring(world["b"], world.dependants)) == [key("a"), key("c"), key("d")]


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
    if any(dependencies.circle_through(one, world.find) for one in world.components.values()):
        return

    for one in world.components.values():
        assert world.blocking(one.key.name) == sorted(d.key.name for d in world.dependants(one.key))


@given(graphs, st.sampled_from(NAMES))
def test_a_circle_that_is_named_is_one(graph: dict[str, set[str]], start: str) -> None:
    world = of(graph)
    if key(start) not in world.components:
        return
    circle = dependencies.circle_through(world[start], world.find)

    for one, following in zip(circle, (*circle[1:], *circle[:1]), strict=True):
        assert following in world.components[one].dependencies
    assert not circle or circle[0] == key(start)
