"""A process of its own that calls endless servers, as an operator does: it tries again at once, and remembers failures.

    python -m tests.unit.endless_calls KIND COUNT SECONDS PORT

prints the most memory that it had, in MiB, and how many calls have failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from ipaddress import ip_network
from pathlib import Path

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES, LARGEST_FOREIGN_LIST_BYTES
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.memory_budget import FOREIGN_BYTES, MemoryBudget
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import unstructured
from stellwerk.render.errors import RenderError
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.runtime.supervision import collector
from stellwerk.testing.eventually import eventually

_RULES = EgressRules(http=True, private=True, networks=(ip_network("127.0.0.0/8"),))


class Failures:
    """The last one of each caller, as a status or a retry remembers it, and their number."""

    def __init__(self) -> None:
        self.last: dict[int, BaseException] = {}
        self.count = 0

    def note(self, caller: int, error: BaseException) -> None:
        self.last[caller] = error
        self.count += 1


async def _download(downloads: Downloads, port: int, caller: int, failures: Failures) -> None:
    while True:
        try:
            await downloads.fetch(f"http://127.0.0.1:{port}/artifact/{caller}", rules=_RULES, tenant=str(caller))
        except RenderError as error:
            failures.note(caller, error)


async def _read(client: Client, kind: str, caller: int, failures: Failures) -> None:
    while True:
        try:
            if kind == "watch":
                async for _ in client.watch(unstructured(ConfigMap.resource), resource_version="1"):
                    pass
            else:
                await client.list(unstructured(ConfigMap.resource), skip_unreadable=True)
        except ApiError as error:
            failures.note(caller, error)


async def _called(kind: str, count: int, seconds: float, port: int, failures: Failures) -> None:
    budget = MemoryBudget(FOREIGN_BYTES)
    async with contextlib.AsyncExitStack() as opened:
        calls = []
        downloads = await opened.enter_async_context(Downloads())
        for caller in range(count):
            if kind.startswith("artifact"):
                calls.append(_download(downloads, port, caller, failures))
                continue
            client = Client.connect(
                ClusterConfig(server=f"http://127.0.0.1:{port}"),
                largest_answer_bytes=LARGEST_FOREIGN_ANSWER_BYTES,
                largest_list_bytes=LARGEST_FOREIGN_LIST_BYTES,
                budget=budget,
            )
            calls.append(_read(await opened.enter_async_context(client), kind, caller, failures))
        under_way = [asyncio.create_task(call) for call in calls]
        await asyncio.wait(under_way, timeout=seconds)
        await eventually(lambda: failures.count > 0, within=60)
        for each in under_way:
            each.cancel()
        await asyncio.wait(under_way)


if __name__ == "__main__":
    failures = Failures()
    with collector.short_pauses():
        asyncio.run(_called(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), failures))
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    assert found is not None
    print(int(found[1]) >> 10, failures.count)
