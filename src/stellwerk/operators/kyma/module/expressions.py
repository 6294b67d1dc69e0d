"""Regular expressions of an administrator's file, in the syntax of RE2, whose time is bounded by their length.

Python's own go back and try again, which takes years for a few dozen characters. Here all positions that an expression
can have reached move on together, so each of its parts is applied at most twice for each character of a short text.
Supported are literals, classes, groups, alternatives, repetitions, `^`, `$` and `(?i)` at the begin. Anything else is
refused, never read as something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

Positions: TypeAlias = frozenset[int]
Part: TypeAlias = Callable[[str, Positions], Positions]
"""From the positions before a part of an expression in a text to those after it."""

MOST_CHARACTERS = 1000
"""Of an expression."""
MOST_GROUPS = 4
"""Within each other."""
MOST_TEXT = 253
"""What is longer is no label, and matches nothing."""
_COUNT = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}", re.ASCII)
_MOST_COUNT = 1000
_CLASS = re.compile(r"\[\^?(?:\\[dDwWsS]|\\[^\w\s]|[^\\\[\]])(?:\\[dDwWsS]|\\[^\w\s]|[^\\\[\]])*\]", re.ASCII)
_CLASS_ESCAPES = "dDwWsS"
_AMBIGUOUS = ("--", "&&", "||", "~~")
"""In a class: Python may read them as operators of sets in later releases."""


class BadExpression(ValueError):
    """A text that is no regular expression of the supported syntax."""


class Expression:
    """A regular expression. Raises BadExpression."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise BadExpression(f"it has more than {MOST_CHARACTERS} characters")
        parser = _Parser(text)
        self._part = parser.alternatives(0)
        if parser.at < len(text):
            raise BadExpression(f"the parenthesis at character {parser.at + 1} closes no group")

    def is_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        return len(text) <= MOST_TEXT and bool(self._part(text, frozenset(range(len(text) + 1))))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.flags = re.ASCII
        self.at = 0
        if self._skip("(?i)"):
            self.flags |= re.IGNORECASE

    def alternatives(self, depth: int) -> Part:
        if depth > MOST_GROUPS:
            raise BadExpression(f"more than {MOST_GROUPS} groups are within each other")
        parts = [self._sequence(depth)]
        while self._skip("|"):
            parts.append(self._sequence(depth))
        return lambda text, at: frozenset[int]().union(*(part(text, at) for part in parts))

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated(self._atom(depth)))
        return lambda text, at: reduce(lambda reached, part: part(text, reached), parts, at)

    def _repeated(self, part: Part) -> Part:
        counts = self._counts()
        if counts is None:
            return part
        self._skip("?")  # whether it takes as little as it can: no difference for whether there is a match
        if self._counts() is not None:
            raise BadExpression(f"a repetition is repeated before character {self.at + 1}")
        return _repetition(part, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return counts
        if (found := _COUNT.match(self.text, self.at)) is None:
            return None
        self.at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > _MOST_COUNT or (most is not None and most < least):
            raise BadExpression(f"the repetition {found[0]} is not possible")
        return least, most

    def _atom(self, depth: int) -> Part:
        if self._skip("("):
            if not self._skip("?:") and self.text.startswith("?", self.at):
                raise BadExpression(f"the group at character {self.at} is not supported")
            part = self.alternatives(depth + 1)
            if not self._skip(")"):
                raise BadExpression("a group is not closed")
            return part
        if self._skip("^") or self._skip(r"\A"):
            return lambda _, at: at & {0}
        if self._skip("$") or self._skip(r"\z"):
            return lambda text, at: at & {len(text)}
        return self._character()

    def _character(self) -> Part:
        begin, first = self.at, self.text[self.at]
        if first == "[":
            found = _CLASS.match(self.text, begin)
            if found is None or any(each in found[0] for each in _AMBIGUOUS):
                raise BadExpression(f"the class at character {begin + 1} is not supported")
            self.at = found.end()
        elif first == "\\":
            escaped = self.text[begin + 1 : begin + 2]
            if not escaped or (escaped.isalnum() and escaped not in _CLASS_ESCAPES) or not escaped.isascii():
                raise BadExpression(f"the escape at character {begin + 1} is not supported")
            self.at += 2
        elif first in "*+?{}]":
            raise BadExpression(f"{first} at character {begin + 1} has nothing to repeat, or must be escaped")
        else:
            self.at += 1
        try:
            is_one = re.compile(self.text[begin : self.at], self.flags).fullmatch
        except re.error as error:
            raise BadExpression(f"the class at character {begin + 1} is wrong: {error.msg}") from None
        return lambda text, at: frozenset(each + 1 for each in at if each < len(text) and is_one(text[each]))

    def _skip(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found


def _repetition(part: Part, least: int, most: int | None) -> Part:
    def repeated(text: str, at: Positions) -> Positions:
        for _ in range(least):
            before, at = at, part(text, at)
            if at == before:
                break
        reached, rounds = at, 0
        while at and (most is None or rounds < most - least):
            at = part(text, at) - reached
            reached, rounds = reached | at, rounds + 1
        return reached

    return repeated
