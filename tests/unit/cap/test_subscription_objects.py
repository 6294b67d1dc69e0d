"""What belongs to subscriptions that no registry has sent."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
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


def provider_of(application: CAPApplication, **changed: JsonValue) -> CAPTenant:
    """The tenant of the provider, before it is provisioned."""
    _, desired = subscription_objects.of_provider(application, "1.0.0")
    tenant = msgspec.convert(desired.body, CAPTenant)
    metadata = msgspec.structs.replace(tenant.metadata, uid="the new one")
    return msgspec.convert(
        {**msgspec.to_builtins(msgspec.structs.replace(tenant, metadata=metadata)), **changed}, CAPTenant
    )


def test_the_payload_of_a_provider_that_is_not_provisioned_is_created_again_and_owned_at_once() -> None:
    application = given.application()
    secret, _ = subscription_objects.of_provider(application, "1.0.0")
    tenant = provider_of(application)

    again = subscription_objects.lost_context(application, tenant, lambda _: None)

    assert again is not None
    assert (again.address, again.body["data"]) == (secret.address, secret.body["data"])
    created = msgspec.convert(again.body, Secret)
    assert [owner.uid for owner in created.metadata.owner_references] == ["the new one"]
    assert subscription_objects.may_be_payload_of(tenant, created)
    assert subscription_objects.lost_context(application, tenant, {created.metadata.name: created}.get) is None


def test_only_the_payload_that_provisioning_needs_is_created_again() -> None:
    application = given.application()
    tenant = provider_of(application)
    leaving = msgspec.structs.replace(tenant.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    elsewhere = msgspec.structs.replace(tenant.metadata, annotations={names.CONTEXT_SECRET_ANNOTATION: "of-the-user"})
    for other in (
        None,
        provider_of(application, status={"currentCAPApplicationVersionInstance": "bookshop-v1"}),
        msgspec.structs.replace(tenant, metadata=leaving),
        msgspec.structs.replace(tenant, metadata=elsewhere),
        msgspec.structs.replace(tenant, spec=msgspec.structs.replace(tenant.spec, tenant_id="another")),
    ):
        assert subscription_objects.lost_context(application, other, lambda _: None) is None
    assert subscription_objects.lost_context(given.application(provider=None), tenant, lambda _: None) is None


def test_the_secret_goes_with_its_tenant() -> None:
    tenant = given.tenant()

    secret = msgspec.convert({"metadata": {"name": "s", "uid": "of the secret"}}, Secret)
    patched = msgspec.convert(subscription_objects.owned_by(tenant, secret), Secret)

    [owner] = patched.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("CAPTenant", tenant.metadata.uid, True)
    assert patched.metadata.uid == "of the secret"
