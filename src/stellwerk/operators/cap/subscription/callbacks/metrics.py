"""What is counted of callbacks."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Gauge

from stellwerk.operators.cap.kinds.tenant import Operation
from stellwerk.runtime.telemetry.metrics import Metrics

PENDING = "cap_op_subscription_callbacks_pending"
UNKNOWN_RESULTS = "cap_op_subscription_callbacks_given_up"
CALLBACKS = "cap_op_subscription_callbacks"
FAILURES = "cap_op_subscription_callback_failures"
DELIVERED, REFUSED, GIVEN_UP = RESULTS = ("delivered", "refused", "given up")
"""The label `result`: how a callback has ended."""


class CallbackMetrics:
    """Counts callbacks. `pending` returns how many registries wait for one, `given_up` how many wait in vain."""

    def __init__(self, metrics: Metrics, pending: Callable[[], int], given_up: Callable[[], int]) -> None:
        backlog = Gauge(PENDING, "Callbacks that registries wait for", registry=None)
        backlog.set_function(pending)
        unknown = Gauge(UNKNOWN_RESULTS, "Callbacks that were given up and not acknowledged", registry=None)
        unknown.set_function(given_up)
        self._ended = Counter(CALLBACKS, "Callbacks that have ended", ("operation", "result"), registry=None)
        self._failures = Counter(FAILURES, "Attempts to deliver a callback that failed", ("operation",), registry=None)
        for collector in (backlog, unknown, self._ended, self._failures):
            metrics.register(collector)
        for operation in (Operation.PROVISIONING, Operation.DEPROVISIONING):
            self._failures.labels(operation)  # from 0 on: an increase from nothing to 1 is none to Prometheus
            for result in RESULTS:
                self._ended.labels(operation, result)

    def ended(self, operation: str, result: str) -> None:
        """A callback was delivered, refused, or given up."""
        self._ended.labels(operation, result).inc()

    def failed(self, operation: str) -> None:
        """An attempt to deliver a callback failed."""
        self._failures.labels(operation).inc()
