"""What an object of the CAP Operator reports about itself."""

from __future__ import annotations

import pytest

from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap.insight.why import problem_of


def of(status: JsonObject) -> Unstructured:
    return Unstructured.of(
        {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "metadata": {}, "status": status}
    )


def ready(status: str) -> JsonObject:
    return {"type": "Ready", "status": status, "reason": "Because", "message": "it is so."}


@pytest.mark.parametrize("state", ["Ready", "Completed", "Consistent"])
def test_an_object_that_is_ready_has_no_problem(state: str) -> None:
    assert problem_of(of({"state": state, "conditions": [ready("True")]})) is None


@pytest.mark.parametrize("state", ["Failed", "UpgradeError"])
def test_a_failure_is_a_problem_also_where_the_condition_is_true(state: str) -> None:
    problem = problem_of(of({"state": state, "conditions": [ready("True")]}))
    assert problem is not None
    assert (problem.reason, problem.message) == ("Because", "it is so")


@pytest.mark.parametrize(("observed", "message"), [(2, "it is so"), (1, "its deletion was not looked at so far")])
def test_an_object_that_is_ready_and_being_deleted_has_the_problem_that_its_condition_reports(
    observed: int, message: str
) -> None:
    shown: JsonObject = {"state": "Ready", "conditions": [{**ready("True"), "observedGeneration": observed}]}
    metadata: JsonObject = {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    problem = problem_of(Unstructured.of({**of(shown).body, "metadata": metadata}))
    assert problem is not None
    assert problem.message == message


@pytest.mark.parametrize("status", [{}, {"conditions": "none"}, {"conditions": [1, None]}, {"state": 7}])
def test_an_object_without_a_readable_condition_was_not_looked_at(status: JsonObject) -> None:
    problem = problem_of(of(status))
    assert problem is not None
    assert problem.message == "it was not looked at so far"
