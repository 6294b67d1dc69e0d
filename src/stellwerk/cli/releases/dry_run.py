"""What applying objects would change: dry runs of the API server, and their output.

Each object is applied as a dry run and compared with what is there, so defaults, admission and what others own are in
it. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from stellwerk.api.core import Pod, ServiceAccount
from stellwerk.apply.errors import Obstacle
from stellwerk.apply.failures import failure_of
from stellwerk.apply.fields import compare, managed_fields, takeover_preview
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set import server_warnings
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject
from stellwerk.apply.set.model.inventory import APPLIED_ONCE, Inventory, InventoryEntry, Phase
from stellwerk.apply.set.model.owner import mark
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.plan.plan_input import RECLAIMS
from stellwerk.apply.set.plan.plan_object import goes_by_itself, is_alike, is_interval_over
from stellwerk.cli.shell import field_diff, settings, text
from stellwerk.cli.shell.errors import Exit
from stellwerk.cli.shell.field_diff import Change
from stellwerk.cli.shell.text import Style, Tone, escaped
from stellwerk.delivery.insight import Preview
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.http import warnings
from stellwerk.kube.types.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, NotServed, Unexplained
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unstructured, dig, unstructured


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One object that differs."""

    mark: str
    ref: str
    note: str = ""
    changes: tuple[Change, ...] = ()
    waits: str = ""
    """Within which time it comes: with the next reapply, as the manifest is as it was applied, and others have changed
    the object. Empty: with the next reconcile."""
    refusal: ApiError | None = None
    """Why the API server would refuse the object; None where the set may change that."""

    @property
    def is_difference(self) -> bool:
        """Whether something is known to differ, and not only that the user may not look."""
        return self.mark != _UNKNOWN

    @property
    def is_refused(self) -> bool:
        """Whether the API server would refuse the object."""
        return self.refusal is not None

    def as_uncertain(self) -> DiffLine:
        """The same, where the set changes what a refused object is judged by."""
        return replace(self, note=self.note.replace(_CERTAIN, "may be refused", 1), refusal=None)


_CERTAIN = "would be refused"
_UNKNOWN = "?"
"""The mark of an object that the user may not read."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What applying objects would change, and what the API server remarks about them."""

    lines: list[DiffLine]
    remarks: list[str]
    """Each with the object that it is about."""

    def warn(self) -> None:
        """Print the warnings to standard error, as kubectl does."""
        for remark in self.remarks:
            settings.say(f"Warning: {escaped(remark)}")


async def _of_objects(client: Client, asked: Sequence[_Asked]) -> Compared:
    found = await together(asked, lambda one: _heard(client, one))
    lines = [line for line, _ in found if line is not None]
    return Compared(lines, [*dict.fromkeys(remark for _, heard in found for remark in heard)])


async def of_set(
    client: Client,
    wanted: Sequence[DesiredObject],
    prefix: str,
    known: Inventory,
    *,
    creates_namespaces: bool = True,
    is_by_another: bool = False,
) -> Compared:
    """What rolling out a set would change, whose inventory is `known`.

    `is_by_another`: an operator will, so that a right which the user lacks is no refusal.

    With `creates_namespaces` the rollout creates namespaces that are missing, also those that are no objects of the
    set. What others have changed is put back at the next reapply.
    """
    now, entries, due = datetime.now(UTC), known.by_identity(), _to_be_made(wanted, known)
    own = {one.address.key.name for one in wanted if (one.identity.group, one.identity.kind) == NAMESPACE}
    asked = list[_Asked]()
    for one in due:
        comes = creates_namespaces or one.address.key.namespace in own
        member = _member(one, entries.get(one.identity), now, namespace_comes=comes)
        claims = one.directive.update.claims(prefix, RECLAIMS)
        asked.append(_Asked(one.desired, prefix, claims, member, is_by_another))
    found = _with_what_is_judged_anew(await _of_objects(client, asked), due)
    return replace(found, lines=[*found.lines, *_leaving(known, wanted)])


