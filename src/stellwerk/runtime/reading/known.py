"""What is known of an answer: values, so that "cannot be read" is never taken for "does not exist"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from stellwerk.kube.types.model import Unreadable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Present(Generic[A]):
    """There is an object, and `value` is the aspect of it that was asked for."""

    value: A
    doubt: str = ""
    """Why the value may be outdated: the object cannot be decoded now, or its kind is not watched. Empty: it is not."""


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such object, or its kind is not served: `View.serves` shows which."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """There may be such an object. `why` is a clause without a full stop."""

    why: str
    is_refused: bool = False
    """Whether the API server refuses to answer, or answers what only a user can put right: no waiting helps."""


Known: TypeAlias = Present[A] | Absent | Unknown
ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Listing(Generic[A]):
    """The objects that an index has under a value."""

    values: tuple[A, ...]
    unknown: tuple[Unreadable, ...] = ()
    """Objects that cannot be read and may belong to them."""
    why: str = ""
    """Why there may be others; empty if these are all."""


class NotKnown(Exception):
    """A pass needs an answer that is not known. The pass writes nothing, and is repeated when the answer is known."""

    def __init__(self, what: str, why: str, *, is_abroad: bool = False) -> None:
        """`what`: the object or the objects. `why`: a clause without a full stop. `is_abroad`: of another cluster."""
        self.what = what
        self.why = why
        self.is_abroad = is_abroad
        super().__init__(f"{what}: {why}")


class Refused(NotKnown):
    """An answer is not known, and only a user can change that."""

    def __init__(self, sentence: str) -> None:
        """`sentence`: the object, the cause and the next step."""
        super().__init__(sentence, "")
        self.args = (sentence,)
