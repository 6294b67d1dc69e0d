"""Log lines: one JSON object each for machines, one short line each for people.

Code logs with the standard library (`logging.getLogger(__name__)`) and says details as `extra=fields(version="1.2")`.
Which object is being worked on is not passed around: the engine enters `reconciling(...)` and every line inside
carries it, other tasks' lines do not (a context variable, copied by each task).

An error's line has `error`. It has `stack` only where the exception is a surprise: the failures of an API server, of
a user's object or of a network explain themselves by their message, and fifty lines of stack bury it.

Nothing secret leaves through here. Every line, stack included, passes the redactor last: values registered as secret
are masked wherever they appear, and what looks like a token, a private key or a password in a URL is masked unasked.

The flags are those of controller-runtime's zap options, so that Deployments of the original operators start
unchanged.
"""

from __future__ import annotations

import base64
import logging
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TextIO, TypeAlias, TypeVar

import msgspec

from stellwerk.kube.errors import ApiError
from stellwerk.kube.names import ObjectKey
from stellwerk.runtime.contract import ReconcileError

Detail: TypeAlias = str | int | float | bool | None

_EXPECTED: tuple[type[BaseException], ...] = (ApiError, ReconcileError, TimeoutError, OSError)
_RESERVED = frozenset({"ts", "level", "logger", "msg", "reconcileID", "error"})
_LONGEST_MESSAGE = 16 * 1024


class Encoding(Enum):
    """How a line looks."""

    JSON = "json"
    CONSOLE = "console"


class TimeEncoding(Enum):
    """How `ts` is written; the words of zap."""

    EPOCH = "epoch"
    MILLIS = "millis"
    NANO = "nano"
    ISO8601 = "iso8601"
    RFC3339 = "rfc3339"
    RFC3339NANO = "rfc3339nano"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What to write, and how. `level` is a level of the logging module."""

    level: int = logging.INFO
    encoding: Encoding = Encoding.JSON
    time_encoding: TimeEncoding = TimeEncoding.ISO8601
    stack_level: int = logging.ERROR
    """From which level on a surprise shows its stack."""


def settings_from_flags(
    *,
    level: str = "",
    encoder: str = "",
    devel: bool = False,
    time_encoding: str = "",
    stacktrace_level: str = "",
    tty: bool = False,
) -> LogSettings:
    """The settings that `--zap-log-level`, `--zap-encoder` and so on ask for; an empty text means not given.

    A terminal gets the console form unless another was asked for. Raises ValueError with what is allowed.
    """
    default_encoding = Encoding.CONSOLE if devel or tty else Encoding.JSON
    return LogSettings(
        level=_level(level, "--zap-log-level") if level else logging.DEBUG if devel else logging.INFO,
        encoding=_choice(Encoding, encoder, "--zap-encoder") if encoder else default_encoding,
        time_encoding=_choice(TimeEncoding, time_encoding, "--zap-time-encoding")
        if time_encoding
        else TimeEncoding.ISO8601,
        stack_level=_level(stacktrace_level, "--zap-stacktrace-level")
        if stacktrace_level
        else logging.WARNING
        if devel
        else logging.ERROR,
    )


def configure(settings: LogSettings, *, stream: TextIO | None = None, redactor: Redactor | None = None) -> Redactor:
    """Send all log lines of the process to `stream` (stderr) in this form. Returns the redactor that they pass.

    Without a `redactor` it is the process's own, to which `hide` adds. A second call replaces the first.
    """
    redactor = redactor or _process
    handler = logging.StreamHandler(stream or sys.stderr)
    form = _JsonForm if settings.encoding is Encoding.JSON else _ConsoleForm
    handler.setFormatter(form(settings, redactor))
    root = logging.getLogger()
    for old in [*root.handlers]:
        if isinstance(old.formatter, _Form):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.level)
    return redactor


def fields(**details: Detail) -> dict[str, Mapping[str, Detail]]:
    """Details of a line, for the `extra` of a logging call: `log.info("created", extra=fields(count=3))`."""
    return {"fields": details}


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that lines are about."""

    kind: str
    key: ObjectKey
    reconcile_id: str = ""


_subject: ContextVar[Subject | None] = ContextVar("stellwerk_log_subject", default=None)


@contextmanager
def reconciling(kind: str, key: ObjectKey, reconcile_id: str = "") -> Iterator[None]:
    """All lines of this task are about this object while inside."""
    token = _subject.set(Subject(kind, key, reconcile_id))
    try:
        yield
    finally:
        _subject.reset(token)


