"""What the subscription server counts, under the names of the original."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import Counter, Gauge

from stellwerk.runtime.telemetry.metrics import Metrics

SUBSCRIPTIONS = "cap_op_subscription_requests"
SMS_SUBSCRIPTIONS = "cap_op_subscription_requests_sms"
DEPENDENCIES = "cap_op_dependencies_requests"
SMS_DEPENDENCIES = "cap_op_dependencies_requests_sms"
_METHODS = frozenset({"get", "put", "delete", "post", "patch", "head", "options", "connect", "trace"})


@dataclass(slots=True)
class Answered:
    """What a request was answered with."""

    status: int = 500


class RequestMetrics:
    """Requests by route: how many have been answered, and how many are being answered."""

    def __init__(self, metrics: Metrics) -> None:
        self._total: dict[str, Counter] = {}
        self._running: dict[str, Gauge] = {}
        for name in (SUBSCRIPTIONS, SMS_SUBSCRIPTIONS, DEPENDENCIES, SMS_DEPENDENCIES):
            self._total[name] = Counter(name, "Requests that were answered", ("code", "method"), registry=None)
            self._running[name] = Gauge(f"{name}_in_flight", "Requests that are being answered", registry=None)
            metrics.register(self._total[name])
            metrics.register(self._running[name])

    @contextmanager
    def request(self, route: str, method: str) -> Iterator[Answered]:
        """Count a request; the block notes its status."""
        answered = Answered()
        self._running[route].inc()
        try:
            yield answered
        finally:
            self._running[route].dec()
            word = method.lower()
            self._total[route].labels(str(answered.status), word if word in _METHODS else "unknown").inc()
