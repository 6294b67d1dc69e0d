"""`stellwerk get`: what is there, and how it is doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stellwerk.cli import health, kinds, settings, text
from stellwerk.cli.completion import complete_kind, complete_name
from stellwerk.cli.errors import Exit, Failure
from stellwerk.cli.health import Health
from stellwerk.cli.subject import Subject
from stellwerk.cli.text import Column, Layout, Style, Tone
from stellwerk.kube.model import Unstructured
from stellwerk.kube.names import ObjectKey, Resource

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster

COLUMNS = (
    Column("NAMESPACE"),
    Column("KIND"),
    Column("NAME"),
    Column("READY", least=8, gap=1),
    Column("STATE", least=13),
    Column("REASON", least=20, most=19, gap=1),
    Column("AGE"),
)
WIDE = (*COLUMNS[:5], Column("REASON"), Column("AGE"), Column("MESSAGE"))
_READY_COLUMN = 3
_TONES: Mapping[str, Tone] = {"True": "good", "False": "bad", "Unknown": "busy"}


@dataclass(frozen=True, slots=True)
class Query:
    """What to list. Without resources: every kind of ours that the cluster serves."""

    kind: str = ""
    name: str = ""
    not_ready: bool = False

    @property
    def subject(self) -> Subject:
        """The one object that is meant, where a name is given."""
        return Subject(self.kind, ObjectKey.parse(self.name))


@click.command("get")
@click.argument("kind", required=False, default="", shell_complete=complete_kind)
@click.argument("name", required=False, default="", shell_complete=complete_name)
@click.option("--not-ready", is_flag=True, help="Only objects that are not ready, or not yet.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print a line for every change.")
@settings.all_of
def command(kind: str, name: str, not_ready: bool, watch: bool) -> None:
    """List objects with their health.

    KIND is a short word (btp), or any kind of the cluster (deployments). Without KIND, every kind of ours is listed.
    NAME picks one object; KIND/NAME does too.
    """
    from stellwerk.cli.cluster import carry_out

    query = _query(kind, name, not_ready)
    if watch:
        from stellwerk.cli.watching import follow

        carry_out(lambda cluster: follow(cluster, query))
    else:
        carry_out(lambda cluster: _list(cluster, query))


def _query(kind: str, name: str, not_ready: bool) -> Query:
    if "/" in kind and not name:
        kind, _, name = kind.partition("/")
    if (name and not kind) or name.count("/") > 1:
        raise click.UsageError(f"{kind}/{name} does not name an object; the forms are KIND NAME and KIND/NAME.")
    return Query(kind, name, not_ready)


async def _list(cluster: Cluster, query: Query) -> None:
    if query.name:
        print_found([await cluster.object(query.subject)], cluster, as_list=False)
        return
    wanted = await resources(cluster, query)
    everything = await read(cluster, wanted)
    found = selected(everything, query)
    print_found(found, cluster, as_list=True)
    if not found:
        settings.say(nothing_found(cluster, query, wanted, looked_at=len(everything)))


def print_found(found: Sequence[Unstructured], cluster: Cluster, *, as_list: bool) -> None:
    """Print objects as the call asks for; nothing where a table would be empty."""
    output = cluster.settings.output
    if not output.is_table:
        from stellwerk.cli.output import print_objects

        print_objects(found, output, as_list=as_list)
    elif found:
        settings.show(table(found, cluster.settings.style(), wide=output.form == "wide"))


async def resources(cluster: Cluster, query: Query) -> list[Resource]:
    """The resources to look into. Raises Failure where the kind is unknown, or none of ours is installed."""
    if query.kind:
        return [await cluster.resource(query.kind)]
    served = await cluster.client.mapper.all()
    groups = {resource.group_resource for resource in served}
    ours = [row.resource for row in kinds.OWN if row.resource.group_resource in groups]
    if not ours:
        from stellwerk.cli.cluster import not_installed

        raise not_installed("none of our CustomResourceDefinitions is there")
    return ours


async def read(cluster: Cluster, wanted: Sequence[Resource]) -> list[Unstructured]:
    """All objects of the resources in the chosen namespaces, by resource, namespace and name.

    Of several resources those that the person may not list are left out, and named. Raises Forbidden for all of them.
    """
    from stellwerk.kube.errors import Forbidden

    found: list[Unstructured] = []
    refused: list[Forbidden] = []
    for resource in wanted:
        try:
            found.extend(sorted(await cluster.list(resource, cluster.namespace), key=lambda obj: obj.key))
        except Forbidden as error:
            refused.append(error)
    if refused and len(refused) == len(wanted):
        raise refused[0]
    for refusal in refused:
        settings.say(f"Left out, because you may not: {text.escaped(refusal.attempted)}.")
    return found


def selected(objects: Iterable[Unstructured], query: Query) -> list[Unstructured]:
    """The objects that the query asks for."""
    return [obj for obj in objects if not query.not_ready or health.of(obj).needs_attention]


def nothing_found(cluster: Cluster, query: Query, wanted: Sequence[Resource], *, looked_at: int) -> str:
    """What to say instead of an empty table, and what to try next."""
    one_namespace = cluster.namespace and any(resource.namespaced for resource in wanted)
    place = f" in namespace {cluster.namespace}" if one_namespace else " in the cluster"
    if looked_at:
        return f"Nothing needs attention{place}: {looked_at} looked at."
    ours = kinds.by_word(query.kind)
    what = f"There is no {ours.kind}" if ours else f"There are no {query.kind or 'objects of ours'}"
    again = f"stellwerk get {query.kind}".rstrip()
    return f"{what}{place}.\nNext: " + (f"{again} -A" if one_namespace else f"kubectl explain {wanted[0].plural}")


# Looks


def table(objects: Sequence[Unstructured], style: Style, *, wide: bool, now: datetime | None = None) -> list[str]:
    """The lines of the table."""
    moment = now or datetime.now(UTC)
    rows = [(row(obj, health.of(obj), moment, wide=wide)) for obj in objects]
    settled = text.layout(WIDE if wide else COLUMNS, rows)
    return [settled.header, *(line(settled, cells, style) for cells in rows)]


def line(settled: Layout, cells: Sequence[str], style: Style) -> str:
    """One row as it is printed."""
    return settled.line(cells, {_READY_COLUMN: _TONES.get(cells[_READY_COLUMN], "")}, style)


def row(obj: Unstructured, seen: Health, now: datetime, *, wide: bool) -> list[str]:
    """The cells of one object. A reason is shown where it explains something; `wide` shows it always."""
    cells = [obj.key.namespace, obj.gvk.kind, obj.key.name, seen.ready, seen.state]
    created = text.age(obj.metadata.creation_timestamp, now)
    if wide:
        return [*cells, seen.reason, created, seen.message]
    return [*cells, _short_reason(seen), created]


def _short_reason(seen: Health) -> str:
    if seen.is_ready:
        return ""
    return f'"{seen.reason}"' if seen.state == "Suspended" and seen.reason else seen.reason


def check_watchable(output: settings.Output) -> None:
    """Refuse what a watch cannot print. Raises Failure."""
    if not output.is_table:
        raise Failure(
            f"-w cannot print {output.form}",
            cause="changes are printed as lines of the table",
            fix="leave out -o, or use -o wide",
            code=Exit.USAGE,
        )
