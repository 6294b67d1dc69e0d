"""Whatever status an object has, ours to replace it has every field that the schema requires.

The API server answers a status without one of them with 422, each time, so the object would keep its former status for
ever. Statuses of the originals are full of empty texts, for example the message of a condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.unit.definitions import SHARED

from stellwerk.assembly import OPERATORS
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonValue, Kind, decode_json, dig
from stellwerk.operators.kyma import api as kyma

DEFINITIONS = {
    each.name: each
    for kinds in (*(operator.installation().definitions for operator in OPERATORS.values()), kyma.DEFINITIONS)
    for each in kinds
}
SMALLEST = {"date-time": "2025-11-01T10:00:00Z"}


def schemas(definition: Definition) -> Iterator[tuple[str, type[Kind], JsonValue]]:
    """The schema of each status: ours, and the original's if it is there, because clusters may still have that."""
    bodies = {"ours": definition.body()}
    for file in SHARED.glob(f"api/*/{definition.name}.json"):
        bodies["the original's"] = json.loads(file.read_text())
    for whose, body in bodies.items():
        versions = dig(body, "spec", "versions")
        assert isinstance(versions, list)
        for version in versions:
            found = [each for each in definition.versions if each.name == dig(version, "name")]
            schema = dig(version, "schema", "openAPIV3Schema", "properties", "status")
            if found and schema is not None:
                yield whose, found[0].kind, schema


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
        return SMALLEST.get(str(format), "R" * (least if isinstance(least, int) else 0))
    return {"integer": 0, "number": 0, "boolean": False}.get(str(kind), {})


def lacking(schema: JsonValue, value: JsonValue, path: str) -> Iterator[str]:
    """The required fields that are absent."""
    if isinstance(value, dict):
        required, properties = dig(schema, "required"), dig(schema, "properties")
        yield from (f"{path}.{name}" for name in (required if isinstance(required, list) else []) if name not in value)
        for name, inner in (properties if isinstance(properties, dict) else {}).items():
            if name in value:
                yield from lacking(inner, value[name], f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from lacking(dig(schema, "items"), item, f"{path}[]")


@pytest.mark.req("R-306")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_status_that_is_written_again_has_every_field_that_a_schema_requires(name: str) -> None:
    for whose, kind, schema in schemas(DEFINITIONS[name]):
        status = emptiest(schema)
        assert [*lacking(schema, status, "")] == [], "the test has made a status that the schema refuses"
        (shape,) = (field.type for field in msgspec.structs.fields(kind) if field.name == "status")
        written = decode_json(msgspec.json.encode(msgspec.convert(status, shape)))
        assert [*lacking(schema, written, "status")] == [], f"{whose} {kind.__name__}"
