"""Who may subscribe: callers of the right application, and what others learn."""

from __future__ import annotations

import base64
import logging
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.cap.subscription.bookshop import Bookshop, Reply, Serving
from tests.unit.cap.subscription.client_certificates import Authority, header

from stellwerk.api.core import Pod, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import Operation
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.server import TRY_AGAIN
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.servers.registries import TOKEN, UAA_DOMAIN, Answers

REFUSED = (406, "authorization check failed")


# ---- tokens


@pytest.mark.req("R-703", "R-705", "CAP-29")
@pytest.mark.parametrize(
    "claims",
    [
        {"scope": ["other!t2.Callback"]},
        {"aud": ["other"]},
        {"lifetime": 10.0},
        {"host": "evil.example.com"},
        {"valid_in": 600.0},
    ],
)
async def test_a_token_with_something_wrong_makes_no_tenant(shop: Bookshop, claims: dict[str, Any]) -> None:
    for path in ("/provision/tenants/acme",):
        reply = await shop.send(json_body=shop.payload(), token=shop.token(**claims), path=path)
        assert (reply.status, reply.message) == REFUSED
    assert not await shop.tenants()
    assert not await shop.promises()


@pytest.mark.req("R-703")
async def test_a_token_with_a_key_of_its_own_makes_no_tenant(shop: Bookshop) -> None:
    good, published = shop.token(), shop.registries.keys
    assert (await shop.send("DELETE", json_body=shop.payload(), token=good)).status == 404
    shop.registries.rotate()
    forged = shop.token()
    shop.registries.keys = published
    reply = await shop.subscribe(token=forged)
    assert (reply.status, reply.message) == REFUSED


@pytest.mark.req("R-701")
async def test_without_a_token_the_answer_says_so(shop: Bookshop) -> None:
    reply = await shop.subscribe(token="")
    assert (reply.status, reply.message) == (406, "expected bearer token")


@pytest.mark.req("R-705")
async def test_a_token_of_one_application_is_refused_for_another(shop: Bookshop, neighbour: Bookshop) -> None:
    await neighbour.subscribe()
    for reply in (
        await neighbour.subscribe("other", token=shop.token()),
        await neighbour.unsubscribe(token=shop.token()),
    ):
        assert (reply.status, reply.message) == REFUSED
    assert (await neighbour.send("DELETE", json_body=shop.payload(), token=shop.token())).status == 404
    reply = await shop.send("GET", f"/dependencies/provider/{neighbour.namespace}/", token=shop.token(), json_body=None)
    assert reply.status == 401
    (tenant,) = await neighbour.tenants()
    assert not tenant.metadata.is_terminating


async def by_age(*shops: Bookshop) -> list[Bookshop]:
    """The applications, the oldest first."""
    made = [(await each.client.get(CAPApplication, "shop", each.namespace), each) for each in shops]
    ordered = sorted(made, key=lambda pair: (pair[0].metadata.creation_timestamp, str(pair[0].key)))
    return [each for _, each in ordered]


