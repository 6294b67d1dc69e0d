"""What a reason in a condition means, and to whom: one catalogue per kind.

An operator fills it with its own words. `stellwerk explain`, `stellwerk why` and the reference page read it, so that a
reason is explained in the same way wherever it is met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)
"""The states of the kind."""
W = TypeVar("W", bound=StrEnum)
"""Its reasons."""

NOBODY = "Nobody has to act."
ITSELF = "Nobody has to act; the operator goes on by itself."
YOURS = "It is your turn; the operator goes on as soon as the cause is gone."

_COMMANDS = "How to check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning(Generic[S]):
    """What a reason stands for.

    `message` is what the condition says when the caller knows nothing more precise; empty where there is always
    something precise to say. `causes`, `check` and `fix` are for people, one sentence or command each.
    """

    state: S
    message: str = ""
    meaning: str
    causes: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    only_you_can_mend_it: bool = False
    """Waiting does not help; somebody has to change something."""

    @property
    def advice(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What people are told, under its title; nothing under no title."""
        for title, told in (("Causes", self.causes), (_COMMANDS, self.check), ("How to fix", self.fix)):
            if told:
                yield title, told


@dataclass(frozen=True, slots=True)
class Catalogue(Generic[W, S]):
    """All reasons of one kind. `turns` says for each state who has to act next, in one sentence."""

    meanings: Mapping[W, Meaning[S]]
    turns: Mapping[S, str]

    def turn(self, word: W) -> str:
        """Who has to act next, in one sentence."""
        meaning = self.meanings[word]
        return YOURS if meaning.only_you_can_mend_it else self.turns[meaning.state]

    def table(self, words: Iterable[W]) -> list[str]:
        """Rows of Markdown for reasons, each with a link to its section."""
        found = [(word, self.meanings[word]) for word in words]
        return [f"| [`{word}`](#{word.lower()}) | {meaning.state} | {meaning.meaning} |" for word, meaning in found]

    def sections(self) -> list[str]:
        """All that is known about each reason, as Markdown."""
        return [self._section(word, meaning) for word, meaning in self.meanings.items()]

    def _section(self, word: W, meaning: Meaning[S]) -> str:
        lines = [f"## {word}", "", f"State **{meaning.state}**. {meaning.meaning} {self.turn(word)}", ""]
        if meaning.message:
            lines += [f"Message: `{meaning.message}`", ""]
        for title, told in meaning.advice:
            shown = [f"`{command}`" for command in told] if title == _COMMANDS else told
            lines += [f"{title}:", "", *(f"- {one}" for one in shown), ""]
        return "\n".join(lines)
