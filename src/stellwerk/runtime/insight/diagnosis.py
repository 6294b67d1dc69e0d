"""Why an object is not ready: the form in which an operator reports it.

An operator that reads a cluster to answer "why" does it in two steps: gather what the answer may need into a frozen
graph, then explain the graph in a pure function. What comes out is a tree of findings, from the object down to the root
cause, and the one step that would mend it. The command line prints it; a page of the dashboard can show the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stellwerk.kube.types.errors import Forbidden, NotFound, NotServed, UnreadableObject
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import Unstructured, dig, unstructured
from stellwerk.runtime.insight.reason_catalog import Catalogue

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.model import Listing


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and what that comes from.

    `text` is a sentence without its full stop that names the object; `reason` a CamelCase word where there is one.
    """

    text: str
    reason: str = ""
    because: tuple[Finding, ...] = ()
    is_root_cause: bool = False


@dataclass(frozen=True, slots=True)
class AwaitedObject:
    """An object that the subject waits for, and what it lacks."""

    ref: ObjectRef
    lacks: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. No findings: nothing in the cluster shows a cause."""

    findings: tuple[Finding, ...] = ()
    next_step: str = ""
    """What the user can do now; empty when no action is needed."""
    turn: str = ""
    """Who has to act next and, where it is the operator, when it looks again; empty when that is unknown."""
    unready: tuple[AwaitedObject, ...] = ()
    hidden: tuple[str, ...] = ()
    """What the user may not read, so that the answer rests on less: `secrets in kyma-system`."""
    remarks: tuple[str, ...] = ()
    """What is worth knowing and causes nothing, also of an object that is ready."""


class Diagnostician(Protocol):
    """Explains why objects of one kind are not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read what is needed, and explain. What the user may not read is named, not raised. Raises ApiError."""
        ...


@dataclass(frozen=True, slots=True)
class ConditionDiagnosis:
    """Explains an object by its condition `Ready` and the catalogue of its kind.

    For kinds whose condition names the cause. A kind whose causes are in other objects has a diagnostician of its own.
    """

    catalogue: Catalogue[Any, Any]

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """See `Diagnostician`. Reads nothing."""
        conditions = subject.at("status", "conditions")
        for condition in conditions if isinstance(conditions, list) else ():
            if dig(condition, "type") == "Ready" and dig(condition, "status") != "True":
                reason = str(dig(condition, "reason") or "")
                text = str(dig(condition, "message") or "it is not ready").removesuffix(".")
                meaning = next((each for word, each in self.catalogue.meanings.items() if word == reason), None)
                finding = Finding(text, reason, is_root_cause=True)
                if meaning is None:
                    return Diagnosis((finding,))
                return Diagnosis((finding,), meaning.next_step(subject.key), self.catalogue.turn_of(meaning))
        return Diagnosis()


FIRST = 100
"""How many objects the first page has."""


@dataclass(slots=True)
class ClusterReader:
    """Reads the neighbourhood of an object as far as the user may. A kind that is not served has no objects."""

    client: Client
    _hidden: set[str] = field(default_factory=set)
    _unreadable: dict[tuple[Resource, ObjectKey], str] = field(default_factory=dict)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What could not be read so far: `secrets in kyma-system`."""
        return tuple(sorted(self._hidden))

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The objects met so far that exist and are not what their kinds promise, each with the field and the cause."""
        return tuple(sorted(f"{resource.kind} {key}: {why}" for (resource, key), why in self._unreadable.items()))

    async def find(self, resource: Resource, name: str, namespace: str) -> Unstructured | None:
        """One object, or None where it does not exist or may not be seen."""
        try:
            return await self.client.find(unstructured(resource), name, namespace)
        except Forbidden:
            self._note(resource, namespace)
        except NotServed:
            pass
        except UnreadableObject as error:
            self._note_unreadable(resource, ObjectKey(namespace, name), error.why)
        return None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Unstructured]:
        """Objects by namespace and name; none where they may not be seen."""
        reading = self.client.list(
            unstructured(resource), namespace, labels=labels, fields=fields, skip_unreadable=True
        )
        return [*await self._listed(resource, namespace, reading)]

    async def first(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Sequence[Unstructured]:
        """The objects of the first page, by namespace and name; none where they may not be seen."""
        pages = self.client.pages(
            unstructured(resource), namespace, labels=labels, fields=fields, skip_unreadable=True, limit=FIRST
        )
        async with aclosing(pages):
            return await self._listed(resource, namespace, anext(pages))

    async def _listed(
        self, resource: Resource, namespace: str, reading: Awaitable[Listing[Unstructured]]
    ) -> Sequence[Unstructured]:
        try:
            listing = await reading
        except Forbidden:
            self._note(resource, namespace)
        except (NotServed, NotFound):
            pass
        else:
            for odd in listing.unreadable:
                self._note_unreadable(resource, odd.key, odd.why)
            return sorted(listing.items, key=lambda found: found.key)
        return []

    def why_unreadable(self, resource: Resource, key: ObjectKey) -> str:
        """Why an object that exists could not be read; empty where none was met."""
        return self._unreadable.get((resource, key), "")

    def _note_unreadable(self, resource: Resource, key: ObjectKey, why: str) -> None:
        self._unreadable[resource, key] = why

    def _note(self, resource: Resource, namespace: str) -> None:
        self._hidden.add(_place(resource, namespace))

    def may_not_see(self, resource: Resource, namespace: str) -> bool:
        """Whether reading there was refused: then what was not found may be there all the same."""
        return _place(resource, namespace) in self._hidden


def _place(resource: Resource, namespace: str) -> str:
    return f"{resource.plural} in {namespace or 'all namespaces'}"


def root_causes(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """The findings that nothing else explains, top to bottom."""
    for finding in findings:
        if finding.is_root_cause:
            yield finding
        yield from root_causes(finding.because)
