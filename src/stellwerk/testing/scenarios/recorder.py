"""What a scenario does when nothing goes wrong, kept to be compared with what it does when something does.

A run is the ordered list of its writes and the objects that are there at its end, both masked (`masks.py`). The number
of writes is also the length of a sweep: kill the operator before the first, the second, ... and compare each end.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Literal

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.testing.faults.proxy import FaultProxy
from stellwerk.testing.faults.rules import WRITES, When, requests
from stellwerk.testing.faults.traffic import Exchange, RecordedRequest
from stellwerk.testing.scenarios.normalize import Masks, lines_of

LASTING_WRITES: When[RecordedRequest] = (
    WRITES
    & ~requests(resource="events.events.k8s.io")
    & ~requests(resource="events")
    & ~requests(resource="leases.coordination.k8s.io")
)
"""Writes that leave something behind: not Events, and not a leader's heartbeats."""

OrderOfWrites = Literal["ignored", "per object", "exact"]
_CONTEXT_LINES = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects that belong to the end state: of one resource, in one namespace or all, with these labels."""

    resource: Resource
    namespace: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the server accepted: what was asked of which object, with the masked body."""

    action: str
    target: str
    body: JsonValue = None

    def __str__(self) -> str:
        return f"{self.action} {self.target} {json.dumps(self.body, sort_keys=True) if self.body else ''}".rstrip()


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario's traces: accepted writes in order, and the masked objects at its end by kind, namespace and name."""

    writes: Sequence[Write]
    objects: Mapping[str, JsonObject]

    def save(self, file: Path) -> None:
        """Write it as JSON, stable under version control."""
        writes = [{"action": one.action, "target": one.target, "body": one.body} for one in self.writes]
        file.write_text(json.dumps({"writes": writes, "objects": self.objects}, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, file: Path) -> Run:
        """Read what `save` wrote. Raises OSError, and ValueError or KeyError when it is something else."""
        content = json.loads(file.read_text())
        writes = [Write(one["action"], one["target"], one["body"]) for one in content["writes"]]
        return cls(writes, content["objects"])


class RunsDiffer(AssertionError):
    """A replay ended elsewhere than the clean run. The message is the difference, - clean and + replay."""


class TrafficRecorder:
    """Records runs of one operator through its fault proxy. The proxy's own reads are not in its history."""

    def __init__(
        self,
        proxy: FaultProxy,
        selections: Sequence[Selection],
        *,
        masks: Masks | None = None,
        writes: When[RecordedRequest] = LASTING_WRITES,
    ) -> None:
        self._proxy = proxy
        self._selections = selections
        self._masks = masks or Masks()
        self._writes = writes

    async def run(self, scenario: Callable[[], Awaitable[None]]) -> Run:
        """Do the scenario, which returns when it has converged, and keep its traces."""
        before = max((exchange.request.number for exchange in self._proxy.history.all()), default=0)
        await scenario()
        await self._proxy.history.settled()
        recent = self._proxy.history.writes(lambda request: request.number > before and self._writes(request))
        return Run([self._write(one) for one in recent if _accepted(one)], await self.end_state())

    async def end_state(self) -> Mapping[str, JsonObject]:
        """The masked objects as they are now."""
        found: list[JsonObject] = []
        for selection in self._selections:
            found += await self._proxy.upstream.objects(selection.resource, selection.namespace, selection.labels)
        return self._masks.objects(found)

    def _write(self, exchange: Exchange) -> Write:
        action, _, target = self._masks.text(str(exchange.request)).partition(" ")
        return Write(action, target, self._masks.body(_json(exchange.request.body)))


def difference(clean: Run, replay: Run, *, writes: OrderOfWrites = "ignored") -> str:
    """What is other in the replay, to be read by people; empty when nothing is.

    Writes are worth comparing between two runs without faults. Workers run side by side, so mostly only the order
    `per object` is determined.
    """
    parts = [*_differing_objects(clean.objects, replay.objects), *_differing_writes(clean, replay, writes)]
    return "\n".join(parts)


def assert_same(clean: Run, replay: Run, *, writes: OrderOfWrites = "ignored") -> None:
    """Raises RunsDiffer unless both ended alike."""
    if text := difference(clean, replay, writes=writes):
        raise RunsDiffer(text)


def _differing_objects(clean: Mapping[str, JsonObject], replay: Mapping[str, JsonObject]) -> Iterator[str]:
    for name in sorted({*clean, *replay}):
        if name not in replay:
            yield f"- {name} is missing"
        elif name not in clean:
            yield f"+ {name} is left over"
        elif clean[name] != replay[name]:
            yield _diff(f"{name} differs", [*lines_of(clean[name])], [*lines_of(replay[name])])


def _differing_writes(clean: Run, replay: Run, order: OrderOfWrites) -> Iterator[str]:
    if order == "ignored":
        return
    ours, theirs = ([str(write) for write in _ordered(run.writes, order)] for run in (clean, replay))
    if ours != theirs:
        yield _diff(f"the writes differ ({order})", ours, theirs)


def _ordered(writes: Sequence[Write], order: OrderOfWrites) -> Sequence[Write]:
    return writes if order == "exact" else sorted(writes, key=lambda write: write.target)


def _diff(title: str, clean: Sequence[str], replay: Sequence[str]) -> str:
    lines = [*unified_diff(clean, replay, lineterm="", n=_CONTEXT_LINES)][2:]
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)])


def _accepted(exchange: Exchange) -> bool:
    return exchange.server_status is not None and exchange.server_status < 300


def _json(body: bytes) -> JsonValue:
    try:
        content: JsonValue = json.loads(body)
    except ValueError:
        return body.decode(errors="replace") if body else None
    return content