async def of_preview(client: Client, preview: Preview) -> tuple[Compared, int]:
    """What the next reconcile would change, and how many objects it would leave unchanged."""
    if preview.inventory is not None:
        known = preview.inventory
        found = await of_set(client, preview.members, preview.field_manager, known, is_by_another=True)
    else:
        claims = preview.claims or managed_fields.all_but(managed_fields.CONTROL_PLANE)
        asked = [_Asked(each, preview.field_manager, claims, is_by_another=True) for each in preview.objects]
        found = await _of_objects(client, asked)
    shown = {line.ref for line in found.lines}
    renewed = [
        DiffLine("~", str(ref), f"will be created again: {why}")
        for ref, why in preview.renewed.items()
        if str(ref) not in shown
    ]
    deleted = [DiffLine("-", str(ref), f"will be deleted: {why}") for ref, why in preview.deleted.items()]
    same = unchanged([*found.lines, *renewed], preview.members or preview.objects) + preview.kept
    noted = [DiffLine("+", str(ref), why) for ref, why in preview.created.items()]
    noted += [DiffLine("~", str(ref), why) for ref, why in preview.changed.items()]
    lines, remarks = [*found.lines, *noted, *renewed, *deleted], [*found.remarks]
    for other in preview.others:
        theirs, unchanged_there = await of_preview(other.client or client, other)
        lines += [replace(line, ref=f"{line.ref} {other.place}".rstrip()) for line in theirs.lines]
        remarks += theirs.remarks
        same += unchanged_there
    return Compared(lines, remarks), same


def _with_what_is_judged_anew(found: Compared, wanted: Sequence[DesiredObject]) -> Compared:
    """Refusals that the set itself may end: it brings or changes the definition of the kind, or a Pod's ServiceAccount.

    The API server judges an object by them, and in a dry run they are as they are now, or missing.
    """
    changing = {line.ref for line in found.lines if line.mark in "+~"}
    objects = [one for one in wanted if str(one.address.ref) in changing]
    kinds = {(type_.group, type_.kind) for one in objects for type_ in one.managed_types}
    accounts = {one.address.key for one in objects if one.address.resource == ServiceAccount.resource}
    refused = {str(one.address.ref): one for one in wanted} if kinds or accounts else {}

    def may_pass(line: DiffLine) -> bool:
        one = refused.get(line.ref)
        if one is None or not line.is_refused:
            return False
        if isinstance(line.refusal, Invalid | BadRequest):
            return (one.identity.group, one.identity.kind) in kinds
        account = dig(one.desired.body, "spec", "serviceAccountName")
        is_pod = one.address.resource == Pod.resource and isinstance(line.refusal, Forbidden)
        return is_pod and ObjectKey(one.address.key.namespace, str(account)) in accounts

    return replace(found, lines=[line.as_uncertain() if may_pass(line) else line for line in found.lines])


def _member(obj: DesiredObject, entry: InventoryEntry | None, now: datetime, *, namespace_comes: bool) -> _Member:
    has_run = entry is not None and entry.phase is Phase.READY and entry.digest == obj.digest
    return _Member(obj, _is_due(obj, entry, now), has_run and goes_by_itself(obj.desired.body), namespace_comes)


def _is_due(obj: DesiredObject, entry: InventoryEntry | None, now: datetime) -> bool:
    """Whether the next pass puts back what others have changed."""
    return entry is None or is_interval_over(obj, [entry.last_applied_at], now)


def _to_be_made(wanted: Sequence[DesiredObject], known: Inventory) -> list[DesiredObject]:
    """Without what has done its work and is gone for that reason."""
    done = {entry.identity: entry.digest for entry in known if entry.phase is Phase.COMPLETED}
    return [obj for obj in wanted if done.get(obj.identity) != obj.digest]


