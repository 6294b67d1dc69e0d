"""What the verbs of operators are asked, and what they come to (see `operator_verbs`, which declares them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, Resource

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.model import JsonObject, Kind, Unstructured

K = TypeVar("K", bound="Kind")

# ---- what is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbRequest:
    """What the user has typed."""

    client: Client
    objects: Mapping[str, Sequence[Unstructured]]
    """By the name of the argument; an optional one that is absent has none."""
    texts: Mapping[str, str]
    """Arguments and options with a text; empty where one is absent."""
    words: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The texts of each argument that takes many, each once."""
    namespace: str = ""
    """That of the command line; empty: none is named there."""
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
class Edit:
    """A merge patch that depends on what an object has, such as a list of which one item changes.

    It is made again from the object as it is if another client was faster, so that nothing of that client is lost.
    """

    resource: Resource
    seen: Unstructured
    patch: Callable[[Unstructured], JsonObject | None]
    """None: there is nothing to do (any more)."""
    done: Sequence[str]
    """What is printed."""


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
    shown: Callable[[K], str] | None = None
    """How a part of the object is that alone is waited for, in one line; None: the whole object is."""

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

    def part(self, seen: Unstructured) -> str:
        """How the part is that is waited for; empty if the whole object is."""
        return self.shown(lenient.convert(seen.body, self.kind)) if self.shown is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """An object that another one waits for. While it blocks, waiting does not help."""

    resource: Resource
    key: ObjectKey
    blocks: Callable[[Unstructured], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbTable:
    """What a verb shows."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    """For people."""
    values: Sequence[JsonObject]
    """The same for programs."""
    empty: str
    """What people read instead of a table without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbPlan:
    """What a verb shows, what it writes, in this order, and what it waits for with `--wait`."""

    table: VerbTable | None = None
    writes: Sequence[Creation | Change | Edit | Deletion] = ()
    awaited: Sequence[AwaitedObject[Any]] = ()
    notes: Sequence[str] = ()
    """Messages for the user about what is left out, and why."""
    destroys: str = ""
    """What is lost, to be confirmed: `CAPTenant shop/acme with its data`."""
