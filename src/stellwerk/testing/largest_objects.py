"""The largest objects of a kind that an API server takes, made from the schema of its definition.

A list or a map that nothing bounds is as long as the request lets it be, and a text as well. Code that looks at each
item once is done with it in milliseconds; code that looks for each item in another list needs minutes, and blocks all
that its process serves. Reading does not show which code that is. So each field is tried: alone, and with
each other list as long as half of the request.

Items are tried in two forms: all equal, and each with texts and numbers of its own.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue, dig

REQUEST_BYTES = 3 << 20
"""The limit of an API server for the body of a request. What etcd stores has at most half of it, by default."""
MOST_ANNOTATION_BYTES = 256 << 10
"""Of all annotations of an object, keys included."""

Path: TypeAlias = tuple[str, ...]
"""The keys to a field; `[]` is the first item of a list."""

_ITEM = "[]"
_DIGITS = 7
_FORMS = {False: "equal", True: "distinct"}
_FREE_ITEMS: JsonObject = {"type": "string"}
_METADATA: JsonObject = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string", "description": "Example: example.com/x"}},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {key: {"type": "string"} for key in ("apiVersion", "kind", "name", "uid")},
            },
        },
    },
}
"""What users write of the metadata of an object; a definition does not contain it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that may be large."""

    path: Path
    schema: JsonObject

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return self.schema.get("type") == "array"

    @property
    def is_text(self) -> bool:
        """Whether it is a text; it is a map otherwise, or a list."""
        return self.schema.get("type") == "string"

    def __str__(self) -> str:
        return ".".join(self.path).replace(".[]", "[]")


@dataclass(frozen=True, slots=True)
class Largest:
    """All large objects of a kind. `base` is an object that is right; its items are those that are repeated."""

    schema: JsonObject
    base: JsonObject
    levels: int = 6
    """How deep lists and maps are tried. Parts of pods are deep, and looked at as a whole."""
    text_levels: int = 6
    roots: Sequence[str] = ("metadata", "spec")
    every: int = 1
    """One of so many is made: to make all of them takes longer than to try them."""
    first: int = 0
    """With which one it begins, less whole rounds."""

    def fields(self) -> Iterator[Field]:
        """Those that may be large: lists, maps, and texts that may have any content."""
        for root in self.roots:
            schema = _METADATA if root == "metadata" else dig(self.schema, "properties", root)
            if isinstance(schema, dict):
                found = _large((root,), schema, max(self.levels, self.text_levels))
                for each in found:
                    if _depth(each.path) <= (self.text_levels if each.is_text else self.levels):
                        yield each

    def singles(self, size: int = REQUEST_BYTES) -> Iterator[tuple[str, JsonObject]]:
        """An object for each list and map, and each form of items, and one whose texts share the request; with a name.

        One text after the other would try the same code a hundred times.
        """
        texts = [each for each in self.fields() if each.is_text]
        body = self.base
        for each in texts:
            body = self.with_large(body, each, size // len(texts), is_distinct=True)
        yield "all texts", body
        forms = [
            (each, is_distinct)
            for each in self.fields()
            for is_distinct in ((False, True) if each.is_list else (True,) if not each.is_text else ())
        ]
        for each, is_distinct in forms[self.first % self.every :: self.every]:
            yield f"{each} {_FORMS[is_distinct]}", self.with_large(self.base, each, size, is_distinct=is_distinct)

    def pairs(
        self, size: int = REQUEST_BYTES, *, levels: int = 5, mixed: bool = True
    ) -> Iterator[tuple[str, JsonObject]]:
        """An object for each two lists or maps, which share the request; of deep parts only their whole.

        `mixed`: also with equal items in one of them.

        The last item of a list is as that of `base`: what searches for it looks at all others.
        """
        large = [each for each in self.fields() if not each.is_text and _depth(each.path) <= levels]
        tried = itertools.product(
            itertools.combinations(large, 2), [(True, True), (True, False), (False, True)] if mixed else [(True, True)]
        )
        for (first, second), forms in itertools.islice(tried, self.first % self.every, None, self.every):
            made = self.with_large(self.base, first, size // 2, is_distinct=forms[0])
            name = " and ".join(f"{each} {_FORMS[form]}" for each, form in zip((first, second), forms, strict=True))
            yield name, self.with_large(made, second, size // 2, is_distinct=forms[1])

    def with_large(self, base: JsonObject, large: Field, size: int, *, is_distinct: bool) -> JsonObject:
        """The object with one field as large as fits into `size`."""
        body = _copied_along(base, large.path)
        room = size if base is not self.base else max(size - len(msgspec.json.encode(base)), 0)
        if large.path[:2] == ("metadata", "annotations"):
            room = min(room, MOST_ANNOTATION_BYTES - 1024)
        schema: JsonObject = {"properties": {"metadata": _METADATA}} if large.path[0] == "metadata" else self.schema
        value = _grown(_found(base, large.path), large, room, is_distinct=is_distinct)
        _put(body, large.path, value, schema)
        return body


def _depth(path: Path) -> int:
    return sum(step != _ITEM for step in path)


def _large(path: Path, schema: JsonObject, levels: int) -> Iterator[Field]:
    if _depth(path) > levels:
        return
    kind, items, properties = schema.get("type"), schema.get("items"), schema.get("properties")
    if kind == "array":
        yield Field(path, schema)
        if isinstance(items, dict):
            yield from _large((*path, _ITEM), items, levels)
    elif isinstance(properties, dict):
        for name, sub in properties.items():
            if isinstance(sub, dict):
                yield from _large((*path, name), sub, levels)
    elif kind == "object" or (kind == "string" and not schema.get("enum") and path[-1] != _ITEM):
        yield Field(path, schema)


def _found(body: JsonValue, path: Path) -> JsonValue:
    for step in path:
        if isinstance(body, list):
            body = body[0] if body else None
        elif isinstance(body, dict):
            body = body.get(step)
        else:
            return None
    return body


def _copied_along(body: JsonObject, path: Path) -> JsonObject:
    """A copy that shares with the object what is not on the way to the field."""
    made = dict(body)
    if path and isinstance(inner := made.get(path[0]), dict | list):
        made[path[0]] = copy.copy(inner)
        holder: JsonValue = made[path[0]]
        for step in path[1:]:
            if isinstance(holder, list) and holder:
                holder[0] = copy.copy(holder[0])
                holder = holder[0]
            elif isinstance(holder, dict) and isinstance(holder.get(step), dict | list):
                holder[step] = copy.copy(holder[step])
                holder = holder[step]
            else:
                break
    return made


def _put(body: JsonObject, path: Path, value: JsonValue, schema: JsonValue) -> None:
    """Set a field, with what is absent on the way to it."""
    holder: JsonValue = body
    for step, following in itertools.pairwise(path):
        schema = _below(schema, step)
        absent: JsonValue = [] if following == _ITEM else sample(schema)
        if isinstance(holder, list):
            holder.extend([] if holder else [absent])
            holder = holder[0]
        else:
            assert isinstance(holder, dict)
            holder = holder.setdefault(step, absent)
    if isinstance(holder, list):
        holder[:1] = [value]
    else:
        assert isinstance(holder, dict)
        holder[path[-1]] = value


def _below(schema: JsonValue, step: str) -> JsonValue:
    return dig(schema, "items") if step == _ITEM else dig(schema, "properties", step)


def _grown(present: JsonValue, large: Field, room: int, *, is_distinct: bool) -> JsonValue:
    schema = large.schema
    if large.is_text:
        most = schema.get("maxLength")
        return "a" * (min(most, room) if isinstance(most, int) else room)
    if large.is_list:
        items = schema.get("items") if isinstance(schema.get("items"), dict) else _FREE_ITEMS
        first = present[0] if isinstance(present, list) and present else sample(items)
        most = schema.get("maxItems")
        count = room // (len(msgspec.json.encode(first)) + 1 + (_DIGITS * _texts(first) if is_distinct else 0))
        count = min(count, most) if isinstance(most, int) else count
        kept = present if isinstance(present, list) else []
        if is_distinct:
            return [*(distinct(first, number, items) for number in range(max(count - len(kept), 0))), *kept]
        return [*kept, *[first] * max(count - len(kept), 0)]
    values = schema.get("additionalProperties")
    value = sample(values) if isinstance(values, dict) else "x"
    count = room // (len(msgspec.json.encode(value)) + _DIGITS + 5)
    kept_map = present if isinstance(present, dict) else {}
    return {**kept_map, **{f"k{number:0{_DIGITS}}": value for number in range(count)}}


def _texts(value: JsonValue) -> int:
    """How many texts and numbers of a value become longer where each item has its own."""
    if isinstance(value, dict):
        return sum(map(_texts, value.values()))
    if isinstance(value, list):
        return sum(map(_texts, value))
    return int(isinstance(value, str | int))


def distinct(value: JsonValue, number: int, schema: JsonValue) -> JsonValue:
    """The value with texts and numbers of its own, as far as they may be any."""
    if isinstance(value, dict):
        return {key: distinct(part, number, dig(schema, "properties", key)) for key, part in value.items()}
    if isinstance(value, list):
        return [distinct(part, number, dig(schema, "items")) for part in value]
    if isinstance(value, bool) or (isinstance(schema, dict) and (schema.get("enum") or schema.get("format"))):
        if isinstance(value, int) and not isinstance(value, bool):
            return value + number
        return value
    if isinstance(value, str):
        most = dig(schema, "maxLength") if isinstance(schema, dict) else None
        return f"{value[: most - _DIGITS] if isinstance(most, int) else value}{number:0{_DIGITS}}"
    return value + number if isinstance(value, int) else value


def sample(schema: JsonValue) -> JsonValue:
    """A value that the schema accepts, as small as it can be."""
    if not isinstance(schema, dict):
        return "x"
    if isinstance(values := schema.get("enum"), list):
        return next(each for each in values if each != "")
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    match schema.get("type"):
        case "object":
            required, properties = schema.get("required"), schema.get("properties")
            wanted = required if isinstance(required, list) else []
            return {str(key): sample(dig(properties, str(key))) for key in wanted}
        case "array":
            least = schema.get("minItems")
            return [sample(schema.get("items")) for _ in range(least if isinstance(least, int) else 0)]
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            _, said, example = str(schema.get("description", "")).rpartition("Example: ")
            return example.removesuffix(".") if said else "x"