@pytest.mark.req("R-705")
async def test_of_two_applications_with_one_identity_the_caller_means_its_own(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await neighbour.apply(btpAppName=shop.namespace)
    await serving.settled(shop.client)
    path = f"/dependencies/provider/{shop.namespace}/"
    for each, tenant in ((shop, "acme"), (neighbour, "other")):
        assert (await shop.send(json_body=shop.payload(tenant), token=each.token())).status == 202
        assert (await each.tenant()).spec.tenant_id == tenant
        assert (await shop.send("GET", path, token=each.token())).status == 200
    await serving.settled(shop.client)
    for each, tenant in ((shop, "acme"), (neighbour, "other")):
        ended = await shop.send("DELETE", json_body=shop.payload(tenant, f"another-{tenant}"), token=each.token())
        assert ended.status == 202
        await each.gone()


@pytest.mark.req("R-705")
async def test_while_the_binding_of_an_older_application_is_absent_no_subscription_of_a_younger_is_called_ended(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    """A registry may take "not found" for the end that it wants."""
    await neighbour.apply(btpAppName=shop.namespace)
    older, younger = await by_age(shop, neighbour)
    await serving.settled(shop.client)
    assert (await younger.send(json_body=shop.payload("other"), token=younger.token())).status == 202
    await shop.client.delete(Secret, "registry-binding", older.namespace)
    await serving.settled(shop.client)
    reply = await younger.send("DELETE", json_body=shop.payload("other", "another-id"), token=younger.token())
    assert (reply.status, reply.message) == (503, TRY_AGAIN)
    assert await younger.tenants()


@pytest.mark.req("R-705")
async def test_while_the_binding_of_an_application_is_absent_no_younger_one_gets_its_subscriptions(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await neighbour.apply(btpAppName=shop.namespace)
    older, younger = await by_age(shop, neighbour)
    shop.registries.behave(f"zone2.{UAA_DOMAIN}{TOKEN}", Answers(401))
    await younger.bind(clientid=f"sb-{older.namespace}", url=f"https://zone2.{UAA_DOMAIN}")
    await younger.secret("uaa-binding", {"xsappname": older.app_name})
    await shop.client.delete(Secret, "registry-binding", older.namespace)
    await serving.settled(shop.client)
    token, path = older.token(), f"/dependencies/provider/{shop.namespace}/"
    reply = await shop.subscribe(token=token)
    assert (reply.status, reply.message) == (503, TRY_AGAIN)
    assert (await shop.send("GET", path, token=token)).status == 503
    assert not await younger.tenants()
    await older.bind()
    await serving.settled(shop.client)
    assert (await shop.subscribe(token=token)).status == 202
    assert await older.tenants()
    assert not await younger.tenants()


@pytest.mark.req("R-705")
async def test_labels_of_a_neighbour_do_not_keep_a_subscription_from_ending(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await neighbour.make_tenant(
        "copy", **{"sme.sap.com/subscription-guid": "guid-1", "sme.sap.com/btp-tenant-id": "acme"}
    )
    await shop.subscribe()
    await serving.settled(shop.client)
    assert (await shop.unsubscribe()).status == 202
    await shop.gone()
    assert len(await neighbour.tenants()) == 1


@pytest.mark.req("R-705")
async def test_a_request_that_is_replayed_after_the_end_is_refused(shop: Bookshop, serving: Serving) -> None:
    old = shop.token(age=60)
    await shop.subscribe(token=old)
    await shop.unsubscribe(callback="")
    await shop.gone()
    await serving.settled(shop.client)
    reply = await shop.subscribe(token=old)
    assert (reply.status, reply.message) == REFUSED
    assert not await shop.tenants()
    assert (await shop.subscribe(guid="guid-2", token=old)).status == 202
    await serving.settled(shop.client)
    assert (await shop.unsubscribe(token=old)).status == 404, "it was another subscription that this ended"
    assert len(await shop.tenants()) == 1


@pytest.mark.req("R-307", "R-705")
async def test_a_promise_in_another_namespace_does_not_keep_a_subscription_from_ending(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await shop.make_tenant("seed", **{names.TENANT_ID_LABEL: "acme"})
    await serving.settled(shop.client)
    forged = Promise(
        operation=Operation.DEPROVISIONING,
        protocol=Protocol.SAAS,
        path="",
        application="shop",
        tenant_id="acme",
        guid="guid-1",
        secret="registry-binding",
        service="registry",
        accepted=SystemClock().now(),
        deadline=SystemClock().now(),
        uid="another",
    )
    await shop.client.create(Secret, promise.stored(forged, neighbour.namespace))
    await serving.settled(shop.client)
    assert (await shop.unsubscribe()).status == 202
    await shop.gone()


@pytest.mark.req("R-702")
async def test_a_caller_without_valid_credentials_does_not_learn_what_exists(shop: Bookshop) -> None:
    """The same answers, and times of the same class, whether the application and the tenant exist or not."""
    await shop.subscribe()
    published = shop.registries.keys
    shop.registries.rotate()
    forged = shop.token()
    shop.registries.keys = published
    bodies = [shop.payload(), shop.payload("unknown"), shop.payload(subscriptionAppName="unknown")]
    for method in ("PUT", "DELETE"):
        for token in ("", forged, shop.token(host="evil.example.com"), "garbage"):
            replies: list[list[Reply]] = [[] for _ in bodies]
            seconds: list[list[float]] = [[] for _ in bodies]
            for _ in range(5):
                for number, body in enumerate(bodies):
                    began = time.perf_counter()
                    replies[number].append(await shop.send(method, json_body=body, token=token))
                    seconds[number].append(time.perf_counter() - began)
            answers = {(reply.status, reply.message) for each in replies for reply in each}
            assert len(answers) == 1, answers
            medians = [statistics.median(each) for each in seconds]
            assert max(medians) < 5 * min(medians) + 0.02, medians
    paths = [f"/dependencies/provider/{name}/" for name in (shop.namespace, "unknown")]
    found = [await shop.send("GET", path, token=forged) for path in paths]
    assert len({(reply.status, reply.message) for reply in found}) == 1


@pytest.mark.req("R-601")
async def test_an_issuer_outside_of_the_uaa_domains_is_never_called(shop: Bookshop) -> None:
    for host in ("evil.example.com", f"evil{UAA_DOMAIN}", f"{UAA_DOMAIN}.evil.example.com"):
        assert (await shop.subscribe(token=shop.token(host=host))).status == 406
    assert not shop.registries.asked


@pytest.mark.req("R-601", "R-603")
@pytest.mark.parametrize(
    "callback",
    [
        "//evil.example.com/x",
        "https://evil.example.com/x",
        "@evil.example.com/x",
        ".evil.example.com/x",
        "/a/../../b",
        "/x#fragment",
        "/x y",
        "/" + "x" * 3_000,
        "callback",
    ],
)
async def test_a_callback_stays_at_the_server_of_the_registry(shop: Bookshop, callback: str) -> None:
    reply = await shop.subscribe(callback=callback)
    assert reply.status == 400
    assert "STATUS_CALLBACK" in reply.message
    assert not await shop.tenants()


@pytest.mark.req("R-603")
async def test_a_registry_with_a_private_address_gets_no_credentials(shop: Bookshop, serving: Serving) -> None:
    await serving.stop()
    serving.settings["serve_unproved"] = True
    await serving.start()
    await serving.settled(shop.client)
    shop.registries.tokens.clear()
    await shop.bind(url="https://169.254.169.254", saas_registry_url="https://10.0.0.1")
    await serving.settled(shop.client)
    await shop.subscribe()
    await shop.shows("Ready")
    await serving.settled(shop.client)
    ((state, promised),) = await shop.promises()
    assert state == "pending"
    assert not shop.registries.tokens
    assert "10.0.0.1" not in promised.problem


async def test_changed_credentials_count_at_once(shop: Bookshop, serving: Serving) -> None:
    old = shop.token()
    await shop.bind(clientid="sb-new")
    await serving.settled(shop.client)
    assert (await shop.subscribe(token=old)).status == 406
    assert (await shop.subscribe(token=shop.token(aud=["sb-new"]))).status == 202


async def test_status_codes_of_http_are_used_where_that_is_asked_for(shop: Bookshop, serving: Serving) -> None:
    await serving.stop()
    serving.settings["standard_status_codes"] = True
    await serving.start()
    missing, foreign = await shop.subscribe(token=""), await shop.subscribe(token=shop.token(aud=["other"]))
    assert (missing.status, missing.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert foreign.status == 403


# ---- client certificates


GATEWAY_SECRET, PROOF = "gateway", "p" * 48


async def prove(shop: Bookshop, **values: str) -> None:
    """Write the Secret whose value the routes of the gateway add."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    await shop.client.apply(
        Secret, {"metadata": {"name": GATEWAY_SECRET, "namespace": shop.namespace}, "data": {**data}}
    )


def by_gateway(*pems: bytes) -> dict[str, str]:
    """The headers that the route of the gateway adds for a client with these certificates."""
    return {"X-Forwarded-Client-Cert": header(*pems), "X-Stellwerk-Gateway": PROOF}


@pytest.fixture
async def sms(shop: Bookshop, serving: Serving, tmp_path: Path) -> Authority:
    """The authority of client certificates, which the server knows; requests come from the gateway's network, and its
    routes add the value of a Secret."""
    authority = Authority(now=SystemClock().now())
    file = tmp_path / "authority.pem"
    file.write_bytes(authority.pem)
    await serving.stop()
    await prove(shop, current=PROOF)
    serving.home = shop.namespace
    serving.settings |= {
        "sms_client_ca": str(file),
        "gateway_networks": ("127.0.0.0/8",),
        "gateway_secret": GATEWAY_SECRET,
    }
    await serving.start()
    return authority


async def put(shop: Bookshop, *pems: bytes, headers: dict[str, str] | None = None, **options: Any) -> Reply:
    return await shop.send(
        path="/sms/provision/tenants/acme",
        json_body=shop.sms_payload(),
        token="",
        headers={**by_gateway(*pems), **(headers or {})},
        **options,
    )


@pytest.mark.req("CAP-34")
async def test_the_management_service_subscribes_and_ends_with_its_certificate(shop: Bookshop, sms: Authority) -> None:
    certificate = sms.client(shop.namespace)
    reply = await put(shop, certificate)
    assert (reply.status, reply.message) == (202, "resource created successfully")
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.path == "/sms/callback/1"
    assert callback.body["applicationUrl"] == f"https://acme.{shop.namespace}.example.com"
    for query, status in (("", 400), ("?subscriptionGUID=unknown", 404), ("?subscriptionGUID=guid-1", 202)):
        reply = await shop.send(
            "DELETE",
            f"/sms/provision/tenants/acme{query}",
            token="",
            callback="/end",
            headers=by_gateway(certificate),
        )
        assert reply.status == status
    callbacks = await shop.registries.received(2)
    assert callbacks[1].body == {"status": "SUCCEEDED", "message": "Deprovisioning successful"}


@pytest.mark.req("R-704", "CAP-34")
async def test_another_certificate_subscribes_nothing(shop: Bookshop, sms: Authority) -> None:
    stranger = Authority(now=SystemClock().now())
    for pems in (
        (),
        (stranger.client(shop.namespace),),
        (sms.client("other"),),
        (sms.client(shop.namespace, days=-1),),
        (sms.client(shop.namespace), sms.client(shop.namespace)),
    ):
        reply = await put(shop, *pems)
        assert (reply.status, reply.message) == REFUSED
    assert not await shop.tenants()


@pytest.mark.req("R-704", "R-951")
async def test_a_certificate_counts_only_from_a_pod_of_the_gateway_that_serves(
    shop: Bookshop, serving: Serving, sms: Authority, admin: Client
) -> None:
    await serving.stop()
    serving.settings |= {"gateway_networks": (), "gateway_namespace": shop.namespace, "gateway_labels": "app=gateway"}
    await serving.start()
    reply = await put(shop, sms.client(shop.namespace))
    assert (reply.status, reply.message) == REFUSED
    pod: JsonObject = {
        "metadata": {"name": "gateway", "namespace": shop.namespace, "labels": {"app": "gateway"}},
        "spec": {"nodeName": "none", "containers": [{"name": "proxy", "image": "proxy"}]},
    }
    await admin.apply(Pod, pod)

    async def shows(phase: str, ready: str) -> None:
        status: JsonObject = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
        }
        await admin.patch(Pod, "gateway", shop.namespace, MergePatch({"status": status}), subresource="status")
        await serving.settled(admin)

    await shows("Running", "False")
    assert (await put(shop, sms.client(shop.namespace))).status == 406
    await shows("Running", "True")
    assert (await put(shop, sms.client(shop.namespace))).status == 202
    await shows("Failed", "True")  # evicted: its address may be another pod's now
    assert (await put(shop, sms.client(shop.namespace))).status == 406


@pytest.mark.req("R-951")
async def test_a_route_of_a_stranger_on_the_gateway_forges_no_certificate(
    shop: Bookshop, serving: Serving, sms: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    certificate = sms.client(shop.namespace)
    for forged in ("", "p" * 32, PROOF + "p"):
        reply = await put(shop, certificate, headers={"X-Stellwerk-Gateway": forged})
        assert (reply.status, reply.message) == REFUSED
    assert not await shop.tenants()
    assert (await put(shop, certificate)).status == 202

    await prove(shop, current="q" * 48, former=PROOF)  # the routes of the gateway follow in a moment
    await serving.settled(shop.client)
    assert (await put(shop, certificate)).status == 202
    assert (await put(shop, certificate, headers={"X-Stellwerk-Gateway": "q" * 48})).status == 202
    await prove(shop, current="q" * 48)
    await serving.settled(shop.client)
    assert (await put(shop, certificate)).status == 406
    assert PROOF not in caplog.text, "the value is in no log"
    assert certificate.decode() not in caplog.text


@pytest.mark.req("R-951")
async def test_without_a_secret_of_the_gateway_certificates_count_only_where_a_setting_says_so(
    shop: Bookshop, serving: Serving, sms: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await serving.stop()
    serving.settings["gateway_secret"] = ""
    await serving.start()
    assert (await put(shop, sms.client(shop.namespace))).status == 406
    assert "client certificates are refused: set GATEWAY_SECRET" in caplog.text
    assert "GATEWAY_BY_ADDRESS=true" in caplog.text
    assert (await shop.subscribe()).status == 202, "tokens count as before"

    await serving.stop()
    serving.settings["gateway_by_address"] = True
    await serving.start()
    assert (await put(shop, sms.client(shop.namespace))).status == 202


@pytest.mark.req("R-704")
async def test_without_a_configured_authority_no_certificate_counts(shop: Bookshop, serving: Serving) -> None:
    await serving.stop()
    serving.settings["gateway_networks"] = ("127.0.0.0/8",)
    await serving.start()
    assert (await put(shop, Authority(now=SystemClock().now()).client(shop.namespace))).status == 406


# ---- dependencies


@pytest.mark.req("CAP-35")
async def test_dependencies_are_listed_for_the_registry(shop: Bookshop, serving: Serving, sms: Authority) -> None:
    services: list[Any] = [
        {"name": "uaa", "class": "xsuaa", "secret": "uaa-binding"},
        {"name": "registry", "class": "saas-registry", "secret": "registry-binding"},
        {"name": "sms", "class": "subscription-manager", "secret": "sms-binding"},
        {"name": "dest", "class": "destination", "secret": "dest-binding"},
        {"name": "never", "class": "destination", "secret": "dest-binding", "subscriptionDependency": "Never"},
        {"name": "reuse", "class": "reuse", "secret": "reuse-binding"},
        {"name": "absent", "class": "hana", "secret": "absent"},
    ]
    await shop.secret("dest-binding", {"xsappname": "dest!b1"})
    await shop.secret("reuse-binding", {"saasregistryenabled": True, "uaa": {"xsappname": "reuse!b2"}})
    await shop.apply(btp={"services": services})
    await serving.settled(shop.client)
    expected = [{"appName": "destination", "appId": "dest!b1"}, {"xsappname": "reuse!b2"}]
    for path in (f"/dependencies/provider/{shop.namespace}/", f"/dependencies/provider/{shop.namespace}?tenantId=acme"):
        reply = await shop.send("GET", path)
        assert (reply.status, reply.body, reply.headers["Content-Type"]) == (200, expected, "application/json")
    sms_path = f"/sms/dependencies/provider/{shop.namespace}/acme"
    reply = await shop.send("GET", sms_path, token="", headers=by_gateway(sms.client(shop.namespace)))
    assert (reply.status, reply.body) == (200, expected)


async def test_requests_for_dependencies_that_cannot_be_answered(shop: Bookshop) -> None:
    path = f"/dependencies/provider/{shop.namespace}/"
    assert (await shop.send("GET", path)).body == []
    assert (await shop.send("GET", path, token="")).status == 401
    assert (await shop.send("GET", path, token=shop.token(aud=["other"]))).status == 401
    assert (await shop.send("GET", "/dependencies/provider/unknown/")).status == 400
    assert (await shop.send("PUT", path)).status == 405
