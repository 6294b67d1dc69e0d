"""Settings as text: how a flag or a key of a ConfigMap is read.

Each reader raises `ValueError` with what it expects; its caller adds the name of the flag or key. Only rules that
operators share are here: the rules of one operator are next to its table of settings. A reader that is one of the
classes below knows the form of what it accepts, so that the schema of the chart can refuse the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeAlias, TypeVar

from stellwerk.kube.types import duration

V = TypeVar("V")
E = TypeVar("E", bound=StrEnum)

Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Words(Generic[V]):
    """A reader of some words, in whatever case, and what each means."""

    meanings: Mapping[str, V]

    def __call__(self, text: str) -> V:
        """The meaning of a word."""
        for word, meaning in self.meanings.items():
            if text.lower() == word.lower():
                return meaning
        raise ValueError(f"expected one of {', '.join(self.meanings)}")


@dataclass(frozen=True, slots=True)
class Number:
    """A reader of the whole numbers in a range."""

    lowest: int
    highest: int

    def __call__(self, text: str) -> int:
        """The number."""
        if not re.fullmatch(r"[0-9]{1,9}", text) or not self.lowest <= int(text) <= self.highest:
            raise ValueError(f"expected a whole number from {self.lowest} to {self.highest}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Formed(Generic[V]):
    """A reader of texts of a form. It may refuse some of that form."""

    pattern: str
    """A regular expression of RE2 for the whole text, which `read` accepts no other text than."""
    read: Callable[[str], V]

    def __call__(self, text: str) -> V:
        """The value of a text."""
        return self.read(text)


_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def _name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise ValueError("expected the name of an object: lower-case letters, digits, '-' and '.'")
    return text


def _namespace(text: str) -> str:
    if not re.fullmatch(_NAMESPACE, text):
        raise ValueError("expected the name of a namespace: at most 63 lower-case letters, digits and '-'")
    return text


name = Formed(_NAME, _name)
"""The name of an object."""
namespace = Formed(_NAMESPACE, _namespace)
"""The name of a namespace."""
name_or_none = Formed(rf"\s*({_NAME})?\s*", lambda text: name(text.strip()) if text.strip() else "")
"""The name of an object, or none."""


def words(text: str) -> tuple[str, ...]:
    """The words between commas, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def words_of(pattern: str, read: Callable[[str], V]) -> Formed[V]:
    """A reader of words between commas, each of which is of this form."""
    return Formed(rf"[\s,]*(({pattern})(\s*,[\s,]*({pattern}))*)?[\s,]*", read)


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(word) for word in words(text))
    except ValueError:
        raise ValueError("expected networks such as 10.0.0.0/8, separated by commas") from None


networks = words_of("[0-9A-Fa-f:./]+", _networks)
"""Networks between commas."""


def number(lowest: int, highest: int) -> Number:
    """A reader of whole numbers in this range."""
    return Number(lowest, highest)


def of_duration(expected: str, accepts: Callable[[timedelta], bool]) -> Formed[timedelta]:
    """A reader of the durations, as Go writes them, that are accepted."""

    def read(text: str) -> timedelta:
        value = duration.parse(text)
        if not accepts(value):
            raise ValueError(f"expected {expected}")
        return value

    return Formed(duration.PATTERN, read)


positive_duration = of_duration("a duration above zero such as 90s or 5m", lambda value: value > timedelta())
duration_or_zero = of_duration("a duration such as 1h, or 0", lambda value: value >= timedelta())


def one_of(choices: type[E]) -> Words[E]:
    """A reader of one of these words, in whatever case."""
    return Words({str(choice): choice for choice in choices})
