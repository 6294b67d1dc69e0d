"""Which objects a set waits for, in a few words for a condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.apply.set.plan.stage import Unready
from stellwerk.runtime.conditions import first_of

SHOWN = 3
"""How many objects a message names."""
_LONGEST = 300
"""The longest text about one object. An object that waits for another one names what that one waits for, and so on:
without a limit a message would grow with every pass through a cycle."""


def unready(waits: Sequence[Unready], *, late: bool) -> str:
    """The objects that are waited for."""
    head = "Timed out waiting for dependent resources" if late else "Waiting for dependent resources"
    return f"{head}: {listed(waits)}" if waits else f"{head} to become ready"


def departing(waits: Sequence[Unready]) -> str:
    """The objects that are being deleted."""
    return f"Deleting dependent resources: {listed(waits)}" if waits else ""


def listed(things: Iterable[object]) -> str:
    """The first few, and how many more."""
    return first_of([_cut(str(thing)) for thing in things], SHOWN, "; ")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
