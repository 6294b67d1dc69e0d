"""What a Component's status becomes, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.component.given import component

from stellwerk.kube.model import JsonObject
from stellwerk.operators.component import plan
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION
from stellwerk.operators.component.errors import ClusterChanged

HOME, FAR, OTHER = "uid-of-home", "uid-of-far", "uid-of-other"
ONE = {
    "group": "",
    "version": "v1",
    "kind": "ConfigMap",
    "name": "one",
    "adoptionPolicy": "IfUnowned",
    "reconcilePolicy": "OnObjectChange",
    "updatePolicy": "SsaOverride",
    "deletePolicy": "Delete",
    "applyOrder": 0,
    "deleteOrder": 0,
    "digest": "d",
}


def bound_for(found: str, *, former: str = "", objects: bool = True, confirmed: str = "") -> str:
    """The cluster that the status names, when the Component leads to `found`."""
    status: dict[str, Any] = {"targetCluster": former, "inventory": [ONE] if objects else []}
    annotations: JsonObject = {CONFIRMED_CLUSTER_ANNOTATION: confirmed} if confirmed else {}
    one = component(status=status, annotations=annotations)
    return plan.bound_for(one, one.status, found, HOME).target_cluster


@pytest.mark.parametrize(
    ("former", "found", "named"),
    [("", HOME, ""), ("", FAR, FAR), (FAR, FAR, FAR), (FAR, "", FAR)],
    ids=["at home", "not known yet", "the same", "may not be asked"],
)
def test_the_cluster_of_the_objects_is_remembered(former: str, found: str, named: str) -> None:
    assert bound_for(found, former=former) == named


@pytest.mark.req("R-210")
@pytest.mark.parametrize("found", [OTHER, HOME])
def test_another_cluster_in_its_place_is_refused_by_name(found: str) -> None:
    with pytest.raises(ClusterChanged) as failed:
        bound_for(found, former=FAR)
    assert FAR in str(failed.value)
    assert f"{CONFIRMED_CLUSTER_ANNOTATION}={found}" in str(failed.value)


@pytest.mark.req("R-210")
@pytest.mark.parametrize(("found", "named"), [(OTHER, OTHER), (HOME, "")])
def test_another_cluster_that_is_confirmed_is_taken(found: str, named: str) -> None:
    assert bound_for(found, former=FAR, confirmed=found) == named


@pytest.mark.req("R-210")
def test_the_confirmation_of_one_cluster_is_none_of_another() -> None:
    with pytest.raises(ClusterChanged):
        bound_for(OTHER, former=FAR, confirmed="uid-of-a-third")


def test_without_objects_a_component_may_go_anywhere() -> None:
    assert bound_for(OTHER, former=FAR, objects=False) == OTHER
