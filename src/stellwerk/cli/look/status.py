"""`stellwerk status`: one object closely, one release, all objects of a kind in figures, or the local system."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.local import system
from stellwerk.cli.look import events
from stellwerk.cli.look.events import Happening
from stellwerk.cli.objects import findings, health, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import output, settings, text
from stellwerk.cli.shell.errors import Failure, NotReady
from stellwerk.cli.shell.text import Style, TableColumn, escaped
from stellwerk.delivery.insight import FleetTable
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.diagnosis import ClusterReader, Finding

LAST_EVENTS = 10
CONDITIONS = (
    TableColumn("TYPE"),
    TableColumn("STATUS"),
    TableColumn("REASON"),
    TableColumn("SINCE"),
    TableColumn("MESSAGE"),
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of `status` for one object."""

    verdict: ObjectSummary
    conditions: Sequence[Condition] = ()
    happenings: Sequence[Happening] = ()


def status(subject: ObjectArgument | str | None, name: str) -> None:
    """Print an object, the release with this name, the figures of a kind, or the local system `name`.

    A release has precedence over a kind. Raises NotReady where what was asked for is not ready.
    """
    match subject:
        case None:
            is_ready = system.status(name) == 0
        case str():
            is_ready = _show_release(subject)
        case _:
            is_ready = not _show(subject).needs_attention
    if not is_ready:
        raise NotReady


@with_cluster
async def _show_release(cluster: ClusterSession, name: str) -> bool:
    row = kinds.named(name)
    fleet = row.insight().fleet if row is not None else None
    try:
        release = await releasing.found(cluster, name, "show")
    except (Failure, Forbidden):
        if fleet is None:
            raise
        return await _show_fleet(cluster, fleet)
    output.print_result(lambda _: releasing.sheet(release), lambda: releasing.as_json(release))
    return release.state == "Ready"


async def _show_fleet(
    cluster: ClusterSession, fleet: Callable[[ClusterReader, str], Awaitable[Sequence[FleetTable]]]
) -> bool:
    reader = ClusterReader(cluster.client)
    tables = await fleet(reader, cluster.settings.namespace or "")
    for line in object_summary.left_out(reader.hidden):
        settings.say(line)
    if not any(table.rows for table in tables):
        settings.say("There is nothing to count.")
    output.print_result(lambda _: fleet_lines(tables), lambda: fleet_json(tables))
    return True


def fleet_lines(tables: Sequence[FleetTable]) -> list[str]:
    """Figures for people."""
    lines: list[str] = []
    for table in (each for each in tables if each.rows):
        columns = [TableColumn(title) for title in table.columns]
        lines += [*([""] if lines else []), *text.table(columns, [[*row] for row in table.rows])]
    return lines


def fleet_json(tables: Sequence[FleetTable]) -> JsonObject:
    """The same for programs."""
    return {
        table.title.lower(): [
            {title.lower().replace(" ", "-"): value for title, value in zip(table.columns, row, strict=True)}
            for row in table.rows
        ]
        for table in tables
    }


@with_cluster
async def _show(cluster: ClusterSession, subject: ObjectArgument) -> health.ObjectHealth:
    obj = await cluster.object(subject, shows_unread=True)
    happened = await _happened(cluster, obj)
    sheet = Sheet(await object_summary.reached(cluster, obj), conditions.listed_in(obj.body), happened)
    output.print_result(lambda style: shown(sheet, style), lambda: as_json(sheet))
    return sheet.verdict.health


async def _happened(cluster: ClusterSession, obj: Unstructured) -> list[Happening]:
    """The last Events; none, with a message, where the user may not read them."""
    try:
        found = await events.read(cluster, obj.ref, events.namespace_of(obj.ref))
    except Forbidden:
        settings.say(f"Events in {events.namespace_of(obj.ref)} are left out: you may not list them.")
        return []
    return [events.happening(event) for event in found[-LAST_EVENTS:]]


# Looks


def shown(sheet: Sheet, style: Style, now: datetime | None = None) -> list[str]:
    """The lines for people."""
    moment = now or datetime.now(UTC)
    return [
        object_summary.headline(sheet.verdict, style, moment),
        *_facts(sheet.verdict),
        *_section("Conditions", _conditions(sheet.conditions, moment)),
        *_section("Not ready", [f"{child.ref}: {child.lacks}" for child in sheet.verdict.diagnosis.unready]),
        *_section("Events", events.table(sheet.happenings, moment) if sheet.happenings else []),
        *object_summary.left_out(sheet.verdict.diagnosis.hidden),
    ]


def _facts(seen: ObjectSummary) -> list[str]:
    facts = {
        "State:": seen.health.state,
        "Reason:": seen.health.reason,
        "Message:": seen.health.message,
        "Concern:": _concern(seen),
        "Turn:": seen.diagnosis.turn,
        "Next:": seen.diagnosis.next_step,
    }
    return [f"  {label:<10}{escaped(value)}" for label, value in facts.items() if value]


def _concern(seen: ObjectSummary) -> str:
    """What needs attention of an object that is ready: its message is not about that, turn and next step are."""
    if not seen.health.is_ready:
        return ""
    roots = [(finding, _root(finding)) for finding in seen.diagnosis.findings]
    return "; ".join(f"{each.text}: {root.text}" if root is not each else each.text for each, root in roots)


def _root(finding: Finding) -> Finding:
    return _root(finding.because[0]) if finding.because else finding


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {escaped(line)}" for line in lines)] if lines else []


def _conditions(listed: Sequence[Condition], now: datetime) -> list[str]:
    rows = [[one.type, one.status, one.reason, text.age(one.last_transition_time, now), one.message] for one in listed]
    return text.table(CONDITIONS, rows) if rows else []


def as_json(sheet: Sheet) -> JsonObject:
    """The same for programs."""
    return {
        **findings.as_json(sheet.verdict),
        "message": sheet.verdict.health.message,
        "since": _time(sheet.verdict.health.since),
        "turn": sheet.verdict.diagnosis.turn,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "since": _time(condition.last_transition_time),
            }
            for condition in sheet.conditions
        ],
        "notReady": [{"object": str(child.ref), "lacks": child.lacks} for child in sheet.verdict.diagnosis.unready],
        "events": [
            {
                "last": _time(happened.last),
                "type": happened.type,
                "reason": happened.reason,
                "count": happened.count,
                "note": happened.note,
            }
            for happened in sheet.happenings
        ],
    }


def _time(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None
