"""The reference page has every metric that the code registers, with its type and labels, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.registry import Collector

from stellwerk.operators.btp.metrics import BtpMetrics
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.subscription.callbacks.metrics import CallbackMetrics
from stellwerk.operators.cap.subscription.metrics import RequestMetrics
from stellwerk.operators.component.observers.flux_notifications import Receiver
from stellwerk.operators.component.observers.metrics import ComponentMetrics, artifact_cache
from stellwerk.operators.component.settings import Mode
from stellwerk.operators.component.targets.privileges import PrivilegeCheck
from stellwerk.operators.kyma.fleet.figures import FleetFigures
from stellwerk.operators.kyma.kyma.purge import PurgeMetrics
from stellwerk.operators.kyma.metrics import KymaMetrics, Listings
from stellwerk.operators.kyma.settings import FipsMode
from stellwerk.operators.kyma.watcher.listener import ListenerMetrics
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.telemetry.metrics import Metrics

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
_ROW = re.compile(r"^\| `([a-z_]+)(?:\{([a-z_,]*)\})?` \| (counter|gauge|histogram) \| (.+) \|$", re.MULTILINE)
_OF_THE_LIBRARY = ("process_", "python_")


class Unused:
    """What a collector needs to exist, and not to be read."""


def everything() -> Metrics:
    """A registry with what any of the operators registers."""
    metrics = Metrics()
    BtpMetrics(metrics).show(dict, dict)
    CapMetrics(metrics, detailed=True)
    RequestMetrics(metrics)
    CallbackMetrics(metrics, lambda: 0, lambda: 0)
    metrics.queue("CAPTenant", running=lambda: ())
    metrics.requested("GET", "api:443", 200)
    ComponentMetrics.registered(metrics)
    artifact_cache(metrics)
    Receiver("http://127.0.0.1:9", instance="x", clock=SystemClock(), metrics=metrics)
    KymaMetrics(metrics, Listings(kymas=tuple, manifests=tuple, release_metas=tuple), FipsMode.OFF)
    PurgeMetrics(metrics)
    ListenerMetrics(metrics)
    metrics.register(FleetFigures(Store(), Store(), Store()))
    unused: object = Unused()
    PrivilegeCheck(unused, "x", events=unused, metrics=metrics, clock=SystemClock(), tenancy=Mode.STRICT)  # type: ignore[arg-type]
    return metrics


def families(collector: Collector) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, type and labels of what a collector shows, also where it has no series yet."""
    inner = getattr(collector, "_collector", collector)
    kept = [inner] if hasattr(inner, "_labelnames") else []
    parts: dict[str, tuple[str, ...]] = {
        part._name: part._labelnames for part in vars(inner).values() if hasattr(part, "_labelnames")
    }
    for family in kept or inner.collect():
        own = vars(family)
        kind = own.get("_type") or own.get("type") or vars(type(family))["_type"]
        name = own.get("_name") or own["name"]
        seen = {label for sample in own.get("samples", ()) for label in sample.labels} - {"le"}
        labels: tuple[str, ...] = tuple(parts.get(name) or vars(family).get("_labelnames") or seen)
        if not name.startswith(_OF_THE_LIBRARY):
            yield name, kind, tuple(sorted(labels))


def registered() -> dict[str, tuple[str, tuple[str, ...]]]:
    metrics = everything()
    collectors = metrics.registry._collector_to_names
    return {
        f"{name}_total" if kind == "counter" and name not in metrics._plain_counters else name: (kind, labels)
        for one in collectors
        for name, kind, labels in families(one)
    }


def test_the_page_has_every_metric_with_its_type_and_labels() -> None:
    shown = {
        name: (kind, tuple(sorted(filter(None, labels.split(","))))) for name, labels, kind, _ in _ROW.findall(PAGE)
    }
    code = registered()
    assert len(code) > 40
    assert shown == code
