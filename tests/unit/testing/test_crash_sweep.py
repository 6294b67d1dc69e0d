"""A sweep meets every write once, in few lives, and never two that are close together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stellwerk.testing.faults import CutConnection, Kill, RequestFault
from stellwerk.testing.faults.traffic import RecordedRequest, understand
from stellwerk.testing.scenarios.crash_sweep import (
    ALONE,
    PARTS,
    Aim,
    At,
    AtEachKind,
    Point,
    Wanted,
    at_even,
    at_every,
    at_odd,
    each_once,
    every_write,
    killed_after,
    killed_before,
    points_of,
    reply_cut,
)

NAMES = tuple("abcdefghijkl")


def create(name: str) -> RecordedRequest:
    return understand(
        "POST", "/api/v1/namespaces/here/configmaps", body=f'{{"metadata": {{"name": "{name}"}}}}'.encode()
    )


def status() -> RecordedRequest:
    return understand("PUT", "/apis/example.com/v1/namespaces/here/things/one/status")


CLEAN = [create(name) for name in NAMES]


KILLED, KILLED_AFTER, CUT = Kill(1), Kill(1, after_forwarding=True), CutConnection(after_forwarding=True)


class Life(Aim):
    """One whose faults are asked for."""

    def takes(self, request: RecordedRequest) -> bool:
        self._last = None  # a request that is sent again is another one
        return self.chosen(request) is not None

    def takes_and_goes_on(self, request: RecordedRequest) -> bool:
        """The same with an operator that is started again at once where it was killed."""
        if not self.takes(request):
            return False
        if self.met[-1][0].kills:
            self.go_on()
        return True


def aim(wanted: set[Point], *, gap: int = 3, fault: RequestFault = CUT) -> Life:
    return Life(points=every_write, wanted=[Wanted(fault, wanted)], gap=gap)


def wanted_of(requests: Sequence[RecordedRequest]) -> set[Point]:
    return set(points_of([str(request) for request in requests]))


def lives(wanted: set[Point], *, gap: int) -> list[list[str]]:
    """The points that each life meets, of an operator that writes a lost write again."""
    played = []
    while wanted:
        life = aim(wanted, gap=gap, fault=KILLED)
        for request in CLEAN:
            while life.takes_and_goes_on(request):
                pass
        played.append([point.write[-1] for _, point in life.met])
    return played


def test_all_points_are_met_once_in_as_many_lives_as_writes_lie_between_two_faults() -> None:
    assert lives(wanted_of(CLEAN), gap=3) == [["a", "d", "g", "j"], ["b", "e", "h", "k"], ["c", "f", "i", "l"]]


def test_alone_means_one_fault_in_a_life() -> None:
    assert lives(wanted_of(CLEAN), gap=ALONE) == [[name] for name in NAMES]


def test_a_lost_write_is_the_same_point_when_it_comes_again_and_one_with_an_answer_lost_is_not() -> None:
    twice = [status(), status()]
    lost, done = aim(wanted_of(twice), gap=0, fault=KILLED), aim(wanted_of(twice), gap=0)
    assert [lost.takes_and_goes_on(status()) for _ in range(3)] == [True, False, True]
    assert [done.takes_and_goes_on(status()) for _ in range(3)] == [True, True, False]


def test_faults_share_lives_and_each_meets_its_points_once() -> None:
    points = points_of([str(request) for request in CLEAN])
    faults: list[RequestFault] = [KILLED, CUT, KILLED_AFTER]
    chosen = [at_odd(killed_before), at_even(reply_cut), at_every(killed_after)]
    wanted = [Wanted(fault, at.of(points)) for fault, at in zip(faults, chosen, strict=True)]
    met: dict[str, list[str]] = {str(one.fault): [] for one in wanted}
    played = 0
    while not (life := Life(points=every_write, wanted=wanted, gap=2)).is_met:
        for request in CLEAN:
            while life.takes_and_goes_on(request) and life.met[-1][0].is_lost:
                pass
        played += 1
        for one, point in life.met:
            met[str(one.fault)].append(point.write[-1])
    assert [sorted(names) for names in met.values()] == [[*"acegik"], [*"bdfhjl"], [*NAMES]]
    assert played <= 8, "a third of the twelve writes in each life, for 24 faults"


@pytest.mark.parametrize("at", [at_odd(reply_cut), at_even(reply_cut), at_every(reply_cut)])
def test_the_parts_of_as_many_days_are_the_whole_and_have_no_point_in_common(at: At) -> None:
    points = points_of([str(request) for request in CLEAN])
    parts = [at.part(day).of(points) for day in range(740_000, 740_000 + PARTS)]
    assert set().union(*parts) == at.of(points)
    assert sum(map(len, parts)) == len(at.of(points))


def test_nothing_is_met_while_the_operator_is_dead_nor_soon_after_its_start() -> None:
    life = aim(wanted_of(CLEAN), gap=2, fault=KILLED_AFTER)
    assert life.takes(CLEAN[0])
    assert not any(life.takes(request) for request in CLEAN[1:6]), "what the dead operator has sent arrives late"
    life.go_on()
    assert [life.takes(request) for request in CLEAN[6:]] == [False, False, True, False, False, False]


def test_writes_that_were_not_in_the_clean_run_are_never_met() -> None:
    assert not aim(wanted_of(CLEAN)).takes(create("other"))


def test_a_point_has_its_name_without_what_a_uid_has_put_into_it() -> None:
    first, second = (points_of([f"create secrets here/primary-{digest}"]) for digest in ("0d3f8a1c22", "bc4e771a0f"))
    assert first == second == [Point("create secrets here/primary-*", 1)]
    assert points_of(["create secrets here/a", "create secrets here/b", "create secrets here/a"]) == [
        Point("create secrets here/a", 1),
        Point("create secrets here/b", 1),
        Point("create secrets here/a", 2),
    ]


@pytest.mark.parametrize(("points", "met"), [(every_write, [True, True]), (each_once, [True, False])])
def test_a_part_decides_whether_the_same_write_is_a_further_point(points: object, met: list[bool]) -> None:
    chosen = every_write if points is every_write else each_once
    wanted = Wanted(CUT, {Point(str(status()), 1), Point(str(status()), 2)})
    life = Life(points=chosen, wanted=[wanted], gap=0)
    assert [life.takes(status()), life.takes(status())] == met


def test_a_fault_at_each_kind_meets_the_first_write_of_each_and_a_kind_that_it_never_meets_is_named() -> None:
    deletion = understand("DELETE", "/api/v1/namespaces/here/configmaps/a")
    parts = [points_of([str(each) for each in part]) for part in ([*CLEAN, status(), status()], [*CLEAN, deletion])]
    at = AtEachKind(reply_cut)
    assert [{str(point) for point in at.of(points)} for points in parts] == [
        {"create configmaps here/a", "update things.example.com/status here/one"},
        {"create configmaps here/a", "delete configmaps here/a"},
    ]
    assert {point.verb for points in parts for point in AtEachKind(reply_cut, verbs={"delete"}).of(points)} == {
        "delete"
    }
    assert at.never_met(parts, [set(), set()]) == set()
    assert at.never_met(parts, [at.of(parts[0]), {point for point in at.of(parts[1]) if point.verb == "delete"}]) == {
        "update things.example.com/status",
        "delete configmaps",
    }


def test_in_as_many_turns_as_there_are_parts_a_fault_meets_each_kind_once() -> None:
    points = points_of([str(each) for each in (*CLEAN, understand("DELETE", "/api/v1/namespaces/here/configmaps/a"))])
    at = AtEachKind(reply_cut)
    parts = [at.part(turn).of(points) for turn in range(PARTS)]
    assert set.union(*parts) == at.of(points)
    assert sum(map(len, parts)) == len(at.of(points))


def test_a_kind_of_write_that_a_life_has_by_chance_is_not_required() -> None:
    points = points_of(["patch things.example.com/status here/one", "update things.example.com/status here/one"])
    assert {point.kind for point in AtEachKind(reply_cut).of(points)} == {"update things.example.com/status"}
