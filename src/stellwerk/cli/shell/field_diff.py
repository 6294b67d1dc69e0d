"""The differences between two states of an object, field by field: `spec.containers[name=proxy].image: a -> b`.

Fields that the API server sets are left out. Values of Secrets are never shown, only that they change. The owner of a
live value comes from managedFields, because users look for changes of values that another client has set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stellwerk.apply.objects.desired import SERVER_OWNED
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

MASK = "***"
_MOST = 120
_FEW = 2
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"null|true|false|[-+]?[0-9.]+(e[-+]?[0-9]+)?|[\s\"'\[{].*|.*\s")
"""Texts that look like another type."""
_NOTHING = object()

Path = tuple[str, ...]
"""Keys, and for items of lists `[name=x]` or `[3]`."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs."""

    path: str
    before: str
    after: str
    owner: str = ""
    """The field manager of the live value, where it is not ours."""

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


def changes(
    before: JsonObject, after: JsonObject, *, secret: bool, ours: str, hidden: Collection[str] = ()
) -> list[Change]:
    """The fields in which `after` differs. `ours` is our field manager; annotations that are `hidden` are left out."""
    owners = _owners(before, ours)
    return [
        Change(_text(path), _shown(old, path, secret), _shown(new, path, secret), _owner(owners, path))
        for path, old, new in _walk(_content(before, hidden), _content(after, hidden), ())
    ]


def _content(body: JsonObject, hidden: Collection[str]) -> JsonObject:
    metadata = body.get("metadata")
    kept = (
        {key: value for key, value in metadata.items() if key not in SERVER_OWNED} if isinstance(metadata, dict) else {}
    )
    annotations = kept.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {key: value for key, value in annotations.items() if key not in hidden}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": kept}


def _walk(before: object, after: object, path: Path) -> Iterator[tuple[Path, object, object]]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _walk(before.get(key, _NOTHING), after.get(key, _NOTHING), (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        if _is_rewritten(before, after):
            yield path, before, after
            return
        one, other = _items(before), _items(after)
        for name in dict.fromkeys([*one, *other]):
            yield from _walk(one.get(name, _NOTHING), other.get(name, _NOTHING), (*path, name))
    elif _is_nothing(before) and _is_nothing(after):
        return
    else:
        yield path, before, after


def _is_rewritten(before: list[JsonValue], after: list[JsonValue]) -> bool:
    """Whether two lists of words are shown as a whole: a word in front moves most of the others."""
    if any(isinstance(value, dict | list) for value in (*before, *after)):
        return False
    moved = sum(one != other for one, other in zip(before, after, strict=False))
    return moved > 1 and (len(before) != len(after) or moved > _FEW or set(before) == set(after))


def _is_nothing(value: object) -> bool:
    return value is _NOTHING or value is None or value in ({}, [])


def _items(values: list[JsonValue]) -> dict[str, JsonValue]:
    """The items of a list by name, or by position where names do not identify them."""
    names = [dig(value, "name") for value in values]
    if values and all(isinstance(name, str) for name in names) and len(set(map(str, names))) == len(values):
        return {f"[name={name}]": value for name, value in zip(names, values, strict=True)}
    return {f"[{number}]": value for number, value in enumerate(values)}


def _text(path: Path) -> str:
    text = ""
    for step in path:
        if step.startswith("[") and step.endswith("]"):
            text += step
        elif _BARE.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def _shown(value: object, path: Path, secret: bool) -> str:
    if value is _NOTHING or value is None:
        return "(none)"
    if secret and _may_hold_secrets(path):
        return MASK
    text = value if isinstance(value, str) and _is_plain(value) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def _may_hold_secrets(path: Path) -> bool:
    """The values, and annotations: kubectl repeats the whole Secret in one."""
    return path[:1] in (("data",), ("stringData",)) or path[:2] == ("metadata", "annotations")


def _is_plain(text: str) -> bool:
    """Whether a text needs no quotes to be known as one."""
    return bool(text) and text.isprintable() and _SCALAR.fullmatch(text) is None


# ---- owners


def _owners(live: JsonObject, ours: str) -> Mapping[str, JsonObject]:
    """The field sets of the others, by their names."""
    entries = dig(live, "metadata", "managedFields")
    found: dict[str, JsonObject] = {}
    for entry in entries if isinstance(entries, list) else []:
        manager, fields = dig(entry, "manager"), dig(entry, "fieldsV1")
        if isinstance(manager, str) and manager != ours and isinstance(fields, dict):
            found[manager] = fields
    return found


def _owner(owners: Mapping[str, JsonObject], path: Path) -> str:
    return next((manager for manager, fields in owners.items() if _owns(fields, path)), "")


def _owns(fields: JsonObject, path: Path) -> bool:
    here: JsonValue = fields
    for step in path:
        if not isinstance(here, dict):
            return False
        if step.startswith("[name="):
            wanted = step[6:-1]
            here = next((value for key, value in here.items() if key.startswith("k:") and _named(key) == wanted), None)
        else:
            here = here.get(f"f:{step}")
        if here is None:
            return False
    return True


def _named(key: str) -> str:
    try:
        return str(json.loads(key[2:]).get("name", ""))
    except (ValueError, AttributeError):
        return ""
