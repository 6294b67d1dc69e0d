"""What belongs to subscriptions that no registry has sent."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.tenant import subscription_objects


def test_the_payload_of_a_subscriber_has_the_keys_of_the_registry() -> None:
    text = subscription_objects.payload(given.application(), tenant_id="acme-id", subdomain="acme", guid="guid-1")

    assert json.loads(text) == {
        "subscriptionAppName": "bookshop",
        "subscribedTenantId": "acme-id",
        "subscribedSubaccountId": "acme-id",
        "subscribedSubdomain": "acme",
        "globalAccountGUID": "",
        "subscriptionGUID": "guid-1",
        "providerSubaccountId": "subaccount",
    }


def test_the_payload_of_the_provider_names_its_own_subaccount() -> None:
    secret, desired = subscription_objects.of_provider(given.application(), "1.0.0")

    data = base64.b64decode(msgspec.convert(secret.body["data"], dict[str, str])["subscriptionContext"])
    assert json.loads(data)["subscribedSubaccountId"] == "subaccount"
    tenant = msgspec.convert(desired.body, CAPTenant)
    assert (tenant.metadata.name, tenant.spec.version) == ("bookshop-provider", "1.0.0")


LABELED: JsonObject = {"sme.sap.com/btp-tenant-id": "acme-id"}
TENANT: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "name": "acme", "uid": "former"}
BINDING: JsonObject = {"apiVersion": "services.cloud.sap.com/v1", "kind": "ServiceBinding", "name": "acme", "uid": "b"}


@pytest.mark.parametrize(
    ("labels", "owners", "may"),
    [
        (LABELED, [], True),
        (LABELED, [TENANT], True),
        ({}, [], False),
        ({"sme.sap.com/btp-tenant-id": "other-id"}, [], False),
        ({**LABELED, "sme.sap.com/subscription-callback": "pending"}, [], False),
        (LABELED, [BINDING], False),
        (LABELED, [{**TENANT, "name": "other"}], False),
        (LABELED, [TENANT, BINDING], False),
    ],
)
def test_a_tenant_owns_a_secret_with_its_label_and_without_another_owner(
    labels: JsonObject, owners: list[JsonValue], may: bool
) -> None:
    secret = msgspec.convert({"metadata": {"name": "s", "labels": labels, "ownerReferences": owners}}, Secret)
    tenant = given.tenant()
    assert subscription_objects.may_be_payload_of(tenant, secret) is may
    found = {"acme-context": secret}
    assert subscription_objects.unowned_context(tenant, found.get) is (secret if may and not owners else None)
    assert subscription_objects.unowned_context(None, found.get) is None
    assert subscription_objects.unowned_context(tenant, lambda _: None) is None
    assert subscription_objects.may_hold_payload(secret, tenant.spec.tenant_id, ("later", tenant.metadata.name)) is may


def test_the_secret_goes_with_its_tenant() -> None:
    tenant = given.tenant()

    secret = msgspec.convert({"metadata": {"name": "s", "uid": "of the secret"}}, Secret)
    patched = msgspec.convert(subscription_objects.owned_by(tenant, secret), Secret)

    [owner] = patched.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("CAPTenant", tenant.metadata.uid, True)
    assert patched.metadata.uid == "of the secret"
