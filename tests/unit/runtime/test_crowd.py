"""At the limit the longest waiting connection of the busiest peer gives way, and a new one is always admitted."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.serving.crowd import Crowd, DroppableConnection, peer_of

pytestmark = pytest.mark.req("R-701")


@dataclass(eq=False)
class Line:
    name: str = ""

    def give_way(self) -> None:
        """Nothing is behind it."""


def test_the_longest_waiting_connection_of_the_busiest_peer_gives_way() -> None:
    crowd = Crowd(4)
    quiet, *busy = (Line(name) for name in ("quiet", "first", "second", "third"))
    assert crowd.admit(quiet, "10.0.0.1") is None
    for line in busy:
        assert crowd.admit(line, "10.0.0.2") is None
    crowd.answering(busy[0])
    crowd.waiting(busy[0])
    victims = [crowd.admit(Line(), f"10.0.1.{number}") for number in range(2)]
    assert [victim and getattr(victim, "name", None) for victim in victims] == ["second", "third"]
    assert len(crowd) == 4


def test_what_is_being_answered_never_gives_way_and_nobody_is_refused() -> None:
    crowd = Crowd(2)
    lines = [Line(), Line()]
    for line in lines:
        crowd.admit(line, "10.0.0.1")
        crowd.answering(line)
    assert crowd.admit(Line(), "10.0.0.2") is None
    assert len(crowd) == 3


def test_a_place_is_taken_only_from_a_peer_with_more() -> None:
    crowd = Crowd(3)
    assert crowd.has_place("10.0.0.1")
    lines = [Line() for _ in range(3)]
    for line in lines:
        crowd.admit(line, "10.0.0.1")
    assert not crowd.has_place("10.0.0.1")
    assert crowd.has_place("10.0.0.2")
    assert crowd.admit(Line(), "10.0.0.2") is lines[0]
    assert not crowd.has_place("10.0.0.1"), "one has two, and the other one"
    crowd.leave(lines[1])
    crowd.admit(Line(), "10.0.0.2")
    assert not crowd.has_place("10.0.0.2"), "it would have three then"
    assert crowd.has_place("10.0.0.3")
    crowd.answering(lines[2])
    for peer in ("10.0.0.1", "10.0.0.3"):
        assert crowd.has_place(peer), "another one of the busiest waits"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["admit", "leave", "answering", "waiting"]))))
def test_whatever_comes_and_goes_the_limit_holds_and_the_victim_is_of_the_busiest(acts: list[tuple[str, str]]) -> None:
    crowd = Crowd(5)
    open_: dict[DroppableConnection, str] = {}
    answering: set[DroppableConnection] = set()
    for peer, act in acts:
        chosen = next((line for line, owner in open_.items() if owner == peer), None)
        match act:
            case "admit":
                line, counts = Line(), Counter(owner for each, owner in open_.items())
                victim = crowd.admit(line, peer)
                if victim is not None:
                    free = {owner for each, owner in open_.items() if each not in answering}
                    assert victim not in answering
                    assert counts[open_[victim]] == max(counts[owner] for owner in free)
                    del open_[victim]
                open_[line] = peer
            case "leave" if chosen is not None:
                crowd.leave(chosen)
                crowd.leave(chosen)
                del open_[chosen]
                answering.discard(chosen)
            case "answering" if chosen is not None:
                crowd.answering(chosen)
                answering.add(chosen)
            case "waiting" if chosen is not None:
                crowd.waiting(chosen)
                answering.discard(chosen)
        assert len(crowd) == len(open_) <= max(5, len(answering) + 1)


@pytest.mark.req("R-412")
@pytest.mark.parametrize("peers", [1, 2_000])
def test_a_new_connection_costs_the_same_however_many_there_are(peers: int) -> None:
    crowd = Crowd(2_048)
    began = time.process_time()
    for number in range(20_000):
        crowd.admit(Line(), f"10.0.0.{number % peers}")
    assert (time.process_time() - began) / 20_000 < 0.000_2


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.1.2.3", 4711), "10.1.2.3"),
        (("::ffff:10.1.2.3", 4711, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 4711, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 4711, 0, 3), "fe80::"),
        ("/run/socket", ""),
        (None, ""),
        ((), ""),
    ],
)
def test_a_peer_is_an_address_or_a_network(address: object, peer: str) -> None:
    assert peer_of(address) == peer
