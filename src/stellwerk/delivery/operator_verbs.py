"""Verbs that an operator adds to the command line, as values: `stellwerk cap upgrade`.

An operator declares the words of a verb and a function that plans it: which writes it comes to, and when each object
has reached its end. The command line does the rest, the same for all operators: it reads arguments and completes them,
finds the named objects, asks before something is deleted, writes or has the API server check the writes, and waits with
a line for each object. So an operator imports nothing of the command line, and the command line names no operator.

Declarations are light, because completion reads them; the planning function imports what it needs, and `verb_plans`,
which has what is asked of it and what it answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stellwerk.delivery.verb_plans import VerbPlan, VerbRequest


@dataclass(frozen=True, slots=True)
class OfferedWords:
    """Words of the cluster that a shell completes a text with: names of the objects of a kind, or values of a field."""

    kind: str
    """The short word of the kind. Without a namespace on the command line, objects of all namespaces count."""
    path: tuple[str, ...] = ()
    """Of the field; a list on the way means each of its items. Empty: the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbArgument:
    """A word after the verb, or, with `many`, all that follow."""

    name: str
    """In capitals, as help shows it."""
    kinds: tuple[str, ...] = ()
    """Short words of the kinds whose objects it names, by NAME, or KIND/NAME if there are several; empty for text."""
    many: bool = False
    required: bool = True
    also_by: tuple[tuple[str, ...], ...] = ()
    """Paths of fields whose values name an object as well, where none has the value as its name."""
    offered: OfferedWords | None = None
    """The words of a text that a shell offers."""

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return self.name.lower().replace("/", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbOption:
    """An option with a text, or without one a flag."""

    flag: str
    """With its dashes."""
    help: str
    metavar: str = ""
    """Of the text; empty for a flag."""
    values: tuple[str, ...] = ()
    """The only texts that it may have; empty: any."""
    offered: OfferedWords | None = None
    """The words of a text that a shell offers."""

    @property
    def key(self) -> str:
        """The flag as an identifier."""
        return self.flag.strip("-").replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerb:
    """A verb of an operator."""

    name: str
    help: str
    """The first line is its summary."""
    plan: Callable[[VerbRequest], Awaitable[VerbPlan]]
    """Decide what to write, with the user's own rights; it writes nothing. Raises VerbRefused, ApiError."""
    arguments: tuple[VerbArgument, ...] = ()
    options: tuple[VerbOption, ...] = ()
    is_destructive: bool = False
    """Whether it asks before it writes, unless `--yes` is given."""
    only_shows: bool = False
    """Whether its plan has a table and no writes, so that there is nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerbs:
    """The verbs of an operator, below one word: `stellwerk NAME VERB`."""

    name: str
    summary: str
    verbs: tuple[OperatorVerb, ...]
