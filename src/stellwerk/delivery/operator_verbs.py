"""Verbs that an operator adds to the command line, as values: `stellwerk cap upgrade`.

An operator declares the words of a verb and a function that plans it: which writes it comes to, and when each object
has reached its end. The command line does the rest, the same for all operators: it reads arguments and completes them,
finds the named objects, asks before something is deleted, writes or has the API server check the writes, and waits with
a line for each object. So an operator imports nothing of the command line, and the command line names no operator.

Declarations are light, because completion reads them; the planning function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.kube.types import lenient

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.model import JsonObject, Kind, Unstructured

K = TypeVar("K", bound="Kind")

# ---- what is declared


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorVerbs:
    """The verbs of an operator, below one word: `stellwerk NAME VERB`."""

    name: str
    summary: str
    verbs: tuple[OperatorVerb, ...]


# ---- what is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbRequest:
    """What the user has typed."""

    client: Client
    objects: Mapping[str, Sequence[Unstructured]]
    """By the name of the argument; an optional one that is absent has none."""
    texts: Mapping[str, str]
    """Arguments and options with a text; empty where one is absent."""
    flags: frozenset[str] = frozenset()
    """The flags that are given."""
    moment: str
    """The time of the call, distinct from that of any other."""

    def only(self, argument: str) -> Unstructured:
        """The one object of an argument."""
        [obj] = self.objects[argument]
        return obj


class VerbRefused(Exception):
    """The verb cannot do what is asked; the message is the cause, `fix` the user's next step."""

    def __init__(self, why: str, *, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


# ---- what it comes to


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """An object that has to exist. One that exists already is left as it is."""

    resource: Resource
    body: JsonObject
    done: str
    """What is printed when it is created: `CAPTenant shop/acme is subscribed`."""
    then: Callable[[Unstructured], Sequence[Change]] | None = None
    """Further writes, which need the object as it exists then. A dry run leaves them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A merge patch of an object."""

    resource: Resource
    key: ObjectKey
    patch: JsonObject
    done: str = ""
    """What is printed; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """An object that has to go."""

    resource: Resource
    key: ObjectKey
    uid: str
    done: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedObject(Generic[K]):
    """An object whose end is waited for."""

    kind: type[K]
    key: ObjectKey
    ended: Callable[[K], bool]
    """Whether the object has come to an end, well or not. One that is gone has."""
    good: Callable[[K], bool]
    """Whether that end is what was asked for."""
    may_go: bool = False
    """Whether it is good if the object is gone."""
    obstacle: Obstacle | None = None
    """What may keep the object from coming to an end."""

    @property
    def resource(self) -> Resource:
        """Where objects of the kind are."""
        return self.kind.resource

    def has_ended(self, seen: Unstructured | None) -> bool:
        """Whether the object, None where it is gone, has come to an end."""
        return seen is None or self.ended(lenient.convert(seen.body, self.kind))

    def is_good(self, seen: Unstructured | None) -> bool:
        """Whether that end is what was asked for."""
        return self.may_go if seen is None else self.good(lenient.convert(seen.body, self.kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """An object that another one waits for. While it blocks, waiting does not help."""

    resource: Resource
    key: ObjectKey
    blocks: Callable[[Unstructured], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbPlan:
    """What a verb writes, in this order, and what it waits for with `--wait`."""

    writes: Sequence[Creation | Change | Deletion] = ()
    awaited: Sequence[AwaitedObject[Any]] = ()
    notes: Sequence[str] = ()
    """Messages for the user about what is left out, and why."""
    destroys: str = ""
    """What is lost, to be confirmed: `CAPTenant shop/acme with its data`."""
