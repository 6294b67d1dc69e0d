"""A small server behind the proxy, whose answers a test writes itself."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from yarl import URL

from stellwerk.kube.http.sockets import Sockets
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.servers.tls_server import TlsServer

TOKEN = "token-of-the-operator"


def frame(kind: str, name: str, version: int) -> bytes:
    """One line of a watch, as an API server writes it."""
    metadata = {"namespace": "here", "name": name, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"


class Behind:
    """The server behind: keeps what reached it, answers 200 with the request line, and streams `frames` on a watch."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.authorizations: list[str] = []
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.server = TlsServer(self._handle)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.lines.append(f"{request.method} {request.raw_path}")
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.answer is not None:
            return await self.answer(request)
        if request.query.get("watch"):
            return await self._stream(request)
        return web.json_response({"asked": request.raw_path, "sent": (await request.read()).decode()})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while (frame := await self.frames.get()) is not None:
            await response.write(frame)
        return response

    def says(self, kind: str, name: str, version: int) -> bytes:
        """Send one event, and return its frame."""
        told = frame(kind, name, version)
        self.frames.put_nowait(told)
        return told

    def ends(self) -> None:
        """End the watch in order."""
        self.frames.put_nowait(None)

    def write_kubeconfig(self, file: Path) -> Path:
        """A kubeconfig with a token, as an operator in a pod has one."""
        authority = base64.b64encode(self.server.authority.encode()).decode()
        file.write_text(
            yaml.safe_dump(
                {
                    "clusters": [
                        {"name": "c", "cluster": {"server": self.server.url, "certificate-authority-data": authority}}
                    ],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "here"}}],
                    "current-context": "x",
                }
            )
        )
        return file


class Operator:
    """What an operator does, in this process: asks through the kubeconfig it was given."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.namespace = content["contexts"][0]["context"].get("namespace", "")
        self.headers = {
            "Authorization": f"Bearer {content['users'][0]['user']['token']}",
            "User-Agent": "operator/1",
        }
        self.url = cluster["server"]
        self._sockets = Sockets()
        self.session = aiohttp.ClientSession(
            base_url=cluster["server"],
            headers=self.headers,
            connector=aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cadata=authority), socket_factory=self._sockets.make
            ),
        )

    async def end(self) -> None:
        """Leave no connection."""
        await self.session.close()
        await self._sockets.hang_up()

    async def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
        """One request; status and body."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        url, content = URL(self.url + path, encoded=True), io.BytesIO(body.encode())
        async with self.session.request(method, url, data=content, headers=sent) as response:
            return response.status, await response.text()


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    """The server behind the proxy, running."""
    made = Behind()
    async with made.server:
        yield made


@pytest.fixture
async def proxy(behind: Behind, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """A proxy before it."""
    async with FaultProxy(behind.write_kubeconfig(tmp_path / "kubeconfig")) as made:
        yield made


@pytest.fixture
async def operator(proxy: FaultProxy) -> AsyncIterator[Operator]:
    """An operator that speaks through the proxy."""
    made = Operator(proxy.kubeconfig)
    yield made
    await made.end()
