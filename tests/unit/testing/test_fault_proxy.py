"""The proxy passes on what no rule concerns, and does what the rules say to the rest."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.unit.sockets import open_towards
from tests.unit.testing.conftest import TOKEN, Behind, Operator

from stellwerk.testing.clock import FakeClock
from stellwerk.testing.faults import (
    ANYTHING,
    WRITES,
    AnswerInstead,
    CutBody,
    CutConnection,
    Delay,
    Drop,
    FaultNeverHappened,
    FaultProxy,
    Kill,
    ProxyBroken,
    When,
    nth,
    requests,
)
from stellwerk.testing.faults.upstream import Upstream

MAPS = "/api/v1/namespaces/here/configmaps"
CREATE = "POST /api/v1/namespaces/here/configmaps"
BROKEN_OFF = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)


async def test_what_no_rule_concerns_passes_unchanged(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    status, text = await operator.ask("GET", f"{MAPS}?labelSelector=a%3Db%2Cc&x=%2F", Accept="application/json;a=b")
    assert (status, behind.lines) == (200, [f"GET {MAPS}?labelSelector=a%3Db%2Cc&x=%2F"])
    assert "labelSelector=a%3Db%2Cc&x=%2F" in text
    assert behind.authorizations == [f"Bearer {TOKEN}"]
    assert str(proxy.history) == "#1 list configmaps here -> 200"


async def test_the_history_keeps_order_verb_body_and_agent(operator: Operator, proxy: FaultProxy) -> None:
    await operator.ask("GET", f"{MAPS}/one")
    await operator.ask("POST", MAPS, '{"metadata": {"name": "one"}}')
    await operator.ask("PATCH", f"{MAPS}/one", "{}", Content_Type="application/apply-patch+yaml")
    await operator.ask("DELETE", f"{MAPS}/one")
    assert [exchange.request.verb for exchange in proxy.history.all()] == ["get", "create", "apply", "delete"]
    assert [str(exchange.request) for exchange in proxy.history.writes()] == [
        "create configmaps here/one",
        "apply configmaps here/one",
        "delete configmaps here/one",
    ]
    create = proxy.history.writes()[0].request
    assert (create.body, create.agent) == (b'{"metadata": {"name": "one"}}', "operator/1")
    assert proxy.history.count(requests("get")) == 1


async def test_the_kubeconfig_keeps_the_namespace(operator: Operator) -> None:
    assert operator.namespace == "here"


async def test_nobody_gets_in_without_a_login(behind: Behind, operator: Operator) -> None:
    del operator.session.headers["Authorization"]
    status, _ = await operator.ask("GET", MAPS)
    assert (status, behind.lines) == (401, [])


async def test_another_bearer_passes_as_itself(behind: Behind, operator: Operator) -> None:
    await operator.ask("GET", MAPS, Authorization="Bearer of-a-tenant")
    assert behind.authorizations == ["Bearer of-a-tenant"]


async def test_the_nth_write_is_awaited(operator: Operator, proxy: FaultProxy) -> None:
    waiting = asyncio.create_task(proxy.history.write_seen(2))
    await operator.ask("POST", MAPS, '{"metadata": {"name": "one"}}')
    assert not waiting.done()
    await operator.ask("GET", MAPS)
    assert not waiting.done()
    await operator.ask("DELETE", f"{MAPS}/one")
    assert (await waiting).request.verb == "delete"


async def test_a_write_that_does_not_come_is_told_with_the_history(operator: Operator, proxy: FaultProxy) -> None:
    await operator.ask("GET", MAPS)
    with pytest.raises(AssertionError, match=r"(?s)0 of 1 writes .*#1 list configmaps here -> 200"):
        await proxy.history.write_seen(within=0.05)


async def test_an_answer_instead_keeps_the_request_from_the_server(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    proxy.on_requests(requests("list"), AnswerInstead(429, retry_after_seconds=7))
    async with operator.session.get(MAPS) as response:
        status = await response.json()
        assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert (status["kind"], status["reason"], status["details"]["retryAfterSeconds"]) == (
        "Status",
        "TooManyRequests",
        7,
    )
    assert behind.lines == []
    assert str(proxy.history) == "#1 list configmaps here -> 429 [answered 429 instead of forwarding]"


@pytest.mark.parametrize(
    ("status", "reason"), [(409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")]
)
async def test_a_lost_reply_is_an_answer_after_the_work_was_done(
    behind: Behind, operator: Operator, proxy: FaultProxy, status: int, reason: str
) -> None:
    proxy.on_requests(requests("create"), AnswerInstead(status, after_forwarding=True))
    told, text = await operator.ask("POST", MAPS, "{}")
    assert (told, behind.lines) == (status, [CREATE])
    assert f'"reason": "{reason}"' in text
    assert f"-> {status}, the server answered 200" in str(proxy.history)


@pytest.mark.parametrize(("after", "reached"), [(False, []), (True, [CREATE])])
async def test_a_cut_ends_the_connection_before_or_after_the_work(
    behind: Behind, operator: Operator, proxy: FaultProxy, after: bool, reached: list[str]
) -> None:
    proxy.on_requests(requests("create"), CutConnection(after_forwarding=after))
    with pytest.raises(aiohttp.ClientConnectionError):
        await operator.ask("POST", MAPS, "{}")
    assert behind.lines == reached
    [exchange] = proxy.history.all()
    assert (exchange.status, exchange.reached_server) == (None, after)


async def test_a_body_is_cut_after_so_many_bytes(operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_requests(requests("list"), CutBody(10))
    async with operator.session.get(MAPS) as response:
        assert response.status == 200
        assert await response.content.readexactly(10) == b'{"asked": '
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_a_dropped_request_is_never_answered(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_requests(WRITES, Drop())
    asking = asyncio.create_task(operator.ask("POST", MAPS, "{}"))
    await proxy.history.seen(1)
    await operator.ask("GET", MAPS)
    assert not asking.done()
    assert behind.lines == [f"GET {MAPS}"]
    asking.cancel()


async def test_a_delayed_request_arrives_late_and_even_after_the_operator_has_gone(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    clock = FakeClock()
    proxy.on_requests(WRITES, Delay(60, clock=clock))
    asking = asyncio.create_task(operator.ask("POST", MAPS, "{}"))
    await clock.until_sleeping()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await clock.advance(59)
    assert behind.lines == []
    await clock.advance(1)
    await proxy.history.settled()
    assert behind.lines == [CREATE]
    [exchange] = proxy.history.all()
    assert (exchange.status, exchange.server_status) == (None, 200)


async def test_rules_meet_a_request_together_and_only_on_their_occasions(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    clock = FakeClock()
    proxy.on_requests(ANYTHING, Delay(5, clock=clock), nth(2))
    proxy.on_requests(requests("list"), AnswerInstead(500), nth(2))
    assert (await operator.ask("GET", MAPS))[0] == 200
    second = asyncio.create_task(operator.ask("GET", MAPS))
    await clock.until_sleeping()
    assert not second.done()
    await clock.advance(5)
    assert (await second)[0] == 500
    assert (await operator.ask("GET", MAPS))[0] == 200
    assert len(behind.lines) == 2


async def test_after_healing_everything_passes(operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_requests(ANYTHING, AnswerInstead(503))
    assert (await operator.ask("GET", MAPS))[0] == 503
    proxy.heal()
    assert (await operator.ask("GET", MAPS))[0] == 200


async def test_a_server_that_is_gone_looks_like_a_cut(behind: Behind, operator: Operator) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    behind.answer = cut
    with pytest.raises(BROKEN_OFF):
        await operator.ask("GET", MAPS)


async def test_large_bodies_pass_both_ways(behind: Behind, operator: Operator) -> None:
    body = "x" * 3_000_000
    _, text = await operator.ask("POST", MAPS, body)
    assert body in text


async def test_a_compressed_answer_stays_what_it_is(behind: Behind, operator: Operator) -> None:
    async def compressed(request: web.Request) -> web.StreamResponse:
        response = web.json_response({"items": ["one"] * 1000})
        response.enable_compression(web.ContentCoding.gzip)
        return response

    behind.answer = compressed
    async with operator.session.get(MAPS) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert len((await response.json())["items"]) == 1000


async def test_repeated_headers_all_pass(behind: Behind, operator: Operator) -> None:
    async def warning(request: web.Request) -> web.StreamResponse:
        return web.Response(headers=[("Warning", '299 - "one"'), ("Warning", '299 - "two"')])

    behind.answer = warning
    async with operator.session.get(MAPS) as response:
        assert response.headers.getall("Warning") == ['299 - "one"', '299 - "two"']


async def test_a_required_fault_that_never_happened_fails_the_test(behind: Behind, tmp_path: Path) -> None:
    async def nothing_happens() -> None:
        async with FaultProxy(behind.write_kubeconfig(tmp_path / "k")) as proxy:
            proxy.on_requests(WRITES, CutConnection())
            proxy.on_requests(WRITES, Drop(), required=False)

    with pytest.raises(FaultNeverHappened, match="cut before forwarding on any write: matched 0, happened 0"):
        await nothing_happens()


async def test_a_condition_with_a_bug_fails_the_test(behind: Behind, tmp_path: Path) -> None:
    async def ask_behind_a_bug() -> None:
        async with FaultProxy(behind.write_kubeconfig(tmp_path / "k")) as proxy:
            proxy.on_requests(When(lambda request: 1 // 0 > 0, "a bug"), CutConnection(), required=False)
            operator = Operator(proxy.kubeconfig)
            async with operator.session:
                with pytest.raises(aiohttp.ClientConnectionError):
                    await operator.ask("GET", MAPS)

    with pytest.raises(ProxyBroken, match="ZeroDivisionError"):
        await ask_behind_a_bug()


async def test_the_kubeconfig_is_private_and_gone_with_the_proxy(behind: Behind, tmp_path: Path) -> None:
    async with FaultProxy(behind.write_kubeconfig(tmp_path / "k")) as proxy:
        assert proxy.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert not proxy.kubeconfig.exists()


ASKS_FOREVER = """
import base64, http.client, json, ssl, sys
content = json.load(open(sys.argv[1]))
cluster = content["clusters"][0]["cluster"]
trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
host, port = cluster["server"].removeprefix("https://").split(":")
headers = {"Authorization": "Bearer " + content["users"][0]["user"]["token"]}
for number in range(1, 1000):
    connection = http.client.HTTPSConnection(host, int(port), context=trust)
    body = json.dumps({"metadata": {"name": f"map-{number}"}})
    connection.request("POST", "/api/v1/namespaces/here/configmaps", body, headers)
    connection.getresponse().read()
