"""Unexpected exceptions, for the proofs that a border contains whatever code may raise (R-512)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from stellwerk.kube.http.transport import RequestFacts
from stellwerk.kube.types.errors import Unreachable

P = TypeVar("P")


class Panic(BaseException):
    """What a native library raises when it fails inside: no `Exception`, as pyo3's PanicException is none."""


def _deeply_nested() -> BaseException:
    group = ExceptionGroup("several", [KeyError("k"), TimeoutError("late")])
    return BaseExceptionGroup("all", [ExceptionGroup("inner", [group]), Panic("inside a group")])


SURPRISES: Mapping[str, Callable[[], BaseException]] = {
    "UnicodeError": lambda: UnicodeError("label empty or too long"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "MemoryError": MemoryError,
    "KeyError": lambda: KeyError("spec"),
    "OverflowError": lambda: OverflowError("int too large to convert to float"),
    "AssertionError": AssertionError,
    "TimeoutError": TimeoutError,
    "OSError": lambda: OSError(24, "Too many open files"),
    "Unreachable": lambda: Unreachable("refused"),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "BaseExceptionGroup": _deeply_nested,
    "CancelledError": asyncio.CancelledError,
    "Panic": lambda: Panic("called `Option::unwrap()` on a `None` value"),
    "StopAsyncIteration": lambda: StopAsyncIteration(),
    "SystemExit": lambda: SystemExit(3),
}
"""By name, for parametrised tests. CancelledError represents a shared future that another task cancelled."""


@dataclass
class Saboteur:
    """Raises exceptions at one place of a running operator: in its line to API servers, its renderer, its downloads.

    A place is `VERB RESOURCE` of a request, with the host before it where that is another cluster's, or the name of a
    method of a wrapped part.
    """

    place: str = ""
    kinds: list[Callable[[], BaseException]] = field(default_factory=list)
    """What is still to be raised there, one after the other."""
    fired: int = 0
    seen: set[str] = field(default_factory=set)
    """All places that were passed, for the author of a test."""
    everywhere: Callable[[], BaseException] | None = None
    """What each place raises when it is passed for the first time."""
    raised: list[str] = field(default_factory=list)
    """The places that raised because everything does, in order."""

    def arm(self, place: str) -> None:
        """Raise each of SURPRISES once at this place."""
        self.place, self.kinds, self.fired = place, [*SURPRISES.values()], 0

    def arm_everywhere(self, surprise: str) -> None:
        """From now on each place raises this one of SURPRISES when it is passed for the first time."""
        self.everywhere = SURPRISES[surprise]
        self.raised.clear()

    def disarm(self) -> None:
        """Raise nothing any more."""
        self.everywhere = None
        self.kinds.clear()

    @property
    def is_done(self) -> bool:
        """Whether everything was raised."""
        return not self.kinds

    def requested(self, facts: RequestFacts) -> None:
        """A request has ended, for `on_request`: what this raises, the request raises."""
        self.pass_by(f"{facts.verb} {facts.resource}")

    def requested_elsewhere(self, facts: RequestFacts) -> None:
        """The same for another cluster."""
        self.pass_by(f"elsewhere {facts.verb} {facts.resource}")

    def pass_by(self, place: str) -> None:
        """Raise what is due here."""
        self.seen.add(place)
        if place == self.place and self.kinds:
            self.fired += 1
            raise self.kinds.pop(0)()
        if self.everywhere is not None and place not in self.raised:
            self.raised.append(place)
            raise self.everywhere()

    def around(self, part: P, *methods: str) -> P:
        """The part, with these methods as places."""
        return cast(P, _Sabotaged(part, self, methods))


class _Sabotaged:
    """Hands everything on to a part, and passes the saboteur before some methods."""

    def __init__(self, part: object, saboteur: Saboteur, methods: Collection[str]) -> None:
        self._part = part
        self._saboteur = saboteur
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in self._methods:
            return found

        async def watched(*args: object, **options: object) -> object:
            self._saboteur.pass_by(name)
            return await found(*args, **options)

        return watched
