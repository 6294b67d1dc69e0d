"""Durations as Kubernetes and Go write them: `90s`, `1h30m`, `-168h`, `500ms`, `0`.

Flags, ConfigMaps and API fields (metav1.Duration) of the whole ecosystem use this form, so it is read exactly: what Go
refuses is refused here, `1 d` and a bare `5` among them. Only the resolution differs: ours is a microsecond.
"""

from __future__ import annotations

import re
from datetime import timedelta

_MICROSECONDS: dict[str, float] = {
    "ns": 0.001,
    "us": 1,
    "µs": 1,  # U+00B5, the micro sign
    "μs": 1,  # U+03BC, the Greek letter
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
PATTERN = rf"[-+]?(0|({_PART.pattern})+)"
"""The form of a duration as a regular expression of RE2, for the whole text."""
_LONGEST = 100
"""Characters. A longer text is less than 292 years only with leading zeros, and would take long to search."""
_LIMIT = timedelta(microseconds=2**63 // 1000 + 1)
"""Go counts nanoseconds in 64 bits: about 292 years."""


class NotADuration(ValueError):
    """The text is no duration; the message shows the format."""


def parse(text: str) -> timedelta:
    """Read a Go duration. Raises `NotADuration`."""
    if len(text) > _LONGEST:
        raise NotADuration(f"{text[:20]!r}... is longer than 292 years, or not a duration such as 90s")
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if unsigned == "0":
        return timedelta()
    parts = _PART.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        raise NotADuration(f"{text!r} is not a duration such as 90s, 5m or 1h30m")
    total = _total(parts)
    if total is None or total > _LIMIT:
        raise NotADuration(f"{text!r} is longer than 292 years")
    return sign * total


def _total(parts: list[tuple[str, str]]) -> timedelta | None:
    try:
        return sum((_part(number, unit) for number, unit in parts), timedelta())
    except OverflowError:
        return None


def _part(number: str, unit: str) -> timedelta:
    whole, _, fraction = number.partition(".")
    factor = _MICROSECONDS[unit]
    if unit == "ns":
        return timedelta(microseconds=int(whole or 0) // 1000)
    # Whole and fraction apart: a float cannot hold the microseconds of a century.
    return timedelta(microseconds=int(whole or 0) * int(factor)) + timedelta(
        microseconds=float(f"0.{fraction or 0}") * factor
    )


def format(duration: timedelta) -> str:
    """Write a duration as Go does, without the parts that are zero: `1h30m`, `500ms`, `0s`."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    sign, left = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if left < 1_000_000:
        return sign + (f"{_decimal(left, 1_000)}ms" if left >= 1_000 else f"{left}µs")
    hours, left = divmod(left, 3_600_000_000)
    minutes, left = divmod(left, 60_000_000)
    parts = [
        f"{hours}h" if hours else "",
        f"{minutes}m" if minutes else "",
        f"{_decimal(left, 1_000_000)}s" if left else "",
    ]
    return sign + "".join(parts)


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0").rstrip(".") if rest else str(whole)