"""


@pytest.fixture
def asking(proxy: FaultProxy) -> Iterator[subprocess.Popen[bytes]]:
    """A foreign process that creates map-1, map-2, ... through the proxy; it waits for SIGCONT before it begins."""
    process = subprocess.Popen([sys.executable, "-c", ASKS_FOREVER, str(proxy.kubeconfig)])
    os.kill(process.pid, signal.SIGSTOP)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("after", "reached"), [(False, 2), (True, 3)])
async def test_the_operator_dies_before_or_after_its_third_write_reaches_the_server(
    behind: Behind, proxy: FaultProxy, asking: subprocess.Popen[bytes], after: bool, reached: int
) -> None:
    proxy.on_requests(WRITES, Kill(asking.pid, after_forwarding=after), nth(3))
    os.kill(asking.pid, signal.SIGCONT)
    third = await proxy.history.write_seen(3)
    assert asking.wait(60) == -signal.SIGKILL
    await proxy.history.settled()
    assert behind.lines == [CREATE] * reached
    assert (third.status, third.reached_server) == (None, after)
    assert len(proxy.history.writes()) == 3


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_request_may_be_given_up_at_any_moment_and_leaves_no_connection(
    behind: Behind, tmp_path: Path, turns: int
) -> None:
    """Also before the handshake has begun and in the middle of a polite end of TLS: aiohttp forgets both."""
    never = asyncio.Event()

    async def hold(_: web.Request) -> web.StreamResponse:
        await never.wait()
        raise AssertionError

    behind.answer = hold
    async with Upstream(behind.write_kubeconfig(tmp_path / "kubeconfig")) as upstream:
        asking = asyncio.create_task(upstream.call("GET", MAPS))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert open_towards(behind.server.port) == set()
