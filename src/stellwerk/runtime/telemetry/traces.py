"""Traces for OpenTelemetry: what a pass did, and what it waited for. Off, unless the environment asks for them.

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp     on
    OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true                                            off all the same

All other `OTEL_*` variables (headers, certificates, sampler, resource, batches) are read by the SDK, which comes with
the extra `stellwerk[otel]` and is imported only when it is on. Off, a pass costs one look at a variable.

    reconcile Component       kind, namespace, name, result, the reconcileID of the log lines
      apply configmaps        an API request: verb, resource, status
      render                  how many objects

Names and numbers only: no value, no message, no URL. A failure shows its class. Requests outside of a pass (watches,
leases) are not traced: they would be thousands of spans that belong to nothing. A span of a request is made when its
answer has come, from how long it took: so the transport knows nothing of traces, and reports what it reports to the
metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from stellwerk.kube.http.transport import RequestFacts
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.telemetry import logs

with lazy_imports(__name__):
    from opentelemetry import trace

    from stellwerk.runtime.telemetry import otlp

Fact: TypeAlias = str | int

PARTING_SECONDS = 3.0
"""How long the last spans may take to be sent when the process ends. A collector that is down holds up no exit."""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")

_log = logging.getLogger(__name__)


class Span(Protocol):
    """A piece of work under way. Entered and left by `with`; an exception that leaves it is shown by its class."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def record(self, **facts: Fact) -> None:
        """What came of it."""
        ...


class _Nothing:
    """Replaces every span while traces are off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""

    def record(self, **facts: Fact) -> None:
        """No exporter."""


class _Recorded:
    """A span of OpenTelemetry, the current one of its task while inside."""

    def __init__(self, opened: AbstractContextManager[Any]) -> None:
        self._opened = opened
        self._span: Any = None

    def __enter__(self) -> Self:
        with _without_failure():
            self._span = self._opened.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.record(error_type=kind.__name__)
        with _without_failure():
            self._opened.__exit__(None, None, None)

    def record(self, **facts: Fact) -> None:
        with _without_failure():
            self._span.set_attributes(_named(facts))


class Spans:
    """Makes spans with a tracer of OpenTelemetry."""

    def __init__(self, provider: Any) -> None:
        """`provider`: a TracerProvider."""
        self._provider = provider
        self._tracer = provider.get_tracer("stellwerk")

    def begin(self, name: str, facts: Mapping[str, Fact]) -> Span:
        """A span within the current one, if there is one."""
        opened = self._tracer.start_as_current_span(
            name, attributes=_named(facts), record_exception=False, set_status_on_exception=False
        )
        return _Recorded(opened)

    def requested(self, facts: RequestFacts) -> None:
        """A request of the pass that is under way in this task, if one is, has ended."""
        if not trace.get_current_span().get_span_context().is_valid:
            return
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{facts.verb or facts.method.lower()} {facts.resource}".rstrip(),
            kind=trace.SpanKind.CLIENT,
            start_time=now - int(facts.seconds * 1e9),
            attributes={
                "http.request.method": facts.method,
                "http.response.status_code": facts.code,
                "server.address": facts.host,
            },
        )
        if facts.code == 0 or facts.code >= 500:
            span.set_status(trace.StatusCode.ERROR)
        span.end(now)

    def shut_down(self) -> None:
        """Send what is left. Blocks."""
        self._provider.shutdown()


_NOTHING = _Nothing()
_spans: Spans | None = None
"""One for the process, as with log lines: a span is begun in many places that have nothing else in common."""


def within(name: str, **facts: Fact) -> Span:
    """A span around a piece of work: `with traces.within("render") as span`."""
    return _begun(name, facts)


def reconciling(kind: str, key: ObjectKey, reconcile_id: str) -> Span:
    """The span of a pass. `record(result=...)` records the result."""
    if _spans is None:
        return _NOTHING
    facts = {"kind": kind, "namespace": key.namespace, "name": key.name, "reconcile_id": reconcile_id}
    return _begun(f"reconcile {kind}", facts)


def requested(facts: RequestFacts) -> None:
    """A request to an API server has ended."""
    if _spans is not None:
        with _without_failure():
            _spans.requested(facts)


def _begun(name: str, facts: Mapping[str, Fact]) -> Span:
    if _spans is not None:
        with _without_failure():
            return _spans.begin(name, facts)
    return _NOTHING


@contextlib.contextmanager
def _without_failure() -> Iterator[None]:
    """A trace that cannot be made costs the work that it is about nothing."""
    try:
        yield
    except Exception as error:
        _log.error("a span was not made", exc_info=error, extra=logs.STACK)


# ---- on and off


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces (pure)."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in _ENDPOINTS))


@asynccontextmanager
async def exported(service: str, environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Make and send spans while inside, if the environment enables them. `service`: the default name of the service."""
    if not wanted(environment):
        yield
        return
    for name in _HEADERS:  # they hold the key to the collector
        logs.hide(*(part.partition("=")[2].strip() for part in environment.get(name, "").split(",")))
    try:
        spans = Spans(otlp.provider(service, environment))
    except ImportError:
        _log.warning("the environment asks for traces (OTEL_*), but the extra is missing: install stellwerk[otel]")
        yield
        return
    async with recorded(spans):
        yield


@asynccontextmanager
async def recorded(spans: Spans) -> AsyncIterator[None]:
    """Spans are made by these while inside, and the last ones sent at the end."""
    global _spans
    former, _spans = _spans, spans
    try:
        yield
    finally:
        _spans = former
        await _part(spans)


async def _part(spans: Spans) -> None:
    """In a daemon thread: the loop's own pool would be waited for at the end, however long it takes."""
    loop, sent = asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        spans.shut_down()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(sent.set)

    threading.Thread(target=work, name="last spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PARTING_SECONDS):
            await sent.wait()


def _named(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {f"stellwerk.{name}": fact for name, fact in facts.items()}
