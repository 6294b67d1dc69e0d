"""Whatever status an object has, ours to replace it has every field that the schema requires.

The API server answers a status without one of them with 422, each time, so the object would keep its former status for
ever. Statuses of the originals are full of empty texts, for example the message of a condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.unit.definitions import SHARED, emptiest, unset

from stellwerk.assembly import OPERATORS
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonValue, Kind, decode_json, dig
from stellwerk.operators.kyma import api as kyma

DEFINITIONS = {
    each.name: each
    for kinds in (*(operator.installation().definitions for operator in OPERATORS.values()), kyma.DEFINITIONS)
    for each in kinds
}


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


@pytest.mark.req("R-306")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_status_that_is_written_again_has_every_field_that_a_schema_requires(name: str) -> None:
    for whose, kind, schema in schemas(DEFINITIONS[name]):
        status = emptiest(schema)
        assert [*unset(schema, status, "")] == [], "the test has made a status that the schema refuses"
        (shape,) = (field.type for field in msgspec.structs.fields(kind) if field.name == "status")
        written = decode_json(msgspec.json.encode(msgspec.convert(status, shape)))
        assert [*unset(schema, written, "status")] == [], f"{whose} {kind.__name__}"
