"""`stellwerk get -w`: the list, and then a line for every change, until interrupted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stellwerk.cli import get, health, settings, text
from stellwerk.cli.cluster import Cluster
from stellwerk.cli.health import Health
from stellwerk.kube.model import Unstructured, unstructured
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.kube.watch import Changed, Parked, Removed, Synced, Watcher


@dataclass
class Screen:
    """What has been printed: the settled widths, and the last line of each object, so that none is repeated."""

    query: get.Query
    style: text.Style
    wide: bool
    layout: text.Layout | None = None
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
        facts = tuple(cell for cell, column in zip(cells, self._columns, strict=True) if column.title != "AGE")
        if self.shown.get(place) == facts:
            return
        self.shown[place] = facts
        if self.layout is None:
            self.layout = text.layout(self._columns, [cells])
            settings.show([self.layout.header])
        settings.show([get.line(self.layout, cells, self.style)])

    @property
    def _columns(self) -> tuple[text.Column, ...]:
        return get.WIDE if self.wide else get.COLUMNS


async def follow(cluster: Cluster, query: get.Query) -> None:
    """Print what is there and every change. Ends when it is cancelled."""
    output = cluster.settings.output
    get.check_watchable(query, output)
    screen = Screen(query, cluster.settings.style(), output.form == "wide")
    wanted = await get.resources(cluster, query)
    everything = get.selected(await get.read(cluster, wanted), query)
    picked = [obj for obj in everything if query.name in ("", obj.key.name)]
    screen.layout = text.layout(
        screen._columns, [get.row(obj, health.of(obj), datetime.now(UTC), wide=screen.wide) for obj in picked]
    )
    settings.show([screen.layout.header])
    async with asyncio.TaskGroup() as tasks:
        for resource in wanted:
            tasks.create_task(_follow_one(cluster, resource, query.name, screen), name=f"watch {resource.plural}")


async def _follow_one(cluster: Cluster, resource: Resource, name: str, screen: Screen) -> None:
    fields = f"metadata.name={name}" if name else ""
    watcher = Watcher(cluster.client, unstructured(resource), cluster.namespace, fields=fields)
    async for change in watcher.changes():
        match change:
            case Synced(objects=objects):
                for obj in sorted(objects, key=lambda found: found.key):
                    screen.show(obj)
            case Changed(obj=obj):
                screen.show(obj)
            case Removed(obj=obj):
                screen.show_end(obj)
            case Parked(why=why):
                settings.say(f"{resource.plural}: {text.escaped(why)}; waiting")
