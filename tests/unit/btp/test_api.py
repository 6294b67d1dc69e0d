"""The CRD that we ship is the one that clusters have, and more."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit import definitions

from stellwerk.kube.types.model import JsonObject, dig, to_json_object, view
from stellwerk.operators.btp.api import DEFINITION, LEASE_NAME, BtpOperator, BtpOperatorStatus, State

REFERENCE = definitions.SHARED / "api" / "btp" / "btpoperators.operator.kyma-project.io.json"


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


def test_the_definition_has_the_names_under_which_people_and_lifecycle_manager_find_it() -> None:
    body = DEFINITION.body()
    names = dig(body, "spec", "names")
    assert isinstance(names, dict)
    categories = names["categories"]
    assert isinstance(categories, list)

    assert dig(body, "metadata", "name") == "btpoperators.operator.kyma-project.io"
    assert (names["kind"], names["listKind"], names["singular"]) == ("BtpOperator", "BtpOperatorList", "btpoperator")
    assert {"kyma-modules", "kyma-btp-operator"} <= {*categories}
    assert dig(body, "spec", "scope") == "Namespaced"


def test_the_lease_is_the_one_that_the_original_holds_so_that_both_never_act_at_once() -> None:
    assert LEASE_NAME == "ec023d38.kyma-project.io"


def test_every_field_of_the_definition_is_described() -> None:
    assert definitions.undescribed(DEFINITION) == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference schema is not beside this repository")
def test_every_column_category_and_field_of_the_original_is_there() -> None:
    assert definitions.lacking(REFERENCE, DEFINITION) == []
