"""Objects of two runs made comparable: what the server or chance chose is replaced by its meaning.

A uid becomes whose uid it is, so an owner reference to the wrong or a vanished object still shows; an
observedGeneration becomes whether it is the present one; a Secret's value becomes its text. Only what means nothing is
left out.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from stellwerk.kube.types.model import JsonObject, JsonValue

Steps = tuple[str, ...]

_OF_THE_SERVER = ("uid", "resourceVersion", "managedFields", "generation", "selfLink", "generateName")
_ADDRESSES = frozenset({"clusterIP", "clusterIPs", "nodePort", "podIP", "podIPs", "hostIP", "hostIPs"})
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\n?", re.DOTALL)
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SEAL = re.compile(r"\bv1:[0-9a-f]{64}\b")
# Base64 of "-----BEGIN ", the whole of a caBundle or of a mounted certificate.
_PEM_IN_BASE64 = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """What may differ between two runs, besides what the server always chooses.

    `words` are replaced everywhere, in keys too (a random namespace: `{"test-4f2a": "NAMESPACE"}`). What is
    at one of `paths` becomes `<masked>`; a step is a key, and `*` is any key or item:
    `("metadata", "annotations", "example.com/checksum")`.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    paths: Sequence[Steps] = ()

    def objects(self, objects: Sequence[JsonObject]) -> dict[str, JsonObject]:
        """The objects by kind, namespace and name. Those whose names were generated are numbered by their content."""
        text = _TextMask(self.words, _owners(objects), _generated_names(objects))
        masked = sorted((self._object(one, text) for one in objects), key=lambda pair: (pair[0], repr(pair[1])))
        result: dict[str, JsonObject] = {}
        for name, content in masked:
            result[_numbered(name, result)] = content
        return result

    def body(self, body: JsonValue) -> JsonValue:
        """A request's body."""
        return _without_noise(self._at_paths(body), _TextMask(self.words, {}, {}))

    def text(self, text: str) -> str:
        """A line of text."""
        return _TextMask(self.words, {}, {})(text)

    def _object(self, item: JsonObject, text: _TextMask) -> tuple[str, JsonObject]:
        metadata = _section(item, "metadata")
        shown = self._at_paths(_generation_told(_secret_opened(item)))
        masked = cast(JsonObject, _without_noise(shown, text))
        masked["metadata"] = {
            key: value for key, value in _section(masked, "metadata").items() if key not in _OF_THE_SERVER
        }
        return text(_label(item, metadata)), masked

    def _at_paths(self, value: JsonValue) -> JsonValue:
        for path in self.paths:
            value = _masked_at(value, path)
        return value


class _TextMask:
    """Replaces words, uids, moments and certificates inside a text."""

    def __init__(self, words: Mapping[str, str], owners: Mapping[str, str], generated: Mapping[str, str]) -> None:
        # Longest first, so that no word is replaced inside a longer one.
        self._words = sorted([*generated.items(), *words.items()], key=lambda pair: -len(pair[0]))
        self._owners = owners

    def __call__(self, text: str) -> str:
        text = _PEM.sub(lambda found: f"<{found[1]}>", text)
        text = _PEM_IN_BASE64.sub("<PEM in base64>", text)
        text = _MOMENT.sub("<time>", text)
        text = _SEAL.sub("<seal>", text)
        text = _UID.sub(lambda found: f"<uid of {self._owners.get(found[0], 'no known owner')}>", text)
        for word, instead in self._words:
            text = text.replace(word, instead)
        return text


def _owners(objects: Iterable[JsonObject]) -> dict[str, str]:
    return {
        str(metadata["uid"]): _label(item, metadata)
        for item in objects
        if "uid" in (metadata := _section(item, "metadata"))
    }


def _generated_names(objects: Iterable[JsonObject]) -> dict[str, str]:
    return {
        str(metadata["name"]): f"{metadata['generateName']}*"
        for item in objects
        if "generateName" in (metadata := _section(item, "metadata"))
    }


def _label(item: JsonObject, metadata: JsonObject) -> str:
    parts = (item.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return "/".join(str(part) for part in parts if part)


def _numbered(name: str, taken: Mapping[str, JsonObject]) -> str:
    names = (name, *(f"{name} ({number})" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)


def _secret_opened(item: JsonObject) -> JsonObject:
    """A Secret with the texts of its values, which can be masked and read; others as they are."""
    if item.get("kind") != "Secret":
        return item
    return {**item, "data": {key: _opened(value) for key, value in _section(item, "data").items()}}


def _opened(value: JsonValue) -> JsonValue:
    try:
        return base64.b64decode(str(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value


def _generation_told(item: JsonObject) -> JsonObject:
    """An object whose observedGeneration fields are `present` or `past`."""
    generation = _section(item, "metadata").get("generation")

    def told(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [told(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: _observed(one, generation) if key == "observedGeneration" else told(one) for key, one in value.items()
        }

    return {key: told(value) if key == "status" else value for key, value in item.items()}


def _observed(value: JsonValue, generation: JsonValue) -> JsonValue:
    return "<present>" if value == generation else "<past>"


def _without_noise(value: JsonValue, text: _TextMask) -> JsonValue:
    match value:
        case str():
            return text(value)
        case list():
            return [_without_noise(one, text) for one in value]
        case dict():
            return {
                text(key): "<address>" if key in _ADDRESSES and one not in ("None", "") else _without_noise(one, text)
                for key, one in value.items()
            }
        case _:
            return value


def _masked_at(value: JsonValue, path: Steps) -> JsonValue:
    if not path:
        return "<masked>"
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_masked_at(one, rest) if step in ("*", str(place)) else one for place, one in enumerate(value)]
    if isinstance(value, dict):
        return {key: _masked_at(one, rest) if step in ("*", key) else one for key, one in value.items()}
    return value


def _section(item: JsonObject, key: str) -> JsonObject:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def lines_of(value: JsonValue, indent: str = "") -> Iterator[str]:
    """A value as lines that differ where it differs: a path and a leaf each, keys in order."""
    match value:
        case dict() if value:
            for key in sorted(value):
                yield from lines_of(value[key], f"{indent}.{key}" if indent else key)
        case list() if value:
            for place, one in enumerate(value):
                yield from lines_of(one, f"{indent}[{place}]")
        case _:
            yield f"{indent}: {value!r}"
