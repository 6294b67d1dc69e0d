"""The API server behind the proxy, and who speaks to it."""

from __future__ import annotations

import base64
import io
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlencode

import aiohttp
import yaml
from multidict import CIMultiDict
from yarl import URL

from stellwerk.kube.http.sockets import Sockets
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.faults.reply import ConnectionCut, Reply

HOP_BY_HOP = ("Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Upgrade", "Host", "TE", "Trailer")
"""Headers that belong to one connection and not to the message (RFC 9110, 7.6.1), and those of each side."""
_READ_BYTES = 64 * 1024
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLogin:
    """The login of a kubeconfig's current context. PEM bytes; `token` and `identity` may be missing."""

    server: str
    authority: str
    token: str = ""
    identity: bytes = b""
    namespace: str = ""


def read_kubeconfig(file: Path) -> UpstreamLogin:
    """Read a kubeconfig's current context: a token or a client certificate, inline or in files next to it.

    Raises ValueError when the file is none or needs a login that this kit does not do (exec plugins).
    """
    try:
        content = yaml.safe_load(file.read_text())
        context = _named(content["contexts"], content["current-context"])["context"]
        cluster = _named(content["clusters"], context["cluster"])["cluster"]
        user = _named(content["users"], context["user"])["user"]
    except (KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise ValueError(f"{file} is no kubeconfig with a current context: {error!r}") from error
    return UpstreamLogin(
        server=cluster["server"].rstrip("/"),
        authority=_bytes(cluster, "certificate-authority", file).decode(),
        token=user.get("token") or _text_of(user.get("tokenFile"), file),
        identity=_bytes(user, "client-certificate", file) + _bytes(user, "client-key", file),
        namespace=context.get("namespace", ""),
    )


def _named(items: list[dict[str, dict[str, str]]], name: str) -> dict[str, dict[str, str]]:
    return next(item for item in items if cast(str, item["name"]) == name)


def _bytes(section: Mapping[str, str], key: str, file: Path) -> bytes:
    if data := section.get(f"{key}-data"):
        return base64.b64decode(data) + b"\n"
    return (file.parent / section[key]).read_bytes() + b"\n" if key in section else b""


def _text_of(name: str | None, file: Path) -> str:
    return (file.parent / name).read_text().strip() if name else ""


class Upstream:
    """Plain calls to an API server as the bearer of a kubeconfig; opened by `async with`.

    Its `call` returns the server's answer; ConnectionCut means that there is none.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.login = read_kubeconfig(kubeconfig)
        self._session: aiohttp.ClientSession | None = None
        self._anonymous: aiohttp.ClientSession | None = None
        self._streams: set[aiohttp.ClientResponse] = set()
        """Answers that are being handed on. A fault may leave one without a reader: it ends with the proxy."""
        self._sockets = Sockets()

    async def __aenter__(self) -> Upstream:
        self._session = self._opened(_trust(self.login, with_identity=True))
        self._anonymous = self._opened(_trust(self.login, with_identity=False))
        return self

    async def __aexit__(self, *_: object) -> None:
        for response in [*self._streams]:
            _end(response)
        for session in (self._session, self._anonymous):
            if session is not None:
                await session.close()
        # A request that was given up is in the middle of a polite end of TLS; the server may be frozen or gone.
        await self._sockets.hang_up()

    def _opened(self, trust: ssl.SSLContext) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0, socket_factory=self._sockets.make),
            timeout=aiohttp.ClientTimeout(total=None, connect=10),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=256 * 1024,
        )

    async def call(
        self,
        method: str,
        path_and_query: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        authorization: str = "",
        stream: bool = False,
    ) -> Reply:
        """One request. With `authorization` its bearer asks, without it the kubeconfig's user.

        With `stream` a successful answer's body is handed on as it comes; it is closed by closing the generator.
        """
        session = self._anonymous if authorization else self._session
        assert session is not None, "the upstream is used inside `async with`"
        url = URL(self.login.server + path_and_query, encoded=True)
        sent = {**(headers or {}), **self._login_header(authorization)}
        try:
            response = await session.request(
                method, url, headers=sent, data=io.BytesIO(body) if body else None, allow_redirects=False
            )
            if stream and response.status == 200:
                self._streams.add(response)
                return Reply(response.status, _end_to_end(response), self._chunks(response), of_server=True)
            async with response:
                return Reply(response.status, _end_to_end(response), await response.read(), of_server=True)
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionCut(f"the API server does not answer: {error!r}") from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_chunked(_READ_BYTES):
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionCut(f"the API server's answer ends early: {error!r}") from error
        finally:
            self._streams.discard(response)
            _end(response)

    def _login_header(self, authorization: str) -> Mapping[str, str]:
        if authorization:
            return {"Authorization": authorization}
        return {"Authorization": f"Bearer {self.login.token}"} if self.login.token else {}

    async def objects(self, resource: Resource, namespace: str = "", labels: str = "") -> list[JsonObject]:
        """All objects of a resource, in the server's order; an empty list when it is not served (CRD absent)."""
        found: list[JsonObject] = []
        token = ""
        while True:
            query = {"limit": str(_PAGE), "labelSelector": labels, "continue": token}
            asked = urlencode({key: value for key, value in query.items() if value})
            page = await self._page(f"{resource.path(namespace)}?{asked}")
            items = cast(list[JsonObject], page.get("items") or [])
            found += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items]
            token = str(cast(JsonObject, page.get("metadata") or {}).get("continue") or "")
            if not token:
                return found

    async def _page(self, path_and_query: str) -> JsonObject:
        reply = await self.call("GET", path_and_query, headers={"Accept": "application/json"})
        if reply.status == 404:
            return {}
        if reply.status != 200:
            raise ValueError(f"GET {path_and_query}: {reply.status} {reply.json()}")
        return reply.json()


def _end_to_end(response: aiohttp.ClientResponse) -> CIMultiDict[str]:
    headers = CIMultiDict(response.headers)
    for name in HOP_BY_HOP:
        headers.popall(name, None)
    return headers


def _trust(login: UpstreamLogin, *, with_identity: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=login.authority or None)
    if with_identity and login.identity:
        # The standard library reads a client's key from files only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(login.identity)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _end(response: aiohttp.ClientResponse) -> None:
    """At once: a polite end of TLS would wait for a server that goes on sending."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