@dataclass(frozen=True, slots=True)
class _Member:
    """An object of a set with policies."""

    wanted: DesiredObject
    is_due: bool
    may_be_gone: bool
    """Whether it has done its work, and Kubernetes removes it then."""
    namespace_comes: bool
    """Whether its namespace, if it is missing, is created with it or before it."""

    def is_left_alone(self, live: JsonObject, prefix: str) -> bool:
        """Whether the object was applied once and keeps what others have changed."""

        digest = _digest(live, prefix)
        return digest == self.wanted.digest == APPLIED_ONCE and not self._is_foreign(live, prefix)

    @property
    def within(self) -> str:
        """The time until the next reapply at most."""
        now = datetime.now(UTC)
        return text.age(now, now + timedelta(seconds=self.wanted.directive.reapply_seconds))

    def waits(self, live: JsonObject, prefix: str) -> bool:
        """Whether a difference stays until the next reapply."""
        is_ours = _digest(live, prefix) == self.wanted.digest and not self._is_foreign(live, prefix)
        return is_ours and not self.is_due

    def is_made_anew(self, live: JsonObject, prefix: str) -> bool:
        """Whether the object is deleted and created again, as a hook that runs again is."""

        if self.wanted.directive.update is not UpdatePolicy.RECREATE:
            return False
        found, digest = Unstructured.of(live), _digest(live, prefix)
        if digest == self.wanted.digest:
            return False
        secret = PartialObjectMetadata(metadata=found.metadata) if self.wanted.address.is_secret else None
        return not is_alike(self.wanted, secret or found, digest, prefix)

    def _is_foreign(self, live: JsonObject, prefix: str) -> bool:

        return _label(live, mark(prefix)) != _label(self.wanted.desired.body, mark(prefix))


def _digest(body: JsonObject, prefix: str) -> str:
    return str(dig(body, "metadata", "annotations", f"{prefix}/digest") or "")


def _label(body: JsonObject, key: str) -> str:
    return str(dig(body, "metadata", "labels", key) or "")


@dataclass(frozen=True, slots=True)
class _Asked:
    """One object, and how it would be applied."""

    desired: Desired
    prefix: str
    """Our field manager, with which our annotations begin."""
    claims: Claims
    """The managers whose fields are taken over with the object."""
    member: _Member | None = None
    """The policies for an object of a set."""
    is_by_another: bool = False
    """Whether an operator applies it, with rights of its own."""


async def _heard(client: Client, asked: _Asked) -> tuple[DiffLine | None, list[str]]:
    address = asked.desired.address
    with warnings.Listening() as heard:
        try:
            line = await _compared(client, asked)
        except _MayNotTry as error:
            return error.line, [f"compared without a dry run, and so without defaults and admission: {error}"]
    return line, [f"{address}: {said}" for said in server_warnings.shown(address, heard)]


class _MayNotTry(Exception):
    """The user may not have the object applied, which the operator may. `line`: the difference as far as it shows."""

    def __init__(self, why: str, line: DiffLine | None) -> None:
        super().__init__(why)
        self.line = line


def unchanged(lines: Sequence[DiffLine], wanted: Sized) -> int:
    """How many of the wanted objects do not change."""
    return len(wanted) - sum(line.mark in ("~", "+", "!", _UNKNOWN) for line in lines)


