"""Log lines: one JSON object each for machines, one short line each for people.

Code logs with the standard library (`logging.getLogger(__name__)`) and passes details as `extra=fields(version="1.2")`.
Which object is being worked on is not passed around: the engine enters `reconciling(...)` and every line inside
carries it, other tasks' lines do not (a context variable, copied by each task).

An error's line has `error`. It has `stack` only where the exception is a surprise: the failures of an API server, of
a user's object or of a network explain themselves by their message, and fifty lines of stack bury it.

Nothing secret leaves through here. Every line, stack included, passes the redactor last: values registered as secret
are masked wherever they appear, and what looks like a token, a private key or a password in a URL is masked unasked.
Only kind, namespace and name of the object that a line is about are shown as they are: everyone who may see the object
knows them, and otherwise a tenant could hide the names of others by a Secret that contains them.

The flags are those of controller-runtime's zap options, so that Deployments of the original operators start
unchanged.
"""

from __future__ import annotations

import base64
import logging
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TextIO, TypeAlias, TypeVar

import msgspec

from stellwerk.kube.masking import LONGEST_WORD, MASK, WordIndex, spans_in, without
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.reconciler import ReconcileError

Detail: TypeAlias = str | int | float | bool | None

_EXPECTED: tuple[type[BaseException], ...] = (ApiError, ReconcileError, TimeoutError, OSError)
STACK: Mapping[str, object] = {"shows_stack": True}
"""For the `extra` of a line about an unexpected exception there: it shows the stack, whatever the class."""
_RESERVED = frozenset({"ts", "level", "logger", "msg", "reconcileID", "error"})
_LONGEST_MESSAGE = 16 * 1024
_LONGEST_STACK = 32 * 1024
_LONGEST_SHAPE = 4 * 1024
"""How far what looks like a secret may reach beyond the place at which a text is cut."""
_WITHHELD = "(values withheld: this namespace has more secret values than are compared with log lines)"


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
    handler = _Handler(stream or sys.stderr)
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
class LogSubject:
    """The object that lines are about."""

    kind: str
    key: ObjectKey
    reconcile_id: str = ""
    details: Callable[[], Mapping[str, Detail]] = dict
    """Further fields of the lines, worked out when there is a line."""


_subject: ContextVar[LogSubject | None] = ContextVar("stellwerk_log_subject", default=None)


@contextmanager
def reconciling(
    kind: str, key: ObjectKey, reconcile_id: str = "", details: Callable[[], Mapping[str, Detail]] = dict
) -> Iterator[None]:
    """All lines of this task are about this object while inside. `details`: their further fields."""
    token = _subject.set(LogSubject(kind, key, reconcile_id, details))
    try:
        yield
    finally:
        _subject.reset(token)


