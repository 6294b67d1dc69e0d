"""The leader is known without a comparison of all BtpOperators, and is always the one that a comparison finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Change, Changed, Odd, Removed, Synced
from stellwerk.operators.btp.api import FINALIZER, BtpOperator
from stellwerk.operators.btp.btpoperator import plan
from stellwerk.operators.btp.btpoperator.leading import Leading
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 2_000
"""The informer takes a longer list in slices."""


def operator(
    name: str, *, age: int = 0, version: int = 1, namespace: str = "tenant", life: int = 1, released: bool = False
) -> BtpOperator:
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}/{life}",
        resource_version=str(version),
        creation_timestamp=NOW - timedelta(seconds=age),
        deletion_timestamp=NOW if released else None,
        finalizers=("example.com/held",) if released else (FINALIZER,),
    )
    return BtpOperator(metadata=metadata)


def informer() -> Informer[BtpOperator]:
    """A cache that is fed by hand; nothing is connected."""
    return Informer(Client.connect(ClusterConfig(server="https://127.0.0.1:1")), BtpOperator)


def followed(cache: Informer[BtpOperator], *, fixed: bool = False) -> Leading:
    leading = Leading(cache.store, lambda: fixed, cache.unreadable)
    cache.on_change(leading.take)
    cache.on_unreadable(lambda key, _: leading.invalidate())
    return leading


PLACES = st.sampled_from(["a", "b", "c", "btpoperator"])
CHANGES = st.lists(st.tuples(PLACES, st.integers(0, 3), st.booleans(), st.integers(1, 2), st.booleans()), max_size=30)


@given(CHANGES, st.booleans())
async def test_whatever_changes_the_leader_is_the_one_that_all_are_compared_for(
    changes: list[tuple[str, int, bool, int, bool]], fixed: bool
) -> None:
    cache = informer()
    leading = followed(cache, fixed=fixed)
    for version, (name, age, leaves, life, released) in enumerate(changes, start=1):
        found = operator(name, age=age, version=version, namespace="kyma-system", life=life, released=released)
        change: Change[BtpOperator] = Removed(found) if leaves else Changed(found)
        cache.take(change)

        assert leading.current() == plan.leader([*cache.store.all()], fixed=fixed)


async def test_a_cr_whose_module_is_gone_leads_no_more_although_the_cache_shows_it() -> None:
    cache = informer()
    leading = followed(cache)
    old, young = operator("old", age=9), operator("young")
    cache.take(Synced((old, young), "1"))
    assert leading.current() == old

    leading.finish(old)
    cache.take(Changed(operator("old", age=9, version=2)))

    assert leading.current() == young


@pytest.mark.req("R-204")
@pytest.mark.parametrize("is_compared", [True, False])
@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_cr_that_returns_with_its_uid_after_its_end_leads_again(is_compared: bool, is_gone: bool) -> None:
    """A backup of etcd that is restored brings it back. `is_gone`: the watch was faster than the answer to its end."""
    cache = informer()
    leading = followed(cache)
    cr = operator("cr")
    steps: list[Callable[[], None]] = [
        lambda: leading.finish(cr),
        lambda: cache.take(Removed(operator("cr", version=6))),
    ]
    cache.take(Synced((cr,), "5"))
    for step in reversed(steps) if is_gone else steps:
        step()
        if is_compared:
            assert leading.current() is None

    cache.take(Synced((cr,), "2"))

    assert leading.current() == cr
    assert not leading.finished


async def test_a_cr_that_is_released_while_others_keep_it_makes_way_for_the_next() -> None:
    cache = informer()
    leading = followed(cache)
    cache.take(Synced((operator("old", age=9), operator("young")), "1"))
    leading.current()

    cache.take(Changed(operator("old", age=9, version=2, released=True)))

    assert leading.current() == operator("young")


@pytest.mark.req("R-510")
async def test_a_cr_that_cannot_be_decoded_neither_leads_nor_blocks_others() -> None:
    cache = informer()
    leading = followed(cache)
    old, young = operator("old", age=9), operator("young")
    odd = Unreadable(BtpOperator.resource, operator("old", age=9, version=5).metadata, "status.state: invalid")
    cache.take(Synced((young,), "1", (odd,)))
    assert leading.current() == young

    readable = operator("old", age=9, version=6)
    cache.take(Synced((readable, young), "7"))
    assert leading.current() == readable

    cache.take(Odd(replace(odd, metadata=operator("old", age=9, version=8).metadata)))
    assert cache.store.get(old.key) == readable
    assert leading.current() == young

    mended = operator("old", age=9, version=9)
    cache.take(Changed(mended))
    assert leading.current() == mended


async def test_all_are_woken_when_another_leads_and_nobody_otherwise() -> None:
    cache = informer()
    leading = followed(cache)
    woken: list[ObjectKey] = []
    cache.on_change(lambda delta: woken.extend(leading.woken_by(delta)))
    cache.take(Synced((operator("b", age=5), operator("c", age=1)), "1"))
    woken.clear()

    cache.take(Changed(operator("d", version=2)))
    cache.take(Changed(operator("c", age=1, version=3)))
    assert woken == []

    cache.take(Changed(operator("a", age=9, version=4)))
    assert sorted(key.name for key in woken) == ["a", "b", "c", "d"]


@pytest.mark.req("R-412", "R-507")
async def test_thousands_of_crs_of_a_tenant_do_not_stall_the_loop() -> None:
    cache = informer()
    leading = followed(cache)
    woken: list[ObjectKey] = []
    cache.on_change(lambda delta: woken.extend(leading.woken_by(delta)))
    crs = tuple(operator(f"cr-{number}", age=number % 7) for number in range(MANY))

    with measured_stalls() as stalls:
        cache.take(Synced(crs, "1"))
        leading.current()
    assert len(woken) == MANY
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS

    with measured_stalls() as stalls:
        for number in range(500):
            cache.take(Changed(operator(f"another-{number}", version=number + 2)))
            leading.current()
    assert len(woken) == MANY
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
