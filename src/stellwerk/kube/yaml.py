"""YAML text into JSON values with the meaning kubectl gives it, and text into YAML that keeps it.

kubectl reads YAML through a library of its own making, which follows YAML 1.1 with exceptions: `yes`, `on` and `y` are
booleans, but `1:30` is text and not a number to the base of sixty, and dates are text. A text must not change its
meaning because we read it, so the rules of `_plain` were taken from what kubectl prints, and a test asks kubectl again.

Where kubectl is generous, we are not: a key that appears twice is refused (the later one would win in silence), and so
is text that would unfold into much more than it is: aliases that multiply, endless nesting, numbers that JSON lacks.

We refused PyYAML's own constructors: they know neither these rules nor limits, and they recurse, in C without a limit,
so that deep text ends the process. libyaml's events are read in one loop; the price is 2 to 3 microseconds an event.

Every limit applies before the work that it bounds: depth when a list or mapping opens, aliases by the size of the value
that they name (in values and in bytes), tag handles before libyaml compares each with all others.

Reading a mebibyte of small values takes most of a second. Where the event loop runs and a user wrote the text, read it
in a thread (`kube.threads.run`).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import yaml

from stellwerk.kube.types.model import JsonObject, JsonValue


class UnreadableYaml(Exception):
    """A text is not YAML, or more than may be read. `why` quotes no value; a key that appears twice is in `key`."""

    def __init__(self, why: str, *, file: str = "", document: int = 0, line: int = 0, key: str = "") -> None:
        self.why = why
        self.file = file
        self.document = document
        """Counted from 1; 0 where the text has none."""
        self.line = line
        """Counted from 1 in the file; 0 where unknown."""
        self.key = key
        super().__init__(f"{file or 'YAML'}, line {line}: {why}" if line else f"{file or 'YAML'}: {why}")


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """How much one text may be, and may become."""

    bytes: int = 16 * 2**20
    depth: int = 100
    """Mappings and lists inside each other."""
    values: int = 250_000
    """Scalars, lists and mappings of a text, aliases unfolded: what bounds time (2 s) and memory."""
    expansion: int = 10
    """How many times its written size a text may grow by aliases, in values and in bytes. Small texts may always reach
    `free_values` and `free_bytes`, and no text unfolds to more than `bytes`."""
    free_values: int = 1_000
    free_bytes: int = 64 * 2**10
    tag_handles: int = 100
    """%TAG lines. libyaml compares each with all others."""


DEFAULT_LIMITS = YamlLimits()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document was found, for messages."""

    file: str = ""
    document: int = 0
    """Counted from 1 within the file, empty documents included; 0 where there is only one or none."""
    line: int = 0

    def __str__(self) -> str:
        where = self.file or "manifest"
        return f"{where}, document {self.document}" if self.document else where


def read_documents(
    text: str | bytes, *, file: str = "", limits: YamlLimits = DEFAULT_LIMITS
) -> Iterator[tuple[JsonValue, Origin]]:
    """The documents of a text, empty ones included as None. Raises `UnreadableYaml`, also while iterating."""
    return _YamlReader(file, limits).documents(text)


def read_value(text: str | bytes, *, file: str = "", limits: YamlLimits = DEFAULT_LIMITS) -> JsonValue:
    """The value of a text with one document; None of an empty one.

    Raises `UnreadableYaml` with the position of what is wrong, or where a second document follows.
    """
    values = list(read_documents(text, file=file, limits=limits))
    if len(values) > 1:
        raise UnreadableYaml("expected one document", file=file, document=2, line=values[1][1].line)
    return values[0][0] if values else None


# ---- from libyaml's events to JSON

_NextEvent: TypeAlias = Callable[[], yaml.Event]
"""Only behind the end of the stream there is none."""