@dataclass(slots=True)
class _Tenant:
    """What is known of the secrets of one tenant."""

    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Words by the object that they were read from, the oldest first."""
    weight: int = 0
    lost: set[str] = field(default_factory=set)
    """Sources whose words are not known, because there was no room for them."""


class Redactor:
    """Masks secrets in log lines. Values are registered once they are known; shapes are masked always.

    Room is counted by tenant, and in all. Where a tenant's words need more than its share, its lines are withheld
    (`withholds`), and the words of all others stay known. Only the process's own values (tenant "") make room for each
    other, the oldest first.
    """

    MASK = MASK
    SHORTEST = 6
    """Shorter values are not masked: that would mask ordinary words and show what the values are."""
    TENANT_BYTES = 512 * 2**10
    TOTAL_BYTES = 16 * 2**20
    WORD_BYTES = 400
    """What a word takes in memory besides its letters, measured."""

    # The last one is a guess by the name of a field; the others are secrets wherever they appear.
    _SHAPES: Sequence[re.Pattern[str]] = (
        re.compile(
            r"(?P<secret>-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z))", re.S
        ),
        re.compile(r"(?P<secret>AGE-SECRET-KEY-1[0-9A-Z]+)"),
        re.compile(r"(?<![\w-])(?P<secret>eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)"),
        re.compile(r"(?i)\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{6,})"),
        re.compile(r"(?<=://)(?P<secret>[^/\s:@]*:[^/\s@]+)(?=@)"),
        re.compile(
            r"(?i)\"?(?:client_?secret|password|passwd|api_?key|access_?token|refresh_?token)\"?\s*[:=]\s*\"?"
            r"(?P<secret>[^\s\",&}]+)"
        ),
    )

    def __init__(
        self, values: Iterable[str] = (), *, tenant_bytes: int = TENANT_BYTES, total_bytes: int = TOTAL_BYTES
    ) -> None:
        self._tenant_bytes = tenant_bytes
        self._total_bytes = total_bytes
        self._tenants: dict[str, _Tenant] = {}
        self._words = WordIndex()
        self.weight = 0
        """Bytes that the words take."""
        self.hide(*values)

    def hide(self, *values: str, tenant: str = "", source: str = "") -> None:
        """Mask these values from now on, also in base64, and each line of them that a stack may show alone.

        `source` names the object that holds them: its former values are forgotten. Without it each value is kept by
        itself.
        """
        known = self._tenants.setdefault(tenant, _Tenant())
        if source:
            self._learn(tenant, known, source, values)
        else:
            for value in values:
                self._learn(tenant, known, value, (value,))

    def forget(self, tenant: str, source: str) -> None:
        """The object is gone, or its values are needed no longer."""
        known = self._tenants.get(tenant)
        if known is None:
            return
        self._drop(known, source)
        known.lost.discard(source)
        if not known.sources and not known.lost:
            del self._tenants[tenant]

    @classmethod
    def without_tokens(cls, text: str) -> str:
        """The text without what is a secret by its form alone: keys, tokens, passwords in URLs."""
        spans = [match.span("secret") for shape in cls._SHAPES[:-1] for match in shape.finditer(text)]
        return without(text, spans) if spans else text

    def withholds(self, tenant: str) -> bool:
        """Whether lines about objects of this tenant must not show any value: not all of its secrets are known."""
        known = self._tenants.get(tenant)
        return known is not None and bool(known.lost)

    def redacted(self, text: str, limit: int = _LONGEST_MESSAGE) -> str:
        """The text without secrets, and without what follows the limit."""
        whole = text[: limit + _LONGEST_SHAPE]
        spans = spans_in(whole, self._words) if len(self._words) else []
        spans += [match.span("secret") for shape in self._SHAPES for match in shape.finditer(whole)]
        if len(text) <= limit:
            return without(text, spans) if spans else text
        return without(text[:limit], [(start, min(end, limit)) for start, end in spans if start < limit]) + "…"

    def _learn(self, tenant: str, known: _Tenant, source: str, values: Iterable[str]) -> None:
        self._drop(known, source)
        known.lost.discard(source)
        words: dict[str, None] = {}
        weight = 0
        for word in _forms(values):
            if len(word) >= self.SHORTEST and word not in words:
                words[word] = None
                weight += len(word) + self.WORD_BYTES
            if weight > self._tenant_bytes:
                break
        if not words:
            return
        while not tenant and known.weight + weight > self._tenant_bytes and known.sources:
            self._drop(known, next(iter(known.sources)))
        if known.weight + weight > self._tenant_bytes:
            known.lost.add(source)
            return
        known.sources[source] = tuple(words)
        known.weight += weight
        self.weight += weight
        for word in words:
            self._words.add(word)
        if self.weight > self._total_bytes:
            self._lose_heaviest()

    def _lose_heaviest(self) -> None:
        """Make room at the expense of the tenant that takes most of it."""
        heaviest = max(
            (name for name in self._tenants if name), key=lambda name: self._tenants[name].weight, default=""
        )
        known = self._tenants[heaviest]
        if heaviest:
            known.lost.update(known.sources)
        for source in [*known.sources]:
            self._drop(known, source)

    def _drop(self, known: _Tenant, source: str) -> None:
        words = known.sources.pop(source, ())
        weight = sum(len(word) + self.WORD_BYTES for word in words)
        known.weight -= weight
        self.weight -= weight
        for word in words:
            self._words.discard(word)


def _forms(values: Iterable[str]) -> Iterator[str]:
    """What is looked for of each value, without more letters than are needed to find it."""
    for value in values:
        yield from (form[:LONGEST_WORD] for form in (value, *value.split("\n")))
        yield base64.b64encode(value.encode(errors="replace")).decode()[:LONGEST_WORD]


_process = Redactor()


def hide(*values: str, tenant: str = "", source: str = "") -> None:
    """Never show these values in a log line of this process. Code that reads a secret calls this first.

    `tenant` is the namespace that the secret belongs to, `source` the object that holds it; a value without a tenant is
    the process's own.
    """
    _process.hide(*values, tenant=tenant, source=source)


def forget(tenant: str, source: str) -> None:
    """The object that held these secrets is gone, or they are needed no longer."""
    _process.forget(tenant, source)


without_tokens = Redactor.without_tokens


def redacted(text: str) -> str:
    """The text as a log line of this process would show it."""
    return _process.redacted(text)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines. What cannot be written is lost: the standard library would print it as it is, secrets included."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the library's name
        """The stream is gone or full."""


class _Form(logging.Formatter, ABC):
    """What both forms share: which facts a record has."""

    def __init__(self, settings: LogSettings, redactor: Redactor) -> None:
        super().__init__()
        self._settings = settings
        self._redactor = redactor

    @abstractmethod
    def line(self, record: logging.LogRecord) -> str:
        """The line of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, or one that names the line that could not be written: a log call never fails."""
        try:
            return _speakable(self.line(record))
        except Exception as error:
            place = f"{record.module}:{record.lineno}"
            said = f"a log line of {place} cannot be written: {type(error).__name__}"
            return self.line(logging.makeLogRecord({**_origin(record), "msg": said}))

    def facts(self, record: logging.LogRecord) -> dict[str, Detail]:
        """Everything beyond time, level, logger and message, redacted, in the order in which it is shown."""
        about: dict[str, Detail] = {}
        facts: dict[str, Detail] = {}
        if (subject := _subject.get()) is not None:
            key = subject.key
            words = {"kind": subject.kind, "namespace": key.namespace, "name": key.name}
            about |= {name: _speakable(word) for name, word in words.items()}
            about["reconcileID"] = subject.reconcile_id
            facts |= _unreserved(subject.details())
        facts |= _unreserved(getattr(record, "fields", {}))
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            facts["error"] = _said(error)
            expected = isinstance(error, _EXPECTED) and not getattr(record, "shows_stack", False)
            if not expected and record.levelno >= self._settings.stack_level:
                facts["stack"] = _shortened("".join(traceback.format_exception(error)).rstrip())
        if record.stack_info:
            facts["stack"] = record.stack_info
        if self._is_withheld:
            facts = {name: _WITHHELD if isinstance(value, str) else value for name, value in facts.items()}
        cleaned = {name: self._clean(name, value) for name, value in facts.items()}
        return {name: value for name, value in (about | cleaned).items() if value != ""}

    def message(self, record: logging.LogRecord) -> str:
        if self._is_withheld and record.args:
            return f"{record.msg} {_WITHHELD}"
        return self._redactor.redacted(_speakable(record.getMessage()))

    @property
    def _is_withheld(self) -> bool:
        subject = _subject.get()
        return subject is not None and self._redactor.withholds(subject.key.namespace)

    def _clean(self, name: str, value: Detail) -> Detail:
        limit = _LONGEST_STACK if name == "stack" else _LONGEST_MESSAGE
        return self._redactor.redacted(_speakable(value), limit) if isinstance(value, str) else value


def _unreserved(details: Mapping[str, Detail]) -> dict[str, Detail]:
    return {f"{name}_" if name in _RESERVED else name: value for name, value in details.items()}


def _speakable(text: str) -> str:
    """The text without lone surrogates, which no encoding can write."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _said(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _shortened(stack: str) -> str:
    """Where it began and where it ended: a recursion without end has a thousand frames between."""
    if len(stack) <= _LONGEST_STACK:
        return stack
    half = _LONGEST_STACK // 2 - 2
    return f"{stack[:half]}\n…\n{stack[-half:]}"


