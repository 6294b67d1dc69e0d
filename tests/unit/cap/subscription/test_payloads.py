"""What the registries send, as one value."""

from __future__ import annotations

import json

import pytest

from stellwerk.operators.cap.subscription import payloads
from stellwerk.operators.cap.subscription.payloads import PayloadInvalid, Subscription

SAAS = {
    "subscriptionGUID": "guid-1",
    "subscribedTenantId": "tenant-1",
    "subscribedSubdomain": "acme",
    "globalAccountGUID": "global",
    "providerSubaccountId": "provider",
    "subscriptionAppName": "bookshop",
    "subscriptionParams": {"subscriptionDomain": "books.example.com"},
}
SMS = {
    "subscriber": {
        "subscriptionGUID": "guid-1",
        "app_tid": "tenant-1",
        "subaccountSubdomain": "acme",
        "globalAccountId": "global",
    },
    "rootApplication": {
        "providerSubaccountId": "provider",
        "appName": "bookshop",
        "subscriptionParams": {"subscriptionDomain": "books.example.com"},
    },
}
EXPECTED = Subscription(
    guid="guid-1",
    tenant_id="tenant-1",
    subdomain="acme",
    provider_subaccount_id="provider",
    app_name="bookshop",
    global_account_id="global",
    domain="books.example.com",
)


def test_both_protocols_describe_the_same_subscription() -> None:
    assert payloads.saas_subscription(json.dumps(SAAS).encode()) == EXPECTED
    assert payloads.sms_subscription(json.dumps(SMS).encode()) == EXPECTED


def test_keys_are_matched_regardless_of_case() -> None:
    body = json.dumps({key.upper(): value for key, value in SAAS.items()}).encode()
    assert payloads.saas_subscription(body) == EXPECTED


@pytest.mark.parametrize("key", [key for key in SAAS if key not in ("globalAccountGUID", "subscriptionParams")])
def test_an_absent_key_is_named(key: str) -> None:
    body = json.dumps({name: value for name, value in SAAS.items() if name != key}).encode()
    with pytest.raises(PayloadInvalid, match=f"^{key} is missing$"):
        payloads.saas_subscription(body)


def test_an_absent_object_of_sms_is_named() -> None:
    with pytest.raises(PayloadInvalid, match=r"^subscriber is missing$"):
        payloads.sms_subscription(b"{}")


@pytest.mark.parametrize("value", ["a b", "-a", "a/b", "a\r\nX-Header: b", "a" * 64, "tenant-1\n"])
def test_a_tenant_id_that_no_label_can_have_is_refused_and_not_quoted(value: str) -> None:
    with pytest.raises(PayloadInvalid, match=r"^subscribedTenantId must have at most 63") as refusal:
        payloads.saas_subscription(json.dumps({**SAAS, "subscribedTenantId": value}).encode())
    assert value not in str(refusal.value)


@pytest.mark.parametrize("value", ["evil.example.com", "a/b", "a@b", "a_b"])
def test_a_subdomain_that_changes_the_host_of_the_url_is_refused(value: str) -> None:
    with pytest.raises(PayloadInvalid, match=r"^subscribedSubdomain must have"):
        payloads.saas_subscription(json.dumps({**SAAS, "subscribedSubdomain": value}).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a":"\xff"}', b"[" * 60_000])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadInvalid, match="not valid JSON"):
        payloads.saas_subscription(body)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"1"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadInvalid, match="must be a JSON object"):
        payloads.saas_subscription(body)


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(PayloadInvalid, match=r"^subscriptionAppName must be a string$"):
        payloads.saas_subscription(json.dumps({**SAAS, "subscriptionAppName": 1}).encode())
    with pytest.raises(PayloadInvalid, match=r"^subscriptionParams must be an object$"):
        payloads.saas_subscription(json.dumps({**SAAS, "subscriptionParams": "x"}).encode())
