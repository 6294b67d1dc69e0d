"""Places that strangers share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.serving.shares import NoPlace, Shares


def taken(stack: ExitStack, shares: Shares, **claims: int) -> int:
    """How many places one gets that claims without end."""
    count = 0
    while True:
        try:
            stack.enter_context(shares.place(claims))
        except NoPlace:
            return count
        count += 1


@pytest.mark.req("R-922")
def test_each_that_claims_without_end_leaves_as_many_places_as_it_takes() -> None:
    shares = Shares(64)
    with ExitStack() as stack:
        assert [taken(stack, shares, **{name: 1}) for name in ("one", "two", "three", "four")] == [32, 16, 8, 4]
        assert len(shares) == 60
    assert len(shares) == 0
    with ExitStack() as stack:
        assert taken(stack, shares, peer=3) == 48


@pytest.mark.req("R-922")
@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), min_size=1, max_size=2), max_size=400))
def test_whoever_has_no_place_finds_one_while_few_others_claim(attempts: list[dict[str, int]]) -> None:
    shares = Shares(4**7)
    with ExitStack() as stack:
        for claims in attempts:
            stack.enter_context(shares.place(claims))
        with shares.place({"victim": 1}):
            assert len(shares) == len(attempts) + 1


@pytest.mark.req("R-922")
def test_a_place_that_is_given_back_with_an_error_is_free_again() -> None:
    shares = Shares(2)
    for _ in range(3):
        with pytest.raises(ValueError, match="work"), shares.place({"one": 1}):
            raise ValueError("work")
    assert shares.least(["two", "one"]) == "one"
    with shares.place({"one": 1}):
        assert shares.least(["two", "one"]) == "two"
    assert shares.least([]) == ""