async def _compared(client: Client, asked: _Asked) -> DiffLine | None:
    one, prefix = asked.desired, asked.prefix

    address, ref = one.address, str(one.address.ref)
    if not address.resource.plural:  # what is applied with it will bring the kind
        return DiffLine("+", ref)
    member = asked.member
    try:
        live = await _live(client, one)
    except Forbidden as error:
        if not asked.is_by_another:
            raise
        return DiffLine(_UNKNOWN, ref, f"cannot be compared: {failure_of(address, 'get', error).cause}")
    if live is None and member is not None and member.may_be_gone:
        return None
    if live is not None and member is not None:
        if member.is_left_alone(live, prefix):
            return None
        if member.is_made_anew(live, prefix):
            return DiffLine("~", ref, "will be deleted and created again")
    try:
        after = await _applied(client, one, prefix)
    except ApiError as error:
        if live is None and (isinstance(error, NotServed) or _is_yet_to_come(error, member)):
            return DiffLine("+", ref)
        # Not the server's own words: they quote values, which may have come from a Secret.
        failure = failure_of(address, "apply", error)
        if asked.is_by_another and failure.obstacle is Obstacle.FORBIDDEN:
            seen = _changed(asked, live, overlaid(one.body, live)) if live is not None else DiffLine("+", ref)
            raise _MayNotTry(failure.cause, seen) from None
        return DiffLine("!", ref, f"{_CERTAIN}: {failure.cause}", refusal=error)
    if live is None:
        return DiffLine("+", ref)
    return _changed(asked, live, await _taken_over(client, asked, live, after))


def _changed(asked: _Asked, live: JsonObject, after: JsonObject) -> DiffLine | None:
    """How an object differs from what it will be."""
    address, prefix, member = asked.desired.address, asked.prefix, asked.member
    hidden = (f"{prefix}/digest", f"{prefix}/owner-id")
    found = field_diff.changes(live, after, secret=address.is_secret, ours=prefix, hidden=hidden)
    waits = member.within if member is not None and member.waits(live, prefix) else ""
    return DiffLine("~", str(address.ref), changes=tuple(found), waits=waits) if found else None


def overlaid(wanted: JsonObject, live: JsonObject) -> JsonObject:
    """What an apply would come to without an API server (pure): what is live, with what is wanted in it.

    Items of a list with unique names are merged by name, as the API server merges most such lists.
    """
    if compare.compare(wanted, live).differences:
        return {**live, **{key: _laid(value, live.get(key)) for key, value in wanted.items() if key != "status"}}
    return live


def _laid(wanted: JsonValue, live: JsonValue) -> JsonValue:
    if isinstance(wanted, dict) and isinstance(live, dict):
        return {**live, **{key: _laid(value, live.get(key)) for key, value in wanted.items()}}
    if isinstance(wanted, list) and isinstance(live, list):
        names, others = compare.by_name(wanted), compare.by_name(live)
        if names is not None and others is not None:
            merged = {**others, **{name: _laid(item, others.get(name)) for name, item in names.items()}}
            return [*merged.values()]
    return wanted


def _is_yet_to_come(error: ApiError, member: _Member | None) -> bool:
    """Whether what the server did not find is the kind or the namespace of an object, which comes with the set."""
    is_namespace = isinstance(error, NotFound) and error.status.details.kind == "namespaces"
    return isinstance(error, NotFound) and not (is_namespace and member is not None and not member.namespace_comes)


async def _taken_over(client: Client, asked: _Asked, live: JsonObject, after: JsonObject) -> JsonObject:
    """The object without the fields of others that we take over and do not name, with the server's defaults for them.

    Where the server refuses such an object, it is shown without the defaults.
    """
    bare = takeover_preview.removed(after, live, asked.desired.body, asked.prefix, asked.claims)
    if bare is None:
        return after
    target = unstructured(asked.desired.address.resource)
    try:
        return (await client.update(target, bare, dry_run=True)).body
    except ApiError:
        return bare


async def _live(client: Client, desired: Desired) -> JsonObject | None:
    """The object as it is, with who owns what; None where there is none, or its kind is not served yet."""
    key, resource = desired.address.key, desired.address.resource
    try:
        return await client.document(resource.path(key.namespace, key.name))
    except NotFound:
        return None
    except Unexplained:  # for a kind that the server does not know, its 404 is a plain text
        if await client.mapper.serves(resource):
            raise
        return None


