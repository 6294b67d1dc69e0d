"""The work of the verbs that operators add: what their plans come to is written, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stellwerk.cli import kinds
from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import findings, object_summary, wait_for
from stellwerk.cli.objects.cluster import Absent, ClusterSession, with_cluster
from stellwerk.cli.objects.wait_for import WaitLimit
from stellwerk.cli.shell import confirm, settings, text
from stellwerk.cli.shell.errors import Exit, Failure, NotReady
from stellwerk.cli.shell.output import print_objects, print_values
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.cli.shell.text import TableColumn, escaped
from stellwerk.delivery.operator_verbs import OperatorVerb, VerbArgument
from stellwerk.delivery.verb_plans import (
    AwaitedObject,
    Change,
    Creation,
    Deletion,
    Edit,
    Obstacle,
    VerbRefused,
    VerbRequest,
    VerbTable,
)
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The options that all verbs of operators have."""

    wait: bool
    timeout_seconds: float
    dry_run: bool
    yes: bool


def carry_out(verb: OperatorVerb, path: str, given: Mapping[str, object], how: Manner) -> None:
    """Do what the verb plans for these arguments. Raises Failure; NotReady where an object has come to a bad end."""
    if not _carry_out(verb, path, given, how):
        raise NotReady


@with_cluster
async def _carry_out(
    cluster: ClusterSession, verb: OperatorVerb, path: str, given: Mapping[str, object], how: Manner
) -> bool:
    try:
        plan = await verb.plan(await _request(cluster, verb, given))
    except VerbRefused as refused:
        raise Failure(f"{path} is not possible", cause=str(refused), fix=refused.fix, code=Exit.USAGE) from None
    for note in plan.notes:
        settings.say(escaped(note))
    if plan.table is not None:
        _print_table(plan.table, cluster.settings)
    if plan.destroys and not how.dry_run:
        confirm.removal(plan.destroys, yes=how.yes)
    written = [await _write(cluster, write, dry_run=how.dry_run) for write in plan.writes]
    objects = [obj for obj in written if obj is not None]
    if objects and not cluster.settings.output.is_table:
        print_objects(objects, cluster.settings.output, as_list=len(objects) > 1)
    return not how.wait or await _have_ended(cluster, plan.awaited, how.timeout_seconds)


# ---- what is asked


