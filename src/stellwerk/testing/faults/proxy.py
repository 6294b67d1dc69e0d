"""The proxy itself: takes a request, lets the rules have their way with it, and passes on what is left.

A request that has come is carried to its end even when the operator goes away meanwhile: that is what a network does
with bytes already sent, and it is the case in which a killed operator's last write arrives late. Only a watch ends with
its reader.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import secrets
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

from aiohttp import web
from multidict import CIMultiDict

from stellwerk.local.host.private_files import write_private
from stellwerk.testing.faults.on_events import Arrivals, EventFault, WatchFrame, treated
from stellwerk.testing.faults.on_requests import Proceed, RequestFault
from stellwerk.testing.faults.reply import ConnectionCut, Reply, refusal
from stellwerk.testing.faults.rules import FaultRule, Occasions, When, always
from stellwerk.testing.faults.traffic import Exchange, RecordedRequest, TrafficHistory, understand
from stellwerk.testing.faults.upstream import HOP_BY_HOP, Upstream
from stellwerk.testing.servers.tls_server import TlsServer


class FaultNeverHappened(AssertionError):
    """A rule was set and its fault did not take place, so the test has proved nothing about it."""


class ProxyBroken(AssertionError):
    """The proxy, a condition or a fault failed in itself."""


class FaultProxy:
    """A proxy between one operator and its API server. Opened by `async with`, on a free port of loopback.

    `kubeconfig` is the upstream's and decides who the operator is: with a client certificate in it the proxy presents
    that; a token is passed through. Give the operator `proxy.kubeconfig`, whose bearer alone gets that identity; other
    Authorization headers pass through as they are. HTTP/1.1 without upgrades (no exec, no port-forward).

    At the end, unless the block failed already, it raises FaultNeverHappened for a `required` rule whose fault did not
    take place, and ProxyBroken for what went wrong in the proxy.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.upstream = Upstream(kubeconfig)
        self.history = TrafficHistory()
        self._password = self.upstream.login.token or secrets.token_urlsafe(24)
        self._server = TlsServer(self._serve)
        self._request_rules: list[tuple[FaultRule[RecordedRequest], RequestFault]] = []
        self._event_rules: list[tuple[FaultRule[WatchFrame], EventFault]] = []
        self._numbers = itertools.count(1)
        self._carried: set[asyncio.Task[Reply]] = set()
        self._broken: list[str] = []
        self._kubeconfig: Path | None = None
        self._open = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where the operator finds its API server."""
        return self._server.url

    @property
    def kubeconfig(self) -> Path:
        """The operator's kubeconfig, readable by this user only; gone when the proxy is."""
        assert self._kubeconfig is not None, "the proxy is used inside `async with`"
        return self._kubeconfig

    def on_requests(
        self, when: When[RecordedRequest], fault: RequestFault, occasions: Occasions = always, *, required: bool = True
    ) -> FaultRule[RecordedRequest]:
        """From now on let this happen to these requests. Several rules may meet one request: the first is outermost."""
        rule = FaultRule(when, occasions, what=str(fault), required=required)
        self._request_rules.append((rule, fault))
        return rule

    def on_events(
        self, when: When[WatchFrame], fault: EventFault, occasions: Occasions = always, *, required: bool = True
    ) -> FaultRule[WatchFrame]:
        """Let this happen to these events from now on, also of open watches. A rule treats what the last left."""
        rule = FaultRule(when, occasions, what=str(fault), required=required)
        self._event_rules.append((rule, fault))
        return rule

    def heal(self) -> None:
        """End every rule. Events that are held stay held until their `Hold` is released."""
        for rule in self._rules:
            rule.end()

    @property
    def _rules(self) -> Sequence[FaultRule[RecordedRequest] | FaultRule[WatchFrame]]:
        return [*(rule for rule, _ in self._request_rules), *(rule for rule, _ in self._event_rules)]

    async def __aenter__(self) -> FaultProxy:
        await self._open.enter_async_context(self.upstream)
        await self._open.enter_async_context(self._server)
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="stellwerk-faults-"))
        self._kubeconfig = Path(folder) / "kubeconfig"
        write_private(self._kubeconfig, self._kubeconfig_text().encode())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)
        await self._open.aclose()
        if kind is None:
            self._judge()

    def _judge(self) -> None:
        if self._broken:
            raise ProxyBroken("\n".join(self._broken))
        if missed := [rule for rule in self._rules if rule.required and not rule.fired]:
            rules = "\n  ".join(map(str, missed))
            raise FaultNeverHappened(f"these faults did not happen:\n  {rules}\nthe history:\n{self.history}")

    def _kubeconfig_text(self) -> str:
        cluster = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self._server.authority.encode()).decode(),
        }
        context = {"cluster": "proxy", "user": "operator"}
        if namespace := self.upstream.login.namespace:
            context["namespace"] = namespace
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "operator", "user": {"token": self._password}}],
            "contexts": [{"name": "proxy", "context": context}],
            "current-context": "proxy",
        }
        return json.dumps(content, indent=2)  # JSON is YAML.

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        request = understand(
            incoming.method,
            incoming.raw_path,
            headers=_end_to_end(incoming),
            body=await incoming.read(),
            number=next(self._numbers),
            seconds=asyncio.get_running_loop().time(),
        )
        exchange = self.history.begin(request)
        outcome = asyncio.create_task(self._outcome(exchange, incoming), name=str(request))
        self._carried.add(outcome)
        try:
            reply = await (outcome if request.verb == "watch" else asyncio.shield(outcome))
            return await self._send(incoming, exchange, reply)
        except (ConnectionCut, ConnectionResetError):  # The second: the reader went away before we noticed.
            return _hung_up(incoming)
        except Exception as error:
            self._broken.append(f"{exchange}: {error!r}")
            return _hung_up(incoming)
        finally:
            outcome.add_done_callback(partial(self._end, exchange))

    def _end(self, exchange: Exchange, outcome: asyncio.Task[Reply]) -> None:
        self._carried.discard(outcome)
        if not outcome.cancelled():
            outcome.exception()  # Looked at, so that asyncio does not miss anybody doing so.
        exchange.is_over = True
        self.history.changed.ring()

    async def _outcome(self, exchange: Exchange, incoming: web.Request) -> Reply:
        faults = [fault for rule, fault in self._request_rules if rule.takes(exchange.request)]
        exchange.faults += map(str, faults)
        self.history.changed.ring()
        proceed: Proceed = partial(self._forward, exchange, incoming.headers.get("Authorization", ""))
        for fault in reversed(faults):
            proceed = partial(fault.meet, proceed=proceed)
        return await proceed(exchange.request)

    async def _forward(self, exchange: Exchange, authorization: str, request: RecordedRequest) -> Reply:
        if not authorization:
            return refusal(401, message="the fault proxy refuses clients without its kubeconfig")
        exchange.reached_server = True
        reply = await self.upstream.call(
            request.method,
            request.path_and_query,
            headers=request.headers,
            body=request.body,
            authorization="" if authorization == f"Bearer {self._password}" else authorization,
            stream=request.verb == "watch",
        )
        exchange.server_status = reply.status
        self.history.changed.ring()
        if not isinstance(reply.body, bytes):
            reply.body = self._treated(exchange, reply, reply.body)
        return reply

    def _treated(
        self, exchange: Exchange, reply: Reply, chunks: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        if reply.headers.get("Content-Type", "").startswith("application/json"):
            return treated(exchange.request, chunks, partial(self._treat, exchange), partial(self._note, exchange))
        if self._event_rules:
            self._broken.append(f"{exchange}: rules on events need a watch in JSON, {reply.headers} came")
        return chunks

    def _note(self, exchange: Exchange, event: WatchFrame) -> None:
        exchange.arrived.append(str(event))
        self.history.changed.ring()

    async def _treat(
        self, exchange: Exchange, event: WatchFrame, arrivals: Arrivals
    ) -> AsyncGenerator[WatchFrame, None]:
        given: list[WatchFrame] = [event]
        for rule, fault in self._event_rules:
            before, given = given, []
            for one in before:
                given += await self._met(exchange, rule, fault, one, arrivals)
        for one in given:
            yield one

    async def _met(
        self, exchange: Exchange, rule: FaultRule[WatchFrame], fault: EventFault, event: WatchFrame, arrivals: Arrivals
    ) -> Sequence[WatchFrame]:
        if not rule.takes(event):
            return [event]
        exchange.faults.append(f"{fault}: {event}")
        self.history.changed.ring()
        return await fault.meet(event, arrivals)

    async def _send(self, incoming: web.Request, exchange: Exchange, reply: Reply) -> web.StreamResponse:
        if isinstance(reply.body, bytes):
            exchange.status = reply.status
            return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        async with aclosing(reply.body) as chunks:
            await response.prepare(incoming)
            exchange.status = reply.status
            self.history.changed.ring()
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
        return response


def _end_to_end(incoming: web.Request) -> CIMultiDict[str]:
    headers = CIMultiDict(incoming.headers)
    for name in (*HOP_BY_HOP, "Authorization"):
        headers.popall(name, None)
    return headers


def _hung_up(incoming: web.Request) -> web.StreamResponse:
    """End the connection; bytes already written still arrive. What is returned reaches no client."""
    if incoming.transport is not None:
        incoming.transport.close()
    return web.Response()
