"""What the engine counts, under the names that dashboards for controller-runtime already read.

One `Metrics` belongs to one manager and has a registry of its own, so that two managers in a process (and two tests)
do not add to each other's numbers. Callers name what happened (`metrics.reconciled(...)`) and never a label, which is
what keeps labels bounded: only the series of `object_metrics` name objects, and they have a limit.

client-go's workqueue metrics and controller-runtime's reconcile metrics keep their names, labels and buckets; what
they lack is prefixed `stellwerk_`. prometheus-client's `_created` series are switched off: the originals have none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal, TypeAlias, TypeVar, cast

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stellwerk import __version__
from stellwerk.runtime.telemetry.object_metrics import OBJECT_LIMIT, ObjectMetrics

Result: TypeAlias = Literal["success", "error", "requeue", "requeue_after"]
RESULTS: tuple[Result, ...] = ("success", "error", "requeue", "requeue_after")
Seconds: TypeAlias = Callable[[], float | None]
Memory: TypeAlias = Callable[[], tuple[int, int] | None]
"""Returns the bytes in use and the bytes allowed; None where there is no limit."""
R = TypeVar("R")

_log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# controller-runtime's buckets of a pass, and client-go's of a queue: 10 ns to 1,000 s in powers of ten.
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))

_QUEUE_LABELS = ("name", "controller")


class Metrics:
    """The numbers of one manager. `exposition()` is what a scrape reads."""

    def __init__(self, registry: CollectorRegistry | None = None, *, object_limit: int = OBJECT_LIMIT) -> None:
        """`object_limit`: for how many objects series of their own are shown; 0: for none."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's own gap
        self.registry = registry or CollectorRegistry()
        self._readings = _Readings()
        self._requests_of: dict[tuple[str, str, int], Counter] = {}
        """Series by method, host and code: to look one up by its labels costs more than to count."""
        self._make_reconcile_metrics()
        self._make_queue_metrics()
        self._make_process_metrics()
        self._make_server_metrics()
        self.registry.register(self._readings)
        self._plain_counters: list[str] = []
        self.object_limit = object_limit
        self.objects = ObjectMetrics(object_limit)
        self.register(self.objects)

    def register(self, collector: Collector) -> None:
        """Add an operator's own collector. Raises ValueError when one of its names is taken."""
        self.registry.register(_Contained(collector, self))

    def plain_counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """A counter of an operator whose name does not end in `_total`, as its original calls it."""
        counter = Counter(name, help_text, labels, registry=None)
        self.register(counter)
        self._plain_counters.append(name)
        return counter

    def exposition(self) -> bytes:
        """All series in Prometheus' text format, of type `CONTENT_TYPE`."""
        text = prometheus_client.generate_latest(self.registry)
        for name in self._plain_counters:
            text = text.replace(f"{name}_total".encode(), name.encode())
        return text

    # The engine

    def controller(self, name: str, workers: int) -> None:
        """A controller exists: its series start at zero, so that a rate over them is right from the first event."""
        self._workers_limit.labels(name).set(workers)
        self._workers_busy.labels(name).set(0)
        for result in RESULTS:
            self._passes.labels(name, result)
        for counter in (self._pass_errors, self._pass_final_errors, self._pass_panics):
            counter.labels(name)
        self._pass_seconds.labels(name)
        self._stuck_passes.labels(name).set(0)

    def reconciled(self, controller: str, result: Result, seconds: float) -> None:
        """A pass ended. An `error` also counts among the errors."""
        self._passes.labels(controller, result).inc()
        self._pass_seconds.labels(controller).observe(seconds)
        if result == "error":
            self._pass_errors.labels(controller).inc()

    def failed_for_good(self, controller: str) -> None:
        """A pass failed in a way that only a change can fix; `reconciled(..., "error")` counts it, too."""
        self._pass_final_errors.labels(controller).inc()

    def surprised(self, controller: str) -> None:
        """A pass ended with an unexpected exception: what controller-runtime calls a panic."""
        self._pass_panics.labels(controller).inc()

    def busy_workers(self, controller: str, change: Literal[1, -1]) -> None:
        """A worker took a key, or is done with one."""
        self._workers_busy.labels(controller).inc(change)

    def task_failed(self, kind: str) -> None:
        """A task, or a callback, raised an unexpected exception; its border reported it."""
        self._task_failures.labels(kind).inc()

    def stuck_passes(self, controller: str, change: Literal[1, -1]) -> None:
        """A pass goes on although it was cancelled, or has ended at last."""
        self._stuck_passes.labels(controller).inc(change)

    def queue(self, name: str, controller: str = "", *, running: Callable[[], Iterable[float]]) -> QueueMetrics:
        """The observer of one work queue. `running` returns for how many seconds each running key has been running."""
        labels = (name, controller or name)
        self._readings.queues[labels] = running
        return QueueMetrics(
            depth=self._queue_depth.labels(*labels),
            adds=self._queue_adds.labels(*labels),
            waits=self._queue_waits.labels(*labels),
            works=self._queue_works.labels(*labels),
            retries=self._queue_retries.labels(*labels),
        )

    def watch_restarted(self, kind: str) -> None:
        """A watch had to start again: a cut, a silence, or a resourceVersion that was too old."""
        self._watch_restarts.labels(kind).inc()

    def cache(self, kind: str, age_seconds: Seconds, unreadable: Callable[[], int] = lambda: 0) -> None:
        """A cache exists; `age_seconds` returns the seconds since its watch last received something.

        It returns None while there is no watch. `unreadable` returns how many of its objects cannot be decoded.
        """
        self._readings.caches[kind] = age_seconds
        self._readings.unreadable[kind] = unreadable

    def forget_cache(self, kind: str, age_seconds: Seconds) -> None:
        """The cache that was given with `age_seconds` is gone, and its series with it."""
        if self._readings.caches.get(kind) == age_seconds:
            del self._readings.caches[kind], self._readings.unreadable[kind]
            for counter in (self._watch_restarts, self._unreadable):
                counter.remove_by_labels({"kind": kind})

    def unreadable(self, kind: str) -> None:
        """An object of a cache came in a version that cannot be decoded."""
        self._unreadable.labels(kind).inc()

    # Other rooms

    def requested(self, method: str, host: str, code: int) -> None:
        """A request to an API server ended. Code 0 means no answer, which client-go writes as `<error>`."""
        series = self._requests_of.get((method, host, code))
        if series is None:
            series = self._requests.labels(str(code) if code else "<error>", host, method)
            self._requests_of[method, host, code] = series
        series.inc()

    def requests_by_method(self) -> dict[str, float]:
        """How many requests to API servers have ended so far, by HTTP method."""
        counts: dict[str, float] = {}
        for sample in (sample for family in self._requests.collect() for sample in family.samples):
            if sample.name.endswith("_total"):
                counts[sample.labels["method"]] = counts.get(sample.labels["method"], 0.0) + sample.value
        return counts

    def forget_host(self, host: str) -> None:
        """A cluster is gone, and its series with it: hosts of remote clusters come and go without bound."""
        self._requests.remove_by_labels({"host": host})
        for known in [known for known in self._requests_of if known[1] == host]:
            del self._requests_of[known]

    def leading(self, name: str, is_leader: bool) -> None:
        """This process has, or has not, the lease of this name."""
        self._leading.labels(name).set(1 if is_leader else 0)

    def right(self, group: str, resource: str, verb: str, *, missing: bool) -> None:
        """A right that the operator needs is missing, or has come back: then its series goes."""
        if missing:
            self._missing_rights.labels(group, resource, verb).set(1)
        else:
            self._missing_rights.remove(group, resource, verb)

    def event_sent(self) -> None:
        """An Event arrived at the API server."""
        self._events.labels("sent").inc()

    def event_dropped(self, why: Literal["full", "rate", "failed"]) -> None:
        """An Event was given up: the queue was full, the object sent too many, or the API server refused."""
        self._events.labels(why).inc()

    def operator(self, name: str, lease: str) -> None:
        """The operator that runs in this process, and the Lease of its leader."""
        self._operator.labels(name, lease, __version__).set(1)

    def memory(self, usage: Memory) -> None:
        """Show the memory of the container, where it has a limit."""
        self._readings.memory = usage

    def cache_memory(self, usage: Memory) -> None:
        """Show the memory that cached objects take, where it has a bound."""
        self._readings.cache_memory = usage

    def drift_throttled(self, objects: int) -> None:
        """A pass left so many objects changed, because other clients change them again and again."""
        self._drift_throttled.inc(objects)

    def loop_lagged(self, seconds: float) -> None:
        """How late the event loop ran something that was due."""
        self._loop_lag.observe(seconds)

    def loop_stalled(self) -> None:
        """The event loop stood still for longer than a person would accept."""
        self._loop_stalls.inc()

    def answered(self, server: str, code: int) -> None:
        """One of our HTTP servers answered a request."""
        self._answers.labels(server, str(code)).inc()

    def admitted(self, webhook: str, code: int, seconds: float) -> None:
        """An admission webhook answered."""
        self._admissions.labels(webhook, str(code)).inc()
        self._admission_seconds.labels(webhook).observe(seconds)

    def certificate(self, name: str, seconds_left: Seconds) -> None:
        """A certificate is in use; `seconds_left` returns for how long it is still valid."""
        self._readings.certificates[name] = seconds_left

    # Making them

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def queues_and_requests(self) -> Iterator[Metric]:
        """The metrics of work queues and of requests to API servers, for operators with other names for them."""
        counted = (self._queue_depth, self._queue_adds, self._queue_retries, self._requests)
        for collector in (*counted, self._queue_waits, self._queue_works):
            yield from collector.collect()
        yield from self._readings.queue_families()

    def _make_reconcile_metrics(self) -> None:
        prefix = "controller_runtime_"
        self._passes = self._counter(
            f"{prefix}reconcile_total", "Total number of reconciliations per controller", "controller", "result"
        )
        self._pass_errors = self._counter(
            f"{prefix}reconcile_errors_total", "Total number of reconciliation errors per controller", "controller"
        )
        self._pass_final_errors = self._counter(
            f"{prefix}terminal_reconcile_errors_total",
            "Reconciliation errors that only a change can mend, per controller",
            "controller",
        )
        self._pass_panics = self._counter(
            f"{prefix}reconcile_panics_total", "Reconciliations ended by an unforeseen exception", "controller"
        )
        self._pass_seconds = Histogram(
            f"{prefix}reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            ("controller",),
            registry=self.registry,
            buckets=RECONCILE_BUCKETS,
        )
        self._workers_limit = self._gauge(
            f"{prefix}max_concurrent_reconciles", "Maximum number of concurrent reconciles", "controller"
        )
        self._workers_busy = self._gauge(
            f"{prefix}active_workers", "Number of currently used workers per controller", "controller"
        )

    def _make_queue_metrics(self) -> None:
        prefix = "workqueue_"
        self._queue_depth = self._gauge(f"{prefix}depth", "Current depth of workqueue", *_QUEUE_LABELS)
        self._queue_adds = self._counter(
            f"{prefix}adds_total", "Total number of adds handled by workqueue", *_QUEUE_LABELS
        )
        self._queue_retries = self._counter(
            f"{prefix}retries_total", "Total number of retries handled by workqueue", *_QUEUE_LABELS
        )
        self._queue_waits = self._queue_histogram("queue_duration_seconds", "How long an item stays in a workqueue")
        self._queue_works = self._queue_histogram("work_duration_seconds", "How long processing an item takes")

    def _queue_histogram(self, name: str, help_text: str) -> Histogram:
        return Histogram(
            f"workqueue_{name}",
            f"{help_text}, in seconds",
            _QUEUE_LABELS,
            registry=self.registry,
            buckets=QUEUE_BUCKETS,
        )

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def _make_process_metrics(self) -> None:
        self._requests = self._counter(
            "rest_client_requests_total",
            "HTTP requests to API servers by code, host and method",
            "code",
            "host",
            "method",
        )
        self._operator = self._gauge(
            "stellwerk_operator_info",
            "The operator of the process, as labels; always 1",
            *("operator", "lease", "version"),
        )
        self._leading = self._gauge(
            "leader_election_master_status", "Whether this process holds the lease: 1 yes, 0 no", "name"
        )
        self._missing_rights = self._gauge(
            "stellwerk_missing_rights",
            "1 for each right that the operator needs and does not have",
            *("group", "resource", "verb"),
        )
        self._watch_restarts = self._counter(
            "stellwerk_watch_restarts_total", "Watches that had to start again", "kind"
        )
        self._unreadable = self._counter(
            "stellwerk_unreadable_versions_total", "Versions of objects that could not be decoded", "kind"
        )
        self._task_failures = self._counter(
            "stellwerk_task_failures_total", "Unexpected exceptions in tasks and callbacks, by kind of task", "kind"
        )
        self._stuck_passes = self._gauge(
            "stellwerk_stuck_passes", "Passes that go on although they were cancelled", "controller"
        )
        self._drift_throttled = self._counter(
            "stellwerk_drift_throttled_total",
            "Objects that a pass did not restore because other clients change them again and again",
        )
        self._events = self._counter("stellwerk_events_total", "Kubernetes Events by what became of them", "outcome")
        self._loop_stalls = self._counter(
            "stellwerk_event_loop_stalls_total", "Times the event loop stood still > 0.5 s"
        )
        self._loop_lag = Histogram(
            "stellwerk_event_loop_lag_seconds",
            "How late the event loop runs what is due",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
        )
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def _make_server_metrics(self) -> None:
        self._answers = self._counter(
            "stellwerk_http_answers_total", "Requests answered by our servers", "server", "code"
        )
        self._admissions = self._counter(
            "controller_runtime_webhook_requests_total", "Admission requests by webhook and code", "webhook", "code"
        )
        self._admission_seconds = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Length of time per admission request",
            ("webhook",),
            registry=self.registry,
        )


