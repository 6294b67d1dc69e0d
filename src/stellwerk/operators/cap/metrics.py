"""The CAP Operator's own metrics, under the names of the original."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector

from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.telemetry.metrics import Metrics

PREFIX = "cap_op_"
_OBJECT = ("kind", "namespace", "name")
_RENAMED = {
    "workqueue_depth": "queue_depth",
    "workqueue_unfinished_work_seconds": "queue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds": "queue_longest_running_processor_seconds",
    "workqueue_adds": "queue_adds",
    "workqueue_retries": "queue_retries",
    "workqueue_queue_duration_seconds": "queue_latency_seconds",
    "workqueue_work_duration_seconds": "queue_work_duration_seconds",
    "rest_client_requests": "rest_client_requests",
}
"""The engine's metrics that the original has under other names."""


_FURTHER_BUCKETS = ("100.0", "1000.0")
"""Upper bounds that the engine's histograms have and the original's have not."""


class CapMetrics:
    """Counts what happens to tenants and services.

    `detailed`: with a series for each tenant and version. Counters of objects lose their series with the object.
    """

    def __init__(self, metrics: Metrics, *, detailed: bool) -> None:
        self._errors = metrics.plain_counter(f"{PREFIX}reconcile_errors", "Passes that failed, per object", *_OBJECT)
        self._panics = metrics.plain_counter(
            f"{PREFIX}panics", "Passes that ended by an unexpected exception, per object", *_OBJECT
        )
        self._operations = metrics.plain_counter(
            f"{PREFIX}tenant_operations", "Operations on tenants that have ended", "app", "operation"
        )
        self._services = metrics.plain_counter(
            f"{PREFIX}service_operations", "Changes of the routes of exposed services", "app"
        )
        self._detailed = _Detailed(metrics) if detailed else None
        metrics.register(_EngineMetrics(metrics))

    def failed(self, obj: Kind, is_bug: bool) -> None:
        """A pass failed."""
        for counter in (self._errors, *((self._panics,) if is_bug else ())):
            counter.labels(obj.resource.kind, obj.key.namespace, obj.key.name).inc()

    def on_change(self, delta: Delta[Any]) -> None:
        """An object has changed: one that is gone loses its series."""
        if delta.new is not None:
            return
        obj: Kind = delta.latest
        for counter in (self._errors, self._panics):
            counter.remove(obj.resource.kind, obj.key.namespace, obj.key.name)
        if self._detailed is not None:
            self._detailed.gone(obj)

    def on_operation(self, delta: Delta[CAPTenantOperation], now: datetime) -> None:
        """An operation on a tenant has changed: its end counts. Only the process that leads may call this."""
        old, new = delta.old, delta.new
        if old is not None and new is not None and new.has_ended and not old.has_ended:
            self.ended(new, OperationState(new.status.state), now)

    def ended(self, operation: CAPTenantOperation, state: OperationState, now: datetime) -> None:
        """An operation on a tenant has ended."""
        app = _app(operation)
        self._operations.labels(app, operation.spec.operation).inc()
        if self._detailed is not None:
            self._detailed.ended(app, operation, state, now)

    def routed(self, version: CAPApplicationVersion, *, failed: bool) -> None:
        """The routes of exposed services were changed, or could not be."""
        app = _app(version)
        self._services.labels(app).inc()
        if failed and self._detailed is not None:
            key = version.key
            self._detailed.service_failures.labels(app, version.spec.version, key.namespace, key.name).inc()


def _app(obj: Kind) -> str:
    """The application of an object, as metrics show it."""
    return obj.metadata.labels.get(names.APP_HASH_LABEL, "")


class _Detailed:
    """Metrics with a series for each tenant, operation or version."""

    def __init__(self, metrics: Metrics) -> None:
        self.service_failures = metrics.plain_counter(
            f"{PREFIX}service_operation_failures",
            "Changes of the routes of exposed services that failed",
            "app",
            "version",
            "namespace",
            "name",
        )
        self._failures = metrics.plain_counter(
            f"{PREFIX}tenant_operation_failures",
            "Operations on tenants that have failed",
            "app",
            "operation",
            "tenant_id",
            "namespace",
            "name",
        )
        self._durations = Gauge(
            f"{PREFIX}last_tenant_operation_duration_seconds",
            "How long the last operation on a tenant took",
            ("app", "tenant_id"),
            registry=None,
        )
        metrics.register(self._durations)

    def gone(self, obj: Kind) -> None:
        if isinstance(obj, CAPTenant):
            self._durations.remove(_app(obj), obj.spec.tenant_id)
        counter = {CAPTenantOperation: self._failures, CAPApplicationVersion: self.service_failures}.get(type(obj))
        if counter is not None:
            counter.remove_by_labels({"namespace": obj.key.namespace, "name": obj.key.name})

    def ended(self, app: str, operation: CAPTenantOperation, state: OperationState, now: datetime) -> None:
        spec, key = operation.spec, operation.key
        created = operation.metadata.creation_timestamp
        if created is not None:
            self._durations.labels(app, spec.tenant_id).set((now - created).total_seconds())
        if state is OperationState.FAILED:
            self._failures.labels(app, spec.operation, spec.tenant_id, key.namespace, key.name).inc()


class _EngineMetrics(Collector):
    """The engine's metrics of queues and requests under the names of the original."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """Nothing: the series are made for each scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The series as they are now."""
        for family in self._metrics.queues_and_requests():
            if family.name in _RENAMED:
                yield _renamed(family, _RENAMED[family.name])


def _renamed(family: Metric, name: str) -> Metric:
    made = Metric(f"{PREFIX}{name}", family.documentation, family.type)
    for sample in family.samples:
        if sample.labels.get("le") in _FURTHER_BUCKETS:
            continue
        labels = {key: value for key, value in sample.labels.items() if key != "controller"}
        made.add_sample(sample.name.replace(family.name, made.name, 1), labels, sample.value)
    return made
