"""What questions cost: a tenant's ten questions, 5,000 times, on one informer without a cluster."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence

from tests.unit.runtime.reading.test_questions import OF_QUARRY, STONES, Site, Stone, key, stone, weightless

from stellwerk.runtime.reading.questions import Asker, Lookup
from stellwerk.runtime.reading.view import View, exists

TENANTS = 5_000
MOST_BYTES = 2_048
"""Of memory for what one tenant asked."""


def ask(site: Site, asker: Asker, number: int) -> View:
    """What a tenant asks: six questions that all share, and four of its own."""
    view = site.view()
    for shared in range(5):
        view.get(STONES, key(shared), weightless)
    view.by(OF_QUARRY, "shared", weightless)
    view.by(OF_QUARRY, f"own-{number}")
    view.by(OF_QUARRY, f"others-{number}", exists)
    view.get(STONES, key(10_000 + number))
    view.get(STONES, key(20_000 + number), exists)
    asker.keep(view.asked)
    return view


def ask_all(site: Site) -> Sequence[Asker]:
    askers = [site.asker(f"tenant-{number}") for number in range(TENANTS)]
    for number, asker in enumerate(askers):
        ask(site, asker, number)
    return askers


async def test_the_questions_of_a_tenant_need_at_most_two_kilobytes() -> None:
    site = Site()
    site.fill(*(stone(number, 5, "shared") for number in range(5)))
    tracemalloc.start()
    try:
        askers = ask_all(site)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    started = time.thread_time()
    for number, asker in enumerate(askers):
        ask(site, asker, number)
    spent = time.thread_time() - started
    print(
        f"{size / TENANTS:.0f} bytes, and {spent / TENANTS * 1e6:.0f} microseconds to ask again, for each of {TENANTS}"
    )
    assert size / TENANTS <= MOST_BYTES


def counted(calls: list[str]) -> Callable[[Stone], int]:
    def aspect(obj: Stone) -> int:
        calls.append(obj.metadata.name)
        return obj.status.weight

    return aspect


async def test_an_aspect_of_an_object_is_computed_once_for_all_who_ask() -> None:
    site, calls = Site(), list[str]()
    site.fill(stone(1, 5), stone(2, 6))
    aspect = counted(calls)
    askers = [site.asker(f"asker-{number}") for number in range(100)]

    def ask_both() -> None:
        for asker in askers:
            view = site.view()
            view.get(STONES, key(1), aspect)
            view.by(OF_QUARRY, "north", aspect)
            asker.keep(view.asked)

    ask_both()
    assert sorted(calls) == ["stone-1", "stone-1", "stone-2"], "once for each of the two questions"
    calls.clear()
    site.change(1, notes=1)
    ask_both()
    assert calls == ["stone-1", "stone-1"], "the change itself computes what is new, and nobody else does"
    assert site.woken == []


async def test_a_former_version_of_an_object_is_not_kept() -> None:
    site, asker = Site(), Site().asker("a")
    site.fill(stone(1, 5))
    view = site.view()
    view.by(OF_QUARRY, "north", weightless)
    asker.keep(view.asked)
    (question,) = view.asked
    assert isinstance(question, Lookup)
    for place in ("north", "north", "south"):
        site.change(1, place)
        assert len(question._known or {}) == (1 if place == "north" else 0)
    site.remove(1)
    assert not question._known
