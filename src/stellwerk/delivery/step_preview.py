"""What a kind that decides by steps would write next: for `stellwerk diff`, by the `decide` of its controller."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Several
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.delivery.insight import Preview, PreviewFailed
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonObject, Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.executor import Course, Logic, rehearse
from stellwerk.runtime.control.step import Apply, Create, Delete, Patch, RemoveFinalizer, Show, Wait, Write
from stellwerk.runtime.reading.live_sources import LiveClusters, LiveSources
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import NoClusters, Overlay, View

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)

MOST_LOADS = 50
"""How often `decide` may ask for something new. More is a bug: its questions depend on no end of answers."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """A preview, write by write."""

    subject: Kind
    objects: list[Desired] = field(default_factory=list)
    created: dict[ObjectRef, str] = field(default_factory=dict)
    changed: dict[ObjectRef, str] = field(default_factory=dict)
    deleted: dict[ObjectRef, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    others: dict[tuple[Kubeconfig | None, str], Draft] = field(default_factory=dict)
    """What is written in another cluster, or by another field manager."""

    def apply(self, desired: Desired, why: str) -> None:
        """Note an object that is written as a whole.

        The content is compared only if the object of the pass is stored: otherwise its uid is missing in the owner.
        """
        if self.subject.metadata.uid:
            self.objects.append(desired)
        else:
            self.created[desired.ref] = why

    def at(self, cluster: Kubeconfig | None, field_manager: str = "") -> Draft:
        """The part of a cluster and a field manager; an empty one: that of the operator."""
        if cluster is None and not field_manager:
            return self
        return self.others.setdefault((cluster, field_manager), Draft(subject=self.subject))

    def note(self, write: Write) -> None:
        """Note a write."""
        match write:
            case Described():
                write.describe(self)
            case Create():
                desired = Desired(Address(write.collection.resource, write.key), write.body)
                self.at(write.cluster, write.field_manager).apply(desired, "it does not exist")
            case Apply(subresource=""):
                resource = write.collection.resource
                desired = Desired(Address(resource, write.key), write.body)
                self.at(write.cluster, write.field_manager).apply(desired, "it is applied")
            case Apply():
                self.at(write.cluster).changed[Address(write.collection.resource, write.key).ref] = _STATUS
            case Show():
                self.at(write.cluster).changed[Address(write.collection.resource, write.seen.key).ref] = _STATUS
            case Patch():
                ref = Address(write.collection.resource, write.seen.key).ref
                changed, fields = self.at(write.cluster).changed, ", ".join(paths(write.fields))
                changed[ref] = f"{changed[ref]}, {fields}" if ref in changed else f"changed fields: {fields}"
            case Delete():
                ref = Address(write.collection.resource, write.seen.key).ref
                self.at(write.cluster).deleted[ref] = write.why or "it is not needed any more"
            case RemoveFinalizer():
                self.changed[self.subject.ref] = f"{write.about} is removed, and the object is deleted"
            case _:
                self.warnings.append(f"{write.about} is written, and what becomes of it cannot be shown")


_STATUS = "its status changes"


@runtime_checkable
class Described(Protocol):
    """A write of a kind's own that notes what it would do."""

    def describe(self, draft: Draft) -> None:
        """Note it."""
        ...


@dataclass(frozen=True, slots=True)
class Awaited:
    """What an object waits for now, as far as a user may see it."""

    waits: tuple[Wait, ...] = ()
    """None if its next pass would write, or if what the user may not read decides."""
    hidden: tuple[str, ...] = ()
    """What the user may not read: `secrets in kyma-system`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPreview(Generic[K, S]):
    """What it takes to decide with the rights of a user."""

    logic: Logic[K, S]
    field_manager: str
    everywhere: Several[Collection[Any]] = ()
    """Collections that are listed in all namespaces, if the user may list them."""
    claims: Claims | None = None
    """As in `Preview`."""

    async def course(self, subject: K, client: Client, now: datetime, settings: tuple[object, ...]) -> Course[S]:
        """The steps of the next pass, with what the user may read. Raises PreviewFailed, ApiError."""
        return (await self._rehearsed(subject, client, now, settings))[0]

    async def awaited(self, subject: K, client: Client, now: datetime, settings: tuple[object, ...] = ()) -> Awaited:
        """What the object waits for, by the questions and answers of now. Raises PreviewFailed, ApiError."""
        course, sources = await self._rehearsed(subject, client, now, settings)
        if course.writes or (course.is_unknown and sources.hidden):
            return Awaited(hidden=sources.hidden)
        return Awaited(course.steps[-1].waits, sources.hidden)

    async def preview(
        self,
        subject: K,
        client: Client,
        now: datetime,
        settings: tuple[object, ...] = (),
        clusters: LiveClusters | None = None,
        overlay: Callable[[], Overlay] = Overlay,
    ) -> Preview:
        """What the next pass would write. Nothing is written. Raises PreviewFailed, ApiError.

        `clusters`: others that may be looked at. `overlay`: what the pass finds otherwise than it is.
        """
        course, sources = await self._rehearsed(subject, client, now, settings, clusters, overlay)
        draft = Draft(subject=subject)
        for write in course.writes:
            draft.note(write)
        last = course.steps[-1]
        if last.failure is not None:
            draft.warnings.append(last.failure.message)
        draft.warnings += [said for wait in last.waits if (said := wait.text)]
        draft.warnings += sources.refusals
        others = [self._part(draft.others[part], clusters, *part) for part in draft.others]
        return replace(self._part(draft), claims=self.claims, others=tuple(others))

    def _part(
        self,
        draft: Draft,
        clusters: LiveClusters | None = None,
        cluster: Kubeconfig | None = None,
        field_manager: str = "",
    ) -> Preview:
        """What is written in one cluster by one field manager. Forced, it leaves the other fields of others."""
        return Preview(
            field_manager=field_manager or self.field_manager,
            objects=tuple(draft.objects),
            created=draft.created,
            changed=draft.changed,
            deleted=draft.deleted,
            claims=Claims(lambda _: False),
            warnings=tuple(dict.fromkeys(draft.warnings)),
            client=clusters.opened[cluster].client if clusters is not None and cluster is not None else None,
            place=f"in the cluster of Secret {cluster.secret}" if cluster is not None else "",
        )

    async def _rehearsed(
        self,
        subject: K,
        client: Client,
        now: datetime,
        settings: tuple[object, ...],
        clusters: LiveClusters | None = None,
        overlay: Callable[[], Overlay] = Overlay,
    ) -> tuple[Course[S], LiveSources]:
        sources = LiveSources(client, subject.metadata.namespace, everywhere=self.everywhere)

        def view(overlay: Overlay) -> View:
            return View(
                sources=sources,
                now=now,
                settings=settings,
                overlay=overlay,
                loads=sources.loads,
                clusters=clusters or NoClusters(),
            )

        for _ in range(MOST_LOADS):
            course = rehearse(self.logic, subject, view, overlay())
            if not any([await sources.load(), clusters is not None and await clusters.load()]):
                return course, sources
        raise PreviewFailed(f"{subject.ref} asks for more and more objects", fix="report this as a bug")


def paths(fields: JsonObject, within: str = "") -> list[str]:
    """The fields that a merge patch writes: two levels deep, without their values."""
    found: list[str] = []
    for name, value in fields.items():
        is_deeper = isinstance(value, dict) and not within
        found += paths(value, f"{name}.") if is_deeper and isinstance(value, dict) else [f"{within}{name}"]
    return found
