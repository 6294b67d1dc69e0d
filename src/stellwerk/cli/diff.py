"""`stellwerk diff`: what the next reconcile of a Component would change.

The answer is the API server's own: each object is applied as a dry run and compared with what is there, so defaults,
admission and what others own are in it. Nothing is written, and the Component need not be in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli import previewing, settings
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.errors import Exit, Failure
from stellwerk.cli.subject import Subject, SubjectType
from stellwerk.cli.text import Style, Tone, escaped

if TYPE_CHECKING:
    from stellwerk.apply.rollout.inventory import Entry, Inventory
    from stellwerk.apply.rollout.prepare import Wanted
    from stellwerk.cli.cluster import Cluster
    from stellwerk.cli.differences import Change
    from stellwerk.kube.client import Client
    from stellwerk.kube.model import JsonObject
    from stellwerk.operators.component.api import Component


@dataclass(frozen=True, slots=True)
class Line:
    """One object that differs."""

    mark: str
    ref: str
    note: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """What applying objects would change, and what the API server remarks about them."""

    lines: list[Line]
    remarks: list[str]
    """Each with the object that it is about."""

    def warn(self) -> None:
        """Tell the remarks beside the result, as kubectl does."""
        for remark in self.remarks:
            settings.say(f"Warning: {escaped(remark)}")


@click.command("diff")
@click.argument("subject", metavar="[KIND/NAME]", type=SubjectType(), required=False, shell_complete=complete_subject)
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Component that is not there yet.",
)
@click.option(
    "--path",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Its files, instead of its source.",
)
@settings.all_of
def command(subject: Subject | None, file: Path | None, folder: Path | None) -> int:
    """Show what the next reconcile of a Component would change. Exits with 3 where something would."""
    from stellwerk.cli.cluster import carry_out

    if (subject is None) == (file is None):
        raise click.UsageError("Name a Component of the cluster (comp/NAME), or a file with -f; one of the two.")
    return carry_out(lambda cluster: _diff(cluster, subject, file, folder))


async def _diff(cluster: Cluster, subject: Subject | None, file: Path | None, folder: Path | None) -> int:
    from stellwerk.apply.rollout.stored import read
    from stellwerk.operators.component.api import RECONCILER

    component, wanted = await _wanted(cluster, subject, file, folder)
    known = read(component.status.inventory)
    found = await compared(cluster.client, wanted, RECONCILER, known)
    found.warn()
    lines = [*found.lines, *leaving(known, wanted)]
    same = unchanged(lines, wanted)
    if cluster.settings.output.is_table:
        settings.show(shown(lines, same, cluster.settings.style()))
    else:
        from stellwerk.cli.output import print_value

        print_value(as_json(lines, same), cluster.settings.output)
    return Exit.DIFFERENT if lines else Exit.DONE


async def _wanted(
    cluster: Cluster, subject: Subject | None, file: Path | None, folder: Path | None
) -> tuple[Component, Sequence[Wanted]]:
    from stellwerk.apply.errors import ApplyError
    from stellwerk.operators.component.errors import ComponentFailed
    from stellwerk.operators.component.preview import Desk
    from stellwerk.render.errors import RenderError

    if file is not None:
        component, desk = previewing.component_in(file, cluster.namespace or "default")
        desk = replace(desk, client=cluster.client)
    else:
        assert subject is not None
        component, desk = await previewing.component_of(cluster, subject), Desk(client=cluster.client)
    desk = replace(desk, folder=previewing.folder_of(folder))
    if component.spec.kube_config is not None:
        cause = "its objects go to the cluster of spec.kubeConfig, which is not looked at from here"
        raise Failure(f"cannot compare {component.ref}", cause=cause, fix="render it instead: stellwerk render -f FILE")
    async with previewing.tools() as tools:
        try:
            offer, files = await desk.offered(component, tools.downloads)
            content, rendered = await desk.rendered(component, offer, files, tools.renderer)
            return component, await desk.wanted(component, content, rendered)
        except (ComponentFailed, RenderError, ApplyError) as error:
            raise previewing.failure(error, component) from None


async def compared(client: Client, wanted: Sequence[Wanted], prefix: str, known: Inventory) -> Compared:
    """What applying these objects would change. `prefix` is our field manager, and begins our annotations."""
    from stellwerk.apply.together import together

    asked = _to_be_made(wanted, known)
    found = await together(asked, lambda one: _heard(client, one, prefix)) if asked else []
    lines = [line for line, _ in found if line is not None]
    return Compared(lines, [remark for _, remarks in found for remark in remarks])


def _to_be_made(wanted: Sequence[Wanted], known: Inventory) -> list[Wanted]:
    """Without what has done its work and is gone for that reason."""
    from stellwerk.apply.rollout.inventory import Phase

    done = {entry.identity: entry.digest for entry in known if entry.phase is Phase.COMPLETED}
    return [one for one in wanted if done.get(one.identity) != one.digest]


async def _heard(client: Client, one: Wanted, prefix: str) -> tuple[Line | None, list[str]]:
    from stellwerk.apply import remarked
    from stellwerk.kube import remarks

    with remarks.Listening() as heard:
        line = await _compared(client, one, prefix)
    return line, [f"{one.address}: {said}" for said in remarked.shown(one.address, heard)]


def unchanged(lines: Sequence[Line], wanted: Sequence[Wanted]) -> int:
    """How many of the wanted objects are as they shall be."""
    return len(wanted) - sum(line.mark in "~+!" for line in lines)


async def _compared(client: Client, one: Wanted, prefix: str) -> Line | None:
    from stellwerk.apply.failures import failure_of
    from stellwerk.cli import differences
    from stellwerk.kube.errors import ApiError, NotFound, NotServed

    address, ref = one.address, str(one.address.ref)
    if not one.is_served:
        return Line("+", ref)
    live = await _live(client, one)
    try:
        after = await _applied(client, one, prefix)
    except ApiError as error:
        if live is None and isinstance(error, NotFound | NotServed):
            return Line("+", ref)  # its namespace or kind is yet to come, with it or before it
        # Not the server's own words: they quote values, which may have come from a Secret.
        return Line("!", ref, f"would be refused: {failure_of(address, 'apply', error).cause}")
    if live is None:
        return Line("+", ref)
    hidden = (f"{prefix}/digest", f"{prefix}/owner-id")
    found = differences.changes(live, after, secret=address.is_secret, ours=prefix, hidden=hidden)
    return Line("~", ref, changes=tuple(found)) if found else None


async def _live(client: Client, one: Wanted) -> JsonObject | None:
    """The object as it is, with who owns what; None where there is none."""
    from stellwerk.kube.errors import NotFound

    key = one.address.key
    try:
        return await client.document(one.address.resource.path(key.namespace, key.name))
    except NotFound:
        return None


async def _applied(client: Client, one: Wanted, prefix: str) -> JsonObject:
    """The object as it would be. Nothing is written."""
    from stellwerk.kube.model import unstructured

    target = unstructured(one.address.resource)
    return (await client.apply(target, one.desired.body, field_manager=prefix, dry_run=True)).body


def leaving(inventory: Inventory, wanted: Sequence[Wanted]) -> list[Line]:
    """What the set has and is no longer wanted."""
    here = {one.identity for one in wanted}
    return [Line("-", str(entry.ref), _fate(entry)) for entry in inventory if entry.identity not in here]


def _fate(entry: Entry) -> str:
    return f"will {'stay' if entry.delete.orphans_on_apply else 'be deleted'}: delete policy {entry.delete.value}"


_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "~": "busy", "!": "bad"}

_NOTES_AT, _GAP = 57, 3
"""Notes stand below each other, as far to the left as the widest line that has one allows."""


def shown(lines: Sequence[Line], unchanged: int, style: Style) -> list[str]:
    """The lines for people."""
    objects = "1 object differs" if len(lines) == 1 else f"{len(lines)} objects differ"
    last = f"{objects}, {unchanged} unchanged" if lines else f"nothing differs, {unchanged} unchanged"
    rows = [*_rows(lines), ("", last, f"exit code {Exit.DIFFERENT:d}" if lines else "")]
    widest = max((len(mark) + len(text) for mark, text, note in rows if note), default=0)
    return [_row(row, max(_NOTES_AT, widest + _GAP), style) for row in rows]


def _rows(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    """Mark, text and note of each row."""
    for line in lines:
        yield line.mark, f" {escaped(line.ref)}", f"({escaped(line.note)})" if line.note else ""
        for change in line.changes:
            note = f"(live value set by {escaped(change.owner)})" if change.owner else ""
            yield "", f"    {escaped(str(change))}", note


def _row(row: tuple[str, str, str], notes_at: int, style: Style) -> str:
    mark, text, note = row
    padding = " " * (notes_at - len(mark) - len(text)) if note else ""
    return f"{style.painted(mark, _TONES[mark]) if mark else ''}{text}{padding}{note}"


_WORDS = {"+": "create", "-": "remove", "~": "change", "!": "refused"}


def as_json(lines: Sequence[Line], unchanged: int) -> JsonObject:
    """The same for programs."""
    return {
        "objects": [
            {
                "object": line.ref,
                "action": _WORDS[line.mark],
                "note": line.note,
                "changes": [
                    {"path": change.path, "before": change.before, "after": change.after, "owner": change.owner}
                    for change in line.changes
                ],
            }
            for line in lines
        ],
        "unchanged": unchanged,
    }
