"""Fields of another manager that make the API server refuse ours: a port of the same name, a second member of a union.

The refusal names our field, which is right. What is wrong is next to it: a field that the manifest does not have. The
refusal gives positions in lists, managedFields have keys, so that paths are compared by the names of fields alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from stellwerk.apply.fields.managed_fields import CONTROL_PLANE
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.types.object_meta import FieldManager

_TOGETHER = re.compile(r"Duplicate value|may not be specified when|more than (?:1|one) |may not be set when")
_POSITION = re.compile(r"\[[^\]]*\]")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class HinderingField:
    """A field that the manifest does not have, and who has set it."""

    path: str
    manager: str

    def __str__(self) -> str:
        return f"{self.path}, which the manifest does not have, is from manager {self.manager}"


def may_hinder(error: Invalid) -> bool:
    """Whether the refusal is about fields that do not go together."""
    return any(_parents(error))


def hindering(wanted: JsonObject, entries: JsonValue, ours: str, error: Invalid) -> list[HinderingField]:
    """The fields next to those that were refused which others have set, and the manifest does not name. Pure."""
    parents = [*_parents(error)]
    found: dict[HinderingField, None] = {}
    for entry in entries if isinstance(entries, list) else ():
        who = msgspec.convert(entry, FieldManager)
        if who.manager in (ours, *CONTROL_PLANE) or who.subresource:
            continue
        for path, names in _absent(dig(entry, "fieldsV1"), wanted, "", ()):
            if any(names[: len(parent)] == parent for parent in parents):
                found[HinderingField(path, who.manager)] = None
    return [*found][:_NAMED]


def _parents(error: Invalid) -> Iterator[tuple[str, ...]]:
    for cause in error.status.details.causes:
        names = tuple(_POSITION.sub("", cause.field).split("."))
        if len(names) > 2 and _TOGETHER.search(cause.message):
            yield names[:-1]


def _absent(
    fields: JsonValue, wanted: JsonValue, path: str, names: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The uppermost fields of a field set that the manifest does not have."""
    for key, below in fields.items() if isinstance(fields, dict) else ():
        sort, _, name = key.partition(":")
        if sort == "f":
            inner, at, deeper = dig(wanted, name), f"{path}.{name}".lstrip("."), (*names, name)
        elif sort == "k":
            keys = json.loads(name)
            at, deeper = f"{path}[{','.join(f'{one}={value}' for one, value in keys.items())}]", names
            inner = next((item for item in wanted if _has(item, keys)), None) if isinstance(wanted, list) else None
        else:
            continue
        if inner is None:
            yield at, deeper
        else:
            yield from _absent(below, inner, at, deeper)


def _has(item: JsonValue, keys: JsonObject) -> bool:
    """Whether a list's item has these keys; a protocol is TCP by default."""
    return all((dig(item, name) or ("TCP" if name == "protocol" else None)) == value for name, value in keys.items())
