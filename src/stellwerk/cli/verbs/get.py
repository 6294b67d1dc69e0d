"""`stellwerk get`: what is there, and how it is doing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stellwerk.cli import kinds
from stellwerk.cli.arguments import options
from stellwerk.cli.completion.completers import complete_kind_or_name
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.text import Layout, Style, TableColumn, Tone

if TYPE_CHECKING:  # a completion loads this module for the options of the verb, and nothing of what the verb does
    from stellwerk.cli.arguments.object_argument import ObjectArgument
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.cli.objects.health import ObjectHealth
    from stellwerk.cli.shell.jsonpath import Node
    from stellwerk.kube.types.identifiers import Resource
    from stellwerk.kube.types.model import JsonValue, Unstructured

COLUMNS = (
    TableColumn("NAMESPACE"),
    TableColumn("KIND"),
    TableColumn("NAME"),
    TableColumn("READY", least=8, gap=1),
    TableColumn("STATE", least=13),
    TableColumn("REASON", least=20, most=19, gap=1),
    TableColumn("AGE"),
)
WIDE = (*COLUMNS[:5], TableColumn("REASON"), TableColumn("AGE"), TableColumn("MESSAGE"))
_READY_COLUMN = 3
_TONES: Mapping[str, Tone] = {"True": "good", "False": "bad", "Unknown": "busy"}


@dataclass(frozen=True, slots=True)
class GetQuery:
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


class SortKey(click.ParamType["tuple[Node, ...]"]):
    """Reads `--sort-by`, a JSONPath."""

    name = "jsonpath"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Node, ...]:
        """The value as a path."""
        if isinstance(value, tuple):
            return value
        from stellwerk.cli.shell import jsonpath

        try:
            return jsonpath.parse(str(value))
        except jsonpath.PathError as error:
            self.fail(f"the JSONPath cannot be read: {error}.", param, ctx)


@click.command("get")
@click.argument("words", metavar="[KIND[,KIND...] [NAME...]]", nargs=-1, shell_complete=complete_kind_or_name)
@click.option("--not-ready", is_flag=True, help="Only objects that are not ready, or not yet.")
@click.option("-l", "--selector", "labels", default="", metavar="LABELS", help="Only objects with these labels.")
@click.option("--field-selector", "fields", default="", metavar="FIELDS", help="Only objects with these fields.")
@click.option("--sort-by", type=SortKey(), default=(), metavar="JSONPATH", help="Sort by this field.")
@click.option("--show-labels", is_flag=True, help="Show the labels in a column of their own.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change.")
@options.all_of
def command(
    words: tuple[str, ...],
    not_ready: bool,
    labels: str,
    fields: str,
    sort_by: tuple[Node, ...],
    show_labels: bool,
    watch: bool,
) -> None:
    """List objects with their health.

    KIND is a short word (btp), or any kind of the cluster (deployments); several are separated by commas. Without
    KIND, every kind of ours is listed. NAME picks objects; KIND/NAME does too.
    """
    from stellwerk.cli.objects.cluster import carry_out

    kinds_named, subjects = _read(words)
    query = GetQuery(kinds_named, subjects, not_ready, labels, fields, sort_by, show_labels)
    if subjects and (labels or fields):
        raise click.UsageError("Objects are picked by name or by a selector, not by both.")
    if watch:
        from stellwerk.cli.verbs.get_watch import follow

        carry_out(lambda cluster: follow(cluster, query))
    else:
        carry_out(lambda cluster: _list(cluster, query))


def _read(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[ObjectArgument, ...]]:
    """The kinds, and the objects that are named."""
    from stellwerk.cli.arguments import object_argument

    if not words:
        return (), ()
    first, *names = words
    try:
        if "/" in first:
            named = object_argument.parsed(words)
            return tuple(dict.fromkeys(one.kind for one in named)), named
        listed = tuple(dict.fromkeys(word for word in first.split(",") if word))
        if not listed:
            raise ValueError(f"{first!r} names no kind.")
        return listed, tuple(one for kind in listed if names for one in object_argument.parsed((kind, *names)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


async def _list(cluster: ClusterSession, query: GetQuery) -> None:
    if query.subjects:
        shows_unread = cluster.settings.output.is_table  # for programs, a part would pass for the whole
        named = [await cluster.object(one, shows_unread=shows_unread) for one in query.subjects]
        print_found(ordered(named, query), cluster, as_list=len(named) > 1, show_labels=query.show_labels)
        return
    wanted = await resources(cluster, query)
    everything = await read(cluster, wanted, labels=query.labels, fields=query.fields)
    found = ordered(selected(everything, query), query)
    print_found(found, cluster, as_list=True, show_labels=query.show_labels)
    if not found:
        settings.say(nothing_found(cluster, query, wanted, looked_at=len(everything)))


def ordered(objects: Sequence[Unstructured], query: GetQuery) -> list[Unstructured]:
    """The objects by the field that was asked for; those without it come first, and equal ones keep their order."""
    if not query.sort_by:
        return list(objects)
    from stellwerk.cli.shell import jsonpath

    return sorted(objects, key=lambda obj: _rank(jsonpath.values(query.sort_by, obj.body)))


def _rank(values: Sequence[JsonValue]) -> tuple[int, float, tuple[tuple[int, str], ...]]:
    """Where a value belongs, as with kubectl: numbers and quantities by value, texts with the numbers in them."""
    from stellwerk.apply.fields import compare

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
        from stellwerk.cli.shell.output import print_objects

        print_objects(found, output, as_list=as_list)
    elif found:
        looks = Looks(wide=output.form == "wide", labels=show_labels)
        settings.show(table(found, cluster.settings.style(), looks))


async def resources(cluster: ClusterSession, query: GetQuery) -> list[Resource]:
    """The resources to look into. Raises Failure where the kind is unknown, or none of ours is installed."""
    if query.kinds:
        named = [await cluster.resource(word) for word in query.kinds]
        return list({resource.group_resource: resource for resource in named}.values())
    served = await cluster.client.mapper.all()
    groups = {resource.group_resource for resource in served}
    ours = [row.resource for row in kinds.OWN if row.resource.group_resource in groups]
    if not ours:
        from stellwerk.cli.objects.cluster import not_installed

        raise not_installed("none of our CustomResourceDefinitions is there")
    return ours


async def read(
    cluster: ClusterSession, wanted: Sequence[Resource], *, labels: str = "", fields: str = ""
) -> list[Unstructured]:
    """All objects of the resources in the chosen namespaces, by resource, namespace and name.

    Of several resources those that the person may not list are left out, and named. Raises Forbidden for all of them.
    """
    from stellwerk.kube.types.errors import Forbidden

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


def selected(objects: Iterable[Unstructured], query: GetQuery) -> list[Unstructured]:
    """The objects that the query asks for."""
    from stellwerk.cli.objects import health

    return [obj for obj in objects if not query.not_ready or health.of(obj).needs_attention]


def nothing_found(cluster: ClusterSession, query: GetQuery, wanted: Sequence[Resource], *, looked_at: int) -> str:
    """What to say instead of an empty table, and what to try next."""
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

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns, in their order."""
        return (*(WIDE if self.wide else COLUMNS), *((TableColumn("LABELS"),) if self.labels else ()))

    def row(self, obj: Unstructured, seen: ObjectHealth, now: datetime) -> list[str]:
        """The cells of one object. A reason is shown where it explains something; `wide` shows it always."""
        cells = [obj.key.namespace, obj.gvk.kind, obj.key.name, seen.ready, seen.state]
        created = text.age(obj.metadata.creation_timestamp, now)
        rest = [seen.reason, created, seen.message] if self.wide else [_short_reason(seen), created]
        labels = ",".join(f"{key}={value}" for key, value in sorted(obj.metadata.labels.items()))
        return [*cells, *rest, *([labels or "<none>"] if self.labels else [])]


def table(objects: Sequence[Unstructured], style: Style, looks: Looks, *, now: datetime | None = None) -> list[str]:
    """The lines of the table."""
    from stellwerk.cli.objects import health

    moment = now or datetime.now(UTC)
    rows = [looks.row(obj, health.of(obj), moment) for obj in objects]
    settled = text.layout(looks.columns, rows)
    return [settled.header, *(line(settled, cells, style) for cells in rows)]


def line(settled: Layout, cells: Sequence[str], style: Style) -> str:
    """One row as it is printed."""
    return settled.line(cells, {_READY_COLUMN: _TONES.get(cells[_READY_COLUMN], "")}, style)


def _short_reason(seen: ObjectHealth) -> str:
    if seen.is_ready:
        return ""
    return f'"{seen.reason}"' if seen.state == "Suspended" and seen.reason else seen.reason
