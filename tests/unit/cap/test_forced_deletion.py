"""How the deletion of a tenant or an operation is forced."""

from __future__ import annotations

from typing import cast

import pytest

from stellwerk.assembly import OPERATORS
from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import Unstickable
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight.by_kind import INSIGHT
from stellwerk.runtime.insight.reason_catalog import YOURS

KINDS = {"CAPTenant": names.TENANT_FINALIZER, "CAPTenantOperation": names.OPERATION_FINALIZER}


def forced(kind: str) -> Unstickable:
    found = INSIGHT[kind].unstick
    assert found is not None
    return found


def kept_by(*finalizers: JsonValue, kind: str = "CAPTenant") -> Unstructured:
    """An object that is being deleted."""
    metadata: JsonObject = {"name": "acme", "namespace": "shop", "resourceVersion": "7", "finalizers": [*finalizers]}
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Unstructured.of({"apiVersion": "sme.sap.com/v1alpha1", "kind": kind, "metadata": metadata})


@pytest.mark.parametrize(("kind", "finalizer"), KINDS.items())
async def test_force_removes_the_finalizer_of_the_operator_alone_and_from_the_object_as_it_was_read(
    kind: str, finalizer: str
) -> None:
    obj = kept_by("example.com/backup", finalizer)

    assert await forced(kind).obstacle(cast("Client", None), obj) is None
    assert forced(kind).force(obj) == {"metadata": {"finalizers": ["example.com/backup"], "resourceVersion": "7"}}


@pytest.mark.parametrize("kind", KINDS)
async def test_force_has_no_effect_where_only_finalizers_of_others_are_left(kind: str) -> None:
    obstacle = await forced(kind).obstacle(cast("Client", None), kept_by("example.com/backup"))

    assert obstacle is not None
    assert obstacle[0].endswith("finalizers of other clients keep the object: example.com/backup")
    assert "kubectl patch captenant/acme -n shop --type merge -p " in obstacle[1]


OPERATED = {
    kind: insight.finalizers
    for operator in OPERATORS.values()
    for kind, insight in operator.insight().items()
    if insight.finalizers
}


@pytest.mark.req("R-112")
@pytest.mark.parametrize("kind", OPERATED)
def test_an_object_that_its_operator_has_released_is_kept_by_finalizers_of_others(kind: str) -> None:
    """For every kind of every operator, and named by the same words in `why` and `unstick`."""
    own = OPERATED[kind]
    held = forced_deletion.held_by_others(kept_by("example.com/backup", kind=kind), own)
    assert held is not None
    assert "example.com/backup" in held.findings[0].text
    assert "see why the controller of example.com/backup" in held.next_step
    assert held.turn == YOURS
    assert forced_deletion.held_by_others(kept_by("example.com/backup", own[0], kind=kind), own) is None
    assert forced_deletion.held_by_others(kept_by(kind=kind), own) is None
    collected = forced_deletion.held_by_others(kept_by("foregroundDeletion", kind=kind), own)
    assert collected is not None
    assert "garbage collector" in collected.findings[0].text
    assert "kubectl patch" not in collected.next_step
