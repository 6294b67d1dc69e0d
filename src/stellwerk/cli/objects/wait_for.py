"""Waits until an object is in the wanted state, and prints its progress to standard error."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stellwerk.cli import kinds
from stellwerk.cli.objects import findings, health, object_actions, object_summary, operator_liveness, wait_result
from stellwerk.cli.objects.check_rules import Found
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_actions import ActionTarget
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.objects.wait_result import Ending
from stellwerk.cli.shell import progress_line, settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.text import escaped
from stellwerk.kube.types.errors import ApiError, ServerFault, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Unstructured, dig, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced

Holds = Callable[[Unstructured | None], bool]
"""Whether the object is as wanted; None: it is gone."""


SILENT_SECONDS = 10.0
"""After this time without a reaction, a message reports the state of the operator."""


def was_seen(seen: Unstructured | None) -> bool:
    """Whether an operator has looked at the object as it is."""
    return seen is None or health.of(seen).reason not in operator_liveness.UNSEEN


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """How long a verb waits, for all of its objects together."""

    seconds: float
    _began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._began + self.seconds - time.monotonic())


async def until(
    cluster: ClusterSession,
    resource: Resource,
    obj: Unstructured,
    holds: Holds,
    *,
    wanted: str,
    patience: WaitLimit,
    was_noticed: Holds = was_seen,
    part: Callable[[Unstructured], str] = lambda _: "",
) -> Unstructured | None:
    """The object as soon as it is as wanted. Raises Failure with exit code 4 when that takes too long.

    `part`: how the part of it is that alone counts; empty if the whole object does.

    Where `was_noticed` does not hold after ten seconds, a message reports the state of the operator. Where the time was
    too short for a watch, the object is read once: a wait of no time at all answers whether it is as wanted.
    """
    seen: Unstructured | None = obj
    is_watched = False

    async def notice_silence() -> None:
        await asyncio.sleep(SILENT_SECONDS)
        if not was_noticed(seen):
            settings.say(await _silence(cluster, obj))

    try:
        async with (
            asyncio.timeout(patience.left),
            _beside(notice_silence()),
            progress_line.line(settings.current()) as say,
        ):
            async for latest in states(cluster, resource, obj.key):
                seen, is_watched = latest, True
                if seen is not None:
                    say(escaped(part(seen)) or progress(seen))
                if holds(seen):
                    return seen
    except TimeoutError:
        pass
    if not is_watched:
        with contextlib.suppress(Unreachable, ServerFault, TimeoutError):  # then the time is up all the same
            async with asyncio.timeout(wait_result.LOOK_SECONDS):
                seen = await cluster.client.find(unstructured(resource), obj.key.name, obj.key.namespace)
            if holds(seen):
                return seen
    ignored = not was_noticed(seen) and patience.seconds >= SILENT_SECONDS
    operator = await _operator_of_ignored(cluster, obj) if ignored else None
    raise await _too_late(cluster, obj, seen, wanted, patience.seconds, operator, part)


async def states(cluster: ClusterSession, resource: Resource, key: ObjectKey) -> AsyncIterator[Unstructured | None]:
    """An object as it is, and again after each change; None where it does not exist."""
    watcher = Watcher(cluster.client, unstructured(resource), key.namespace, fields=f"metadata.name={key.name}")
    async for change in watcher.changes():
        match change:
            case Synced(objects=objects):
                yield next(iter(objects), None)
            case Changed(obj=latest):
                yield latest
            case Removed():
                yield None
            case _:
                continue


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Do the work concurrently, and cancel it at the end."""
    task = asyncio.create_task(work, name="notice silence")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ApiError):
            await task


async def _silence(cluster: ClusterSession, obj: Unstructured) -> str:
    """The message about an operator that has not reacted, and whether it runs."""
    head = f"  {escaped(str(obj.ref))} has not been looked at for {SILENT_SECONDS:g} s"
    operator = await _operator(cluster, obj)
    if operator is None:
        return head
    if operator.verdict == "good":
        return f"{head}; its operator runs ({escaped(operator.detail)}) and may be busy"
    return f"{head}; {escaped('. Fix: '.join(filter(None, (operator.detail, operator.fix))))}"


