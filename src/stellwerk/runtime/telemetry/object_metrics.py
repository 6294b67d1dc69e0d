"""Series for each object of a kind that a controller reconciles, read from its cache at the scrape.

So the series of an object vanish with it, and a process that waits for the Lease shows the same as the leader. An
object costs no memory between two scrapes.

Series per object are bounded: beyond `limit` objects of all kinds together, the others have none, and
`stellwerk_resources_without_series` counts them. The counts by kind (`stellwerk_resources`) are complete in any case.

A kind without the condition Ready shows how an object is by `status.state`, which is its reason then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, get_args

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime import conditions

OBJECT_LIMIT = 2_000
"""The objects with series of their own, by default."""

_OBJECT = ("kind", "namespace", "name")
Listed = Callable[[], Iterable[Kind]]


class ObjectMetrics(Collector):
    """The objects of all kinds of one process."""

    def __init__(self, limit: int = OBJECT_LIMIT) -> None:
        """`limit`: for how many objects series are shown; 0: for none."""
        self._limit = limit
        self._kinds: dict[str, Listed] = {}

    def show(self, kind: type[Kind], listed: Listed) -> None:
        """Show the objects of a kind. One whose status has neither conditions nor a state is never ready: not shown."""
        if any(each.name == "status" and _shows_health(each.type) for each in msgspec.structs.fields(kind)):
            self._kinds[kind.resource.kind] = listed

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without series."""
        return iter(_Families().all())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families as they are now."""
        families = _Families()
        left = self._limit
        for kind, listed in self._kinds.items():
            counts = Counter[str](dict.fromkeys(("True", "False", "Unknown"), 0))
            objects = 0
            for obj in listed():
                objects += 1
                ready = _ready(obj)
                counts[ready.status] += 1
                if objects <= left:
                    families.add(kind, obj, ready)
            for status, count in counts.items():
                families.counts.add_metric((kind, status), count)
            families.left_out.add_metric((kind,), max(0, objects - left))
            left = max(0, left - objects)
        yield from families.all()


class _Ready(NamedTuple):
    """What an object shows of its readiness."""

    status: str = "Unknown"
    reason: str = ""
    is_observed: bool = False
    """Whether it is about the spec as it is now."""


_STATES = {"": "Unknown", "Ready": "True", "Unmanaged": "True"}
"""The readiness of a state. With all others an object is not ready."""


def _ready(obj: Kind) -> _Ready:
    ready = conditions.find(_conditions(obj), conditions.READY)
    if ready is not None:
        return _Ready(ready.status, ready.reason, ready.observed_generation in (0, obj.metadata.generation))
    state = str(getattr(getattr(obj, "status", None), "state", ""))
    return _Ready(_STATES.get(state, "False"), state, is_observed=True)


def _shows_health(status: object) -> bool:
    """Whether a status of this type may have conditions or a state."""
    fields = {*getattr(status, "__struct_fields__", ())}
    return bool({"conditions", "state"} & fields) or any(map(_shows_health, get_args(status)))


class _Families:
    """The families of one scrape."""

    def __init__(self) -> None:
        self.info = GaugeMetricFamily(
            "stellwerk_resource_info",
            "How an object is, as labels; always 1",
            labels=(*_OBJECT, "ready", "reason", "status", "suspended"),
        )
        self.deleted = GaugeMetricFamily(
            "stellwerk_resource_deletion_timestamp_seconds",
            "When the deletion of an object that still exists was requested, in seconds since 1970",
            labels=_OBJECT,
        )
        self.stalled = GaugeMetricFamily(
            "stellwerk_resource_stalled_timestamp_seconds",
            "Since when an object waits for a change by a user (condition Stalled), in seconds since 1970",
            labels=_OBJECT,
        )
        self.counts = GaugeMetricFamily(
            "stellwerk_resources", "Objects by the status of their condition Ready", labels=("kind", "ready")
        )
        self.left_out = GaugeMetricFamily(
            "stellwerk_resources_without_series", "Objects beyond the limit of series for each", labels=("kind",)
        )

    def all(self) -> tuple[GaugeMetricFamily, ...]:
        return self.info, self.deleted, self.stalled, self.counts, self.left_out

    def add(self, kind: str, obj: Kind, ready: _Ready) -> None:
        """Add the series of an object."""
        key = (kind, *obj.key)
        suspended = str(bool(getattr(getattr(obj, "spec", None), "suspend", False))).lower()
        self.info.add_metric((*key, ready.status, ready.reason, _kstatus(obj, ready), suspended), 1)
        if obj.metadata.deletion_timestamp is not None:
            self.deleted.add_metric(key, obj.metadata.deletion_timestamp.timestamp())
        stalled = conditions.find(_conditions(obj), conditions.STALLED)
        if stalled is not None and stalled.is_true and stalled.last_transition_time is not None:
            self.stalled.add_metric(key, stalled.last_transition_time.timestamp())


def _kstatus(obj: Kind, ready: _Ready) -> str:
    """The word of kstatus for an object: Ready alone does not show a failure if the object works on.

    A deletion that a user has to help is Failed, which sets it apart from one that goes on. A failure that is history
    is Superseded, so that no alert matches it for ever.
    """
    cause = conditions.true_cause(_conditions(obj))
    if cause is not None and cause.type == conditions.STALLED:
        return "Failed"
    if obj.metadata.deletion_timestamp is not None:
        return "Terminating"
    if conditions.is_true(_conditions(obj), conditions.SUPERSEDED):
        return "Superseded"
    return "Current" if cause is None and ready.status == "True" and ready.is_observed else "InProgress"


def _conditions(obj: Kind) -> tuple[Condition, ...]:
    found: tuple[Condition, ...] = getattr(getattr(obj, "status", None), "conditions", ())
    return found
