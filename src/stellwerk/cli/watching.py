"""`stellwerk get -w`: the list, and then a line for every change, until interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stellwerk.cli import get, health, settings, text
from stellwerk.cli.cluster import Cluster
from stellwerk.cli.health import Health
from stellwerk.kube.model import Unstructured, unstructured
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.kube.watch import Watcher
from stellwerk.kube.watch_states import Changed, Parked, Removed, Synced


@dataclass
class Screen:
    """What has been printed: in which widths, and the last line of each object, so that none is repeated."""

    query: get.Query
    style: text.Style
    wide: bool
    layout: text.Layout
    shown: dict[tuple[str, ObjectKey], tuple[str, ...]] = field(default_factory=dict)

    def show(self, obj: Unstructured) -> None:
        """Print the object if its line says something new."""
        seen = health.of(obj)
        place = (obj.gvk.kind, obj.key)
        if self.query.not_ready and not seen.needs_attention and place not in self.shown:
            return
        self._print(place, get.row(obj, seen, datetime.now(UTC), wide=self.wide))

    def show_end(self, obj: Unstructured) -> None:
        """Print that the object is gone."""
        place = (obj.gvk.kind, obj.key)
        if not self.query.not_ready or place in self.shown:
            self._print(place, get.row(obj, Health("-", "Deleted"), datetime.now(UTC), wide=self.wide))
        self.shown.pop(place, None)

    def _print(self, place: tuple[str, ObjectKey], cells: list[str]) -> None:
        titled = zip(cells, self.layout.columns, strict=True)
        facts = tuple(cell for cell, column in titled if column.title != "AGE")
        if self.shown.get(place) == facts:
            return
        self.shown[place] = facts
        settings.show([get.line(self.layout, cells, self.style)])


async def follow(cluster: Cluster, query: get.Query) -> None:
    """Print what is there and every change. Ends when it is cancelled."""
    output = cluster.settings.output
    get.check_watchable(output)
    wanted = await get.resources(cluster, query)
    if query.name:
        picked = [await cluster.object(query.subject)]
    else:
        picked = get.selected(await get.read(cluster, wanted), query)
    wide = output.form == "wide"
    rows = [get.row(obj, health.of(obj), datetime.now(UTC), wide=wide) for obj in picked]
    screen = Screen(query, cluster.settings.style(), wide, text.layout(get.WIDE if wide else get.COLUMNS, rows))
    settings.show([screen.layout.header])
    one = picked[0].key if query.name else None
    async with asyncio.TaskGroup() as tasks:
        for resource in wanted:
            tasks.create_task(_follow_one(cluster, resource, one, screen), name=f"watch {resource.plural}")


async def _follow_one(cluster: Cluster, resource: Resource, one: ObjectKey | None, screen: Screen) -> None:
    namespace = one.namespace if one else cluster.namespace
    fields = f"metadata.name={one.name}" if one else ""
    known: dict[ObjectKey, Unstructured] = {}
    async for change in Watcher(cluster.client, unstructured(resource), namespace, fields=fields).changes():
        match change:
            case Synced(objects=objects):
                _show_all(screen, known, objects)
            case Changed(obj=obj):
                known[obj.key] = obj
                screen.show(obj)
            case Removed(obj=obj):
                known.pop(obj.key, None)
                screen.show_end(obj)
            case Parked(why=why):
                settings.say(f"{resource.plural}: {text.escaped(why)}; waiting")


def _show_all(screen: Screen, known: dict[ObjectKey, Unstructured], objects: Iterable[Unstructured]) -> None:
    """A list in place of single changes: what is missing from it ended while nobody watched."""
    now_there = {obj.key: obj for obj in objects}
    for key in known.keys() - now_there.keys():
        screen.show_end(known.pop(key))
    known.update(now_there)
    for key in sorted(now_there):
        screen.show(now_there[key])
