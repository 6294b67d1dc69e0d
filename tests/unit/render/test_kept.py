"""What is kept is bounded in all and by tenant, and one tenant's values cost no other tenant's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.render.bounded_cache import Kept

TENANTS = "abc"


class Now:
    """Seconds that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.req("R-411")
async def test_a_tenant_that_keeps_much_drops_its_own_values_first() -> None:
    dropped: list[str] = []
    kept: Kept[str, int] = Kept(100, now=Now(), tenant_capacity=40, on_drop=dropped.append)
    kept.put("mine", 1, 10, "quiet")
    for number in range(20):
        kept.put(f"loud-{number}", number, 10, "loud")

    assert kept.get("mine") == 1
    assert kept.weight == 50
    assert dropped == [f"loud-{number}" for number in range(16)]
    kept.clear()


@pytest.mark.req("R-411")
async def test_a_heavy_value_may_be_the_only_one_of_its_tenant() -> None:
    kept: Kept[str, int] = Kept(100, now=Now(), tenant_capacity=20, largest=50)
    kept.put("too heavy", 1, 51, "loud")
    kept.put("light", 2, 10, "loud")
    kept.put("heavy", 3, 50, "loud")
    assert (kept.get("too heavy"), kept.get("light"), kept.get("heavy")) == (None, None, 3)
    kept.clear()


async def test_what_is_not_used_for_its_life_is_dropped_and_announced() -> None:
    now, dropped = Now(), list[str]()
    kept: Kept[str, int] = Kept(100, now=now, life_seconds=60, on_drop=dropped.append)
    kept.put("a", 1, 10)
    now.seconds = 30
    kept.put("b", 2, 10)
    now.seconds = 61
    assert (kept.get("a"), kept.get("b"), dropped) == (None, 2, ["a"])
    kept.clear()
    assert (dropped, kept.weight) == (["a", "b"], 0)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 9), st.integers(0, 55), st.sampled_from(TENANTS))
)


@pytest.mark.req("R-411")
@given(steps)
async def test_whatever_is_put_got_and_dropped_no_bound_is_passed(steps: list[tuple[str, int, int, str]]) -> None:
    held: dict[int, tuple[int, str]] = {}
    kept: Kept[int, int] = Kept(60, now=Now(), tenant_capacity=40, largest=50, on_drop=held.__delitem__)
    for step, key, weight, tenant in steps:
        match step:
            case "put":
                kept.put(key, key, weight, tenant)
                if key in kept:
                    held[key] = (weight, tenant)
            case "get":
                assert (kept.get(key) == key) == (key in held)
            case _:
                kept.drop(key)
        assert kept.weight == sum(weight for weight, _ in held.values()) <= 60
        for one in TENANTS:
            shares = [weight for weight, owner in held.values() if owner == one]
            assert sum(shares) <= 40 or len(shares) == 1
    kept.clear()
