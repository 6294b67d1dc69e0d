"""When a verb's objects have come to an end."""

from __future__ import annotations

import pytest

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap.verbs import ends

KEY = ObjectKey("shop", "acme")
REFUSED: JsonObject = {"type": "Ready", "status": "False", "reason": "TenantChangeRefused", "message": "denied"}
CANARY: JsonObject = {"version": "2.0.0", "phase": "Canary", "waiting": 1}


def tenant(
    state: str, *, current: str = "shop-v2", seen: int = 2, reason: str = "R", leaves: bool = False
) -> Unstructured:
    metadata: JsonObject = {"name": "acme", "namespace": "shop", "generation": 2}
    if leaves:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition: JsonObject = {"type": "Ready", "status": "False", "reason": reason, "message": ""}
    return Unstructured.of(
        {
            "apiVersion": "sme.sap.com/v1alpha1",
            "kind": "CAPTenant",
            "metadata": metadata,
            "spec": {"capApplicationInstance": "shop", "subDomain": "acme", "tenantId": "id", "version": "2.0.0"},
            "status": {
                "state": state,
                "currentCAPApplicationVersionInstance": current,
                "observedGeneration": seen,
                "conditions": [condition],
            },
        }
    )


@pytest.mark.parametrize(
    ("seen", "ended", "good"),
    [
        (tenant("Ready"), True, True),
        (tenant("Ready", current="shop-v1"), False, False),
        (tenant("Upgrading", current="shop-v1"), False, False),
        (tenant("UpgradeError", current="shop-v1"), True, False),
        (tenant("UpgradeError", current="shop-v1", seen=1), False, False),
        (None, True, False),
    ],
    ids=["upgraded", "not begun", "under way", "failed", "failed before the change", "gone"],
)
def test_an_upgrade_ends_with_its_version_or_with_a_failure_after_the_change(
    seen: Unstructured | None, ended: bool, good: bool
) -> None:
    awaited = ends.upgraded(KEY, "shop-v2")

    assert (awaited.has_ended(seen), awaited.is_good(seen)) == (ended, good)


def test_a_tenant_that_cannot_be_deprovisioned_ends_the_wait() -> None:
    awaited = ends.gone(KEY)

    assert awaited.has_ended(tenant("Deleting", reason="DeprovisioningFailed", leaves=True))
    assert not awaited.has_ended(tenant("Deleting", reason="DeprovisioningOperationCreated", leaves=True))
    assert not awaited.has_ended(tenant("UpgradeError")), "it was asked to go, and does not show it yet"
    assert awaited.is_good(None)


@pytest.mark.parametrize(
    ("status", "blocks"),
    [
        ({"state": "Consistent"}, False),
        ({"state": "Consistent", "tenantUpgrade": {"version": "2.0.0", "phase": "Rolling", "waiting": 1}}, False),
        ({"state": "Consistent", "tenantUpgrade": {"version": "2.0.0", "phase": "Paused", "upgrading": 1}}, False),
        ({"state": "Consistent", "tenantUpgrade": {"version": "1.0.0", "phase": "Paused"}}, False),
        ({"state": "Consistent", "tenantUpgrade": {"version": "2.0.0", "phase": "Paused"}}, True),
        ({"state": "Error"}, True),
        ({"state": "Error", "conditions": [REFUSED]}, False),
        ({"state": "Error", "conditions": [REFUSED], "tenantUpgrade": {**CANARY, "upgrading": 1}}, False),
        ({"state": "Error", "conditions": [REFUSED], "tenantUpgrade": {**CANARY, "phase": "Waiting"}}, False),
        ({"state": "Error", "conditions": [REFUSED], "tenantUpgrade": CANARY}, True),
        ({"state": "Error", "conditions": [REFUSED], "tenantUpgrade": {**CANARY, "phase": "Rolling"}}, True),
        ({"state": "Processing", "tenantUpgrade": CANARY}, False),
    ],
    ids=[
        "not begun",
        "goes on",
        "paused with tenants under way",
        "paused before",
        "paused",
        "in error",
        "one tenant refused",
        "another one under way",
        "outside a window",
        "canary refused",
        "only refused ones left",
        "begins",
    ],
)
def test_tenants_in_waves_are_not_waited_for_while_their_application_moves_none(
    status: JsonObject, blocks: bool
) -> None:
    spec: JsonObject = {"btpAppName": "shop", "btp": {"services": []}}
    body: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPApplication", "metadata": {"name": "shop"}}
    application = Unstructured.of({**body, "spec": spec, "status": status})

    assert ends.standstill(KEY, "2.0.0").blocks(application) is blocks


def test_a_subscriber_waits_until_the_tenant_is_ready_or_has_failed() -> None:
    awaited = ends.provisioned(KEY)

    assert [awaited.has_ended(tenant(state)) for state in ("", "Provisioning", "Ready", "ProvisioningError")] == [
        False,
        False,
        True,
        True,
    ]
