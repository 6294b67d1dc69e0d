"""A double of Prometheus, which answers all queries with the samples that a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from stellwerk.local.host.ports import HOST, free_port
from stellwerk.testing.eventually import Signal


@dataclass
class Metrics:
    """What is measured, and what was asked for."""

    address: str
    samples: Sequence[float] = ()
    queries: list[str] = field(default_factory=list)
    limits: dict[str, str] = field(default_factory=dict)
    """Of the last query."""
    asked: Signal = field(default_factory=Signal)

    async def answer(self, request: web.Request) -> web.Response:
        """A vector with one series for each sample."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.queries.append(form.pop("query"))
        self.limits = form
        self.asked.ring()
        series = [
            {"metric": {"pod": f"pod-{number}"}, "value": [1.0, str(sample)]}
            for number, sample in enumerate(self.samples)
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": series}})


@asynccontextmanager
async def metrics() -> AsyncIterator[Metrics]:
    """The server, running."""
    port = free_port()
    made, application = Metrics(f"http://{HOST}:{port}"), web.Application()
    application.router.add_post("/api/v1/query", made.answer)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        yield made
    finally:
        await runner.cleanup()
