"""The meaning of the reasons in conditions: one catalogue per kind.

An operator fills it with its own words. `stellwerk explain`, `stellwerk why` and the reference page read it, so that a
reason is explained in the same way wherever it is met.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Generic, Self, TypeVar

from stellwerk.kube.types.identifiers import ObjectKey

S = TypeVar("S", bound=StrEnum)
"""The states of the kind."""
W = TypeVar("W", bound=StrEnum)
"""Its reasons."""

NO_USER = "No user has to act."
ITSELF = "No user has to act; the operator goes on by itself."
YOURS = "It is your turn; the operator goes on as soon as the cause is gone."

NOTHING_TO_FIX = "Nothing has to be fixed."

_COMMANDS = "How to check"
_COMMAND = re.compile(r": ((?:kubectl|stellwerk|flux) .+)")
_PLACEHOLDER = re.compile(r"\b[A-Z]{2,}(_[A-Z]+)*\b")


ADVICE = {"Causes": "causes", _COMMANDS: "check", "How to fix": "fix"}
"""The titles of the advice for users, and the fields of `Meaning` that have it."""


@dataclass(frozen=True, slots=True)
class ReasonFacts(Generic[S]):
    """What a controller needs to know of a reason. The text for users is in a help file (`help_files`)."""

    state: S
    message: str = ""
    """The condition's message when the caller has nothing more precise, or the part that is always the same; empty
    where there always is something more precise."""
    _: KW_ONLY
    only_user_can_fix: bool = False
    """Waiting does not help; a user has to change something."""
    asks_user: bool = False
    """Whether the user has to do something, be it while the operator retries."""
    turn: str = ""
    """Who has to act next, where that differs from other reasons with this state."""


def only_user(state: S, message: str = "") -> ReasonFacts[S]:
    """The facts of a reason that only a user can end."""
    return ReasonFacts(state, message, only_user_can_fix=True)


class TabledReason(StrEnum):
    """The reasons of a kind as one table: each with its word, and, if it is one of a condition, its facts."""

    facts: ReasonFacts[Any] | None

    def __new__(cls, word: str, facts: ReasonFacts[Any] | None = None) -> Self:
        """One row of the table."""
        reason = str.__new__(cls, word)
        reason._value_, reason.facts = word, facts
        return reason


R = TypeVar("R", bound=TabledReason)


def facts_of(reasons: Iterable[R]) -> dict[R, ReasonFacts[Any]]:
    """The reasons that a catalogue explains, in the order of their table."""
    return {reason: reason.facts for reason in reasons if reason.facts is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning(Generic[S]):
    """The meaning of a reason.

    `message` as of `ReasonFacts`. `causes`, `check` and `fix` are for people, one sentence or command each. A command
    in `fix` ends its sentence, after a colon.
    """

    state: S
    message: str = ""
    meaning: str
    causes: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    only_user_can_fix: bool = False
    """Waiting does not help; a user has to change something."""
    turn: str = ""
    """Who has to act next, where that differs from other reasons with this state."""

    @property
    def shown_state(self) -> str:
        """The state in texts. A reason with the empty state leaves an object in the state that it has."""
        return self.state or "unchanged"

    @property
    def asks_user(self) -> bool:
        """Whether the user has to do something: there is a fix, and it is more than to wait."""
        return bool(self.fix) and not self.fix[0].startswith(NOTHING_TO_FIX)

    @property
    def advice(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The advice for users, under its title; nothing under no title."""
        for title, field in ADVICE.items():
            if texts := getattr(self, field):
                yield title, texts

    def next_step(self, key: ObjectKey) -> str:
        """The first way to fix it, for this very object, as the end of a sentence; empty where nothing has to be fixed.

        A command that needs a name which only the reader knows is left out.
        """
        fix = self.fix[0] if self.fix else NOTHING_TO_FIX
        if fix.startswith(NOTHING_TO_FIX):
            return ""
        placed = fix if key.namespace else fix.replace(" -n NAMESPACE", "")
        named = placed.replace("NAMESPACE", key.namespace).replace("NAME", key.name)
        command = command_in(named)
        if _PLACEHOLDER.search(command):
            named = named.removesuffix(f": {command}")
        return f"{named[:1].lower()}{named[1:].removesuffix('.')}"


def command_in(fix: str) -> str:
    """The command that a sentence of `Meaning.fix` ends with; empty: none."""
    found = _COMMAND.search(fix)
    return found[1] if found else ""


def _with_code(sentence: str) -> str:
    command = command_in(sentence)
    return f"{sentence.removesuffix(command)}`{command}`" if command else sentence


@dataclass(frozen=True, slots=True)
class Catalogue(Generic[W, S]):
    """All reasons of one kind. `turns` states for each state who has to act next, in one sentence."""

    meanings: Mapping[W, Meaning[S]]
    turns: Mapping[S, str]

    def turn(self, word: W) -> str:
        """Who has to act next, in one sentence."""
        return self.turn_of(self.meanings[word])

    def turn_of(self, meaning: Meaning[S]) -> str:
        """The same for a meaning of this catalogue."""
        return YOURS if meaning.only_user_can_fix else meaning.turn or self.turns[meaning.state]

    def word_of(self, text: str) -> W | None:
        """The reason whose message is a part of a text, as of a status that has no reasons; of several the longest."""
        found = ((len(meaning.message), word) for word, meaning in self.meanings.items() if meaning.message in text)
        length, word = max(found, key=lambda each: each[0], default=(0, None))
        return word if length else None

    def table(self, words: Iterable[W]) -> list[str]:
        """Rows of Markdown for reasons, each with a link to its section."""
        found = [(word, self.meanings[word]) for word in words]
        return [
            f"| [`{word}`](#{word.lower()}) | {meaning.shown_state} | {meaning.meaning} |" for word, meaning in found
        ]

    def sections(self) -> list[str]:
        """All that is known about each reason, as Markdown."""
        return [f"## {word}\n\n{self._text(word, meaning)}" for word, meaning in self.meanings.items()]

    def page(self, word: W, kind: str) -> str:
        """All that is known about one reason of a kind, as a page of Markdown."""
        return f"# {word}\n\nA reason of a {kind}.\n\n{self._text(word, self.meanings[word])}"

    def _text(self, word: W, meaning: Meaning[S]) -> str:
        lines = [f"State **{meaning.shown_state}**. {meaning.meaning} {self.turn(word)}", ""]
        if meaning.message:
            lines += [f"Message: `{meaning.message}`", ""]
        for title, told in meaning.advice:
            shown = [f"`{command}`" for command in told] if title == _COMMANDS else [_with_code(one) for one in told]
            lines += [f"{title}:", "", *(f"- {one}" for one in shown), ""]
        return "\n".join(lines)
