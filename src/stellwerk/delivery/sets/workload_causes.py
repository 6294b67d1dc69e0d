"""Why a workload that a set waits for is not ready: what its pods show, for the message of the condition.

Pods are not watched: a cluster has very many, and few sets wait for one that fails. They are read for the workloads
that the message names, after half a minute of waiting or when the time is over, and then again after pauses that grow
with the wait. A look costs four requests per workload at most, under the identity that applies the objects. Where that
identity may not read pods, or the API server does not answer, the message stays without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stellwerk.apply.set.plan.stage import Unready
from stellwerk.delivery import workloads
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.runtime.insight.diagnosis import ClusterReader

FIRST_SECONDS = 30.0
"""For how long pods may start before they are read."""
LONGEST_PAUSE_SECONDS = 600.0
MOST = 3
"""How many workloads of a set are looked at; a message names as many objects."""


ReadCause = Callable[[ObjectRef], Awaitable[str]]
"""Reads why one workload is not ready; empty where nothing is known. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found when pods were read last."""

    content: str
    """Digest of what was applied."""
    again_at: float
    """On the clock's seconds."""
    causes: Mapping[ObjectRef, str]


@dataclass(slots=True)
class WorkloadCauses:
    """What the pods of one set showed when they were read last."""

    _look: _Look | None = None

    async def explained(
        self,
        digest: str,
        waits: Sequence[Unready],
        read: ReadCause,
        *,
        now: float,
        waited_seconds: float,
        is_late: bool,
    ) -> tuple[tuple[Unready, ...], float | None]:
        """The waits with their causes, and the seconds until pods are worth reading; None where no workload is named.

        `digest` identifies what was applied; `now` is in seconds of a monotonic clock. Between two looks the causes of
        the former one are shown, so that the message does not change.
        """
        named = [wait.ref for wait in waits[:MOST] if (wait.ref.gvk.group, wait.ref.gvk.kind) in workloads.KINDS]
        if not named:
            self.forget()
            return tuple(waits), None
        if self._look is not None and self._look.content != digest:
            self.forget()
        look = self._look
        if look is None and waited_seconds < FIRST_SECONDS and not is_late:
            return tuple(waits), FIRST_SECONDS - waited_seconds
        if look is None or look.again_at <= now:
            pause = min(max(FIRST_SECONDS, waited_seconds / 2), LONGEST_PAUSE_SECONDS)
            self._look = look = _Look(digest, now + pause, await _read_all(named, read))
        return tuple(_with_cause(wait, look.causes.get(wait.ref, "")) for wait in waits), look.again_at - now

    def forget(self) -> None:
        """The set waits for no workload."""
        self._look = None


async def _read_all(refs: Sequence[ObjectRef], read: ReadCause) -> dict[ObjectRef, str]:
    return dict(zip(refs, await asyncio.gather(*(_read(ref, read) for ref in refs)), strict=True))


async def _read(ref: ObjectRef, read: ReadCause) -> str:
    try:
        return await read(ref)
    except ApiError:
        return ""


def _with_cause(wait: Unready, cause: str) -> Unready:
    return replace(wait, why=f"{wait.why}; {cause}") if cause and cause not in wait.why else wait


def reading(reader: ClusterReader) -> ReadCause:
    """Reads pods with the rights of a client."""

    async def read(ref: ObjectRef) -> str:
        live = await reader.find(await reader.client.mapper.resource(ref.gvk), ref.key.name, ref.key.namespace)
        return workloads.in_one_line(await workloads.read_first(reader, live)) if live is not None else ""

    return read
