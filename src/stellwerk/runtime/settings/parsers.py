"""Settings as text: how a flag or a key of a ConfigMap is read.

Each reader raises `ValueError` with what it expects; its caller adds the name of the flag or key. Only rules that
operators share are here: the rules of one operator are next to its table of settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from stellwerk.kube.types import duration

E = TypeVar("E", bound=StrEnum)


def name(text: str) -> str:
    """The name of an object."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise ValueError("expected the name of an object: lower-case letters, digits, '-' and '.'")
    return text


def words(text: str) -> tuple[str, ...]:
    """The words between commas, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def number(lowest: int, highest: int) -> Callable[[str], int]:
    """A reader of whole numbers in this range."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
            raise ValueError(f"expected a whole number from {lowest} to {highest}")
        return int(text)

    return read


def positive_duration(text: str) -> timedelta:
    """A duration above zero, as Go writes it."""
    value = duration.parse(text)
    if value <= timedelta():
        raise ValueError("expected a duration above zero such as 90s or 5m")
    return value


def one_of(choices: type[E]) -> Callable[[str], E]:
    """A reader of one of these words, in whatever case."""
    by_lower = {choice.lower(): choice for choice in choices}

    def read(text: str) -> E:
        if text.lower() not in by_lower:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return by_lower[text.lower()]

    return read
