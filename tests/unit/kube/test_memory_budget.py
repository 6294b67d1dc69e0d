"""What answers take in memory together has a bound, and a failed answer leaves nothing behind."""

from __future__ import annotations

import gc
import weakref

import pytest

from stellwerk.kube.http.messages import AnswerBody, BodyTooLarge
from stellwerk.kube.memory_budget import MemoryBudget, forget_variables

pytestmark = pytest.mark.req("R-942")


def test_the_largest_claim_gives_way_and_not_the_next_one() -> None:
    budget, ended = MemoryBudget(100), list[str]()
    large, small = budget.claim(lambda: ended.append("large")), budget.claim(lambda: ended.append("small"))
    large.add(80)
    small.add(20)
    assert ended == []
    small.add(1)
    assert ended == ["large"]
    assert large.gave_way
    assert budget.bytes == 101


def test_a_claim_that_ends_counts_until_it_has_ended_and_no_other_is_ended_for_it() -> None:
    budget, ended = MemoryBudget(100), list[str]()
    large, small = budget.claim(lambda: ended.append("large")), budget.claim(lambda: ended.append("small"))
    large.add(101)
    small.add(50)
    assert ended == ["large"]
    assert budget.bytes == 151
    large.release()
    assert budget.bytes == 50


def test_bytes_that_a_thread_works_on_make_others_give_way() -> None:
    budget, ended = MemoryBudget(100), list[str]()
    fixed, other = budget.claim(lambda: ended.append("fixed")), budget.claim(lambda: ended.append("other"))
    fixed.add(90)
    fixed.may_give_way = False
    other.hold(11)
    assert ended == ["other"]


@pytest.mark.req("R-210")
def test_one_server_gives_way_for_itself_and_leaves_room_for_others() -> None:
    whole, ended = MemoryBudget(100), list[str]()
    endless, other = whole.part(60), whole.part(60)
    small = other.claim(lambda: ended.append("small"))
    small.add(40)
    for number in range(5):
        endless.claim(lambda number=number: ended.append(f"endless-{number}")).add(20 + number)  # type: ignore[misc]
    assert ended == ["endless-2", "endless-3", "endless-4"], "its largest, and nobody else's"
    small.release()
    assert (other.bytes, endless.bytes, whole.bytes) == (0, 110, 110)


@pytest.mark.req("R-210")
def test_servers_that_keep_within_their_parts_keep_within_the_whole_together() -> None:
    whole, ended = MemoryBudget(100), list[str]()
    for name, size in (("a", 50), ("b", 45), ("c", 10)):
        whole.part(60).claim(lambda name=name: ended.append(name)).add(size)  # type: ignore[misc]
    assert ended == ["a"]


def test_the_claim_of_a_block_ends_with_it() -> None:
    budget = MemoryBudget(100)
    with pytest.raises(ZeroDivisionError), budget.claimed(lambda: None) as claim:
        claim.add(10 // 0)
    assert budget.bytes == 0


def test_an_exception_that_is_remembered_keeps_nothing_of_what_failed() -> None:
    kept: list[weakref.ref[set[bytes]]] = []

    def fail() -> None:
        body = {b"x"}
        kept.append(weakref.ref(body))
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise KeyError("outer") from error

    gc.disable()
    try:
        with pytest.raises(KeyError) as caught:
            fail()
        forget_variables(caught.value)
        assert kept[0]() is None
    finally:
        gc.enable()
    assert caught.value.__cause__ is not None
    assert caught.value.__traceback__ is not None


def test_of_a_body_that_is_too_large_to_be_of_use_nothing_is_kept_or_claimed() -> None:
    budget = MemoryBudget(1_000)
    body = AnswerBody(100, "", kept=10, claim=budget.claim(lambda: None))
    body.add(b"x" * 10)
    assert (budget.bytes, body.whole()) == (10, b"x" * 10)
    body.add(b"x" * 80)
    assert (budget.bytes, body.whole()) == (0, b"")
    with pytest.raises(BodyTooLarge):
        body.add(b"x" * 11)
