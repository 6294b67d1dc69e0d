"""The kinds of the Component operator are read leniently, written exactly, and described in full."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit import definitions

from stellwerk.api import flux
from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, to_json_object, view
from stellwerk.operators.component import api
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import NEW, ComponentStatus

REFERENCE = definitions.SHARED / "api" / "component"


def component(**fields: object) -> Component:
    body = {"metadata": {"namespace": "shop", "name": "web", "generation": 3}, **fields}
    return view(Component).decode(msgspec.json.encode(body))


R = "component-operator.cs.sap.com"


@pytest.mark.req("R-505")
def test_every_name_that_clusters_of_the_original_carry_is_spelled_as_there() -> None:
    assert (api.RECONCILER, api.FINALIZER, api.LEASE_NAME, api.CONTROLLER) == (R, R, R, "component")
    assert (f"{R}/owner-id", f"{R}/digest") == (api.OWNER_ID, api.DIGEST_ANNOTATION)
    on_objects = {
        api.ADOPTION_POLICY_ANNOTATION: "adoption-policy",
        api.RECONCILE_POLICY_ANNOTATION: "reconcile-policy",
        api.UPDATE_POLICY_ANNOTATION: "update-policy",
        api.DELETE_POLICY_ANNOTATION: "delete-policy",
        api.APPLY_ORDER_ANNOTATION: "apply-order",
        api.PURGE_ORDER_ANNOTATION: "purge-order",
        api.DELETE_ORDER_ANNOTATION: "delete-order",
        api.REAPPLY_INTERVAL_ANNOTATION: "reapply-interval",
        api.STATUS_HINT_ANNOTATION: "status-hint",
        api.DISABLE_SUBSTITUTION_ANNOTATION: "disableSubstitution",
        api.DISABLE_EVENTS_ANNOTATION: "disable-events",
    }
    assert [*on_objects] == [f"{R}/{suffix}" for suffix in on_objects.values()]
    assert (api.EVENT_REVISION_ANNOTATION, api.EVENT_TOKEN_ANNOTATION) == (
        "core.cs.sap.com/revision",
        "core.cs.sap.com/token",
    )


def test_a_component_that_breaks_the_schema_is_still_read() -> None:
    odd: list[JsonObject] = [
        {},
        {"spec": {}},
        {"spec": {"sourceRef": {}, "updatePolicy": "Someday", "timeout": "soon", "values": [1], "unknown": True}},
        {"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}},
    ]

    assert [component(**body).key.name for body in odd] == ["web"] * len(odd)


def test_a_component_is_ready_only_for_the_spec_as_it_is_now() -> None:
    assert component(status={"observedGeneration": 3, "state": "Ready"}).is_ready
    assert not component(status={"observedGeneration": 2, "state": "Ready"}).is_ready
    assert not component(status={"observedGeneration": 3, "state": "Processing"}).is_ready
    assert not component().is_ready


def test_target_and_dependencies_default_to_the_components_own_names() -> None:
    plain = component(spec={"dependencies": [{"name": "db"}, {"namespace": "infra", "name": "dns"}, {"name": "db"}]})

    assert plain.target == ObjectKey("shop", "web")
    assert plain.dependencies == (ObjectKey("shop", "db"), ObjectKey("infra", "dns"))
    assert component(spec={"namespace": "t", "name": "n"}).target == ObjectKey("t", "n")


def test_an_inventory_item_keeps_every_key_that_the_original_requires() -> None:
    item = Item(
        group="", version="v1", kind="ConfigMap", name="settings", adoption_policy="IfUnowned",
        reconcile_policy="OnObjectChange", update_policy="SsaOverride", delete_policy="Delete", apply_order=0,
        delete_order=0, digest="", last_applied_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )  # fmt: skip

    assert to_json_object(item) == {
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
        "name": "settings",
        "adoptionPolicy": "IfUnowned",
        "reconcilePolicy": "OnObjectChange",
        "updatePolicy": "SsaOverride",
        "deletePolicy": "Delete",
        "applyOrder": 0,
        "deleteOrder": 0,
        "digest": "",
        "lastAppliedAt": "2026-01-02T03:04:05Z",
    }


def test_a_status_always_says_which_generation_it_is_about() -> None:
    assert to_json_object(NEW) == {"observedGeneration": -1}
    assert to_json_object(ComponentStatus(observed_generation=2, state=State.Error)) == {
        "observedGeneration": 2,
        "state": "Error",
    }


def test_sources_of_flux_are_looked_for_in_their_newest_version_first() -> None:
    assert [str(one) for one in flux.resources(flux.OciRepository)] == [
        "source.toolkit.fluxcd.io/v1 OCIRepository",
        "source.toolkit.fluxcd.io/v1beta2 OCIRepository",
    ]


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda one: str(one.name))
def test_every_field_is_described(definition: Definition) -> None:
    assert definitions.undescribed(definition) == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference schemas are not beside this repository")
@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda one: str(one.name))
def test_every_column_and_field_of_the_original_is_there(definition: Definition) -> None:
    assert definitions.lacking(REFERENCE / f"{definition.name}.json", definition) == []
