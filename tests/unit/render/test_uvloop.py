"""Renderer and downloads keep their promises on uvloop, which the product runs on where it is installed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.render.given import fake_program, is_alive, pid, request

from stellwerk.render.errors import EgressRefused, RendererGone, RendererTimeout
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import IN_CLUSTER, EgressRules
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds
from stellwerk.testing.servers.artifacts import ArtifactServer

pytestmark = pytest.mark.heavy

uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

T = TypeVar("T")


def on_uvloop(scenario: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        assert "uvloop" in type(asyncio.get_running_loop()).__module__
        return await scenario()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(whole())


def test_workers_are_started_replaced_and_ended(tmp_path: Path) -> None:
    program = fake_program(tmp_path)

    async def scenario() -> int:
        async with Renderer(lambda: program, bounds=Bounds(seconds=3), shares=Shares(workers=1)) as renderer:
            first = pid(await renderer.render(request({"n": 1}, {"a.yaml": b"x" * 3_000_000})))
            os.kill(first, signal.SIGKILL)
            await renderer.render(request({"n": 2}))
            with pytest.raises(RendererTimeout):
                await renderer.render(request({"do": "spin"}))
            (tmp_path / "die-first").touch()
            await renderer.render(request({"n": 3}, {"a.yaml": b"x" * 3_000_000}))
            with pytest.raises(RendererGone):
                await renderer.render(request({"do": "die"}))
            task = asyncio.create_task(renderer.render(request({"do": "spin"})))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return pid(await renderer.render(request({"n": 4})))

    assert not is_alive(on_uvloop(scenario))


@pytest.mark.req("R-601")
def test_addresses_are_checked_and_files_fetched() -> None:
    async def scenario() -> dict[str, bytes]:
        async with ArtifactServer() as server, Downloads() as downloads:
            artifact = server.publish("app.tar.gz", {"a.yaml": "kind: A"})
            for host in ("127.0.0.1", "localhost"):
                url = artifact.url.replace("127.0.0.1", host)
                with pytest.raises(EgressRefused):
                    await downloads.fetch(url, artifact.digest, rules=IN_CLUSTER)
            here = EgressRules(http=True, networks=(ip_network("127.0.0.0/8"),))
            return dict(await downloads.fetch(artifact.url, artifact.digest, rules=here))

    assert on_uvloop(scenario) == {"a.yaml": b"kind: A"}
