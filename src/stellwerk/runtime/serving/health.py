"""Probes: is the process alive, and is it ready for work?

`/livez` and `/healthz` ask whether the process makes progress: only a restart mends a failure there. `/readyz` asks
whether it can do its work now: caches are full and fresh. Each check has a name; `/readyz/<name>` asks one,
`?verbose` lists all, `?exclude=<name>` leaves one out, as at the API server's own endpoints. A leader election's
loser is ready: it answers webhooks.

A check returns None, or one sentence with the problem; it looks at memory only, so a probe never waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from stellwerk.runtime.serving.http_messages import Request, Response, refusal, text
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.supervision.tasks import surprise
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry import metrics as metrics_module
from stellwerk.runtime.telemetry.metrics import Metrics

Check: TypeAlias = Callable[[], str | None]

_log = logging.getLogger(__name__)


class HealthChecks:
    """The named checks of one process. Checks may be added at any time."""

    def __init__(self) -> None:
        self._alive: dict[str, Check] = {"ping": lambda: None}
        self._ready: dict[str, Check] = {"ping": lambda: None}

    def alive_when(self, name: str, check: Check) -> None:
        """The process is alive only while this check finds nothing wrong."""
        self._alive[name] = check

    def ready_when(self, name: str, check: Check) -> None:
        """The process is ready only while this check finds nothing wrong."""
        self._ready[name] = check

    def is_alive(self) -> bool:
        """Whether no liveness check finds anything wrong."""
        return not any(_findings(self._alive).values())

    def is_ready(self) -> bool:
        """Whether no readiness check finds anything wrong."""
        return not any(_findings(self._ready).values())

    def routes(self) -> list[Route]:
        """The endpoints of all probes, for a `http.Server`."""
        places = {"healthz": self._alive, "livez": self._alive, "readyz": self._ready}
        return [route for name, checks in places.items() for route in _endpoints(name, checks)]


def metrics_route(metrics: Metrics) -> Route:
    """The endpoint that a Prometheus scrapes."""

    async def scrape(_: Request) -> Response:
        return Response(200, metrics.exposition(), metrics_module.CONTENT_TYPE)

    return Route("GET", "/metrics", scrape)


def _endpoints(name: str, checks: Mapping[str, Check]) -> list[Route]:
    async def all_checks(request: Request) -> Response:
        excluded = set(request.query.all("exclude"))
        findings = _findings({check: run for check, run in checks.items() if check not in excluded})
        return _answer(name, findings, verbose="verbose" in request.query)

    async def one_check(request: Request) -> Response:
        wanted = request.found["check"]
        if wanted not in checks:
            return refusal(404)
        return _answer(f"{name}/{wanted}", _findings({wanted: checks[wanted]}), verbose="verbose" in request.query)

    return [
        Route("GET", f"/{name}", all_checks),
        Route("GET", f"/{name}/", all_checks),
        Route("GET", f"/{name}/{{check}}", one_check),
    ]


def _findings(checks: Mapping[str, Check]) -> dict[str, str | None]:
    return {name: _finding(name, check) for name, check in checks.items()}


def _finding(name: str, check: Check) -> str | None:
    try:
        return check()
    except BaseException as raised:
        error = surprise(raised)
        _log.error("health check %s cannot be made", name, exc_info=error, extra=logs.STACK)
        return f"the check itself failed: {type(error).__name__}"


def _answer(about: str, findings: Mapping[str, str | None], *, verbose: bool) -> Response:
    failed = any(findings.values())
    if not failed and not verbose:
        return text("ok")
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in findings.items()]
    verdict = f"{about} check {'failed' if failed else 'passed'}"
    return text("\n".join([*lines, verdict, ""]), 500 if failed else 200)
