"""The CRD that we ship is the one that clusters have, and more."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import msgspec
import pytest

from stellwerk.kube.model import JsonObject, dig, to_json_object, view
from stellwerk.operators.btp.api import DEFINITION, BtpOperator, BtpOperatorStatus, State

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT.parent / "shared" / "api" / "btp" / "btpoperators.operator.kyma-project.io.json"


def test_an_empty_a_null_and_an_absent_spec_are_all_read() -> None:
    specs: list[JsonObject] = [{"spec": {}}, {"spec": None}, {}, {"spec": {"unknown": 1}}]
    for spec in specs:
        body = {"metadata": {"name": "btpoperator"}, **spec}
        assert view(BtpOperator).decode(msgspec.json.encode(body)).metadata.name == "btpoperator"


def test_a_status_keeps_its_state_when_written() -> None:
    assert to_json_object(BtpOperatorStatus(state=State.Processing)) == {"state": "Processing"}


def test_the_definition_accepts_a_null_spec_and_requires_a_state() -> None:
    versions = dig(DEFINITION.body(), "spec", "versions")
    assert isinstance(versions, list)
    properties = dig(versions[0], "schema", "openAPIV3Schema", "properties")

    assert dig(properties, "spec", "nullable") is True
    assert dig(properties, "status", "required") == ["state"]


def test_every_field_of_the_definition_is_described() -> None:
    def undescribed(schema: object, path: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        found = [] if schema.get("description") or path in ("", ".metadata") else [path]
        for name, sub in (schema.get("properties") or {}).items():
            found += undescribed(sub, f"{path}.{name}")
        return found + undescribed(schema.get("items"), f"{path}[]")

    versions = dig(DEFINITION.body(), "spec", "versions")
    assert isinstance(versions, list)
    assert undescribed(dig(versions[0], "schema", "openAPIV3Schema"), "") == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference schema is not beside this repository")
def test_every_column_category_and_field_of_the_original_is_there() -> None:
    tool = REFERENCE.parents[2] / "tools" / "crd_compat.py"
    spec = importlib.util.spec_from_file_location("crd_compat", tool)
    assert spec is not None
    assert spec.loader is not None
    compat = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compat)

    assert list(compat.crd_differences(json.loads(REFERENCE.read_text()), DEFINITION.body())) == []
