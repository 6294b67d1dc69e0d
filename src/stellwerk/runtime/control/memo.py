"""What a reconciler remembers about each object, besides its status.

A memo is a typed value that the reconciler defines and changes. It lasts as long as the process knows the object: the
controller drops it when the object is gone, or when another object has its name. What must outlast the process belongs
in the status.

The alternative is a dictionary for each fact, and a method of each part that drops its entry. One forgotten call then
applies the past of a deleted object to its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from stellwerk.kube.types.identifiers import ObjectKey

M = TypeVar("M")


class Memos(Generic[M]):
    """The memos of one controller's objects. Pass it to the `Controller`, which drops them."""

    def __init__(self, new: Callable[[], M]) -> None:
        """`new` returns the memo of an object that is seen for the first time."""
        self._new = new
        self._memos: dict[ObjectKey, M] = {}

    def __len__(self) -> int:
        return len(self._memos)

    def of(self, key: ObjectKey) -> M:
        """The memo of an object."""
        memo = self._memos.get(key)
        if memo is None:
            memo = self._memos[key] = self._new()
        return memo

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._memos.pop(key, None)
