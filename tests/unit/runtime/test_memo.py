"""A reconciler's memory about an object ends with the object."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.control.memo import Memos

KEY, OTHER = ObjectKey("shop", "web"), ObjectKey("shop", "db")


@dataclass(slots=True)
class Memo:
    failures: int = 0


def test_a_memo_is_the_same_value_until_its_object_is_gone() -> None:
    memos = Memos(Memo)
    memos.of(KEY).failures = 3
    assert memos.of(KEY).failures == 3
    memos.forget(KEY)
    assert memos.of(KEY).failures == 0


def test_objects_have_memos_of_their_own() -> None:
    memos = Memos(Memo)
    memos.of(KEY).failures = 3
    assert memos.of(OTHER).failures == 0
    assert len(memos) == 2
    memos.forget(OTHER)
    memos.forget(OTHER)
    assert len(memos) == 1
