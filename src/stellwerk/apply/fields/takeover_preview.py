"""What an object loses when fields of others become ours: a preview of `ownership.reclaimed` and the apply after it.

    removed(after, live, wanted, ours, claims) -> JsonObject | None

Fields that a claimed manager owns, that our manifest does not name, and that no other manager owns, are removed by the
apply that follows the take-over. The dry run of an apply cannot show that, because it sees managedFields as they are.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from stellwerk.apply.fields import managed_fields
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

_Path: TypeAlias = tuple[str, ...]
"""Elements of fieldsV1: `f:name`, `k:{...}` of a list item by its keys, `v:...` of a set's value."""


def removed(after: JsonObject, live: JsonObject, wanted: JsonObject, ours: str, claims: Claims) -> JsonObject | None:
    """The object as the take-over and the next apply leave it; None where they take nothing away. Pure.

    `after` is the answer to the dry run of our apply, `live` the object with managedFields, `wanted` our manifest.
    """
    entries = dig(live, "metadata", "managedFields")
    lost = _lost(entries if isinstance(entries, list) else [], ours, claims)
    lost = {path for path in lost if _at(wanted, path) is None and _at(after, path) is not None}
    if not lost:
        return None
    body = copy.deepcopy(after)
    for path in sorted(lost, key=len):  # an item is found by its keys, so it goes before they do
        _remove(body, path)
    return body


def _lost(entries: Sequence[JsonValue], ours: str, claims: Claims) -> set[_Path]:
    before, kept = set[_Path](), set[_Path]()
    for entry in entries:
        if isinstance(entry, dict) and _is_apply_of(entry, ours):
            before |= set(_leaves(entry.get("fieldsV1")))
    became = set[_Path]()
    for entry in managed_fields.reclaimed([*entries], ours, claims):
        (became if _is_apply_of(entry, ours) else kept).update(_leaves(entry.get("fieldsV1")))
    return became - before - kept


def _is_apply_of(entry: JsonObject, ours: str) -> bool:
    return entry.get("manager") == ours and entry.get("operation") == "Apply" and not entry.get("subresource")


def _leaves(fields: JsonValue, path: _Path = ()) -> Iterator[_Path]:
    """The paths without a child. A dot is the thing itself: that of a list item counts, a mapping stays."""
    for key, inner in fields.items() if isinstance(fields, dict) else ():
        if key == ".":
            if path and path[-1].startswith("k:"):
                yield path
        elif inner:
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key)


def _remove(body: JsonObject, path: _Path) -> None:
    here: JsonValue = body
    for element in path[:-1]:
        here = _inner(here, element)
    last = path[-1]
    if isinstance(here, dict) and last.startswith("f:"):
        here.pop(last[2:], None)
    elif isinstance(here, list):
        here[:] = [item for item in here if not _is_meant(item, last)]


def _at(body: JsonObject, path: _Path) -> JsonValue:
    """The value at a path; None without one."""
    here: JsonValue = body
    for element in path:
        here = _inner(here, element)
    return here


def _inner(value: JsonValue, element: str) -> JsonValue:
    if isinstance(value, dict):
        return value.get(element[2:])
    return next((item for item in value if _is_meant(item, element)), None) if isinstance(value, list) else None


def _is_meant(item: JsonValue, element: str) -> bool:
    kind, _, text = element.partition(":")
    try:
        wanted = json.loads(text)
    except ValueError:
        return False
    if kind == "v":
        return bool(item == wanted)
    return isinstance(item, dict) and isinstance(wanted, dict) and all(item.get(key) == wanted[key] for key in wanted)
