"""How much of a sweep one run tries: a part of it, another one each day, or all of it (`make sweep`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

_TURN = "STELLWERK_SWEEP_TURN"
IS_WHOLE = bool(os.environ.get("STELLWERK_WHOLE_SWEEP"))
"""Whether everything is tried, which takes half an hour for all sweeps."""


def turn() -> int:
    """Which part comes today: a number that grows by one a day."""
    return int(os.environ.get(_TURN) or datetime.now(UTC).toordinal())


def keep_turn() -> str:
    """Let all processes of this session have the same turn, over midnight as well. Returns how to have it again."""
    os.environ[_TURN] = str(turn())
    return f"{_TURN}={os.environ[_TURN]}"


def part(of: Sequence[T], parts: int) -> Sequence[T]:
    """One of so many parts, or all in a whole sweep. So many days together have all of them."""
    return of if IS_WHOLE else of[turn() % parts :: parts]
