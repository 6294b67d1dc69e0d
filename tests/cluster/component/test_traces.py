"""A process that is asked for traces sends what its passes did, and no value with it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.process import operator
from tests.cluster.component.then import Then

CANARY = "canary-in-a-secret"


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Takes spans in OTLP; its address, and what came."""
    bodies: list[bytes] = []

    async def take(request: web.BaseRequest) -> web.Response:
        bodies.append(await request.read())
        return web.Response()

    runner = web.ServerRunner(web.Server(take, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()


@pytest.mark.req("R-801")
async def test_passes_come_with_their_requests_and_renderings_and_without_values(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path
) -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra stellwerk[otel]")
    await given.secret("values", values=f"value: {CANARY}")
    await given.source({"one.yaml": config("one", "{{ .value }}")})
    async with collector() as (url, bodies):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
        }
        async with operator(component_cluster, tmp_path, environment=environment) as started:
            await started.process.start()
            await given.component(valuesFrom=[{"name": "values"}])
            await then.ready()
            words = (b"reconcile Component", b"render", b"apply configmaps", b"patch components", b"get secrets")
            await eventually(lambda: came(bodies, words), describe="all spans come")
    assert (await then.config("one")).data == {"value": CANARY}
    assert CANARY.encode() not in b"".join(bodies)


def came(bodies: list[bytes], words: tuple[bytes, ...]) -> bool:
    """Whether spans of these names are among what came; AssertionError with those that are not."""
    missing = [word for word in words if word not in b"".join(bodies)]
    assert not missing, missing
    return True
