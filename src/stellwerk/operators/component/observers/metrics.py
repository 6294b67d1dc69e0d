"""What the Component operator counts, under the original's names and labels.

Counters are kept; all that belongs to one Component is held as a few words by its key and becomes series only when it
is asked for. So the series of a Component vanish with it, the six states of one are never out of step, and the number
of series has a limit: what a thousand dashboards do not need must not cost the memory of an operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, get_args

from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.errors import StatusError, causes
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import CONTROLLER, Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.observers.observers import PassObserver
from stellwerk.render.sources.artifact_disk_cache import Outcome
from stellwerk.runtime.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

PREFIX = "component_operator_runtime_"
_OBJECT = ("controller", "group", "kind", "namespace", "name")


class _Facts(NamedTuple):
    """What is shown of one Component."""

    state: State | None
    dependents: int
    unready: int


class ComponentMetrics(Collector, PassObserver):
    """The numbers of one operator. `limit`: for how many Components series are kept."""

    def __init__(self, limit: int, requests: Callable[[], Mapping[str, float]] = dict) -> None:
        """`requests`: how many requests the process has sent to API servers, by HTTP method."""
        self._limit = limit
        self._requests = requests
        self._facts: dict[ObjectKey, _Facts] = {}
        self._left_out: set[ObjectKey] = set()
        self._active_clients = 0
        self._passes = _counter("reconcile_total", "Passes on Components", "controller")
        self._errors = _counter("reconcile_errors_total", "Passes that failed", "controller", "type")
        self._writes = dict.fromkeys(("create", "update", "delete"), 0)
        self._created_clients = _counter("created_clients_total", "Clients that were made", "controller")
        self._clients = Gauge(
            f"{PREFIX}active_clients_total", "Clients that are in use", ("controller",), registry=None
        )
        self._passes.labels(CONTROLLER)
        self._created_clients.labels(CONTROLLER)
        self._clients.labels(CONTROLLER).set(0)

    @classmethod
    def registered(cls, metrics: Metrics) -> ComponentMetrics:
        """The numbers, added to a manager's."""
        own = cls(metrics.object_limit, metrics.requests_by_method)
        metrics.register(own)
        return own

    # ---- what happened

    def told(self, component: Component, status: ComponentStatus) -> None:
        """A pass has ended with this status."""
        self._passes.labels(CONTROLLER).inc()
        key = component.key
        if key in self._facts or len(self._facts) < self._limit:
            self._left_out.discard(key)
            unready = sum(not item.is_settled for item in status.inventory)
            self._facts[key] = _Facts(status.state, len(status.inventory), unready)
        else:
            self._leave_out(key)

    def failed(self, error: Exception) -> None:
        """A pass has failed; one that only waits for something has not."""
        if isinstance(error, ComponentFailed) and error.retriable:
            return
        self._errors.labels(CONTROLLER, _type(error)).inc()

    def carried(self, component: Component, created: int, updated: int, deleted: int) -> None:
        """Objects were written."""
        for action, count in (("create", created), ("update", updated), ("delete", deleted)):
            self._writes[action] += count

    def clients(self, active: int) -> None:
        """So many clients are in use now."""
        if active > self._active_clients:
            self._created_clients.labels(CONTROLLER).inc(active - self._active_clients)
        self._active_clients = active
        self._clients.labels(CONTROLLER).set(active)

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone, and its series with it."""
        self._facts.pop(key, None)
        self._left_out.discard(key)

    def _leave_out(self, key: ObjectKey) -> None:
        if self._limit and not self._left_out:
            _log.warning("metrics of single Components are kept for %d of them (--object-metrics-limit)", self._limit)
        self._left_out.add(key)

    # ---- what a scrape reads

    def collect(self) -> Iterator[Metric]:
        """The families as they are now."""
        for counter in (self._passes, self._errors, self._created_clients):
            yield from counter.collect()
        yield from self._clients.collect()
        yield from self._calls()
        yield from self._objects()

    def _calls(self) -> Iterator[Metric]:
        requests = self._requests()
        by_method = CounterMetricFamily(f"{PREFIX}requests", "Requests to API servers", labels=("controller", "method"))
        for method, count in sorted(requests.items()):
            by_method.add_metric((CONTROLLER, method), count)
        by_action = CounterMetricFamily(
            f"{PREFIX}operations", "What was done with objects", labels=("controller", "action")
        )
        for action, count in {"read": requests.get("GET", 0.0), **self._writes}.items():
            by_action.add_metric((CONTROLLER, action), count)
        yield by_method
        yield by_action

    def _objects(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            f"{PREFIX}component_state", "1 for the state that a Component is in", labels=(*_OBJECT, "state")
        )
        dependents = GaugeMetricFamily(f"{PREFIX}dependents_total", "Objects of a Component", labels=_OBJECT)
        unready = GaugeMetricFamily(
            f"{PREFIX}unready_dependents_total", "Objects of a Component that are not ready", labels=_OBJECT
        )
        for key, facts in self._facts.items():
            labels = _labels(key)
            for state in State:
                states.add_metric((*labels, state), float(state is facts.state))
            dependents.add_metric(labels, facts.dependents)
            unready.add_metric(labels, facts.unready)
        yield from (states, dependents, unready)
        yield GaugeMetricFamily(
            "component_operator_objects_without_metrics",
            "Components beyond the limit of metrics for single ones",
            value=len(self._left_out),
        )


def artifact_cache(metrics: Metrics) -> Callable[[Outcome], None]:
    """Counts what becomes of artifacts on disk; its series are there as soon as a folder is used."""
    tries = Counter(
        "component_operator_artifact_cache",
        "What became of artifacts in the cache on disk",
        ("outcome",),
        registry=None,
    )
    for outcome in get_args(Outcome):
        tries.labels(outcome)
    metrics.register(tries)
    return lambda outcome: tries.labels(outcome).inc()


def _labels(key: ObjectKey) -> tuple[str, ...]:
    gvk = Component.resource.gvk
    return CONTROLLER, gvk.group, gvk.kind, key.namespace, key.name


def _type(error: BaseException) -> str:
    """The HTTP status that an API server answered with, else `other`; looked for among the causes, too."""
    codes = (each.code for each in causes(error) if isinstance(each, StatusError) and each.code)
    return str(next(codes, "other"))


def _counter(name: str, help_text: str, *labels: str) -> Counter:
    return Counter(f"{PREFIX}{name}", help_text, labels, registry=None)
