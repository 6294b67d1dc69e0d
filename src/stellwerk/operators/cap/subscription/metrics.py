"""What the subscription server counts, under the names of the original."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prometheus_client import Counter, Gauge

from stellwerk.runtime.serving.http_messages import Response
from stellwerk.runtime.telemetry.metrics import Metrics

SUBSCRIPTIONS = "cap_op_subscription_requests"
SMS_SUBSCRIPTIONS = "cap_op_subscription_requests_sms"
DEPENDENCIES = "cap_op_dependencies_requests"
SMS_DEPENDENCIES = "cap_op_dependencies_requests_sms"
IDENTITIES = "cap_op_subscription_identities"
_METHODS = frozenset({"get", "put", "delete", "post", "patch", "head", "options", "connect", "trace"})


class RequestMetrics:
    """Requests by route: how many have been answered, and how many are being answered; and applications that do not
    answer."""

    def __init__(self, metrics: Metrics) -> None:
        self._total: dict[str, Counter] = {}
        self._running: dict[str, Gauge] = {}
        for name in (SUBSCRIPTIONS, SMS_SUBSCRIPTIONS, DEPENDENCIES, SMS_DEPENDENCIES):
            self._total[name] = Counter(name, "Requests that were answered", ("code", "method"), registry=None)
            self._running[name] = Gauge(f"{name}_in_flight", "Requests that are being answered", registry=None)
            metrics.register(self._total[name])
            metrics.register(self._running[name])
        self._silent = Gauge(
            IDENTITIES, "CAPApplications that do not answer their registry", ("reason",), registry=None
        )
        metrics.register(self._silent)

    def count_silent(self, reason: str, count: Callable[[], int]) -> None:
        """Show how many applications do not answer for a reason."""
        self._silent.labels(reason).set_function(count)

    async def counted(self, route: str, method: str, answer: Awaitable[Response]) -> Response:
        """The answer to a request, which is counted."""
        word, status = method.lower(), 500
        self._running[route].inc()
        try:
            response = await answer
            status = response.status
            return response
        finally:
            self._running[route].dec()
            self._total[route].labels(str(status), word if word in _METHODS else "unknown").inc()
