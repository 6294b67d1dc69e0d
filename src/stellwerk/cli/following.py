"""Follows one object until it is as a person wants it, and tells on standard error what it says meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.cli import health, live, settings, verdict
from stellwerk.cli.errors import Exit, Failure
from stellwerk.cli.health import Health
from stellwerk.cli.text import escaped
from stellwerk.cli.verdict import Verdict
from stellwerk.kube.model import Unstructured, dig, unstructured
from stellwerk.kube.watch import Watcher
from stellwerk.kube.watch_states import Changed, Removed, Synced

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster
    from stellwerk.kube.names import Resource

Holds = Callable[[Unstructured | None], bool]
"""Whether the object is as wanted; None: it is gone."""


async def until(
    cluster: Cluster, resource: Resource, obj: Unstructured, holds: Holds, *, wanted: str, timeout_seconds: float
) -> Unstructured | None:
    """The object as soon as it is as wanted. Raises Failure with exit code 4 when that takes too long."""
    seen: Unstructured | None = obj
    try:
        async with asyncio.timeout(timeout_seconds), live.line(settings.current()) as say:
            fields = f"metadata.name={obj.key.name}"
            watcher = Watcher(cluster.client, unstructured(resource), obj.key.namespace, fields=fields)
            async for change in watcher.changes():
                match change:
                    case Synced(objects=objects):
                        seen = next(iter(objects), None)
                    case Changed(obj=latest):
                        seen = latest
                    case Removed():
                        seen = None
                    case _:
                        continue
                if seen is not None:
                    say(progress(seen))
                if holds(seen):
                    return seen
    except TimeoutError:
        pass
    raise _too_late(obj, seen, wanted, timeout_seconds)


def progress(seen: Unstructured) -> str:
    """Which object it is, what it says now, and how far it is where it keeps an inventory."""
    says = health.of(seen)
    items = seen.at("status", "inventory")
    phases = [dig(item, "phase") for item in items] if isinstance(items, list) else []
    ready = sum(phase in ("Ready", "Completed") for phase in phases)
    far = f"({ready} of {len(phases)} objects ready)" if phases and not says.is_ready else ""
    words = dict.fromkeys((says.state, says.reason, says.message, far))  # a reason is often the state once more
    return escaped(f"{seen.ref}: {' '.join(filter(None, words))}")


def _too_late(obj: Unstructured, seen: Unstructured | None, wanted: str, seconds: float) -> Failure:
    says = health.of(seen) if seen is not None else Health("-", "gone")
    cause = ": ".join(filter(None, (says.state, says.reason, says.message))) or "it does not say how it is doing"
    fix = f"stellwerk why {obj.gvk.kind.lower()}/{obj.key.name}" + (
        f" -n {obj.key.namespace}" if obj.key.namespace else ""
    )
    return Failure(
        f"{obj.ref} is not {wanted} after {seconds:g} s", cause=cause, fix=fix, subject=str(obj.ref), code=Exit.TIMEOUT
    )


def last_line(seen: Unstructured) -> str:
    """How the object is doing now, in one line."""
    return verdict.headline(Verdict(seen.ref, health.of(seen)), settings.current().style(), datetime.now(UTC))
