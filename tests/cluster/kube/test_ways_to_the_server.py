"""The API server is reached by way of a proxy, and known by a name, that a kubeconfig gives."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.local.cluster import LocalCluster


class Tunnel:
    """A proxy that knows CONNECT and nothing else, and keeps where it was asked to lead."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""
        self._leading: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Tunnel]:
        server = await asyncio.start_server(self._lead, "127.0.0.1")
        self.url = f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            await asyncio.gather(*self._leading)  # while there is a loop that closes their sockets

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._leading.add(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        verb, target, _ = head.split(" ", 2)
        assert verb == "CONNECT"
        self.asked.append(target)
        host, port = target.split(":")
        upstream, onward = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pumped(reader, onward), _pumped(upstream, writer))


async def _pumped(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
    with contextlib.suppress(ConnectionError):
        await target.wait_closed()


@pytest.fixture
async def tunnel() -> AsyncIterator[Tunnel]:
    async with Tunnel().running() as running:
        yield running


async def test_a_client_goes_by_the_proxy_of_its_kubeconfig(
    cluster: LocalCluster, tunnel: Tunnel, tmp_path: Path
) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = tunnel.url
    config = tmp_path / "config"
    config.write_text(json.dumps(content))
    async with Client.connect(ClusterConfig.load(config), field_manager="wire-test") as client:
        assert (await client.get(Namespace, "default")).metadata.name == "default"
    assert tunnel.asked == [f"127.0.0.1:{cluster.port}"]


@pytest.mark.parametrize(("name", "is_known"), [("kubernetes.default", True), ("elsewhere.example", False)])
async def test_a_server_is_known_by_the_name_that_its_kubeconfig_gives(
    cluster: LocalCluster, tmp_path: Path, name: str, is_known: bool
) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["tls-server-name"] = name
    config = tmp_path / "config"
    config.write_text(json.dumps(content))
    async with Client.connect(ClusterConfig.load(config), field_manager="wire-test") as client:
        with contextlib.nullcontext() if is_known else pytest.raises(LoginFailed, match="does not prove its identity"):
            await client.get(Namespace, "default")


async def test_what_runs_on_this_machine_is_reached_without_the_proxy_of_the_environment(
    cluster: LocalCluster, tunnel: Tunnel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", tunnel.url)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="wire-test") as client:
        assert (await client.get(Namespace, "default")).metadata.name == "default"
    assert tunnel.asked == []
