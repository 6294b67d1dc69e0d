"""Several sources of values become one, and each value still knows where it came from.

    read(text, source) -> JsonObject                    YAML or JSON of a Secret; raises InvalidValues
    checked(value, source) -> JsonObject                spec.values as the API server gave it; raises InvalidValues
    merge(layers) -> JsonObject                         later ones win
    origins(layers) -> tuple[Leaf, ...]                 where each leaf of the merged values came from, Secrets masked
    secret_words(layers) -> frozenset[str]              what must not appear in an error

Mappings are merged key by key; everything else (lists, scalars, null) replaces what was there. That holds for a scalar
over a mapping as well, where the original loses the key. A null is kept: a chart takes it for the wish to delete a
default, and only the chart knows its defaults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.kube import yaml
from stellwerk.kube.masking import MASK, Vocabulary, words_of
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.kube.yaml import UnreadableYaml
from stellwerk.render.errors import InvalidValues

Path: TypeAlias = tuple[str, ...]

_DEPTH = 100


@dataclass(frozen=True, slots=True, repr=False)
class Layer:
    """Values from one source."""

    source: str
    """For people: `Secret default/app key values.yaml`, or `spec.values`."""
    values: JsonObject
    secret: bool = False
    """Whether they are secret."""

    def __repr__(self) -> str:
        return f"Layer({self.source!r})"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf value, as users may see it."""

    path: Path
    source: str
    shown: JsonValue
    """The value, or a mask."""
    overrides: tuple[str, ...] = ()
    """Sources that had a value here as well, the nearest first."""

    @property
    def name(self) -> str:
        """The path with dots, as `--set` takes it: dots and commas within a key are escaped."""
        return ".".join(_escaped(key) for key in self.path)


def read(text: str | bytes, source: str) -> JsonObject:
    """The values of a YAML or JSON text; an empty one has none. Raises `InvalidValues`, which quotes nothing of it."""
    try:
        found = yaml.read_value(text)
    except UnreadableYaml as error:
        raise InvalidValues(source, error.why, line=error.line) from None  # its text names keys
    return checked(found, source)


def checked(value: object, source: str) -> JsonObject:
    """Values that came as JSON. Raises `InvalidValues` where they are no mapping, too deep, or no JSON."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidValues(source, f"expected a mapping, found {_what(value)}")
    _check(value, source)
    return value


def merge(layers: Iterable[Layer]) -> JsonObject:
    """All values in one. Mappings are new, lists are the layers' own: treat them as read-only."""
    merged: JsonObject = {}
    for layer in layers:
        _merge_into(merged, layer.values)
    return merged


def origins(layers: Sequence[Layer]) -> tuple[Leaf, ...]:
    """Each leaf of the merged values and the source that it came from, in the order of the paths."""
    top: dict[str, _Node] = {}
    for layer in layers:
        _lay(top, layer)
    return tuple(_leaf(path, found) for path, found in sorted(_walked(top), key=lambda one: one[0]))


def secret_words(layers: Iterable[Layer]) -> frozenset[str]:
    """Texts of the secret layers, whole and line by line."""
    words: set[str] = set()
    for layer in layers:
        if layer.secret:
            for _, value in _leaves(layer.values):
                words |= words_of(value)
    return frozenset(words)


def masked(text: str, words: Iterable[str]) -> str:
    """A text without the words, cut to a length that a message may have (see `masking`).

    native/renderer/discreet does the same for what is known there alone.
    """
    return Vocabulary(words).masked(text)


# ---- merging


def _merge_into(into: JsonObject, values: JsonObject) -> None:
    pending = [(into, values)]
    while pending:
        target, source = pending.pop()
        for key, value in source.items():
            here = target.get(key)
            if not isinstance(value, dict):
                target[key] = value
                continue
            if not isinstance(here, dict):
                here = target[key] = {}
            pending.append((here, value))


def _check(value: JsonObject, source: str) -> None:
    pending: list[tuple[JsonValue, int]] = [(value, 1)]
    while pending:
        found, depth = pending.pop()
        if depth > _DEPTH and isinstance(found, dict | list):
            raise InvalidValues(source, f"it is nested deeper than {_DEPTH} levels")
        if isinstance(found, dict):
            pending.extend((inner, depth + 1) for inner in found.values())
        elif isinstance(found, list):
            pending.extend((inner, depth + 1) for inner in found)
        elif isinstance(found, float) and not math.isfinite(found):
            raise InvalidValues(source, "infinite numbers and NaN have no form in JSON")


def _what(value: object) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return type(value).__name__


# ---- leaves


def _leaves(values: JsonObject) -> Iterator[tuple[Path, JsonValue]]:
    """The leaves: scalars, lists, null and empty mappings."""
    pending: list[tuple[Path, JsonValue]] = [((), values)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict) and (value or not path):
            pending.extend(((*path, key), inner) for key, inner in value.items())
        else:
            yield path, value


_Node: TypeAlias = "dict[str, _Node] | tuple[Layer, ...]"
"""A mapping, or the layers that had a leaf there, the last one first."""


def _lay(top: dict[str, _Node], layer: Layer) -> None:
    pending: list[tuple[dict[str, _Node], JsonObject]] = [(top, layer.values)]
    while pending:
        target, source = pending.pop()
        for key, value in source.items():
            here = target.get(key)
            if not isinstance(value, dict) or not (value or isinstance(here, dict)):
                target[key] = (layer, *(here if isinstance(here, tuple) else ()))
                continue
            if not isinstance(here, dict):
                here = target[key] = {}
            pending.append((here, value))


def _walked(top: dict[str, _Node]) -> Iterator[tuple[Path, tuple[Layer, ...]]]:
    pending: list[tuple[Path, _Node]] = [((), top)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict):
            pending.extend(((*path, key), inner) for key, inner in node.items())
        else:
            yield path, node


def _leaf(path: Path, layers: Sequence[Layer]) -> Leaf:
    first, *others = layers
    value = _at(first.values, path)
    overrides = tuple(layer.source for layer in others)
    return Leaf(path, first.source, MASK if first.secret else value, overrides)


def _at(values: JsonObject, path: Path) -> JsonValue:
    found: JsonValue = values
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    return found


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace(",", "\\,")
