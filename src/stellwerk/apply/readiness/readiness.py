"""Whether an object is ready, judged by its own status.

The verdict is that of kstatus (`kstatus`), on top of which come conditions without which a kind is of no use, and hints
that an author may give for a kind that shows less than it should.

A verdict carries a sentence for people, without times and counters that change by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stellwerk.apply.readiness.kstatus import CURRENT, ObjectStatus, StatusCondition, conditions_of, judge, waiting
from stellwerk.apply.readiness.kstatus import Readiness as Readiness
from stellwerk.apply.readiness.kstatus import StatusVerdict as StatusVerdict
from stellwerk.kube.types.model import Unstructured


@dataclass(frozen=True, slots=True)
class Hints:
    """An author's hints about a kind whose status shows too little."""

    has_observed_generation: bool = False
    """The kind keeps status.observedGeneration; until it appears the object is not ready."""
    has_ready_condition: bool = False
    """The kind keeps a condition Ready; until it appears the object is not ready."""
    conditions: tuple[str, ...] = ()
    """Conditions that must be True."""


NO_HINTS = Hints()
HINT_SUFFIX = "status-hint"
"""Of the annotation that carries them; its prefix names the program that they are meant for."""


def assess(live: Unstructured | None, *, now: datetime, hints: Hints = NO_HINTS) -> Readiness:
    """Whether a live object is ready; None is an object that does not exist. Pure.

    Raises `UnreadableStatus` where `status.conditions` is not a list of conditions.
    """
    if live is None:
        return Readiness(StatusVerdict.NOT_FOUND, "does not exist")
    status = _hinted(ObjectStatus.of(live, now), hints)
    verdict = judge(status)
    if not verdict.is_ready:
        return verdict
    for type_ in (*_IMPLIED.get((live.gvk.group, live.gvk.kind), ()), *hints.conditions):
        if not status.holds(type_):
            return waiting(status.said(type_) or f"condition {type_} is not True")
    return verdict


def hints_on(live: Unstructured) -> Hints:
    """The hints that a live object carries, whichever program they are meant for: for those who look at what others
    apply. One that means nothing is passed over."""
    for key, text in live.metadata.annotations.items():
        if key.endswith(f"/{HINT_SUFFIX}"):
            try:
                return parse_hints(text)
            except ValueError:
                return NO_HINTS
    return NO_HINTS


def by_conditions(live: Unstructured | None, types: Sequence[str]) -> Readiness:
    """Whether all of some conditions are True, and nothing else: for those who must judge as an older operator did.

    Raises `UnreadableStatus` where `status.conditions` is not a list of conditions.
    """
    if live is None:
        return Readiness(StatusVerdict.NOT_FOUND, "does not exist")
    conditions = conditions_of(live.body)
    for type_ in types:
        found = conditions.get(type_)
        if found is None or found.status != "True":
            return waiting(found.words if found is not None else f"condition {type_} is missing")
    return CURRENT


def parse_hints(text: str) -> Hints:
    """Hints as an annotation spells them: `has-observed-generation,conditions=Ready;Synced`. Blanks do not count.

    Raises `ValueError` naming the hint that is unknown, lacks its value or has one too many.
    """
    hints = NO_HINTS
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, has_value, value = (part.strip() for part in word.partition("="))
        if name not in _HINTS:
            raise ValueError(f"unknown hint {name!r}: expected one of {', '.join(_HINTS)}")
        if (name == "conditions") != bool(value) or (has_value and not value):
            raise ValueError(f"hint {name!r} " + ("needs a value" if name == "conditions" else "takes no value"))
        hints = _HINTS[name](hints, value)
    return hints


_HINTS: Mapping[str, Callable[[Hints, str], Hints]] = {
    "has-observed-generation": lambda hints, _: replace(hints, has_observed_generation=True),
    "has-ready-condition": lambda hints, _: replace(hints, has_ready_condition=True),
    "conditions": lambda hints, value: replace(
        hints, conditions=(*hints.conditions, *filter(None, (part.strip() for part in value.split(";"))))
    ),
}


def _hinted(status: ObjectStatus, hints: Hints) -> ObjectStatus:
    """The status as it looks with what the hints promise and the object does not show yet."""
    ready = status.conditions.get("Ready")
    if hints.has_observed_generation and status.observed_generation is None:
        seen = ready.observed_generation if ready is not None else None
        status = replace(status, observed_generation=-1 if seen is None else seen)
    if hints.has_ready_condition and ready is None:
        unknown = StatusCondition("Ready", "Unknown", message="condition Ready is missing")
        status = replace(status, conditions={**status.conditions, "Ready": unknown})
    return status


_IMPLIED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("Established", "NamesAccepted"),
    ("apiregistration.k8s.io", "APIService"): ("Available",),
}
"""Conditions without which a kind is of no use."""
