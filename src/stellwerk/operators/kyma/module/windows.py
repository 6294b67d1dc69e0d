"""Maintenance windows: when a module whose upgrade needs a downtime may be upgraded. Pure.

The policy is a JSON file of the administrator. The first rule that matches a Kyma counts; it matches if any of its
expressions is found in the label that it is about. If none of its windows is usable, the default is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple, cast

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.module.expressions import BadExpression, Expression

MOST_BYTES = 2**20
"""Of a policy file: no ConfigMap is larger."""
_LABELS = {
    "globalaccountid": labels.GLOBAL_ACCOUNT_ID_LABEL,
    "plan": labels.BROKER_PLAN_NAME_LABEL,
    "region": labels.REGION_LABEL,
    "platformregion": labels.PLATFORM_REGION_LABEL,
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = timedelta(days=1)
_ZONE = r"(?:Z|[+-]\d{2}:\d{2})"
_TIME = re.compile(rf"\d{{2}}:\d{{2}}:\d{{2}}(?:\.\d{{1,6}})?{_ZONE}", re.ASCII)
_MOMENT = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}T{_TIME.pattern}", re.ASCII)


class BadPolicy(ValueError):
    """A policy file that cannot be used."""


class NoWindow(Exception):
    """The policy has no window for a Kyma, or there is no policy."""


class Window(NamedTuple):
    """A maintenance window."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class OneWindow:
    """A window at one moment."""

    window: Window

    def usable(self, now: datetime, least: timedelta) -> Window | None:
        """The window, if at least so much of it is left."""
        return self.window if now + least < self.window.end else None


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """A window that begins on some days of each week. One that does not end later than it begins ends a day later."""

    days: frozenset[int]
    """Monday is 0."""
    begin: time
    end: time

    def usable(self, now: datetime, least: timedelta) -> Window | None:
        """The next window of which so much is left, or the one that is open."""
        today = now.astimezone(self.begin.tzinfo).date()
        for days in range(-2, 8):  # over midnight, and with an end in another time zone, one can be older than a day
            date = today + days * _DAY
            if date.weekday() not in self.days:
                continue
            begin, end = datetime.combine(date, self.begin), datetime.combine(date, self.end)
            window = Window(begin, end + _DAY if end <= begin else end)
            if now + least < window.end:
                return window
        return None


@dataclass(frozen=True, slots=True)
class Rule:
    """Windows for some Kymas."""

    match: Mapping[str, Expression]
    """By label."""
    windows: tuple[OneWindow | WeeklyWindow, ...]

    def is_for(self, kyma_labels: Mapping[str, str]) -> bool:
        """Whether it is for a Kyma with these labels."""
        return any((value := kyma_labels.get(key)) and each.is_in(value) for key, each in self.match.items())


@dataclass(frozen=True, slots=True)
class Policy:
    """What the file of the administrator has."""

    rules: tuple[Rule, ...] = ()
    default: OneWindow | WeeklyWindow | None = None

    @classmethod
    def parse(cls, content: bytes) -> Policy:
        """From the content of the file. Raises BadPolicy, which names the place in it."""
        if len(content) > MOST_BYTES:
            raise BadPolicy(f"the file has more than {MOST_BYTES} bytes")
        try:
            decoded: JsonValue = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadPolicy(f"the file is no JSON: {error}") from None
        policy = _object(decoded, "the file")
        rules = _list(policy.get("rules"), "rules")
        default = policy.get("default")
        return cls(
            tuple(_rule(each, f"rules[{place}]") for place, each in enumerate(rules)),
            None if default is None else _window(default, "default"),
        )

    def window(self, kyma_labels: Mapping[str, str], now: datetime, least: timedelta) -> Window:
        """The window that is open for a Kyma with these labels, or its next one. Raises NoWindow.

        `least`: how much of it must be left.
        """
        rule = next((each for each in self.rules if each.is_for(kyma_labels)), None)
        candidates = (*(rule.windows if rule is not None else ()), self.default)
        usable = (each.usable(now, least) for each in candidates if each is not None)
        found = next((window for window in usable if window is not None), None)
        if found is None:
            raise NoWindow("matches and defaults also failed to provide a window")
        return found


def _rule(value: JsonValue, where: str) -> Rule:
    rule = _object(value, where)
    match = _object(rule.get("match") or {}, f"{where}.match")
    windows = _list(rule.get("windows"), f"{where}.windows")
    expressions: dict[str, Expression] = {}
    for key, label in _LABELS.items():
        if text := _text(match.get(key), f"{where}.match.{key}"):
            try:
                expressions[label] = Expression(text)
            except BadExpression as error:
                raise BadPolicy(f"{where}.match.{key} is no regular expression: {error}") from None
    return Rule(expressions, tuple(_window(each, f"{where}.windows[{place}]") for place, each in enumerate(windows)))


def _window(value: JsonValue, where: str) -> OneWindow | WeeklyWindow:
    fields = _object(value, where)
    days = [_text(each, f"{where}.days") for each in _list(fields.get("days"), f"{where}.days")]
    if unknown := [each for each in days if each not in _DAYS]:
        raise BadPolicy(f"{where}.days has {unknown[0][:20]!r}, which is none of {', '.join(_DAYS)}")
    begin, end = (_text(fields.get(key), f"{where}.{key}") for key in ("begin", "end"))
    form = "a time such as 21:00:00+00:00" if days else "a moment such as 2026-10-10T20:00:00Z"
    try:
        if days:
            times = [time.fromisoformat(_checked(_TIME, each)) for each in (begin, end)]
            return WeeklyWindow(frozenset(map(_DAYS.index, days)), *times)
        moments = [datetime.fromisoformat(_checked(_MOMENT, each)) for each in (begin, end)]
    except ValueError:
        raise BadPolicy(f"{where}: begin {begin[:40]!r} or end {end[:40]!r} is not {form}") from None
    window = Window(*moments)
    if window.end <= window.begin:
        raise BadPolicy(f"{where} ends before it begins")
    return OneWindow(window)


def _checked(form: re.Pattern[str], text: str) -> str:
    if not form.fullmatch(text):
        raise ValueError(text)
    return text


def _object(value: JsonValue, where: str) -> JsonObject:
    """With its keys in lower case: they count in any case."""
    if not isinstance(value, dict):
        raise BadPolicy(f"{where} is no object")
    return {key.lower(): each for key, each in value.items()}


def _list(value: JsonValue, where: str) -> list[JsonValue]:
    if value is not None and not isinstance(value, list):
        raise BadPolicy(f"{where} is no list")
    return cast("list[JsonValue]", value or [])


def _text(value: JsonValue, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise BadPolicy(f"{where} is no text")
    return value or ""
