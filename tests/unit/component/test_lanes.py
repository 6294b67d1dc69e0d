"""A cluster that holds its Components up does not hold up those of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component.lanes import HOME, Full, Lanes


class NoAnswer(Exception):
    """What a silent cluster raises."""


def key(name: str) -> ObjectKey:
    return ObjectKey("shop", name)


@dataclass
class Depot:
    """Lanes, and who was woken."""

    lanes: Lanes
    woken: list[str]
    passes: dict[str, ExitStack] = field(default_factory=dict)

    def enter(self, name: str, lane: str) -> None:
        """Begin a pass that goes on."""
        with ExitStack() as stack:
            stack.enter_context(self.lanes.passing(key(name), NoAnswer))
            self.lanes.enter(key(name), lane)
            self.passes[name] = stack.pop_all()

    def leave(self, name: str) -> None:
        self.passes.pop(name).close()

    def fail(self, name: str, lane: str) -> None:
        """A whole pass, in which the cluster does not answer."""
        with self.lanes.passing(key(name), NoAnswer):
            self.lanes.enter(key(name), lane)
            raise NoAnswer

    @contextmanager
    def inside(self, name: str, lane: str) -> Iterator[None]:
        self.enter(name, lane)
        yield
        self.leave(name)


def depot(workers: int = 5) -> Depot:
    woken: list[str] = []

    def wake(keys: Iterable[ObjectKey]) -> None:
        woken.extend(one.name for one in keys)

    return Depot(Lanes(workers=workers, wake=wake), woken)


def test_one_cluster_gets_half_of_the_workers() -> None:
    seen = depot(workers=5)
    seen.enter("a", "far")
    seen.enter("b", "far")
    with pytest.raises(Full):
        seen.enter("c", "far")
    seen.enter("d", "other")


def test_all_other_clusters_together_leave_a_worker_for_the_home_cluster() -> None:
    seen = depot(workers=3)
    seen.enter("a", "one")
    seen.enter("b", "two")
    with pytest.raises(Full):
        seen.enter("c", "three")
    for name in ("d", "e", "f"):
        seen.enter(name, HOME)


def test_who_found_no_room_is_woken_when_somebody_leaves_in_the_order_of_coming() -> None:
    seen = depot(workers=3)
    seen.enter("a", "far")
    for name in ("b", "c"):
        with pytest.raises(Full):
            seen.enter(name, "far")
    seen.leave("a")
    assert seen.woken == ["b"]
    with seen.inside("b", "far"):
        pass
    assert seen.woken == ["b", "c"]


def test_as_many_are_woken_as_there_is_room_for() -> None:
    seen = depot(workers=3)
    seen.enter("a", "one")
    seen.enter("b", "two")
    for name, lane in (("c", "one"), ("d", "three"), ("e", "three")):
        with pytest.raises(Full):
            seen.enter(name, lane)
    seen.leave("a")
    seen.leave("b")
    assert seen.woken == ["c", "d"]


def test_a_cluster_that_did_not_answer_gets_one_worker_until_it_does() -> None:
    seen = depot(workers=5)
    with pytest.raises(NoAnswer):
        seen.fail("a", "far")
    seen.enter("a", "far")
    with pytest.raises(Full):
        seen.enter("b", "far")
    seen.leave("a")
    seen.enter("a", "far")
    seen.enter("b", "far")


def test_a_single_worker_works_for_all() -> None:
    seen = depot(workers=1)
    with seen.inside("a", "far"):
        pass
    seen.enter("b", HOME)


def test_nobody_is_woken_by_a_pass_at_home_or_for_a_component_that_is_gone() -> None:
    seen = depot(workers=2)
    seen.enter("a", "far")
    with pytest.raises(Full):
        seen.enter("b", "far")
    with seen.inside("c", HOME):
        pass
    assert seen.woken == []
    seen.lanes.forget(key("b"))
    seen.leave("a")
    assert seen.woken == []


def test_who_comes_again_before_he_is_woken_waits_for_nothing_more() -> None:
    seen = depot(workers=2)
    seen.enter("a", "far")
    with pytest.raises(Full):
        seen.enter("b", "far")
    with seen.inside("b", HOME):
        pass
    seen.leave("a")
    assert seen.woken == []
