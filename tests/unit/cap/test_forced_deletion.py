"""How the deletion of a tenant or an operation is forced."""

from __future__ import annotations

from typing import cast

import pytest

from stellwerk.delivery.insight import Unstickable
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonValue, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight.by_kind import INSIGHT

KINDS = {"CAPTenant": names.TENANT_FINALIZER, "CAPTenantOperation": names.OPERATION_FINALIZER}


def forced(kind: str) -> Unstickable:
    found = INSIGHT[kind].unstick
    assert found is not None
    return found


def kept_by(*finalizers: JsonValue) -> Unstructured:
    return Unstructured.of({"metadata": {"name": "acme", "resourceVersion": "7", "finalizers": [*finalizers]}})


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
    assert "others are left: example.com/backup" in obstacle[0]
