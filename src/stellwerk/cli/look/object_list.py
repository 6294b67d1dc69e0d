"""Lists objects: what to list, what the cluster has of it, and the table that shows it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import health
from stellwerk.cli.objects.cluster import ClusterSession, not_installed
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.settings import Output
from stellwerk.cli.shell.text import Layout, Style, TableColumn, Tone
from stellwerk.delivery.operator_spec import WideColumn
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonValue, Unstructured
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.apply.fields import compare
    from stellwerk.cli.shell import jsonpath
    from stellwerk.cli.shell import output as programs

if TYPE_CHECKING:
    from stellwerk.cli.shell.jsonpath import Node

COLUMNS = (
    TableColumn("NAMESPACE"),
    TableColumn("KIND"),
    TableColumn("NAME"),
    TableColumn("READY", least=8, gap=1),
    TableColumn("STATE", least=13),
    TableColumn("REASON", least=20, most=19, gap=1),
    TableColumn("AGE"),
)
PIPED = (*COLUMNS[:5], TableColumn("REASON", least=20), TableColumn("AGE"))
"""Without a terminal no reason is cut: a script compares it."""
WIDE = (*COLUMNS[:5], TableColumn("REASON"), TableColumn("AGE"), TableColumn("MESSAGE"))
_READY_COLUMN = 3
_TONES: Mapping[str, Tone] = {"True": "good", "False": "bad", "Unknown": "busy"}


@dataclass(frozen=True, slots=True)
class ObjectQuery:
    """What to list. Without kinds: every kind of ours that the cluster serves."""

    kinds: tuple[str, ...] = ()
    subjects: tuple[ObjectArgument, ...] = ()
    """The objects that are named; empty: all of the kinds."""
    not_ready: bool = False
    labels: str = ""
    fields: str = ""
    sort_by: tuple[Node, ...] = ()
    show_labels: bool = False

    @property
    def word(self) -> str:
        """The kinds as they were typed."""
        return ",".join(self.kinds)


def ordered(objects: Sequence[Unstructured], query: ObjectQuery) -> list[Unstructured]:
    """The objects by the field that was asked for; those without it come first, and equal ones keep their order."""
    if not query.sort_by:
        return list(objects)

    return sorted(objects, key=lambda obj: _rank(jsonpath.values(query.sort_by, obj.body)))


def _rank(values: Sequence[JsonValue]) -> tuple[int, float, tuple[tuple[int, str], ...]]:
    """Where a value belongs, as with kubectl: numbers and quantities by value, texts with the numbers in them."""
    value = values[0] if values else None
    if value is None:
        return 0, 0.0, ()
    number = compare.quantity(value)
    if number is not None:
        return 1, float(number), ()
    pieces = (piece for piece in re.split(r"(\d+)", str(value)) if piece)
    return 2, 0.0, tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces)


def print_found(
    found: Sequence[Unstructured], cluster: ClusterSession, *, as_list: bool, show_labels: bool = False
) -> None:
    """Print objects as the call asks for; nothing where a table would be empty."""
    output = cluster.settings.output
    if not output.is_table:
        programs.print_objects(found, output, as_list=as_list)
    elif found:
        gvks = {obj.gvk for obj in found}
        looks = looks_for(output, gvks, labels=show_labels, is_terminal=settings.is_terminal())
        settings.show(table(found, cluster.settings.style(), looks))


async def resources(cluster: ClusterSession, query: ObjectQuery) -> list[Resource]:
    """The resources to look into. Raises Failure where the kind is unknown, or none of ours is installed."""
    if query.kinds:
        named = [await cluster.resource(word) for word in query.kinds]
        return list({resource.group_resource: resource for resource in named}.values())
    served = await cluster.client.mapper.all()
    groups = {resource.group_resource for resource in served}
    ours = [row.resource for row in kinds.OWN if row.resource.group_resource in groups]
    if not ours:
        raise not_installed("none of our CustomResourceDefinitions is there")
    return ours


async def read(
    cluster: ClusterSession, wanted: Sequence[Resource], *, labels: str = "", fields: str = ""
) -> list[Unstructured]:
    """All objects of the resources in the chosen namespaces, by resource, namespace and name.

    Of several resources those that the person may not list are left out, and named. Raises Forbidden for all of them.
    """
    found: list[Unstructured] = []
    refused: list[Forbidden] = []
    for resource in wanted:
        try:
            listed = await cluster.list(
                resource, cluster.namespace, labels=labels, fields=fields, shows_unread=cluster.settings.output.is_table
            )
            found.extend(sorted(listed, key=lambda obj: obj.key))
        except Forbidden as error:
            refused.append(error)
    if refused and len(refused) == len(wanted):
        raise refused[0]
    for refusal in refused:
        settings.say(f"Left out, because you may not: {text.escaped(refusal.attempted)}.")
    return found


def selected(objects: Iterable[Unstructured], query: ObjectQuery) -> list[Unstructured]:
    """The objects that the query asks for."""
    return [obj for obj in objects if not query.not_ready or health.of(obj).needs_attention]


def nothing_found(cluster: ClusterSession, query: ObjectQuery, wanted: Sequence[Resource], *, looked_at: int) -> str:
    """The message instead of an empty table, with what to try next."""
    one_namespace = cluster.namespace and any(resource.namespaced for resource in wanted)
    place = f" in namespace {cluster.namespace}" if one_namespace else " in the cluster"
    if looked_at:
        return f"Nothing needs attention{place}: {looked_at} looked at."
    if query.labels or query.fields:
        return f"Nothing matches {' and '.join(filter(None, (query.labels, query.fields)))}{place}."
    ours = kinds.by_word(query.word)
    what = f"There is no {ours.kind}" if ours else f"There are no {query.word or 'objects of ours'}"
    again = f"stellwerk get {query.word}".rstrip()
    return f"{what}{place}.\nNext: " + (f"{again} -A" if one_namespace else f"kubectl explain {wanted[0].plural}")


# Looks


@dataclass(frozen=True, slots=True)
class Looks:
    """Which columns the table has."""

    wide: bool = False
    labels: bool = False
    is_terminal: bool = True
    facts: tuple[WideColumn, ...] = ()
    """Further columns of the only kind."""

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns, in their order."""
        further = (TableColumn(fact.title) for fact in self.facts)
        chosen = (*WIDE[:-1], *further, WIDE[-1]) if self.wide else COLUMNS if self.is_terminal else PIPED
        return (*chosen, *((TableColumn("LABELS"),) if self.labels else ()))

    def row(self, obj: Unstructured, seen: ObjectHealth, now: datetime) -> list[str]:
        """The cells of one object. A reason is shown where it explains something; `wide` shows it always."""
        cells = [obj.key.namespace, obj.gvk.kind, obj.key.name, seen.ready, seen.state]
        created = text.age(obj.metadata.creation_timestamp, now)
        facts = [str(obj.at(*fact.path) or "") for fact in self.facts]
        rest = [seen.reason, created, *facts, seen.message] if self.wide else [_short_reason(seen), created]
        labels = ",".join(f"{key}={value}" for key, value in sorted(obj.metadata.labels.items()))
        return [*cells, *rest, *([labels or "<none>"] if self.labels else [])]