class QueueMetrics:
    """Counts what one work queue does; a `queue.QueueObserver`."""

    def __init__(self, *, depth: Gauge, adds: Counter, waits: Histogram, works: Histogram, retries: Counter) -> None:
        self._depth = depth
        self._adds = adds
        self._waits = waits
        self._works = works
        self._retries = retries

    def added(self, depth: int) -> None:
        """A key became ready; so many are ready now."""
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited: float) -> None:
        """A worker took a key that was ready for so long; so many are left."""
        self._depth.set(depth)
        self._waits.observe(waited)

    def finished(self, worked: float) -> None:
        """A worker is done with a key after so long."""
        self._works.observe(worked)

    def retried(self) -> None:
        """A key failed and waits for its next try."""
        self._retries.inc()


class _Readings(Collector):
    """Gauges that are read at the scrape instead of being kept up to date."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, str], Callable[[], Iterable[float]]] = {}
        self.caches: dict[str, Seconds] = {}
        self.unreadable: dict[str, Seconds] = {}
        self.certificates: dict[str, Seconds] = {}
        self.memory: Memory = lambda: None
        self.cache_memory: Memory = lambda: None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families as they are now."""
        yield from self.queue_families()
        yield _family(
            "stellwerk_cache_age_seconds", "Seconds since the last event of a cache's watch", "kind", self.caches
        )
        yield _family(
            "stellwerk_unreadable_objects",
            "Objects that cannot be decoded at the moment, or do not fit into the memory for caches, of which the last "
            "readable version is used",
            "kind",
            self.unreadable,
        )
        yield _family(
            "stellwerk_certificate_expiry_seconds", "Seconds until a certificate expires", "name", self.certificates
        )
        yield from self._memory()
        yield GaugeMetricFamily("stellwerk_tasks", "asyncio tasks that have not ended", value=_living_tasks())

    def queue_families(self) -> Iterator[GaugeMetricFamily]:
        """What the queues' workers do at the moment."""
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds of work in progress, summed over keys", labels=_QUEUE_LABELS
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Seconds of the longest running key", labels=_QUEUE_LABELS
        )
        for labels, running in self.queues.items():
            seconds: tuple[float, ...] = _read(partial(_listed, running), ())
            unfinished.add_metric(labels, sum(seconds))
            longest.add_metric(labels, max(seconds, default=0.0))
        yield unfinished
        yield longest

    def _memory(self) -> Iterator[GaugeMetricFamily]:
        used = GaugeMetricFamily("stellwerk_memory_used_bytes", "Memory of the container that is in use")
        limit = GaugeMetricFamily("stellwerk_memory_limit_bytes", "Memory that the container may use")
        cached = GaugeMetricFamily("stellwerk_cache_used_bytes", "Memory that cached objects take, as estimated")
        most = GaugeMetricFamily("stellwerk_cache_limit_bytes", "Memory that cached objects may take")
        for reading, families in ((self.memory, (used, limit)), (self.cache_memory, (cached, most))):
            if (usage := _read(reading, None)) is not None:
                for family, number in zip(families, usage, strict=True):
                    family.add_metric((), number)
        yield from (used, limit, cached, most)


