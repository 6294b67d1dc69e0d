"""`stellwerk events`: Events, newest last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stellwerk.api.events import Event
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects.cluster import Absent, ClusterSession, with_cluster
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.output import print_objects
from stellwerk.cli.shell.text import Layout, Style, TableColumn
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Synced

COLUMNS = (
    TableColumn("LAST", least=6),
    TableColumn("TYPE", least=9),
    TableColumn("REASON", least=20),
    TableColumn("COUNT", least=7),
    TableColumn("OBJECT", least=30),
    TableColumn("NOTE"),
)
_START = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Happening:
    """One Event as people read it. `count` is how often it was seen; `last` when it was seen last."""

    last: datetime
    type: str
    reason: str
    count: int
    regarding: ObjectRef
    note: str


@with_cluster
async def events(cluster: ClusterSession, subject: ObjectArgument | None, watch: bool) -> None:
    """Print Events, of one object or of the chosen namespaces; with `watch`, new ones until interrupted."""
    regarding = await _regarding(cluster, subject) if subject else None
    namespace = namespace_of(regarding) if regarding else cluster.namespace
    if watch:
        await _follow(cluster, regarding, namespace)
        return
    found = await read(cluster, regarding, namespace)
    if not cluster.settings.output.is_table:
        print_objects(found, cluster.settings.output, as_list=True)
    elif found:
        settings.show(table([happening(event) for event in found]))
    if not found:
        settings.say(_nothing(regarding, namespace))


def _nothing(regarding: ObjectRef | None, namespace: str) -> str:
    about = f"about {text.escaped(str(regarding))}" if regarding else f"in {namespace or 'any namespace'}"
    follow_up = "" if regarding or not namespace else "\nNext: stellwerk events -A"
    return f"There are no Events {about}; the API server keeps them for an hour.{follow_up}"


async def _regarding(cluster: ClusterSession, subject: ObjectArgument) -> ObjectRef:
    """The reference of the object. It may be gone: its Events outlive it, and its reference follows from the words."""
    try:
        return (await cluster.object(subject)).ref
    except Absent:
        resource = await cluster.resource(subject.kind)
        return ObjectRef(resource.gvk, resource.key(subject.key.namespace or cluster.namespace, subject.key.name))


def namespace_of(regarding: ObjectRef) -> str:
    """The namespace with the Events of an object: its own, or `default` for a cluster-scoped object."""
    return regarding.key.namespace or "default"


async def read(cluster: ClusterSession, regarding: ObjectRef | None, namespace: str) -> list[Unstructured]:
    """Events in a namespace, or of one object, newest last."""
    found = await cluster.list(Event.resource, namespace, fields=selector(regarding))
    return sorted(found, key=lambda event: (happening(event).last, event.key))


def selector(regarding: ObjectRef | None) -> str:
    """The field selector for the Events of one object; empty for all."""
    if regarding is None:
        return ""
    return f"regarding.kind={regarding.gvk.kind},regarding.name={regarding.key.name}"


def happening(event: Unstructured) -> Happening:
    """An Event of events.k8s.io/v1, also one that was written through the older core API."""
    regarding = ObjectRef(
        GroupVersionKind.parse(_word(event, "regarding", "apiVersion"), _word(event, "regarding", "kind")),
        ObjectKey(_word(event, "regarding", "namespace"), _word(event, "regarding", "name")),
    )
    count = event.at("series", "count") or event.at("deprecatedCount") or 1
    return Happening(
        last=_last(event.body) or event.metadata.creation_timestamp or _START,
        type=_word(event, "type"),
        reason=_word(event, "reason"),
        count=count if isinstance(count, int) else 1,
        regarding=regarding,
        note=_word(event, "note"),
    )


def _word(event: Unstructured, *path: str) -> str:
    return str(event.at(*path) or "")


def _last(body: JsonObject) -> datetime | None:
    """When it was seen last. A series keeps its first eventTime, so that is asked last."""
    for path in (("series", "lastObservedTime"), ("deprecatedLastTimestamp",), ("eventTime",)):
        if moment := _moment(dig(body, *path)):
            return moment
    return None


def _moment(value: JsonValue) -> datetime | None:
    """A time with its zone; None for anything else, because an Event may come from anybody."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


# Looks


def table(happenings: Sequence[Happening], now: datetime | None = None) -> list[str]:
    """The lines of the table."""
    moment = now or datetime.now(UTC)
    return text.table(COLUMNS, [row(happened, moment) for happened in happenings])


def row(happened: Happening, now: datetime) -> list[str]:
    """The cells of one Event."""
    count = str(happened.count) if happened.count > 1 else ""
    age = text.age(happened.last, now)
    return [age, happened.type, happened.reason, count, str(happened.regarding), happened.note]


async def _follow(cluster: ClusterSession, regarding: ObjectRef | None, namespace: str) -> None:
    printer = _Printer(cluster.settings.style())
    watcher = Watcher(cluster.client, unstructured(Event.resource), namespace, fields=selector(regarding))
    async for change in watcher.changes():
        match change:
            case Synced(objects=objects):
                printer.show([happening(event) for event in objects])
            case Changed(obj=event):
                printer.show([happening(event)])


class _Printer:
    """Prints each occurrence of an Event once, although a reconnected watch repeats Events."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._seen: set[Happening] = set()
        self._layout: Layout | None = None

    def show(self, happenings: Iterable[Happening]) -> None:
        fresh = sorted(set(happenings) - self._seen, key=lambda happened: happened.last)
        self._seen.update(fresh)
        rows = [row(happened, datetime.now(UTC)) for happened in fresh]
        if self._layout is None:
            self._layout = text.layout(COLUMNS, rows)
            settings.show([self._layout.header])
        for cells in rows:
            settings.show([self._layout.line(cells, style=self._style)])
