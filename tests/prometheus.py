"""Prometheus and promtool, where the machine has them: the Debian package `prometheus` brings both."""

from __future__ import annotations

import asyncio
import json
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import yaml

from stellwerk.local.host.ports import HOST, free_port
from stellwerk.testing.eventually import eventually


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Skips the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} on this machine (Debian: apt install prometheus)")
    return path


class Prometheus:
    """A server that scrapes and evaluates once a second."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self.address = address
        self._url = f"http://{address}/api/v1"
        self._session = session

    async def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer. AssertionError with the message of an error."""
        async with self._session.get(f"{self._url}/{path}?{urlencode(parameters)}") as answer:
            body = json.loads(await answer.text())
        assert body["status"] == "success", (path, parameters, body)
        return body["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of a query now."""
        series: list[dict[str, Any]] = (await self.get("query", query=expression))["result"]
        return series

    async def is_up(self) -> bool:
        """Whether the server answers queries."""
        try:
            async with self._session.get(f"http://{self.address}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def prometheus(folder: Path, targets: Iterable[str], rules: Path) -> AsyncIterator[Prometheus]:
    """A server that reads these targets and rules, running."""
    path, address = program("prometheus"), f"{HOST}:{free_port()}"
    job = {"job_name": "stellwerk", "honor_labels": True, "static_configs": [{"targets": [*targets]}]}
    intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump({"global": intervals, "rule_files": [str(rules)], "scrape_configs": [job]}))
    flags = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    process = await asyncio.create_subprocess_exec(path, *flags, stdout=DEVNULL, stderr=DEVNULL)
    try:
        async with aiohttp.ClientSession() as session:
            server = Prometheus(address, session)
            await eventually(server.is_up, describe="Prometheus answers")
            yield server
    finally:
        process.terminate()
        await process.wait()