def _origin(record: logging.LogRecord) -> dict[str, object]:
    """Where a record comes from, without its content."""
    return {"name": record.name, "levelno": record.levelno, "levelname": record.levelname, "created": record.created}


class _JsonForm(_Form):
    """One JSON object a line."""

    def line(self, record: logging.LogRecord) -> str:
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

    def line(self, record: logging.LogRecord) -> str:
        facts = self.facts(record)
        stack = facts.pop("stack", None)
        kind, namespace, name = (facts.pop(word, None) for word in ("kind", "namespace", "name"))
        facts.pop("reconcileID", None)
        about = f"{kind} {namespace}/{name}: " if namespace else f"{kind} {name}: " if name else ""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        rest = "".join(f" {word}={_quoted(value)}" for word, value in facts.items())
        line = f"{moment} {record.levelname:<7} {_visible(about + self.message(record))}{rest}"
        return f"{line}\n{_indented(str(stack))}" if stack else line


def _visible(text: str) -> str:
    """Control characters written out: a name from the cluster must not steer a terminal or forge a line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _indented(stack: str) -> str:
    """A stack on lines of its own: its messages may come from the cluster, and no line of it begins like a log line."""
    return "\n".join(f"    {_visible(line)}" for line in stack.split("\n"))


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
    """A word, or a number: the higher, the more is logged. Everything above debug is debug."""
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
