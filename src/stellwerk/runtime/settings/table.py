"""One table of settings per program: its flags, the keys of its ConfigMap, and its reference page come from it.

A value comes from the default, then from an environment variable, then from the flag, then, where the program reads
one, from its ConfigMap. A bad flag stops the start, because the user who typed it can correct it. A bad value in a
ConfigMap or in the environment does not stop anything: the previous value stays in force, and the rejection is
reported. A key or a whole ConfigMap that is removed restores the value of before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from stellwerk.kube.types import duration
from stellwerk.runtime.settings import go_flags

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

V = TypeVar("V")
S = TypeVar("S", bound="DataclassInstance")

MAX_UNKNOWN_KEYS = 20
"""How many keys that do not exist are reported by name."""
MAX_VALUE_CHARACTERS = 4_096
_SHOWN_CHARACTERS = 60


def spelled(value: object) -> str:
    """A value as flags spell it: words between commas, durations as in Go."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case timedelta():
            return duration.format(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Setting(Generic[V]):
    """One value that can be set. `read` raises `ValueError` with what it expects; `write` is its inverse."""

    field: str
    """The field of the settings class."""
    read: Callable[[str], V]
    help: str
    _: KW_ONLY
    write: Callable[[V], str] = spelled
    key: str = ""
    """In the ConfigMap; empty: the ConfigMap cannot set it."""
    environment: str = ""
    """The environment variable; empty: none sets it."""
    has_flag: bool = True
    is_switch: bool = False
    """The flag has no value: its presence sets it, and its negation unsets it."""
    choices: tuple[str, ...] = ()
    """All values that the flag accepts, to the letter; empty: those that `read` accepts."""
    of_unreadable: V | None = None
    """The value where the variable is set and cannot be read; None: it has no effect. For a restriction, whose absence
    would allow everything."""

    @property
    def flag(self) -> str:
        """The name on the command line, without dashes; empty where there is none."""
        return self.field.replace("_", "-") if self.has_flag else ""


class OutOfRange(ValueError):
    """A value is beyond a limit of ours, which a variable of the originals does not have."""

    def __init__(self, why: str, *, nearest: object) -> None:
        """`nearest`: the value that a variable has instead. A flag is refused."""
        super().__init__(why)
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class Rejection:
    """A key of a ConfigMap, or a variable, that has no effect. `value` is shortened and on one line."""

    key: str
    value: str
    why: str
    effect: str = "has no effect"

    def __str__(self) -> str:
        return f"{self.key}: {self.value!r} {self.effect}: {self.why}"


@dataclass(frozen=True, slots=True)
class Effective(Generic[S]):
    """The settings in force, and what has no effect."""

    settings: S
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsTable(Generic[S]):
    """All settings of a program, in the order in which users read them. `defaults` holds the value of each."""

    defaults: S
    rows: tuple[Setting[Any], ...]
    about: str = ""
    """The introduction of the reference page, as Markdown."""

    def options(self) -> list[click.Option]:
        """One click option for each setting that has a flag. Its value is None where the user does not set it."""
        return [_option(row, self.default(row)) for row in self.rows if row.has_flag]

    def from_environment(self, environment: Mapping[str, str]) -> Effective[S]:
        """The settings of environment variables. One that is empty counts as absent, as with Go programs."""
        values: dict[str, object] = {}
        rejections: list[Rejection] = []
        for row in self.rows:
            text = environment.get(row.environment, "") if row.environment else ""
            if not text:
                continue
            try:
                values[row.field] = row.read(_bounded(text))
            except OutOfRange as error:
                values[row.field] = error.nearest
                effect = f"counts as {row.write(error.nearest)}"
                rejections.append(Rejection(row.environment, _shown(text), str(error), effect))
            except ValueError as error:
                rejection = Rejection(row.environment, _shown(text), str(error))
                if row.of_unreadable is not None:
                    values[row.field] = row.of_unreadable
                    rejection = replace(rejection, effect=f"counts as {row.write(row.of_unreadable)}")
                rejections.append(rejection)
        return Effective(replace(self.defaults, **values), tuple(rejections))

    def from_flags(self, values: Mapping[str, object], base: S | None = None) -> S:
        """The settings of click's parameters; a parameter that is None or belongs to another table is ignored.

        `base` holds the values of settings without a flag; the defaults, where it is None.
        """
        own = {row.field for row in self.rows if row.has_flag}
        given = {name: value for name, value in values.items() if name in own and value is not None}
        return replace(self.defaults if base is None else base, **given)

    def of_process(self, words: Sequence[str], variables: Mapping[str, str]) -> S:
        """The settings of a process that runs elsewhere with these arguments, in any form of Go's, and variables.

        What cannot be read has no effect.
        """
        values: dict[str, object] = {}
        rows = {row.flag: row for row in self.rows if row.has_flag}
        negated = {go_flags.negation(row.flag): row for row in rows.values() if row.is_switch}
        remaining = iter(from_go(words, (self,)))
        for word in remaining:
            name, equals, text = word.removeprefix("--").partition("=")
            row = rows.get(name) or negated.get(name)
            if not word.startswith("--") or row is None:
                continue
            if row.is_switch:
                values |= {} if equals else {row.field: name in rows}
                continue
            with suppress(ValueError):
                values[row.field] = row.read(_bounded(text if equals else next(remaining, "")))
        return replace(self.from_environment(variables).settings, **values)

    def default(self, row: Setting[Any]) -> str:
        """The default of a setting as text."""
        return row.write(getattr(self.defaults, row.field))

    def as_text(self, settings: S) -> dict[str, str]:
        """The values as the ConfigMap would spell them, by key."""
        return {row.key: row.write(getattr(settings, row.field)) for row in self.rows if row.key}

    def overridden(self, base: S, previous: S, data: Mapping[str, str] | None) -> Effective[S]:
        """The settings in force under a ConfigMap.

        `base` holds defaults and flags, `previous` what was in force until now, `data` the ConfigMap's data, or None
        where there is no ConfigMap. A value that cannot be read leaves the previous one in force.
        """
        values: dict[str, object] = {}
        rejections: list[Rejection] = []
        texts = data or {}
        keys = {row.key for row in self.rows if row.key}
        for row in self.rows:
            if not row.key or (text := texts.get(row.key)) is None:
                continue
            try:
                values[row.field] = row.read(_bounded(text))
            except ValueError as error:
                values[row.field] = getattr(previous, row.field)
                rejections.append(Rejection(row.key, _shown(text), str(error)))
        unknown = texts.keys() - keys
        named = nsmallest(MAX_UNKNOWN_KEYS, unknown)
        rejections += [Rejection(_shown(key), _shown(texts[key]), "there is no such key") for key in named]
        rejections.sort(key=lambda rejection: rejection.key)
        if len(unknown) > MAX_UNKNOWN_KEYS:
            more = len(unknown) - MAX_UNKNOWN_KEYS
            rejections.append(Rejection(f"{more} more keys", "", "there are no such keys"))
        return Effective(replace(base, **values), tuple(rejections))

    def page(self) -> list[str]:
        """The table of the reference page, as lines of Markdown.

        Keys and variables have a column where the ConfigMap or the environment sets any.
        """
        columns: dict[str, Callable[[Setting[Any]], str]] = {
            "key": lambda row: _code(row.key),
            "variable": lambda row: _code(row.environment),
            "flag": lambda row: _code(row.flag and f"--{row.flag}"),
            "default": lambda row: _code(self.default(row)),
            "meaning": lambda row: row.help,
        }
        if not any(row.key for row in self.rows):
            del columns["key"]
        if not any(row.environment for row in self.rows):
            del columns["variable"]
        lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
        return [*lines, *(f"| {' | '.join(cell(row) for cell in columns.values())} |" for row in self.rows)]


def from_go(arguments: Sequence[str], tables: Iterable[SettingsTable[Any]]) -> list[str]:
    """Arguments as Go programs take them (`-chart-path=x`, `--leader-elect=false`), for click."""
    flags = [row for table in tables for row in table.rows if row.has_flag]
    switches = {row.flag for row in flags if row.is_switch}
    negations = {go_flags.negation(switch) for switch in switches}
    names = {row.flag for row in flags} - switches
    return go_flags.normalised(arguments, names=names, switches=switches | negations)


class _Parsed(click.ParamType[object]):
    """Reads the text of a flag. `read` raises `ValueError` with what it expects."""

    name = "value"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The flag's value. Fails with what is expected."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def _option(row: Setting[Any], default: str) -> click.Option:
    text = f"{row.help} [default: {default or 'none'}]"
    if row.is_switch:
        return click.Option([f"--{row.flag}/--{go_flags.negation(row.flag)}"], default=None, help=text)
    kind = click.Choice(row.choices) if row.choices else _Parsed(row.read)
    metavar = None if row.choices else "TEXT"
    return click.Option([f"--{row.flag}"], type=kind, default=None, metavar=metavar, help=text)


def _bounded(text: str) -> str:
    """The text, if it can be a value: its reader may need long for a text of megabytes. Raises `ValueError`."""
    if len(text) > MAX_VALUE_CHARACTERS:
        raise ValueError(f"expected at most {MAX_VALUE_CHARACTERS} characters, got {len(text)}")
    return text


def _shown(text: str) -> str:
    """Fit for a log: a ConfigMap may hold a whole file, or control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN_CHARACTERS]).split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."


def _code(text: str) -> str:
    return f"`{text}`" if text else "none"