async def _operator(cluster: ClusterSession, obj: Unstructured) -> Found | None:
    """Whether the object's operator answers; None for an object that none of ours looks after."""
    row = kinds.by_gvk(obj.gvk)
    return await operator_liveness.state_of(cluster, row.operator) if row is not None else None


async def all_of(
    cluster: ClusterSession,
    ends: Sequence[tuple[ActionTarget[Any], Holds]],
    *,
    timeout_seconds: float,
    was_noticed: Holds = was_seen,
) -> bool:
    """Wait for each object, and print how it is then, with the cause. Returns whether all of them are ready."""
    patience, all_ready = WaitLimit(timeout_seconds), True
    for one, holds in ends:
        seen = await until(
            cluster, one.resource, one.obj, holds, wanted="reconciled", patience=patience, was_noticed=was_noticed
        )
        if seen is None or (health.of(seen).is_ready and not health.of(seen).needs_attention):
            settings.show([last_line(seen) if seen is not None else f"{one.obj.ref} is gone"])
            if seen is not None and health.of(seen).has_drift:
                settings.say(object_actions.put_back_now(seen))
            continue
        all_ready = False
        settings.show(findings.told(await object_summary.reached(cluster, seen), settings.current().style()))
    return all_ready


def has_ended(seen: Unstructured) -> bool:
    """Whether the object is ready, failed or suspended. Pending is no end: what it needs may still come."""
    says = health.of(seen)
    return says.is_ready or says.ready == "False" or says.state == "Suspended"


def has_ended_since(generation: int) -> Holds:
    """The same for an object that was changed: what it showed before does not count."""
    return lambda seen: seen is None or (seen.metadata.generation >= generation and has_ended(seen))


def progress(seen: Unstructured) -> str:
    """The object, its state, and the progress of its inventory if it has one."""
    says = health.of(seen)
    items = seen.at("status", "inventory")
    phases = [dig(item, "phase") for item in items] if isinstance(items, list) else []
    ready = sum(phase in ("Ready", "Completed") for phase in phases)
    far = f"({ready} of {len(phases)} objects ready)" if phases and not says.is_ready else ""
    words = dict.fromkeys((says.state, says.reason, says.message, far))  # a reason is often the state once more
    return escaped(f"{seen.ref}: {' '.join(filter(None, words))}")


async def _operator_of_ignored(cluster: ClusterSession, obj: Unstructured) -> Found | None:
    """The operator that has not looked at an object; None where it seems to run, or nothing is known of it."""
    with contextlib.suppress(ApiError, TimeoutError):
        async with asyncio.timeout(wait_result.LOOK_SECONDS):
            operator = await _operator(cluster, obj)
            return operator if operator is not None and operator.verdict != "good" and operator.fix else None
    return None


async def _too_late(
    cluster: ClusterSession,
    obj: Unstructured,
    seen: Unstructured | None,
    wanted: str,
    seconds: float,
    absent: Found | None,
    part: Callable[[Unstructured], str],
) -> Failure:
    """The report about a wait that was in vain. `absent`: the operator that has not looked at the object."""
    says = health.of(seen) if seen is not None else ObjectHealth("-", "gone")
    end = await wait_result.of(object_summary.reached(cluster, seen)) if seen is not None else Ending()
    if absent is not None:
        end = Ending(absent.detail, absent.fix)
    if says.is_well:  # its reason and message are about a success, and no cause
        cause = ": ".join(filter(None, (says.state, end.cause)))
    else:
        cause = ": ".join(filter(None, (says.state, says.reason, end.cause or says.message)))
    cause = (part(seen) if seen is not None and absent is None else "") or cause or "it reports no status"
    why = f"stellwerk why {obj.gvk.kind.lower()}/{obj.key.name}" + (
        f" -n {obj.key.namespace}" if obj.key.namespace else ""
    )
    return Failure(
        f"{obj.ref} is not {wanted} after {seconds:g} s",
        cause=cause,
        fix=end.fix(why),
        subject=str(obj.ref),
        code=Exit.TIMEOUT,
    )


def last_line(seen: Unstructured) -> str:
    """The state of the object, in one line."""
    return object_summary.headline(
        ObjectSummary(seen.ref, health.of(seen)), settings.current().style(), datetime.now(UTC)
    )
