"""Values on the command line as Helm reads them: `--set`, `--set-string`, `--set-file` and `--set-json`.

`a.b=1,c[0].d=x,e={f,g}`: a backslash takes the next letter as it is; `--set` makes numbers, truth values and null of
words, and `null` removes a default of the chart. As in Helm, they are laid over the files, and --set-json comes first,
then --set, --set-string and --set-file. No message quotes a value: it may be a secret.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.releases import sources as release_sources
from stellwerk.render.request import values
from stellwerk.render.request.values import Layer

_WORDS: dict[str, JsonValue] = {"true": True, "false": False, "null": None, "0": 0}
_LARGEST = 2**63
_MOST_LEVELS, _MOST_ITEMS = 30, 65_536
"""As Helm's: of nested names, and of an index."""


@dataclass(frozen=True, slots=True)
class GivenValues:
    """The values of a call."""

    files: Sequence[Path] = ()
    json: Sequence[str] = ()
    words: Sequence[str] = ()
    strings: Sequence[str] = ()
    contents: Sequence[str] = ()

    def layers(self) -> list[Layer]:
        """The values, the last one nearest. Raises Failure, InvalidValues, OSError."""
        found = release_sources.layers(self.files)
        if not any((self.json, self.words, self.strings, self.contents)):
            return found
        merged = copy.deepcopy(values.merge(found))
        for text in self.json:
            _read_json(text, merged)
        for option, texts, convert in (
            ("--set", self.words, typed),
            ("--set-string", self.strings, str),
            ("--set-file", self.contents, _content),
        ):
            read(option, texts, convert, merged)
        return [Layer("--values and --set", merged, secret=True)]


def typed(word: str) -> JsonValue:
    """The value of a word of `--set`: a number without a leading zero is one. Pure."""
    if word in _WORDS:
        return _WORDS[word]
    digits = word.removeprefix("-").removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and not word.startswith("0")
    return int(word) if is_number and abs(int(word)) < _LARGEST else word


def read(option: str, texts: Iterable[str], convert: Callable[[str], JsonValue], into: JsonObject) -> None:
    """Merge the values of one option into others. Raises Failure."""
    for text in texts:
        _Reader(option, text, convert).read(into)


def _read_json(text: str, into: JsonObject) -> None:
    if text.lstrip().startswith("{"):
        reader = _Reader("--set-json", text, str)
        whole = reader.json_value()
        if not isinstance(whole, dict):
            reader.fail("it is no object")
        into.update(values.merge([Layer("", into), Layer("", whole)]))
        return
    _Reader("--set-json", text, str, reads_json=True).read(into)


def _content(path: str) -> str:
    """Raises OSError."""
    return Path(path).read_text()


@dataclass(slots=True)
class _Reader:
    """Reads one text from left to right."""

    option: str
    text: str
    convert: Callable[[str], JsonValue]
    reads_json: bool = False
    _at: int = 0
    _key: str = ""

    def fail(self, why: str) -> NoReturn:
        """Refuse the text."""
        where = f" at key {self._key!r}" if self._key else ""
        fix = "write it as Helm reads it: a.b=1,c[0]=x,d={e,f}; a comma in a value is written '\\,'"
        raise Failure(f"{self.option} cannot be read{where}", cause=why, fix=fix, code=Exit.USAGE)

    def read(self, into: JsonObject) -> None:
        """All values of the text."""
        while self._at < len(self.text):
            self._name(into, 0)

    def _until(self, ends: str) -> tuple[str, str]:
        """The letters before the next of these, and that one; empty at the end of the text."""
        found: list[str] = []
        while self._at < len(self.text):
            letter = self.text[self._at]
            self._at += 1
            if letter == "\\" and self._at < len(self.text):
                found.append(self.text[self._at])
                self._at += 1
            elif letter in ends:
                return "".join(found), letter
            else:
                found.append(letter)
        return "".join(found), ""

    def _name(self, into: JsonObject, level: int) -> None:
        if level > _MOST_LEVELS:
            self.fail(f"names are nested deeper than {_MOST_LEVELS} levels")
        name, end = self._until("=[,.")
        self._key = name
        if not name:
            self.fail("a key is empty")
        former = into.get(name)
        match end:
            case "=":
                into[name] = self._value()
            case "[":
                into[name] = self._item([*former] if isinstance(former, list) else [], level + 1)
            case ".":
                inner = former if isinstance(former, dict) else {}
                into[name] = inner
                self._name(inner, level + 1)
            case _:
                self.fail("it has no value")

    def _item(self, into: list[JsonValue], level: int) -> list[JsonValue]:
        text, end = self._until("]")
        if (
            not end
            or not (text.isascii() and text.isdecimal())
            or int(text[:6]) > _MOST_ITEMS
            or len(text) > len("65536")
        ):
            self.fail(f"an index is a number from 0 to {_MOST_ITEMS}")
        if level > _MOST_LEVELS:
            self.fail(f"names are nested deeper than {_MOST_LEVELS} levels")
        place = int(text)
        into += [None] * (place + 1 - len(into))
        rest, end = self._until("=[.")
        former = into[place]
        if rest or not end:
            self.fail("an index is followed by '=', '.' or '['")
        if end == "=":
            into[place] = self._value()
        elif end == "[":
            into[place] = self._item([*former] if isinstance(former, list) else [], level + 1)
        else:
            inner = former if isinstance(former, dict) else {}
            into[place] = inner
            self._name(inner, level + 1)
        return into

    def _value(self) -> JsonValue:
        if self.reads_json:
            return self.json_value()
        if not self.text.startswith("{", self._at):
            return self.convert(self._until(",")[0])
        self._at += 1
        items: list[JsonValue] = []
        while True:
            word, end = self._until(",}")
            if not end:
                self.fail("a list has no end '}'")
            if word or end == "," or items:
                items.append(self.convert(word))
            if end == "}":
                break
        if self._until(",")[0]:
            self.fail("a list is followed by more than a comma")
        return items

    def json_value(self) -> JsonValue:
        """The JSON at this place, and the comma behind it."""
        self._at += len(self.text[self._at :]) - len(self.text[self._at :].lstrip())
        try:
            found, self._at = json.JSONDecoder().raw_decode(self.text, self._at)
        except (ValueError, RecursionError):
            self.fail("it is no JSON")
        if self._until(",")[0].strip():
            self.fail("JSON is followed by more than a comma")
        value: JsonValue = found
        return value
