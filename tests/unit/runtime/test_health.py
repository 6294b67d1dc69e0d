"""What probes and scrapes get to read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from stellwerk.runtime.serving.health import HealthChecks, metrics_route
from stellwerk.runtime.serving.http import ListenAddress, Server
from stellwerk.runtime.telemetry.metrics import Metrics


class Probed:
    """A health server, and a way to ask it."""

    def __init__(self, health: HealthChecks, metrics: Metrics, server: Server, session: aiohttp.ClientSession) -> None:
        self.health = health
        self.metrics = metrics
        self._server = server
        self._session = session

    async def ask(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://127.0.0.1:{self._server.port}{path}") as response:
            return response.status, await response.text()


@pytest.fixture
async def probed() -> AsyncIterator[Probed]:
    health, metrics = HealthChecks(), Metrics()
    server = Server("health", ListenAddress("127.0.0.1", 0), [*health.routes(), metrics_route(metrics)])
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Probed(health, metrics, server, session)
    await server.stop()


async def test_a_healthy_process_says_ok(probed: Probed) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz/", "/readyz/ping"):
        assert await probed.ask(path) == (200, "ok")


async def test_a_failed_check_is_named_with_its_reason(probed: Probed) -> None:
    probed.health.ready_when("caches", lambda: "the cache of Secrets is not full yet")
    status, text = await probed.ask("/readyz")
    assert status == 500
    assert "[+]ping ok\n[-]caches failed: the cache of Secrets is not full yet\nreadyz check failed\n" in text
    assert (await probed.ask("/livez"))[0] == 200
    assert not probed.health.is_ready()
    assert probed.health.is_alive()


async def test_verbose_lists_every_check(probed: Probed) -> None:
    probed.health.alive_when("loop", lambda: None)
    assert await probed.ask("/livez?verbose") == (200, "[+]ping ok\n[+]loop ok\nlivez check passed\n")


async def test_a_check_may_be_asked_alone_or_left_out(probed: Probed) -> None:
    probed.health.ready_when("caches", lambda: "empty")
    assert (await probed.ask("/readyz/caches"))[0] == 500
    assert (await probed.ask("/readyz/ping"))[0] == 200
    assert (await probed.ask("/readyz?exclude=caches"))[0] == 200
    assert (await probed.ask("/readyz/nothing"))[0] == 404


async def test_a_check_that_breaks_counts_as_failed_and_tells_nothing_secret(probed: Probed) -> None:
    def broken() -> str | None:
        raise RuntimeError("token abc")

    probed.health.ready_when("broken", broken)
    status, text = await probed.ask("/readyz")
    assert status == 500
    assert "RuntimeError" in text
    assert "abc" not in text


async def test_a_scrape_reads_the_metrics(probed: Probed) -> None:
    probed.metrics.reconciled("btpoperator", "success", 0.1)
    status, text = await probed.ask("/metrics")
    assert status == 200
    assert 'controller_runtime_reconcile_total{controller="btpoperator",result="success"} 1.0' in text