def _living_tasks() -> int:
    """What Go's runtime counts as goroutines: a number that only grows is a leak. 0 outside of an event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return 0


def _family(name: str, help_text: str, label: str, readings: dict[str, Seconds]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=(label,))
    for value, read in readings.items():
        if (seconds := _read(read, None)) is not None:
            family.add_metric((value,), seconds)
    return family


def _listed(readings: Callable[[], Iterable[float]]) -> tuple[float, ...]:
    return tuple(readings())


def _read(read: Callable[[], R], otherwise: R) -> R:
    """A value, or the replacement of one that fails: a scrape gets all other series."""
    try:
        return read()
    except Exception as error:
        _log.error("a metric cannot be read", exc_info=error)
        return otherwise


class _Contained(Collector):
    """A collector whose failure costs a scrape only its own series."""

    def __init__(self, collector: Collector, metrics: Metrics) -> None:
        self._collector = collector
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        """The names that it takes in the registry."""
        described = getattr(self._collector, "describe", self._collector.collect)
        return cast("Iterable[Metric]", described())

    def collect(self) -> Iterable[Metric]:
        """Its families, or none."""
        try:
            return [*self._collector.collect()]
        except Exception as error:
            self._metrics.task_failed("metrics")
            _log.error("the metrics of %s cannot be read", type(self._collector).__name__, exc_info=error)
            return []
