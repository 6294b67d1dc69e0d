"""Remarks of an API server are heard by who listens, and by nobody else."""

from __future__ import annotations

import asyncio

from stellwerk.kube.http import warnings

OLD = r'299 - "v1beta1 Gate is deprecated; use \"v1\""'


def test_what_is_remarked_is_heard_once_and_unescaped() -> None:
    with warnings.Listening() as heard:
        warnings.note([OLD, OLD])
        warnings.note([OLD, '299 - "two" , 299 - "in one \\\\ line"'])

    assert heard == ['v1beta1 Gate is deprecated; use "v1"', "two", "in one \\ line"]


def test_what_is_no_remark_is_passed_over() -> None:
    with warnings.Listening() as heard:
        warnings.note(["", "299", '199 - "other"', '299 - "never ends'])

    assert heard == []


def test_without_a_listener_nothing_is_kept() -> None:
    assert not warnings.anybody_listens()
    warnings.note([OLD])
    with warnings.Listening() as heard:
        assert warnings.anybody_listens()
    warnings.note([OLD])
    assert heard == []


def test_somebody_who_says_too_much_is_cut_short() -> None:
    with warnings.Listening() as heard:
        warnings.note(f'299 - "remark {number}"' for number in range(1_000))

    assert heard == [f"remark {number}" for number in range(warnings.MOST)]


async def test_of_two_tasks_each_hears_its_own() -> None:
    async def hear(said: str) -> list[str]:
        with warnings.Listening() as heard:
            await asyncio.sleep(0)
            warnings.note([f'299 - "{said}"'])
            await asyncio.sleep(0)
            return heard

    first, second = await asyncio.gather(hear("one"), hear("two"))
    assert (first, second) == (["one"], ["two"])
