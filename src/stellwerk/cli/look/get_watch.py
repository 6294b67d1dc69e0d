"""`stellwerk get -w`: the list, and then a line for every change, until interrupted."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects import health
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.unreadable import MetadataOnlyObject, unread
from stellwerk.cli.shell import output, settings, text
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed, Synced, WatchSuspended


@dataclass(kw_only=True)
class Screen(ABC):
    """Where objects are printed as they change, each only where its output differs from the one before."""

    query: ObjectQuery
    shown: dict[tuple[str, ObjectKey], tuple[str, ...]] = field(default_factory=dict)
    """What is compared of the last output of each object."""

    def show(self, obj: Unstructured) -> None:
        """Print the object if its output has changed."""
        if self._is_chosen(obj) or health.of(obj).needs_attention:
            self._show(obj)

    def show_end(self, obj: Unstructured) -> None:
        """Print that the object is gone."""
        if self._is_chosen(obj):
            self._show_end(obj)
        self.shown.pop(_place(obj), None)

    def _is_chosen(self, obj: Unstructured) -> bool:
        """Whether the object is printed however it is: one that was printed before is followed to its end."""
        return not self.query.not_ready or _place(obj) in self.shown

    @abstractmethod
    def _show(self, obj: Unstructured) -> None:
        """Print an object that is chosen."""

    @abstractmethod
    def _show_end(self, obj: Unstructured) -> None:
        """Print the end of an object that is chosen."""


def _place(obj: Unstructured) -> tuple[str, ObjectKey]:
    return obj.gvk.kind, obj.key


@dataclass(kw_only=True)
class TableScreen(Screen):
    """Prints a table. Keeps the column widths, and the last line of each object, so that no line is repeated."""

    style: text.Style
    looks: object_list.Looks
    layout: text.Layout

    def _show(self, obj: Unstructured) -> None:
        self._print(obj, health.of(obj))

    def _show_end(self, obj: Unstructured) -> None:
        self._print(obj, ObjectHealth("-", "Deleted"))

    def _print(self, obj: Unstructured, seen: ObjectHealth) -> None:
        cells = self.looks.row(obj, seen, datetime.now(UTC))
        titled = zip(cells, self.layout.columns, strict=True)
        facts = tuple(cell for cell, column in titled if column.title != "AGE")
        if self.shown.get(_place(obj)) != facts:
            self.shown[_place(obj)] = facts
            settings.show([object_list.line(self.layout, cells, self.style)])


@dataclass(kw_only=True)
class ProgramScreen(Screen):
    """Prints every version of every object, one after the other, in a form for programs; a deleted one once more."""

    output: settings.Output
    has_titles: bool = False

    def _show(self, obj: Unstructured) -> None:
        version = (obj.metadata.resource_version,)
        if self.shown.get(_place(obj)) == version:
            return
        self.shown[_place(obj)] = version
        if isinstance(obj, MetadataOnlyObject):  # a part would pass for the whole
            settings.say(text.escaped(f"{obj.ref} cannot be read: {obj.why}"))
        else:
            self._print(obj)

    def _show_end(self, obj: Unstructured) -> None:
        if not isinstance(obj, MetadataOnlyObject):
            self._print(obj)

    def _print(self, obj: Unstructured) -> None:
        if self.output.form == "custom-columns":
            titles_are_shown, self.has_titles = self.has_titles, True
            settings.show(output.custom_columns([obj], self.output)[1 if titles_are_shown else 0 :])
            return
        if self.output.form == "yaml":
            settings.show(["---"])
        output.print_objects([obj], self.output, as_list=False)


@with_cluster
async def follow(cluster: ClusterSession, query: ObjectQuery) -> None:
    """Print what is there and every change. Ends when it is cancelled."""
    chosen = cluster.settings.output
    picked = [await cluster.object(subject, shows_unread=chosen.is_table) for subject in query.subjects]
    places: list[tuple[Resource, ObjectKey | None]] = []
    for one, obj in zip(query.subjects, picked, strict=True):
        places.append((await cluster.resource(one.kind), obj.key))
    if not query.subjects:
        places = [(resource, None) for resource in await object_list.resources(cluster, query)]
    screen: Screen = ProgramScreen(query=query, output=chosen)
    if chosen.is_table:
        if not query.subjects:
            wanted = [resource for resource, _ in places]
            everything = await object_list.read(cluster, wanted, labels=query.labels, fields=query.fields)
            picked = object_list.selected(everything, query)
        gvks = {resource.gvk for resource, _ in places}
        is_terminal = settings.is_terminal()
        looks = object_list.looks_for(chosen, gvks, labels=query.show_labels, is_terminal=is_terminal)
        rows = [looks.row(obj, health.of(obj), datetime.now(UTC)) for obj in picked]
        layout = text.layout(looks.columns, rows)
        screen = TableScreen(query=query, style=cluster.settings.style(), looks=looks, layout=layout)
        settings.show([layout.header])
    async with asyncio.TaskGroup() as tasks:
        for resource, key in places:
            tasks.create_task(_follow_one(cluster, resource, key, query, screen), name=f"watch {resource.plural}")


async def _follow_one(
    cluster: ClusterSession, resource: Resource, key: ObjectKey | None, query: ObjectQuery, screen: Screen
) -> None:
    namespace = key.namespace if key else cluster.namespace
    fields = f"metadata.name={key.name}" if key else query.fields
    known: dict[ObjectKey, Unstructured] = {}
    watcher = Watcher(cluster.client, unstructured(resource), namespace, labels=query.labels, fields=fields)
    async for change in watcher.changes():
        match change:
            case Synced(objects=objects, unreadable=unreadable):
                _show_all(screen, known, [*objects, *map(unread, unreadable)])
            case Changed(obj=obj):
                known[obj.key] = obj
                screen.show(obj)
            case Removed(obj=obj):
                if (last := known.pop(obj.key, None)) is not None:
                    screen.show_end(last)
            case Odd(obj=odd):
                known[odd.key] = unread(odd)
                screen.show(known[odd.key])
            case WatchSuspended(why=why):
                settings.say(f"{resource.plural}: {text.escaped(why)}; waiting")


def _show_all(screen: Screen, known: dict[ObjectKey, Unstructured], objects: Iterable[Unstructured]) -> None:
    """Show a list in place of single changes: an object that it lacks was deleted while no watch was open."""
    now_there = {obj.key: obj for obj in objects}
    for key in known.keys() - now_there.keys():
        screen.show_end(known.pop(key))
    known.update(now_there)
    for key in sorted(now_there):
        screen.show(now_there[key])
