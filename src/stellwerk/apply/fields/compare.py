"""Wanted against live, with the API server's habits in mind.

What we want is a part of what is live: the server adds defaults, others own fields of their own. So the comparison
walks what is wanted and looks it up in what is live. It knows that null is absence, that an empty list or mapping may
be left out, that 1 is 1.0 and that `1000m` of CPU is `1`. What it does not know (another's mutating webhook, a value
that the server rewrites) shows as a difference right after our own write, and the plan remembers it as settled.

`extras` are live fields that the manifest lacks. Alone they prove nothing: defaults look the same as leftovers of an
older manifest. Finalizers and owner references are none of them: they decide how long an object exists, and are others'
to put there and to take away (see `ownership`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from stellwerk.apply.objects.desired import HOLDS, SERVER_OWNED, digest_of
from stellwerk.kube.types.model import JsonObject, JsonValue

_NOT_OURS = frozenset({*SERVER_OWNED, *HOLDS})
_MAX_EXTRAS = 20
"""More extras than this add nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not as wanted. Never holds the value itself: it may be secret."""

    path: str
    """As people write it: `spec.template.spec.containers[manager].image`."""
    found: str
    """Fingerprint of what is live; empty where nothing is."""
    note: str = "differs"
    """`is missing`, `differs`, or with plain numbers `is 3, wanted 1`: numbers and booleans are not secret."""

    def __str__(self) -> str:
        return f"{self.path} {self.note}"


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """The difference between wanted and live."""

    differences: tuple[Difference, ...]
    extras: tuple[str, ...]
    """Paths that are live and not wanted; cut after twenty."""

    @property
    def is_equal(self) -> bool:
        """Whether live is what is wanted and nothing else."""
        return not self.differences and not self.extras


def compare(wanted: JsonObject, live: JsonObject) -> FieldComparison:
    """The difference between an object as wanted and as live. Status and the server's own metadata are left out."""
    walk = _FieldWalk()
    walk.mapping({key: value for key, value in wanted.items() if key != "status"}, _content(live, wanted), "")
    return FieldComparison(tuple(walk.differences), tuple(walk.extras))


def _content(live: JsonObject, wanted: JsonObject) -> JsonObject:
    metadata, asked = live.get("metadata"), wanted.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    others = _NOT_OURS - asked.keys() if isinstance(asked, dict) else _NOT_OURS
    lean: JsonObject = {key: value for key, value in kept.items() if key not in others}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": lean}


class _FieldWalk:
    """One walk over wanted and live side by side; collects what it finds."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.extras: list[str] = []

    def value(self, wanted: JsonValue, live: JsonValue, path: str) -> None:
        if isinstance(wanted, dict) and isinstance(live, dict):
            self.mapping(wanted, live, path)
        elif isinstance(wanted, list) and isinstance(live, list):
            self.items(wanted, live, path)
        elif not _same(wanted, live, path):
            self.differences.append(_difference(wanted, live, path))

    def mapping(self, wanted: JsonObject, live: JsonObject, path: str) -> None:
        for key, value in wanted.items():
            self.value(value, live.get(key), _step(path, key))
        for key, value in live.items():
            if key not in wanted and not _is_empty(value):
                self.unasked(_step(path, key))

    def items(self, wanted: list[JsonValue], live: list[JsonValue], path: str) -> None:
        if len(wanted) == len(live):
            for number, (one, other) in enumerate(zip(wanted, live, strict=True)):
                self.value(one, other, f"{path}[{_name(one) or number}]")
            return
        wanted_by_name, live_by_name = by_name(wanted), by_name(live)
        if wanted_by_name is None or live_by_name is None or len(wanted) > len(live):
            self.differences.append(_difference(wanted, live, path))
            return
        for name, item in wanted_by_name.items():
            self.value(item, live_by_name.get(name), f"{path}[{name}]")
        for name in live_by_name.keys() - wanted_by_name.keys():
            self.unasked(f"{path}[{name}]")

    def unasked(self, path: str) -> None:
        if len(self.extras) < _MAX_EXTRAS:
            self.extras.append(path)


def _same(wanted: JsonValue, live: JsonValue, path: str) -> bool:
    if _is_empty(wanted):
        return _is_empty(live)
    if isinstance(wanted, bool) or isinstance(live, bool):
        return wanted is live
    return wanted == live or (_QUANTITY_FIELDS.search(path) is not None and _same_quantity(wanted, live))


def _is_empty(value: JsonValue) -> bool:
    return value is None or value == {} or value == []


def _difference(wanted: JsonValue, live: JsonValue, path: str) -> Difference:
    if live is None:
        return Difference(path, "", "is missing")
    numbers = isinstance(wanted, int | float) and isinstance(live, int | float)
    return Difference(path, digest_of(live), f"is {_word(live)}, wanted {_word(wanted)}" if numbers else "differs")


def _word(value: JsonValue) -> str:
    return str(value).lower()


# ---- paths

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _step(path: str, key: str) -> str:
    if not _BARE.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _name(item: JsonValue) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def by_name(items: list[JsonValue]) -> dict[str, JsonValue] | None:
    """Items by their names; None where one has none or two share one."""
    named = {name: item for item in items if (name := _name(item))}
    return named if len(named) == len(items) else None


# ---- quantities (Kubernetes API reference, resource.Quantity)

_QUANTITY_FIELDS = re.compile(
    r"(?:^|\.)(?:limits|requests|hard|capacity|allocatable|overhead|default|defaultRequest|max|min|used)"
    r'(?:\.[^.]+|\["[^"]+"\])$|(?:^|\.)(?:sizeLimit|divisor)$'
)
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?")
_BINARY = {f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FACTORS: Mapping[str, Decimal] = {
    **_BINARY,
    **{suffix: Decimal(10) ** power for suffix, power in _DECIMAL.items()},
    "": Decimal(1),
}


def _same_quantity(one: JsonValue, other: JsonValue) -> bool:
    amount = quantity(one)
    return amount is not None and amount == quantity(other)


def quantity(value: JsonValue) -> Decimal | None:
    """The amount of a quantity (`1500m` is 1.5); None where the value is no quantity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    number, suffix = match.group(1), match.group(2) or ""
    try:
        return Decimal(number + suffix) if suffix not in _FACTORS else Decimal(number) * _FACTORS[suffix]
    except InvalidOperation:
        return None
