"""Doubles of token issuers (XSUAA) and of the registries of SAP BTP, written from their protocols.

One TLS server on loopback has several names: clients find it by `LoopbackResolver`, as they find servers by DNS, so
that rules about hosts and ports are the real ones.

    async with Registries() as registries:
        registries.token(scope=["shop.Callback"])      a token of the issuer
        await registries.received()                    the next callback
        registries.behave("/oauth/token", Hang())      from now on
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from joserfc import jws
from joserfc.jwk import RSAKey

from stellwerk.local.certs import Authority
from stellwerk.operators.cap.subscription.local import LoopbackResolver
from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.servers.tls_server import TlsServer

UAA_DOMAIN = "authentication.example.com"
ISSUER = f"provider.{UAA_DOMAIN}"
CERTIFICATE_ISSUER = f"provider.cert.{UAA_DOMAIN}"
REGISTRY = "registry.example.com"
DISCOVERY, KEYS, TOKEN = "/.well-known/openid-configuration", "/token_keys", "/oauth/token"


# ---- how a path behaves


@dataclass(frozen=True, slots=True)
class Answers:
    """A status and a body, whatever is asked."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    async def answer(self, _: web.Request) -> web.StreamResponse:
        return web.Response(status=self.status, body=self.body, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Hang:
    """Takes the request and never answers."""

    async def answer(self, _: web.Request) -> web.StreamResponse:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("no caller resolves this future")


@dataclass(frozen=True, slots=True)
class Endless:
    """Answers with bytes that do not end."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b"x" * 65_536)
            await asyncio.sleep(0)
        return response


@dataclass(frozen=True, slots=True)
class Slowly:
    """Answers a byte at a time."""

    pause_seconds: float = 0.05

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b" ")
            await asyncio.sleep(self.pause_seconds)
        return response


@dataclass(frozen=True, slots=True)
class Cuts:
    """Does what it is asked for, and loses the answer."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


Behaviour = Answers | Hang | Endless | Slowly | Cuts


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback that came."""

    path: str
    host: str
    token: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenCall:
    """A request for a token."""

    host: str
    authorization: str
    form: dict[str, str]


class Registries:
    """A token issuer and a registry. Opened by `async with`."""

    def __init__(self, *, port: int = 0, authority: Authority | None = None, key: RSAKey | None = None) -> None:
        """`port`, `authority` and the issuer's `key` are chosen where they are not given."""
        self.keys: list[RSAKey] = [key or _first_key()]
        """Those that the issuer publishes; the last one signs."""
        self.callbacks: list[Callback] = []
        """Those that came, accepted or not."""
        self.tokens: list[TokenCall] = []
        self.asked: list[str] = []
        """Hosts and paths of all requests."""
        self.changed = Signal()
        self._behaviours: dict[str, list[Behaviour]] = {}
        names = (
            ISSUER,
            CERTIFICATE_ISSUER,
            REGISTRY,
            UAA_DOMAIN,
            *(f"zone{number}.{UAA_DOMAIN}" for number in range(9)),
        )
        self._server = TlsServer(self._handle, names=names, port=port, authority=authority)

    async def __aenter__(self) -> Registries:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def port(self) -> int:
        """Where everything is found."""
        return self._server.port

    @property
    def authority(self) -> bytes:
        """What clients must trust, as PEM."""
        return self._server.authority.encode()

    @property
    def resolver(self) -> LoopbackResolver:
        """By which clients find the servers."""
        return LoopbackResolver(self.port)

    def behave(self, path: str, *behaviours: Behaviour) -> None:
        """Have requests whose path, or whose host and path, begin so meet these, one after the other, and the last one
        again and again."""
        self._behaviours[path] = [*behaviours]

    def rotate(self, *, keep: bool = False) -> None:
        """Sign with a new key from now on; without `keep` the former ones are withdrawn."""
        made = RSAKey.generate_key(2048, {"kid": f"key-{len(self.keys) + 1}-{time.monotonic_ns()}"}, private=True)
        self.keys = [*(self.keys if keep else ()), made]

    def token(
        self,
        *,
        lifetime: float = 3600.0,
        age: float = 0.0,
        valid_in: float | None = None,
        host: str = ISSUER,
        **claims: Any,
    ) -> str:
        """A token that the issuer has signed. Times are in seconds from now."""
        now, key = time.time(), self.keys[-1]
        content = {
            "exp": now + lifetime,
            "iat": now - age,
            "client_id": "sb-registry",
            "iss": f"https://{host}/oauth/token",
        }
        if valid_in is not None:
            content["nbf"] = now + valid_in
        header = {"alg": "RS256", "kid": key.kid, "jku": f"https://{host}{KEYS}", "typ": "JWT"}
        payload = json.dumps({**content, **claims}).encode()
        return jws.serialize_compact(header, payload, key, registry=jws.JWSRegistry(strict_check_header=False))

    async def received(self, count: int = 1, *, within: float = 30.0) -> Sequence[Callback]:
        """Wait for so many callbacks."""
        await eventually(
            lambda: len(self.callbacks) >= count, within=within, on=self.changed, describe=f"callback {count}"
        )
        return self.callbacks

    async def was_asked(self, path: str, count: int = 1, *, within: float = 30.0) -> None:
        """Wait for so many requests to a path."""
        await eventually(
            lambda: self.count(path) >= count, within=within, on=self.changed, describe=f"request {count} to {path}"
        )

    def count(self, path: str) -> int:
        """How many requests there were to a path."""
        return sum(each.partition("/")[2].startswith(path.lstrip("/")) for each in self.asked)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        host = request.host.partition(":")[0]
        self.asked.append(f"{host}{request.path}")
        body = await request.read()
        usual = self._usual(request, host, body)
        self.changed.ring()
        for path, behaviours in self._behaviours.items():
            if (request.path.startswith(path) or f"{host}{request.path}".startswith(path)) and behaviours:
                chosen = behaviours[0]
                if len(behaviours) > 1:
                    del behaviours[0]
                return await chosen.answer(request)
        return await usual()

    def _usual(self, request: web.Request, host: str, body: bytes) -> Callable[[], Awaitable[web.StreamResponse]]:
        if request.path == DISCOVERY:
            return _json({"issuer": f"https://{host}/oauth/token", "jwks_uri": f"https://{host}{KEYS}"})
        if request.path == KEYS:
            return _json({"keys": [{**key.as_dict(private=False), "use": "sig", "alg": "RS256"} for key in self.keys]})
        authorization = request.headers.get("Authorization", "")
        if request.path == TOKEN:
            self.tokens.append(TokenCall(host, authorization, dict(parse_qsl(body.decode()))))
            return _json({"access_token": f"token-{len(self.tokens)}", "token_type": "bearer"})
        if request.method == "PUT" and host == REGISTRY:
            self.callbacks.append(Callback(request.path_qs, host, authorization, json.loads(body)))
            return _json({})
        return _json({}, 404)


@cache
def _first_key() -> RSAKey:
    """Making one takes a while."""
    return RSAKey.generate_key(2048, {"kid": "key-1"}, private=True)


def _json(content: object, status: int = 200) -> Callable[[], Awaitable[web.StreamResponse]]:
    async def answer() -> web.StreamResponse:
        return web.json_response(content, status=status)

    return answer
