"""A bounded queue in which no namespace takes the turns or the places of another one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.control.event_queue import EventQueue


def filled(limit: int, *items: tuple[str, str]) -> tuple[EventQueue[str], list[str]]:
    """A queue with items, each a namespace and a text; a text in capitals is a warning. And what was dropped."""
    queue: EventQueue[str] = EventQueue(limit)
    lost = [queue.add(namespace, text, is_warning=text.isupper()) for namespace, text in items]
    return queue, [text for text in lost if text is not None]


def drained(queue: EventQueue[str]) -> list[str]:
    found = []
    while (item := queue.take()) is not None:
        found.append(item)
    return found


def test_namespaces_have_turns() -> None:
    queue, _ = filled(10, ("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"))
    assert drained(queue) == ["a1", "b1", "a2", "a3"]


def test_the_warnings_of_a_namespace_come_first() -> None:
    queue, _ = filled(10, ("a", "a1"), ("a", "A2"))
    assert drained(queue) == ["A2", "a1"]


def test_a_full_queue_drops_the_newest_of_the_namespace_with_the_most() -> None:
    queue, lost = filled(3, ("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("a", "a4"))
    assert lost == ["a3", "a4"]
    assert drained(queue) == ["a1", "b1", "a2"]


def test_a_warning_takes_the_place_of_what_is_none() -> None:
    queue, lost = filled(2, ("a", "a1"), ("a", "a2"), ("a", "A3"), ("a", "A4"), ("a", "A5"), ("a", "a6"))
    assert lost == ["a2", "a1", "A5", "a6"]
    assert drained(queue) == ["A3", "A4"]


def test_no_warning_is_dropped_for_what_is_none() -> None:
    queue, lost = filled(2, ("a", "A1"), ("a", "A2"), ("b", "b1"))
    assert lost == ["b1"]
    assert drained(queue) == ["A1", "A2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "X"])), max_size=60), st.integers(1, 8))
def test_each_item_is_kept_or_returned_as_dropped(items: list[tuple[str, str]], limit: int) -> None:
    named = [(namespace, f"{text}{number}") for number, (namespace, text) in enumerate(items)]
    queue, lost = filled(limit, *named)
    assert len(queue) == min(limit, len(items))
    kept = drained(queue)
    assert Counter([*kept, *lost]) == Counter(text for _, text in named)
    assert drained(queue) == []
    assert len(queue) == 0