async def _applied(client: Client, desired: Desired, prefix: str) -> JsonObject:
    """The object as it would be. Nothing is written."""
    target = unstructured(desired.address.resource)
    return (await client.apply(target, desired.body, field_manager=prefix, dry_run=True)).body


def _leaving(inventory: Inventory, wanted: Sequence[DesiredObject]) -> list[DiffLine]:
    """What the set has and is no longer wanted."""
    here = {obj.identity for obj in wanted}
    return [DiffLine("-", str(entry.ref), _fate(entry)) for entry in inventory if entry.identity not in here]


def _fate(entry: InventoryEntry) -> str:
    return f"will {'stay' if entry.delete.orphans_on_apply else 'be deleted'}: delete policy {entry.delete.value}"


_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "~": "busy", "!": "bad", _UNKNOWN: "dim"}

_DESCRIPTION = re.compile(r"\.openAPIV3Schema\b.*\.description$")
_FEW = 2
"""So many descriptions of fields are shown; more would hide what else changes in the definition of a kind."""

_NOTES_AT, _GAP = 57, 3
"""Notes stand below each other, as far to the left as the widest line that has one allows."""


def exit_code(lines: Sequence[DiffLine]) -> Exit:
    """By what differs. Only if nothing is known to differ, what the user may not read counts."""
    if any(line.is_difference for line in lines):
        return Exit.DIFFERENT
    return Exit.FORBIDDEN if lines else Exit.DONE


def shown(lines: Sequence[DiffLine], unchanged: int, style: Style) -> list[str]:
    """The lines for people."""
    different = sum(line.is_difference for line in lines)
    objects = (
        "nothing differs" if not different else "1 object differs" if different == 1 else f"{different} objects differ"
    )
    unknown = f", {len(lines) - different} not compared" if different < len(lines) else ""
    code = exit_code(lines)
    rows = [*_rows(lines), ("", f"{objects}, {unchanged} unchanged{unknown}", f"exit code {code:d}" if code else "")]
    widest = max((len(mark) + len(text) for mark, text, note in rows if note), default=0)
    return [_row(row, max(_NOTES_AT, widest + _GAP), style) for row in rows]


def _rows(lines: Sequence[DiffLine]) -> Iterator[tuple[str, str, str]]:
    """Mark, text and note of each row."""
    for line in lines:
        texts = [change for change in line.changes if _DESCRIPTION.search(change.path)]
        told = line.changes if len(texts) <= _FEW else [change for change in line.changes if change not in texts]
        later = f"at the next reapply, within {line.waits}: others have changed it" if line.waits else ""
        notes = [line.note, later, f"{len(texts)} descriptions in its schema differ" if len(texts) > _FEW else ""]
        note = "; ".join(escaped(one) for one in notes if one)
        yield line.mark, f" {escaped(line.ref)}", f"({note})" if note else ""
        for change in told:
            note = f"(live value set by {escaped(change.owner)})" if change.owner else ""
            yield "", f"    {escaped(str(change))}", note


def _row(row: tuple[str, str, str], notes_at: int, style: Style) -> str:
    mark, text, note = row
    padding = " " * (notes_at - len(mark) - len(text)) if note else ""
    return f"{style.painted(mark, _TONES[mark]) if mark else ''}{text}{padding}{note}"


_WORDS = {"+": "create", "-": "remove", "~": "change", "!": "refused", _UNKNOWN: "not compared"}


def as_json(lines: Sequence[DiffLine], unchanged: int) -> JsonObject:
    """The same for programs."""
    return {
        "objects": [
            {
                "object": line.ref,
                "action": _WORDS[line.mark],
                "note": line.note,
                "when": "reapply" if line.waits else "reconcile",
                "changes": [
                    {"path": change.path, "before": change.before, "after": change.after, "owner": change.owner}
                    for change in line.changes
                ],
            }
            for line in lines
        ],
        "unchanged": unchanged,
    }
