"""The server as a server: probes, metrics, limits, TLS, and clients that behave badly."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cluster.cap.subscription.bookshop import Bookshop, Serving

from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair, Wish
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.serving.http import ServerLimits
from stellwerk.testing.checks import loop_stalls


async def test_probes_answer(shop: Bookshop) -> None:
    for path in ("/healthz", "/readyz"):
        async with shop.http.get(shop.url() + path) as response:
            assert response.status == 200, await response.text()


async def test_requests_are_counted_under_the_names_of_the_original(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    await shop.subscribe(token="")
    await shop.unsubscribe()
    await shop.send("POST", json_body={})
    await shop.send("PUT", "/sms/provision/tenants/acme", json_body=shop.sms_payload())
    await shop.send("GET", f"/dependencies/provider/{shop.namespace}/")
    await shop.send("GET", f"/sms/dependencies/provider/{shop.namespace}/acme/")
    counted = {
        ("cap_op_subscription_requests_total", "202", "put"): 1,
        ("cap_op_subscription_requests_total", "406", "put"): 1,
        ("cap_op_subscription_requests_total", "202", "delete"): 1,
        ("cap_op_subscription_requests_total", "405", "post"): 1,
        ("cap_op_subscription_requests_sms_total", "406", "put"): 1,
        ("cap_op_dependencies_requests_total", "200", "get"): 1,
        ("cap_op_dependencies_requests_sms_total", "401", "get"): 1,
    }
    for (name, code, method), count in counted.items():
        assert serving.sample(name, {"code": code, "method": method}) == count, name
        assert serving.sample(f"{name.removesuffix('_total')}_in_flight", {}) == 0


@pytest.mark.req("R-701")
async def test_one_tenant_and_one_client_get_so_many_requests(shop: Bookshop, serving: Serving) -> None:
    await serving.stop()
    serving.settings |= {"tenant_requests_per_second": 1, "client_requests_per_second": 20}
    await serving.start()
    statuses = [(await shop.subscribe()).status for _ in range(12)]
    assert (statuses[0], statuses[-1]) == (202, 429)
    reply = await shop.subscribe("other")
    assert reply.status == 202
    replies = await asyncio.gather(*(shop.subscribe("other", token="") for _ in range(60)))
    refused = [reply for reply in replies if reply.status == 429]
    assert refused
    assert all(int(reply.headers["Retry-After"]) >= 1 and reply.message for reply in refused)


@pytest.mark.req("R-701")
async def test_a_body_that_is_too_large_is_refused_as_json(shop: Bookshop) -> None:
    reply = await shop.send(data=b"x" * 900_000)
    assert reply.status == 413
    assert reply.body["code"] == 413


@pytest.mark.req("R-701", "R-412")
async def test_slow_clients_are_answered_408_while_others_are_served(
    shop: Bookshop, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await serving.stop()
    monkeypatch.setattr("stellwerk.operators.cap.subscription.process.LIMITS", ServerLimits(arrival_seconds=3.0))
    await serving.start()
    host, port = "127.0.0.1", serving.parts.server.port
    head = b"PUT /provision/tenants/acme HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"

    async def begin_and_wait(beginning: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        # At once: what is sent after the answer is answered by a reset, and that is all that a reader gets to see then.
        writer.write(beginning)
        try:
            return await reader.read(1_000)
        finally:
            writer.close()

    slow = [asyncio.create_task(begin_and_wait(head if number % 2 else b"PUT /prov")) for number in range(300)]
    began = time.monotonic()
    assert (await shop.subscribe()).status == 202
    assert time.monotonic() - began < 5
    answers = await asyncio.gather(*slow)
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers), {answer[:40] for answer in answers}
    assert all(b'"code"' in answer for answer in answers)


@pytest.mark.req("R-412", "R-401")
async def test_hostile_requests_do_not_stall_the_event_loop(shop: Bookshop, serving: Serving) -> None:
    hostile = [
        {"data": b"[" * 60_000},
        {"data": json.dumps(shop.payload(subscribedSubdomain="x" * 50_000)).encode()},
        {"json_body": shop.payload(), "token": "a." * 3_000},
        {"json_body": shop.payload(), "token": f"{'A' * 6_000}.e30.e30"},
        {"json_body": shop.payload(), "callback": "/" + "%" * 5_000},
    ]
    with loop_stalls.measured_stalls() as stalls:
        for options in hostile:
            reply = await shop.send(**options)  # type: ignore[arg-type]
            assert reply.status in (400, 406)
    assert stalls.longest_seconds < loop_stalls.LONGEST_STALL_SECONDS


# ---- TLS


def pair() -> KeyPair:
    now = SystemClock().now()
    authority = certs.new_authority(Wish(common_name="test", names=(), lifetime=timedelta(days=2), now=now))
    return certs.issue(authority, Wish(common_name="server", names=("127.0.0.1",), lifetime=timedelta(days=1), now=now))


async def presented(port: int) -> bytes:
    """The certificate that the server presents."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return found


async def test_by_https_it_presents_the_certificate_of_its_files_and_of_changed_ones(
    shop: Bookshop, serving: Serving, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    first, second = pair(), pair()
    certificate.write_bytes(first.certificate)
    key.write_bytes(first.key)
    await serving.stop()
    serving.settings |= {"tls_enabled": True, "tls_cert": str(certificate), "tls_key": str(key)}
    await serving.start()
    port = serving.parts.server.port
    async with shop.http.get(f"https://127.0.0.1:{port}/healthz", ssl=False) as response:
        assert response.status == 200
    assert await presented(port) == ssl.PEM_cert_to_DER_cert(first.certificate.decode())
    certificate.write_bytes(second.certificate)
    key.write_bytes(second.key)
    assert serving.parts.certificates is not None
    serving.parts.certificates.check()
    assert await presented(port) == ssl.PEM_cert_to_DER_cert(second.certificate.decode())
