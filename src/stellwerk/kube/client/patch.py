"""Patches: changes to an object that do not send the object.

A merge patch (RFC 7396) contains the new fields; a JSON patch (RFC 6902) contains operations, and may
test before it does. Strategic merge patches are left out: they exist only for built-in kinds, and apply does better.

    patch = JsonPatch([test("/metadata/uid", uid), remove(("metadata", "annotations", "example.com/paused"))])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from stellwerk.kube.types.model import JsonObject, JsonValue

Path: TypeAlias = str | Sequence[str | int]
"""Where in an object: a JSON pointer (`/metadata/uid`), or steps, which this module escapes."""


@dataclass(frozen=True, slots=True)
class MergePatch:
    """The new fields; None removes one, an array is replaced whole."""

    content_type: ClassVar[str] = "application/merge-patch+json"

    body: JsonObject

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does what sending it once does."""
        return True


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """Operations in order; all of them or none."""

    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[JsonObject]

    @property
    def body(self) -> Sequence[JsonObject]:
        """What is sent."""
        return self.operations

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does what sending it once does.

        Adding to a list or removing does not: the second time it adds again, or fails on what is gone.
        """
        return all(_repeatable(operation) for operation in self.operations)


Patch: TypeAlias = MergePatch | JsonPatch


def add(path: Path, value: JsonValue) -> JsonObject:
    """Set a field that may be absent, or insert into a list (`-` is behind its end)."""
    return {"op": "add", "path": pointer(path), "value": value}


def replace(path: Path, value: JsonValue) -> JsonObject:
    """Set a field that must be there."""
    return {"op": "replace", "path": pointer(path), "value": value}


def remove(path: Path) -> JsonObject:
    """Take away a field or list item that must be there."""
    return {"op": "remove", "path": pointer(path)}


def test(path: Path, value: JsonValue) -> JsonObject:
    """Refuse the whole patch unless the field has this value."""
    return {"op": "test", "path": pointer(path), "value": value}


test.__test__ = False  # type: ignore[attr-defined]  # pytest would take the word for a test


def pointer(path: Path) -> str:
    """A JSON pointer (RFC 6901). Steps are escaped, a string is used unchanged."""
    if isinstance(path, str):
        return path
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _repeatable(operation: JsonObject) -> bool:
    last = str(operation["path"]).rpartition("/")[2]
    in_list = last == "-" or last.isdigit()
    return operation["op"] in ("replace", "test") or (operation["op"] == "add" and not in_list)
