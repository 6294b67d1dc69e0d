"""Large passes at the same time hold a bounded number of bytes, per tenant and in all, and each has its turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.component.weights import SMALL_BYTES, NoRoom, Weights

MIB = 2**20


def key(name: str, namespace: str = "shop") -> ObjectKey:
    return ObjectKey(namespace, name)


class Passes:
    """Passes under way."""

    def __init__(self, most: int = 16 * MIB, most_of_tenant: int = 8 * MIB) -> None:
        self.woken: list[ObjectKey] = []
        self.weights = Weights(wake=self._wake, most=most, most_of_tenant=most_of_tenant)
        self._open: dict[ObjectKey, ExitStack] = {}

    def _wake(self, keys: Iterable[ObjectKey]) -> None:
        self.woken += keys

    def begin(self, one: ObjectKey, weight: int) -> bool:
        """A pass that renders so much; whether it goes on."""
        stack = ExitStack()
        stack.enter_context(self.weights.passing(one))
        try:
            self.weights.enter(one)
            self.weights.hold(one, weight)
        except NoRoom:
            stack.close()
            return False
        self._open[one] = stack
        return True

    def end(self, one: ObjectKey) -> None:
        self._open.pop(one).close()


@pytest.mark.req("R-411")
def test_large_passes_of_a_tenant_wait_for_each_other_and_for_nobody_else() -> None:
    passes = Passes()
    assert passes.begin(key("a"), 5 * MIB)
    assert passes.begin(key("small"), SMALL_BYTES - 1)
    assert not passes.begin(key("b"), 5 * MIB)
    assert not passes.begin(key("c"), 7 * MIB)
    assert passes.begin(key("a", "other"), 5 * MIB)
    passes.end(key("small"))
    assert passes.woken == []
    passes.end(key("a"))
    assert passes.woken == [key("b")], "c fits only without b"
    assert passes.begin(key("b"), 5 * MIB)
    passes.end(key("b"))
    assert passes.woken == [key("b"), key("c")]


@pytest.mark.req("R-411")
def test_what_did_not_fit_waits_before_it_renders_again() -> None:
    passes = Passes()
    assert passes.begin(key("a"), 5 * MIB)
    assert not passes.begin(key("b"), 5 * MIB)
    with passes.weights.passing(key("b")), pytest.raises(NoRoom):
        passes.weights.enter(key("b"))
    passes.end(key("a"))
    assert passes.begin(key("b"), 10), "it is small now"
    assert passes.begin(key("a"), 8 * MIB)


@pytest.mark.req("R-411")
def test_one_pass_may_be_larger_than_all_may_be_together() -> None:
    passes = Passes()
    assert passes.begin(key("a"), 20 * MIB)
    assert not passes.begin(key("a", "other"), MIB)
    passes.end(key("a"))
    assert passes.woken == [key("a", "other")]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["x", "y"]), st.integers(1, 12)), max_size=30))
def test_whatever_comes_all_have_their_turn(arrivals: list[tuple[str, str, int]]) -> None:
    passes = Passes()
    sizes = {key(name, namespace): size * MIB for name, namespace, size in arrivals}
    done: set[ObjectKey] = set()
    under_way = [one for one, size in sizes.items() if passes.begin(one, size)]
    while under_way:
        held = [sizes[one] for one in under_way]
        assert len(held) == 1 or sum(held) <= 16 * MIB
        finished = under_way.pop(0)
        done.add(finished)
        passes.woken.clear()
        passes.end(finished)
        under_way += [one for one in passes.woken if passes.begin(one, sizes[one])]
    assert done == set(sizes)
