"""When a promise to a registry is due, and what the registry gets."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import Listing
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import ApplicationSpec, BtpServices, CAPApplication
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOutput,
    Operation,
    OutputSpec,
    TenantSpec,
    TenantStatus,
)
from stellwerk.operators.cap.subscription import plan
from stellwerk.operators.cap.subscription.callbacks import answer, promise
from stellwerk.operators.cap.subscription.callbacks.outputs import OutputReader
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret, PromiseUnreadable
from stellwerk.operators.cap.subscription.callbacks.registry import (
    CallbackInvalid,
    Delivery,
    RegistryClient,
    callback_url,
    is_usable,
)
from stellwerk.operators.cap.subscription.outgoing import Outgoing
from stellwerk.operators.cap.subscription.registries import Protocol

NOW = datetime(2027, 1, 1, tzinfo=UTC)
PROMISE = Promise(
    operation=Operation.PROVISIONING,
    protocol=Protocol.SAAS,
    path="/callback",
    application="shop",
    tenant_id="acme",
    guid="guid-1",
    secret="binding",
    service="registry",
    accepted=NOW,
    deadline=NOW + timedelta(minutes=15),
    subdomain="acme",
)
END = msgspec.structs.replace(PROMISE, operation=Operation.DEPROVISIONING, tenant="shop-1", uid="one")


def tenant(state: str = "", uid: str = "one", *, terminating: bool = False) -> CAPTenant:
    metadata = ObjectMeta(name="shop-1", namespace="home", uid=uid, deletion_timestamp=NOW if terminating else None)
    spec = TenantSpec(cap_application_instance="shop", sub_domain="acme", tenant_id="acme")
    return CAPTenant(metadata=metadata, spec=spec, status=TenantStatus(state=state))


SUCCEEDED, FAILED = (answer.body(PROMISE, succeeded=succeeded) for succeeded in (True, False))


@pytest.mark.req("R-307", "R-308")
@pytest.mark.parametrize(
    ("seconds_after", "state", "body", "is_covered"),
    [
        (0, promise.PENDING, "", True),
        (5, promise.PENDING, "", True),
        (-5, promise.PENDING, "", True),
        (600, promise.PENDING, "", False),
        (5, promise.PENDING, SUCCEEDED, False),
        (5, promise.DELIVERED, SUCCEEDED, False),
        (0, promise.DELIVERED, SUCCEEDED, True),
        (-5, promise.PENDING, SUCCEEDED, True),
        (0, promise.PENDING, FAILED, False),
        (-5, promise.DELIVERED, FAILED, False),
        (-5, promise.DELIVERED, "", False),
        (-5, promise.DELIVERED, "{", False),
    ],
)
def test_a_request_is_covered_by_a_promise_whose_answer_will_be_true_for_it(
    seconds_after: int, state: str, body: str, is_covered: bool
) -> None:
    promised = msgspec.structs.replace(PROMISE, accepted=NOW + timedelta(seconds=seconds_after))
    stored = PromiseSecret(
        metadata=ObjectMeta(name=PROMISE.name, namespace="home", labels={names.CALLBACK_LABEL: state}),
        data={**promise.data_of(msgspec.structs.replace(PROMISE, body=body))},  # type: ignore[dict-item]
    )
    assert plan.is_covered(promised, stored) is is_covered


def test_a_request_is_not_covered_by_a_promise_that_cannot_be_read() -> None:
    labels = {names.CALLBACK_LABEL: promise.PENDING}
    stored = PromiseSecret(metadata=ObjectMeta(name=PROMISE.name, namespace="home", labels=labels))
    assert not plan.is_covered(PROMISE, stored)


@pytest.mark.req("R-307")
@pytest.mark.parametrize(
    ("found", "succeeded"),
    [
        (tenant("Ready"), True),
        (tenant("ProvisioningError"), False),
        (tenant("Ready", terminating=True), False),
        (tenant("Provisioning"), None),
        (tenant("Upgrading"), None),
        (tenant(""), None),
        (None, None),
    ],
)
def test_a_tenant_is_provisioned_when_it_is_ready_or_failed(found: CAPTenant | None, succeeded: bool | None) -> None:
    assert promise.judge(PROMISE, found, NOW) is succeeded
    assert promise.judge(PROMISE, found, PROMISE.deadline) is bool(succeeded)


def test_a_subscription_that_is_over_has_failed_once_its_tenant_is_gone() -> None:
    assert promise.judge(PROMISE, None, NOW, is_over=True) is False
    assert promise.judge(PROMISE, tenant("Provisioning"), NOW, is_over=True) is None


@pytest.mark.req("R-105", "R-307")
@pytest.mark.parametrize(
    ("found", "succeeded"),
    [(tenant("Deleting", terminating=True), None), (None, True), (tenant("Ready", uid="another"), True)],
)
def test_a_tenant_is_deprovisioned_when_it_is_gone(found: CAPTenant | None, succeeded: bool | None) -> None:
    assert promise.judge(END, found, NOW) is succeeded


@pytest.mark.req("R-705")
def test_a_token_from_before_the_end_is_a_replay() -> None:
    moment = END.accepted.timestamp()
    assert promise.is_replay(moment - 1, END)
    assert not promise.is_replay(moment + 1, END)
    assert not promise.is_replay(moment - 1, PROMISE)


@pytest.mark.req("R-308")
def test_the_name_of_a_promise_is_that_of_the_same_request_only() -> None:
    later = msgspec.structs.replace(PROMISE, accepted=NOW + timedelta(hours=1), body="x", attempts=3)
    assert later.name == PROMISE.name
    others = [
        msgspec.structs.replace(PROMISE, **changed)
        for changed in ({"path": "/other"}, {"guid": "guid-2"}, {"tenant_id": "b"}, {"protocol": Protocol.SMS})
    ]
    assert len({each.name for each in (PROMISE, END, *others)}) == 6
    assert len(msgspec.structs.replace(PROMISE, application="a" * 253).name) <= 63


def secret(data: str) -> PromiseSecret:
    return PromiseSecret(metadata=ObjectMeta(name="p", namespace="home"), data={promise.KEY: data})


def test_a_promise_is_read_as_it_was_stored() -> None:
    data = promise.data_of(END)[promise.KEY]
    assert isinstance(data, str)
    assert promise.read(secret(data)) == END


@pytest.mark.req("R-401")
@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda data: base64.b64encode(data).decode()))
def test_any_other_content_is_no_promise(data: str) -> None:
    with pytest.raises(PromiseUnreadable):
        promise.read(secret(data))


# ---- the answer


def application(annotation: str) -> CAPApplication:
    spec = ApplicationSpec(btp_app_name="shop", provider_subaccount_id="p", btp=BtpServices(services=()))
    return CAPApplication(
        metadata=ObjectMeta(name="shop", annotations={names.ADDITIONAL_OUTPUT_ANNOTATION: annotation}), spec=spec
    )


def outputs(*texts: str) -> list[CAPTenantOutput]:
    return [
        CAPTenantOutput(metadata=ObjectMeta(name=f"output-{number}"), spec=OutputSpec(subscription_callback_data=text))
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("annotation", "texts", "expected"),
    [
        ("", [], {}),
        ('{"a": 1}', ['{"a": 2}', '{"b": {"c": 3}}'], {"a": 2, "b": {"c": 3}}),
        ('{"a": 1}', ["{", '{"a": 2}'], {"a": 1}),
        ('{"a": 1}', ['{"b": 2}', "7", '{"c": 3}'], {"a": 1, "b": 2}),
        ("{", ['{"a": 2}'], None),
        ("[1]", [], None),
        ("[" * 5_000, ['{"a": 2}'], None),
        ('{"a": 1}', [json.dumps({"x": "y" * 140_000})], {"a": 1}),
    ],
)
def test_outputs_are_merged_until_one_cannot_be_read(annotation: str, texts: list[str], expected: Any) -> None:
    found = answer.additional_output(application(annotation), outputs(*texts))
    assert found.content == expected


@pytest.mark.req("R-411")
def test_outputs_are_merged_until_the_result_is_too_large() -> None:
    large = outputs(*(json.dumps({f"x{number}": "y" * 60_000}) for number in range(4)))
    found = answer.additional_output(application(""), large)
    assert found.content == {"x0": "y" * 60_000, "x1": "y" * 60_000}
    assert found.problem == "CAPTenantOutput output-2 makes the output larger than 128 KiB"


@pytest.mark.req("R-411")
def test_an_output_that_replaces_a_value_counts_in_its_place() -> None:
    repeated = outputs(*(json.dumps({"x": str(number) * 60_000}) for number in range(4)))
    found = answer.additional_output(application('{"a": 1}'), repeated)
    assert found == answer.AdditionalOutput({"a": 1, "x": "3" * 60_000})


@pytest.mark.req("R-411")
@pytest.mark.parametrize("spare", [0, -1])
def test_the_size_of_outputs_is_that_of_their_encoded_result(spare: int) -> None:
    length = answer.MOST_OUTPUT_BYTES - len('{"a":1,"x":""}') - spare
    found = answer.additional_output(
        application('{"a": 1}'), outputs('{"x": "short"}', json.dumps({"x": "y" * length}))
    )
    assert bool(found.problem) is (spare < 0)


def test_the_answer_about_an_end_has_neither_output_nor_url() -> None:
    assert json.loads(answer.body(END, succeeded=False)) == {"status": "FAILED", "message": "Deprovisioning failed"}


def test_the_url_has_the_name_that_the_registry_reads() -> None:
    sms = msgspec.structs.replace(PROMISE, protocol=Protocol.SMS)
    assert json.loads(answer.body(sms, succeeded=True, output={}, domain="example.com")) == {
        "status": "SUCCEEDED",
        "message": "Provisioning successful",
        "additionalOutput": {},
        "applicationUrl": "https://acme.example.com",
    }


@pytest.mark.req("R-411", "R-507")
async def test_the_outputs_of_one_tenant_are_read_at_a_time() -> None:
    under_way, most = 0, 0

    class Lists:
        async def list(self, *_: object, **__: object) -> Listing[CAPTenantOutput]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return Listing(items=[], resource_version="1")

    reader = OutputReader(cast("Client", Lists()))
    await asyncio.gather(*(reader.read("home", f"tenant-{number}") for number in range(5)))
    assert most == 1


# ---- where it goes


@pytest.mark.req("R-603")
@given(st.text(max_size=60) | st.text("/.@:#?%ab\\", max_size=20))
def test_no_path_leads_to_another_server(path: str) -> None:
    try:
        url = callback_url("https://registry.example.com/base", path)
    except CallbackInvalid:
        return
    assert (url.scheme, url.host, url.port, url.user) == ("https", "registry.example.com", 443, None)
    assert url.path.startswith("/base/")


@pytest.mark.req("R-603")
@pytest.mark.parametrize("dots", ["..", ".", "%2e%2e", "%2E.", "%252e%252e", "%25252e%2e", "..%20", "%2e%2e;x"])
@pytest.mark.parametrize("separator", ["/", "%2f", "%2F", "%252f", "%5c", "%255C"])
@pytest.mark.parametrize("end", ["", "/admin", "%2fadmin?x=1"])
def test_a_path_that_leads_elsewhere_after_decoding_is_refused(dots: str, separator: str, end: str) -> None:
    for path in (f"/callback{separator}{dots}{end}", f"/{dots}{separator}admin{end}"):
        with pytest.raises(CallbackInvalid, match="must stay"):
            callback_url("https://registry.example.com/base", path)


@pytest.mark.req("R-603")
@pytest.mark.parametrize("path", ["/%2felsewhere", "/%5c%5celsewhere", "/a%00b", "/a%0d%0ab", "/%c0%ae%c0%ae/x"])
def test_a_path_that_names_a_server_or_is_no_text_after_decoding_is_refused(path: str) -> None:
    with pytest.raises(CallbackInvalid, match="must stay"):
        callback_url("https://registry.example.com/base", path)


@pytest.mark.req("R-603")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v2.0/callbacks/1-2/result",
        "/a%20b/c%2Fd",
        "/100%25",
        "/a..b/.well-known?next=../x&y=%2e%2e",
        "/a;v=1",
    ],
)
def test_a_path_of_a_registry_is_taken_as_it_is(path: str) -> None:
    assert callback_url("https://registry.example.com/base", path).raw_path_qs.startswith("/base/")


@pytest.mark.parametrize("registry", ["https://xn--/", "https://[", "https://example.com:99999"])
def test_a_registry_without_a_usable_url_gets_no_answer(registry: str) -> None:
    with pytest.raises(CallbackInvalid):
        callback_url(registry, "/callback")


@pytest.mark.req("R-307")
def test_a_binding_can_be_used_once_it_names_a_server() -> None:
    usable = [each for each in ("", "https://[", "not-written", "https://registry.example.com") if is_usable(each)]
    assert usable == ["https://registry.example.com"]


@pytest.mark.req("R-307")
@pytest.mark.parametrize(
    ("registry", "path", "delivery"),
    [
        ("https://[", "/callback", Delivery.AGAIN),
        ("", "/callback", Delivery.AGAIN),
        ("https://registry.example.com", "//elsewhere", Delivery.REFUSED),
    ],
)
async def test_only_a_path_makes_an_answer_undeliverable_for_good(registry: str, path: str, delivery: Delivery) -> None:
    client = RegistryClient(Outgoing())
    attempt = await client.deliver(Protocol.SAAS, {"saas_registry_url": registry}, path, "{}")
    await client.outgoing.close()
    assert attempt.delivery is delivery
