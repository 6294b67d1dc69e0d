"""What every CustomResourceDefinition of ours must satisfy."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonValue, dig

SHARED = Path(__file__).parents[2].parent / "shared"


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