class Redactor:
    """Masks what nobody should read. Values are registered once they are known; shapes are masked always."""

    MASK = "***"
    _SHORTEST = 6
    """Shorter values are not masked: they would blacken ordinary words and give away what they are."""
    _LIMIT = 4096

    _SHAPES: Sequence[tuple[re.Pattern[str], str]] = (
        (re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.S), MASK),
        (re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]+"), MASK),
        (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"), MASK),
        (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {MASK}"),
        (re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"), MASK),
        (
            re.compile(
                r"(?i)(\"?(?:client_?secret|password|passwd|api_?key|access_?token|refresh_?token)\"?\s*[:=]\s*\"?)[^\s\",&}]+"
            ),
            rf"\1{MASK}",
        ),
    )

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: dict[str, None] = {}
        self._longest_first: tuple[str, ...] = ()
        self.hide(*values)

    def hide(self, *values: str) -> None:
        """Mask these values from now on, also in base64, and each line of theirs that a stack may show alone.

        The oldest are forgotten beyond a few thousand, which bounds memory.
        """
        for value in values:
            for form in (value, base64.b64encode(value.encode()).decode(), *value.split("\n")):
                if len(form) >= self._SHORTEST:
                    self._values.pop(form, None)
                    self._values[form] = None
        while len(self._values) > self._LIMIT:
            del self._values[next(iter(self._values))]
        self._longest_first = tuple(sorted(self._values, key=len, reverse=True))

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        # One search for each value: with thousands of them it takes half as long as one pattern of alternatives.
        for value in self._longest_first:
            if value in text:
                text = text.replace(value, self.MASK)
        for shape, mask in self._SHAPES:
            text = shape.sub(mask, text)
        return text


_process = Redactor()


def hide(*values: str) -> None:
    """Never show these values in a log line of this process. Whoever reads a secret calls this first."""
    _process.hide(*values)


def redacted(text: str) -> str:
    """The text as a log line of this process would show it."""
    return _process.redacted(text)


class _Form(logging.Formatter):
    """What both forms share: which facts a record has."""

    def __init__(self, settings: LogSettings, redactor: Redactor) -> None:
        super().__init__()
        self._settings = settings
        self._redactor = redactor

    def facts(self, record: logging.LogRecord) -> dict[str, Detail]:
        """Everything beyond time, level, logger and message, redacted, in the order in which it is shown."""
        facts: dict[str, Detail] = {}
        if (subject := _subject.get()) is not None:
            facts |= {"kind": subject.kind, "namespace": subject.key.namespace, "name": subject.key.name}
            facts["reconcileID"] = subject.reconcile_id
        details: Mapping[str, Detail] = getattr(record, "fields", {})
        facts |= {f"{name}_" if name in _RESERVED else name: value for name, value in details.items()}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            facts["error"] = str(error) or type(error).__name__
            if not isinstance(error, _EXPECTED) and record.levelno >= self._settings.stack_level:
                facts["stack"] = "".join(traceback.format_exception(error)).rstrip()
        if record.stack_info:
            facts["stack"] = record.stack_info
        return {name: self._clean(value) for name, value in facts.items() if value != ""}

    def message(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return self._redactor.redacted(text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…")

    def _clean(self, value: Detail) -> Detail:
        return self._redactor.redacted(value) if isinstance(value, str) else value


class _JsonForm(_Form):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Detail] = {
            "ts": _time(record.created, self._settings.time_encoding),
            "level": _LEVEL_WORDS.get(record.levelno, record.levelname.lower()),
            "logger": record.name,
            "msg": self.message(record),
            **self.facts(record),
        }
        return msgspec.json.encode(line).decode()


class _ConsoleForm(_Form):
    """One line for the eye; a stack follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        facts = self.facts(record)
        stack = facts.pop("stack", None)
        kind, namespace, name = (facts.pop(word, None) for word in ("kind", "namespace", "name"))
        facts.pop("reconcileID", None)
        about = f"{kind} {namespace}/{name}: " if namespace else f"{kind} {name}: " if name else ""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        rest = "".join(f" {word}={_quoted(value)}" for word, value in facts.items())
        line = f"{moment} {record.levelname:<7} {_visible(about + self.message(record))}{rest}"
        return f"{line}\n{stack}" if stack else line


def _visible(text: str) -> str:
    """Control characters written out: a name from the cluster must not steer a terminal or forge a line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _quoted(value: Detail) -> str:
    text = _visible(value) if isinstance(value, str) else str(value)
    return f'"{text}"' if " " in text else text


def _time(seconds: float, encoding: TimeEncoding) -> str | float | int:
    moment = datetime.fromtimestamp(seconds, UTC)
    match encoding:
        case TimeEncoding.EPOCH:
            return seconds
        case TimeEncoding.MILLIS:
            return seconds * 1000
        case TimeEncoding.NANO:
            return int(seconds * 1_000_000_000)
        case TimeEncoding.ISO8601:
            return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
        case TimeEncoding.RFC3339:
            return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        case TimeEncoding.RFC3339NANO:
            return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


_LEVEL_WORDS = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "panic",
}
_LEVELS = {word: level for level, word in _LEVEL_WORDS.items()} | {"warning": logging.WARNING}

_E = TypeVar("_E", Encoding, TimeEncoding)


def _level(text: str, flag: str) -> int:
    """A word, or a number: the higher, the more is said. All that is more than debug is debug."""
    if (level := _LEVELS.get(text.lower())) is not None:
        return level
    if text.isdigit() and int(text) > 0:
        return logging.DEBUG
    raise ValueError(f"{flag}={text!r}: expected debug, info, warn, error, panic or a number above 0")


def _choice(words: type[_E], text: str, flag: str) -> _E:
    try:
        return words(text.lower())
    except ValueError:
        allowed = ", ".join(word.value for word in words)
        raise ValueError(f"{flag}={text!r}: expected one of {allowed}") from None
