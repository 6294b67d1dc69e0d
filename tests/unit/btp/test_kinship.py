"""An object's label leads to the BtpOperator that is at work, whichever way it was chosen."""

from __future__ import annotations

import pytest

from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.btp.insight import related_objects


def operator(name: str, namespace: str, *, created: int, reason: str = "") -> Unstructured:
    condition: JsonObject = {"type": "Ready", "status": "False", "reason": reason}
    body: JsonObject = {
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "BtpOperator",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"},
    }
    return Unstructured.of({**body, "status": {"conditions": [condition]}} if reason else body)


def test_an_older_one_elsewhere_works_where_the_one_in_the_standard_place_stands_aside() -> None:
    older = operator("first", "default", created=1, reason="ReconcileSucceeded")
    standard = operator("btpoperator", "kyma-system", created=2, reason="OlderCRExists")

    assert related_objects.working([standard, older]) is older


def test_the_standard_one_works_where_an_older_one_is_in_the_wrong_place() -> None:
    older = operator("first", "default", created=1, reason="WrongNamespaceOrName")
    standard = operator("btpoperator", "kyma-system", created=2, reason="Initialized")

    assert related_objects.working([older, standard]) is standard


@pytest.mark.parametrize("first", [0, 1])
def test_of_those_that_say_nothing_yet_the_oldest_works_and_of_one_second_the_standard_one(first: int) -> None:
    other, standard = operator("a", "a", created=2 * first), operator("btpoperator", "kyma-system", created=0)

    assert related_objects.working([other, standard]) is standard
    assert related_objects.working([]) is None