async def _request(cluster: ClusterSession, verb: OperatorVerb, given: Mapping[str, object]) -> VerbRequest:
    objects = {each.name: await _objects(cluster, each, given[each.key]) for each in verb.arguments if each.kinds}
    texts = {each.name: str(given[each.key] or "") for each in verb.arguments if not (each.kinds or each.many)}
    texts |= {each.flag: str(given[each.key] or "") for each in verb.options if each.metavar}
    return VerbRequest(
        client=cluster.client,
        objects=objects,
        texts=texts,
        words={
            each.name: list(dict.fromkeys(map(str, _listed(given[each.key]))))
            for each in verb.arguments
            if each.many and not each.kinds
        },
        namespace=cluster.settings.namespace or "",
        flags=frozenset(each.flag for each in verb.options if not each.metavar and given[each.key]),
        moment=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def _listed(typed: object) -> Sequence[object]:
    return typed if isinstance(typed, tuple) else (typed,) if typed else ()


async def _objects(cluster: ClusterSession, argument: VerbArgument, typed: object) -> Sequence[Unstructured]:
    """The objects that an argument names, each once. Raises Absent, and Failure where one is of another kind."""
    found: dict[str, Unstructured] = {}
    for word in map(str, _listed(typed)):
        obj = await _object(cluster, _named(word, argument), argument)
        row = kinds.by_gvk(obj.gvk)
        if row is None or row.short not in argument.kinds:
            allowed = ", ".join(argument.kinds)
            raise Failure(
                f"{obj.ref} is not meant by {argument.name}",
                cause=f"the argument names objects of {'one of the kinds' if ',' in allowed else 'the kind'} {allowed}",
                fix=f"name one: {argument.kinds[0]}/NAME",
                code=Exit.USAGE,
            )
        found[obj.metadata.uid] = obj
    return [*found.values()]


async def _object(cluster: ClusterSession, subject: ObjectArgument, argument: VerbArgument) -> Unstructured:
    """The object of this name; where there is none, the only one that a field names so. Raises Absent, Failure."""
    try:
        return await cluster.object(subject)
    except Absent:
        if not argument.also_by:
            raise
        resource, name = await cluster.resource(subject.kind), subject.key.name
        listed = await cluster.list(resource, subject.key.namespace or cluster.namespace)
        found = [obj for obj in listed if any(obj.at(*path) == name for path in argument.also_by)]
        if not found:
            raise
    if len(found) > 1:
        names = ", ".join(sorted(str(obj.ref) for obj in found))
        cause = f"it names {names}"
        raise Failure(f"{name} is ambiguous", cause=cause, fix="use the name of the object", code=Exit.USAGE)
    settings.say(f"{escaped(name)} is {escaped(str(found[0].ref))}")
    return found[0]


def _named(word: str, argument: VerbArgument) -> ObjectArgument:
    """A word of the command line as an object; a name alone is of the argument's only kind. Raises Failure."""
    if "/" not in word and len(argument.kinds) == 1:
        return ObjectArgument(argument.kinds[0], ObjectKey("", word))
    try:
        [named] = object_argument.parsed((word,))
    except ValueError as error:
        fix = f"name it as {argument.kinds[0]}/NAME"
        raise Failure(f"{argument.name} is not understood", cause=str(error), fix=fix, code=Exit.USAGE) from None
    return named


# ---- what is written


async def _write(
    cluster: ClusterSession, write: Creation | Change | Edit | Deletion, *, dry_run: bool
) -> Unstructured | None:
    """Carry out a write, or check it in a dry run. Returns the object as it is then; None if it is or goes away."""
    client, target = cluster.client, unstructured(write.resource)
    match write:
        case Creation():
            return await _create(cluster, write, dry_run=dry_run)
        case Change():
            patch = MergePatch(write.patch)
            changed = await client.patch(target, write.key.name, write.key.namespace, patch, dry_run=dry_run)
            _show(write.done, dry_run=dry_run)
            return changed
        case Edit():
            return await _edit(client, write, dry_run=dry_run)
        case Deletion():
            key = write.key
            await client.delete(metadata_of(write.resource), key.name, key.namespace, uid=write.uid, dry_run=dry_run)
            _show(write.done, dry_run=dry_run)
            return None


async def _create(cluster: ClusterSession, write: Creation, *, dry_run: bool) -> Unstructured:
    """Create the object, or find it. What needs it follows, but in a dry run."""
    client, target = cluster.client, unstructured(write.resource)
    wanted = Unstructured.of(write.body)
    made = await conditional.create_if_absent(client, target, write.body, dry_run=dry_run)
    if isinstance(made, conditional.NotAsSeen):
        live = await client.get(target, wanted.metadata.name, wanted.metadata.namespace)
        settings.say(f"  {escaped(str(live.ref))} exists already")
    else:
        live = made
        _show(write.done, dry_run=dry_run)
    if write.then is not None and not dry_run:
        for further in write.then(live):
            await _write(cluster, further, dry_run=False)
    return live


async def _edit(client: Client, write: Edit, *, dry_run: bool) -> Unstructured:
    """Change the object. Raises Failure if it is gone, ApiError."""

    def patch(seen: Unstructured) -> MergePatch | None:
        body = write.patch(seen)
        return MergePatch(body) if body is not None else None

    target = unstructured(write.resource)
    match await conditional.change(client, target, write.seen, patch, dry_run=dry_run):
        case conditional.Written(obj) | conditional.Left(obj):
            for line in write.done:
                _show(line, dry_run=dry_run)
            return obj
        case conditional.Ended():
            raise Failure(f"{write.seen.ref} was deleted meanwhile", fix="run the command again")


def _print_table(table: VerbTable, call: CallSettings) -> None:
    if not call.output.is_table:
        print_values(table.values, call.output)
    elif table.rows:
        settings.show(text.table([TableColumn(title) for title in table.titles], table.rows))
    else:
        settings.say(escaped(table.empty))


def _show(done: str, *, dry_run: bool) -> None:
    if done:
        _print([f"{escaped(done)}{' (dry run)' if dry_run else ''}"])


def _print(lines: Sequence[str]) -> None:
    """Lines for people: the result, or messages where the result is for programs."""
    if settings.current().output.is_table:
        settings.show(lines)
        return
    for line in lines:
        settings.say(line)


# ---- what is waited for


async def _have_ended(cluster: ClusterSession, awaited: Sequence[AwaitedObject[Any]], timeout_seconds: float) -> bool:
    """Wait for each object, and print how it is then, with the cause. Returns whether all have come to a good end.

    Where an obstacle blocks one of them, it is printed instead, and those that have not ended are not waited for.
    """
    patience, all_good, obstacle = wait_for.WaitLimit(timeout_seconds), True, None
    for each in awaited:
        latest = await cluster.client.find(unstructured(each.resource), each.key.name, each.key.namespace)
        if latest is not None and not each.has_ended(latest):
            if obstacle is None:
                latest, obstacle = await _end_or_obstacle(cluster, each, latest, patience)
            if obstacle is not None:
                continue
        is_good = each.is_good(latest)
        all_good = all_good and is_good
        if latest is None:
            _print([f"{each.resource.kind} {each.key} is gone"])
        elif is_good:
            _print([_good(each.part(latest)) or wait_for.last_line(latest)])
        else:
            if part := each.part(latest):
                _print([settings.current().style().drawn(f"✗ {escaped(part)}")])
            _print(findings.told(await object_summary.reached(cluster, latest), settings.current().style()))
    if obstacle is not None:
        _print(findings.told(await object_summary.reached(cluster, obstacle), settings.current().style()))
    return all_good and obstacle is None


def _good(part: str) -> str:
    return settings.current().style().drawn(f"✔ {escaped(part)}") if part else ""


async def _end_or_obstacle(
    cluster: ClusterSession, each: AwaitedObject[Any], obj: Unstructured, patience: WaitLimit
) -> tuple[Unstructured | None, Unstructured | None]:
    """The object as soon as it has ended, or else the obstacle that blocks it. Raises Failure after the time limit."""
    ending = wait_for.until(
        cluster, each.resource, obj, each.has_ended, wanted="done", patience=patience, part=each.part
    )
    if each.obstacle is None:
        return await ending, None
    end = asyncio.create_task(ending, name=f"wait for {obj.ref}")
    block = asyncio.create_task(_blocking(cluster, each.obstacle), name=f"watch {each.obstacle.key}")
    try:
        await asyncio.wait({end, block}, return_when=asyncio.FIRST_COMPLETED)
        return (await end, None) if end.done() else (obj, await block)
    finally:
        for task in (end, block):
            task.cancel()
        await asyncio.gather(end, block, return_exceptions=True)


async def _blocking(cluster: ClusterSession, obstacle: Obstacle) -> Unstructured:
    """The obstacle as soon as it blocks."""
    async for seen in wait_for.states(cluster, obstacle.resource, obstacle.key):
        if seen is not None and obstacle.blocks(seen):
            return seen
    raise AssertionError("a watch has no end")