@dataclass(slots=True)
class _Node:
    """A value and its weight."""

    value: JsonValue
    size: int = 1
    """Values inside, itself included, aliases unfolded."""
    bytes: int = 0
    """Bytes of all scalars inside, keys included, aliases unfolded."""
    depth: int = 0
    """Levels of lists and mappings inside."""


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is still being read."""

    into: list[JsonValue] | JsonObject
    anchor: str | None
    size: int = 1
    bytes: int = 0
    depth: int = 1
    key: str | None = None
    """In a mapping: the key whose value comes next."""
    merging: bool = False
    """In a mapping: the next value is to be merged in."""
    seen: set[str] = field(default_factory=set)
    """In a mapping: keys written here, as opposed to merged in."""

    @property
    def wants_key(self) -> bool:
        return isinstance(self.into, dict) and self.key is None and not self.merging


class _Portions:
    """A text that libyaml reads in portions of 16 KiB.

    Given the text whole, libyaml would hold the interpreter's lock through a scalar or comment of any size, and would
    block the event loop although it runs in another thread. Between two portions the lock is free.
    """

    name = "YAML"

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int = 0, /) -> bytes:
        begin = self._position
        self._position += size
        return self._data[begin : self._position]


class _YamlReader:
    """Reads one text; the state is what has been counted."""

    def __init__(self, file: str, limits: YamlLimits) -> None:
        self.file = file
        self.limits = limits
        self.document = 0
        self.written = 0
        self.unfolded = 0
        self.unfolded_bytes = 0
        self.allowed_bytes = 0

    def documents(self, text: str | bytes) -> Iterator[tuple[JsonValue, Origin]]:
        limits = self.limits
        try:
            data = text.encode() if isinstance(text, str) else _as_utf8(text)
        except UnicodeError as error:
            raise UnreadableYaml("is not Unicode text", file=self.file) from error
        if len(data) > limits.bytes:
            raise UnreadableYaml(f"is larger than {_size(limits.bytes)}", file=self.file)
        if _has_more_tag_handles(data, limits.tag_handles):
            raise UnreadableYaml(f"declares more than {limits.tag_handles} tag handles", file=self.file)
        self.allowed_bytes = min(limits.bytes, max(limits.free_bytes, limits.expansion * len(data)))
        try:
            yield from self._stream(cast(_NextEvent, yaml.CSafeLoader(_Portions(data)).get_event))
        except yaml.MarkedYAMLError as error:
            raise self._not_yaml(error) from error
        except (yaml.YAMLError, UnicodeError) as error:
            raise UnreadableYaml("is not UTF-8 text", file=self.file, document=self.document) from error

    def _stream(self, next_event: _NextEvent) -> Iterator[tuple[JsonValue, Origin]]:
        while not isinstance(event := next_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self.document += 1
                origin = Origin(self.file, self.document, _line(event) + (1 if event.explicit else 0))
                yield self._value(next_event), origin

    def _value(self, next_event: _NextEvent) -> JsonValue:
        """One document's value. A loop with its own stack, so that depth costs no recursion."""
        frames: list[_Frame] = []
        anchors: dict[str, _Node] = {}
        while not isinstance(event := next_event(), yaml.DocumentEndEvent):
            if isinstance(event, yaml.ScalarEvent):
                node, anchor = self._scalar(event), event.anchor
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(frames, event)
                continue
            elif isinstance(event, yaml.AliasEvent):
                node, anchor = self._alias(event, anchors, len(frames)), None
            else:
                frame = frames.pop()
                node, anchor = _Node(frame.into, frame.size, frame.bytes, frame.depth), frame.anchor
            if anchor is not None:
                anchors[anchor] = node
            if not frames:
                return node.value
            self._put(frames[-1], node, event)
        return None

    def _open(self, frames: list[_Frame], event: yaml.CollectionStartEvent) -> None:
        self._count(event, len(event.tag or ""))
        self._check_depth(len(frames) + 1, event)
        if frames and frames[-1].wants_key:
            raise self._error("a key must be a single value", event)
        frames.append(_Frame({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def _scalar(self, event: yaml.ScalarEvent) -> _Node:
        text, tag = event.value, event.tag
        size = len(text) if text.isascii() else len(text.encode())
        self._count(event, size if tag is None else size + len(tag))
        plain = event.implicit[0] and tag is None
        try:
            return _Node(_plain(text) if plain else _tagged(tag or "!", text), 1, size)
        except ValueError as error:
            raise self._error(str(error), event) from error

    def _alias(self, event: yaml.AliasEvent, anchors: dict[str, _Node], depth: int) -> _Node:
        node = anchors.get(event.anchor or "")
        if node is None:  # also a value that is to hold itself: it has no name before it ends
            raise self._error("an alias names nothing that ends before it", event)
        self._check_depth(depth + node.depth, event)
        self._count(event, node.bytes, node.size)
        return node

    def _put(self, frame: _Frame, node: _Node, event: yaml.Event) -> None:
        frame.size += node.size
        frame.bytes += node.bytes
        if node.depth >= frame.depth:
            frame.depth = node.depth + 1
        into = frame.into
        if isinstance(into, list):
            into.append(node.value)
        elif frame.merging:
            self._merge(frame, node.value, event)
        elif frame.key is None:
            self._take_key(frame, node.value, event)
        else:
            into[frame.key] = node.value
            frame.key = None

    def _take_key(self, frame: _Frame, value: JsonValue, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.tag is None and event.implicit[0]:
            key, frame.merging = "<<", True
        else:
            key = frame.key = self._key(value, event)
        if key in frame.seen:
            raise self._error("a key appears twice", event, key=key[:60])
        frame.seen.add(key)

    def _key(self, value: JsonValue, event: yaml.Event) -> str:
        match value:
            case str():
                return sys.intern(value)  # manifests repeat few keys: without it a third of their memory is keys
            case bool():
                return "true" if value else "false"
            case int() | float():
                return str(value)
            case _:
                raise self._error("a key must be a single value, not null", event)

    def _merge(self, frame: _Frame, value: JsonValue, event: yaml.Event) -> None:
        frame.merging = False
        sources = value if isinstance(value, list) else [value]
        for source in reversed(sources):  # the first of several wins
            if not isinstance(source, dict) or not isinstance(frame.into, dict):
                raise self._error("`<<` needs a mapping or a list of mappings", event)
            frame.into.update(source)

    def _check_depth(self, depth: int, event: yaml.Event) -> None:
        if depth > self.limits.depth:
            raise self._error(f"is nested deeper than {self.limits.depth} levels", event)

    def _count(self, event: yaml.Event, size: int, values: int = 1) -> None:
        """Count an event with its bytes and values, aliases unfolded, before anything is made of it."""
        limits = self.limits
        self.written += 1
        self.unfolded += values
        self.unfolded_bytes += size
        if self.unfolded > limits.values:
            raise self._error(f"holds more than {limits.values} values", event)
        if self.unfolded > limits.free_values and self.unfolded > limits.expansion * self.written:
            raise self._error(f"aliases unfold to more than {limits.expansion} times the text", event)
        if self.unfolded_bytes > self.allowed_bytes:
            raise self._error(f"aliases and tags unfold to more than {_size(self.allowed_bytes)}", event)

    def _error(self, why: str, event: yaml.Event, *, key: str = "") -> UnreadableYaml:
        return UnreadableYaml(why, file=self.file, document=self.document, line=_line(event), key=key)

    def _not_yaml(self, error: yaml.MarkedYAMLError) -> UnreadableYaml:
        mark = error.problem_mark or error.context_mark
        why = "is not YAML: " + ", ".join(part for part in (error.context, error.problem) if part)
        return UnreadableYaml(why, file=self.file, document=self.document, line=mark.line + 1 if mark else 0)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def _as_utf8(data: bytes) -> bytes:
    """The text as UTF-8, so that one check of its bytes fits all encodings that libyaml reads. Raises UnicodeError."""
    return data.decode("utf-16").encode() if data.startswith((b"\xff\xfe", b"\xfe\xff")) else data


_TAG_HANDLE = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf)%TAG")


def _has_more_tag_handles(data: bytes, most: int) -> bool:
    if data.count(b"%TAG") <= most:
        return False
    return sum(1 for _ in _TAG_HANDLE.finditer(data)) > most


# ---- what a word without quotes means

_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
}
_ENDLESS = re.compile(r"[+-]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 1_000
"""Digits beyond this make no number that anything computes with; to look for one in megabytes would take long."""
_EXACT = 1e21
"""Whole floating numbers below this are written without an exponent, and so become integers of the JSON."""


def _plain(text: str) -> JsonValue:
    """The value of a scalar without quotes. Raises `ValueError` for a number that JSON lacks."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if len(text) < 19 and text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0"):
        return int(text)  # most numbers
    if _ENDLESS.fullmatch(text):
        raise ValueError("infinite numbers and NaN have no form in JSON")
    number = _number(text.replace("_", ""))
    return text if number is None else number


def _number(text: str) -> int | float | None:
    if match := _INTEGER.fullmatch(text):
        sign, *digits = match.groups()
        for base, found in zip((16, 2, 8, 10), digits, strict=True):
            if found is not None and len(found) <= 64:
                value = int(sign + found, base)
                if -(2**63) <= value < 2**64:
                    return value
    if not _FLOAT.fullmatch(text):
        return None
    value_as_float = float(text)
    if math.isinf(value_as_float):
        return None
    whole = value_as_float.is_integer() and abs(value_as_float) < _EXACT
    return int(value_as_float) if whole else value_as_float


def text_node(dumper: yaml.representer.BaseRepresenter, text: str, *, as_block: bool = False) -> yaml.ScalarNode:
    """A text as a dumper writes it: in quotes where a reader could take it for another value, as `1e3` or `y`.

    PyYAML quotes only what is no text in its YAML 1.1; kubectl and readers of YAML 1.2 see more numbers and booleans.
    With `as_block` a text of several lines is written as such.
    """
    style = "|" if as_block and "\n" in text else None if _is_text(text) else "'"
    return dumper.represent_scalar(f"{_STANDARD}str", text, style=style)


class TextDumper(yaml.SafeDumper):
    """Writes values so that every reader reads them as they are, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Whether a value that is there twice is written twice."""
        return True


TextDumper.add_representer(str, text_node)


def _is_text(text: str) -> bool:
    try:
        return _plain(text) == text
    except ValueError:
        return False


_STANDARD = "tag:yaml.org,2002:"


def _tagged(tag: str, text: str) -> JsonValue:
    """The value of a scalar with quotes or a tag. Unknown tags are ignored. Raises `ValueError`."""
    name = tag.removeprefix(_STANDARD)
    if name == "binary":
        return _from_base64(text)
    if name not in ("int", "float", "bool", "null"):
        return text
    value = _plain(text)
    expected = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}[name]
    if not isinstance(value, expected) or (name != "bool" and isinstance(value, bool)):
        raise ValueError(f"a value marked !!{name} is none")
    return value


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise ValueError("a value marked !!binary is not base64 of UTF-8 text") from error
