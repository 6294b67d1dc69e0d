"""Several tasks that carry out one pass end the process no more than one does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stellwerk.kube.concurrency import together
from stellwerk.kube.nested import Foreign, nested
from stellwerk.render.sources.single_flight import Flights


async def leaves(_: object = None) -> None:
    raise SystemExit(3)


WAYS: dict[str, Callable[[], Awaitable[object]]] = {
    "a wave": lambda: together(range(3), leaves),
    "shared work": lambda: Flights[str, None](RuntimeError).join("key", leaves),
}


@pytest.mark.req("R-512")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_who_leaves_in_a_task_of_its_own_fails_the_work_and_not_the_loop(
    way: Callable[[], Awaitable[object]],
) -> None:
    with pytest.raises(Foreign, match="SystemExit: 3"):
        await way()


async def test_work_of_a_task_that_is_cancelled_before_it_starts_is_never_begun() -> None:
    begun = []

    async def work() -> None:
        begun.append(True)

    task = asyncio.create_task(nested(work))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert begun == []