def looks_for(output: Output, gvks: Collection[GroupVersionKind], *, labels: bool, is_terminal: bool) -> Looks:
    """The columns for objects of these kinds. With `wide`, a kind of ours that is alone has columns of its own."""
    row = kinds.by_gvk(next(iter(gvks))) if len(gvks) == 1 else None
    is_wide = output.form == "wide"
    facts = row.wide if row is not None and is_wide else ()
    return Looks(wide=is_wide, labels=labels, is_terminal=is_terminal, facts=facts)


def table(objects: Sequence[Unstructured], style: Style, looks: Looks, *, now: datetime | None = None) -> list[str]:
    """The lines of the table."""
    moment = now or datetime.now(UTC)
    rows = [looks.row(obj, health.of(obj), moment) for obj in objects]
    settled = text.layout(looks.columns, rows)
    return [settled.header, *(line(settled, cells, style) for cells in rows)]


def line(settled: Layout, cells: Sequence[str], style: Style) -> str:
    """One row as it is printed."""
    return settled.line(cells, {_READY_COLUMN: _TONES.get(cells[_READY_COLUMN], "")}, style)


def _short_reason(seen: ObjectHealth) -> str:
    if seen.is_well:
        return ""
    return f'"{seen.reason}"' if seen.state == "Suspended" and seen.reason else seen.reason
