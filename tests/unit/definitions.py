"""What every CustomResourceDefinition of ours must satisfy."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonValue, dig

SHARED = Path(__file__).parents[2].parent / "shared"
_SMALLEST = {"date-time": "2025-11-01T10:00:00Z"}


def undescribed(definition: Definition) -> list[str]:
    """The fields that have no description."""
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    return [*_undescribed(dig(versions[0], "schema", "openAPIV3Schema"), "")]


def _undescribed(schema: JsonValue, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if not schema.get("description") and path not in ("", ".metadata"):
        yield path
    properties = schema.get("properties")
    for name, sub in properties.items() if isinstance(properties, dict) else ():
        yield from _undescribed(sub, f"{path}.{name}")
    items = schema.get("items")
    if isinstance(items, dict) and "properties" in items:
        yield from _undescribed(items, f"{path}[]")


def lacking(reference: Path, definition: Definition) -> list[object]:
    """What the published definition has and ours has not."""
    spec = importlib.util.spec_from_file_location("crd_compat", SHARED / "tools" / "crd_compat.py")
    assert spec is not None
    assert spec.loader is not None
    compat = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compat)
    return list(compat.crd_differences(json.loads(reference.read_text()), definition.body()))


def emptiest(schema: JsonValue) -> JsonValue:
    """The value with as little in it as the schema allows, with one item in every list and every optional object."""
    kind = dig(schema, "type")
    if kind == "object":
        properties, required = dig(schema, "properties"), dig(schema, "required")
        names = required if isinstance(required, list) else []
        return {
            name: emptiest(inner)
            for name, inner in (properties if isinstance(properties, dict) else {}).items()
            if name in names or dig(inner, "type") in ("object", "array")
        }
    if kind == "array":
        return [emptiest(dig(schema, "items"))]
    if kind == "string":
        choices, format = dig(schema, "enum"), dig(schema, "format")
        if isinstance(choices, list):
            return "" if "" in choices else choices[0]
        least = dig(schema, "minLength")
        return _SMALLEST.get(str(format), "R" * (least if isinstance(least, int) else 0))
    return {"integer": 0, "number": 0, "boolean": False}.get(str(kind), {})


def unset(schema: JsonValue, value: JsonValue, path: str) -> Iterator[str]:
    """The required fields that are absent."""
    if isinstance(value, dict):
        required, properties = dig(schema, "required"), dig(schema, "properties")
        yield from (f"{path}.{name}" for name in (required if isinstance(required, list) else []) if name not in value)
        for name, inner in (properties if isinstance(properties, dict) else {}).items():
            if name in value:
                yield from unset(inner, value[name], f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from unset(dig(schema, "items"), item, f"{path}[]")
