"""Traces tell what a pass did by names and numbers; without anybody who wants them nothing of them is even imported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from aiohttp import web

from stellwerk.kube.http.transport import RequestFacts
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.telemetry import logs, traces
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

KEY = ObjectKey("shop", "web")
PATCH = RequestFacts("PATCH", "10.0.0.1", 200, 0.25, "patch", "configmaps")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_says_whether_traces_are_wanted(environment: Mapping[str, str], wanted: bool) -> None:
    assert traces.wanted(environment) is wanted


def makes_no_spans() -> bool:
    """Whether every piece of work is given the same, which records nothing."""
    return traces.within("one") is traces.within("other")


async def test_without_being_wanted_nothing_is_made() -> None:
    async with traces.exported("operator", {}):
        with traces.reconciling("Component", KEY, "id") as span, traces.within("render") as inner:
            traces.requested(PATCH)
            span.record(result="success")
        assert inner is span


def test_the_process_imports_nothing_of_opentelemetry() -> None:
    probe = "import sys, stellwerk.runtime.process.process, stellwerk.runtime.telemetry.traces; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()
    assert not [name for name in loaded if name.startswith("opentelemetry")]


@pytest.mark.skipif(find_spec("opentelemetry") is not None, reason="the extra stellwerk[otel] is installed")
async def test_where_the_extra_is_missing_the_operator_runs_and_says_what_to_install(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with traces.exported("operator", {"OTEL_TRACES_EXPORTER": "otlp"}):
        assert makes_no_spans()
    assert "install stellwerk[otel]" in caplog.text


# ---- with the extra


@pytest.fixture
def sdk() -> Any:
    """The extra, where it is installed."""
    return pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra stellwerk[otel]")


@pytest.fixture
async def made(sdk: Any) -> AsyncIterator[Any]:
    """What is recorded in memory."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with traces.recorded(traces.Spans(provider)):
        yield exporter


async def test_a_pass_has_its_requests_and_renderings_as_children(made: Any) -> None:
    with traces.reconciling("Component", KEY, "id-1") as span:
        with traces.within("render") as render:
            render.record(objects=3)
        async with asyncio.TaskGroup() as writes:
            writes.create_task(_request())
        span.record(result="requeue_after")
    render, patch, whole = made.get_finished_spans()

    assert (render.name, patch.name, whole.name) == ("render", "patch configmaps", "reconcile Component")
    assert whole.parent is None
    assert {one.parent.span_id for one in (render, patch)} == {whole.context.span_id}
    assert dict(whole.attributes) == {
        "stellwerk.kind": "Component",
        "stellwerk.namespace": "shop",
        "stellwerk.name": "web",
        "stellwerk.reconcile_id": "id-1",
        "stellwerk.result": "requeue_after",
    }
    assert dict(render.attributes) == {"stellwerk.objects": 3}
    assert patch.attributes["http.response.status_code"] == 200
    assert (patch.end_time - patch.start_time) / 1e9 == pytest.approx(0.25)


async def _request() -> None:
    traces.requested(PATCH)


async def test_requests_that_belong_to_no_pass_are_left_out(made: Any) -> None:
    traces.requested(PATCH)
    assert not made.get_finished_spans()


async def test_a_request_without_an_answer_is_marked(made: Any) -> None:
    with traces.reconciling("Component", KEY, "id"):
        traces.requested(RequestFacts("GET", "10.0.0.1", 0, 5.0, "get", "secrets"))
        traces.requested(RequestFacts("GET", "10.0.0.1", 404, 0.1, "get", "secrets"))
    assert [span.status.is_ok for span in made.get_finished_spans()] == [False, True, True]


@pytest.mark.req("R-801")
async def test_a_failure_shows_its_class_and_not_its_words(made: Any) -> None:
    with pytest.raises(ValueError, match="canary"), traces.within("render"):
        raise ValueError("canary")
    [span] = made.get_finished_spans()
    assert span.attributes["stellwerk.error_type"] == "ValueError"
    assert "canary" not in span.to_json()


@asynccontextmanager
async def collector(
    answer: Callable[[web.Request], Awaitable[web.Response]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """A collector that answers as the test says, and that the environment names."""
    app = web.Application()
    app.router.add_post("/v1/traces", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{runner.addresses[0][1]}")
    for name in ("NO_PROXY", "no_proxy"):  # the exporter would ask the proxy of whoever runs this
        monkeypatch.setenv(name, "127.0.0.1")
    try:
        yield
    finally:
        await runner.cleanup()


async def test_spans_reach_a_collector_and_its_key_no_log(
    sdk: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bodies: list[tuple[bytes, str]] = []

    async def collect(request: web.Request) -> web.Response:
        bodies.append((await request.read(), request.headers.get("api-key", "")))
        return web.Response()

    environment = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=canary-of-the-collector",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with collector(collect, monkeypatch):
        async with traces.exported("component-operator", environment):
            with traces.reconciling("Component", KEY, "id"):
                pass
        assert makes_no_spans()
        await eventually(lambda: bool(bodies), describe="the spans have come")

    [(body, key)] = bodies
    assert key == "canary-of-the-collector"
    assert all(word in body for word in (b"component-operator", b"reconcile Component", b"shop"))
    assert "canary" not in logs.redacted("sent with canary-of-the-collector")


async def test_a_collector_that_says_nothing_holds_up_no_exit(sdk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for by a thread that gives up after a minute; here it answers before, and leaves no thread."""
    ended = asyncio.Event()

    async def hold(_: web.Request) -> web.Response:
        await ended.wait()
        return web.Response()

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    async with collector(hold, monkeypatch):
        try:
            async with asyncio.timeout(traces.PARTING_SECONDS + 30):
                async with traces.exported("operator", {"OTEL_TRACES_EXPORTER": "otlp"}):
                    with traces.within("render"):
                        pass
        finally:
            ended.set()
            await eventually(lambda: "last spans" not in {one.name for one in threading.enumerate()})
