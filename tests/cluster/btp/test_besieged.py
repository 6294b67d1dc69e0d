"""Strangers at the ports of the running process keep neither the kubelet nor Prometheus out."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from stellwerk.local.cluster import LocalCluster
from tests.cluster.btp.process import operator
from tests.unit.frozen_clients import FROZEN, closed_at_the_end
from tests.unit.sockets import many_files

HOSTILE = (
    b"\x16\x03\x01\x02\x00\x01",
    b"\x00" * 10_000,
    b"\xff\xfe\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 100_000,
    b"GET /" + b"%2e%2e/" * 1_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xed\xa0\x80\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 500,
)
_CONNECTIONS = 500


def besiege(clients: list[socket.socket], health: int, metrics: int) -> None:
    """Hold connections to both ports open, in every state that a connection can have, and send noise."""
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    secured = [*FROZEN.values()]
    for number in range(_CONNECTIONS):
        stranger = socket.create_connection(("127.0.0.1", health), timeout=20)
        clients.append(stranger)
        stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n"[: number % 32])
        if number % 10 == 0:
            clients.append(secured[number // 10 % len(secured)](metrics, careless))
    for port in (health, metrics):
        for noise in HOSTILE:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=20)
            clients.append(stranger)
            try:
                stranger.sendall(noise)
            except OSError:  # it was answered and closed before the end of the noise
                continue


async def status(url: URL) -> int:
    """What a new connection is answered."""
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, ssl=False, headers={"Connection": "close"}) as response,
    ):
        return response.status


@pytest.mark.req("R-701")
async def test_probes_are_answered_while_strangers_hold_hundreds_of_connections(
    btp_cluster: LocalCluster, tmp_path: Path
) -> None:
    async with operator(btp_cluster, tmp_path, "--metrics-secure") as running:
        await running.process.start()
        health = URL(running.process.health_url)
        metrics = URL(running.metrics_url).with_scheme("https")
        assert health.port is not None
        assert metrics.port is not None
        with many_files(), closed_at_the_end() as clients:
            await asyncio.to_thread(besiege, clients, health.port, metrics.port)
            for _ in range(3):
                for path in ("/healthz", "/readyz"):
                    assert await status(health.with_path(path)) == 200
                assert await status(metrics) == 401
        assert running.process.is_running
        assert "Traceback" not in running.process.log_text()
