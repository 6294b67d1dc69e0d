"""Names, labels and buckets that dashboards for controller-runtime rely on."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import Counter
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from stellwerk.runtime.telemetry.metrics import QUEUE_BUCKETS, Metrics
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls


def families(metrics: Metrics) -> dict[str, set[str]]:
    """Each family of a scrape with the labels that its series carry."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def busy() -> Metrics:
    metrics = Metrics()
    metrics.controller("btpoperator", workers=2)
    metrics.reconciled("btpoperator", "error", 0.3)
    queue = metrics.queue("btpoperator", running=lambda: [2.0, 5.0])
    queue.added(1)
    queue.taken(0, 0.02)
    queue.finished(0.3)
    queue.retried()
    metrics.requested("GET", "10.0.0.1:443", 200)
    metrics.leading("operator", True)
    return metrics


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("controller_runtime_reconcile_total", {"controller", "result"}),
        ("controller_runtime_reconcile_errors_total", {"controller"}),
        ("controller_runtime_terminal_reconcile_errors_total", {"controller"}),
        ("controller_runtime_reconcile_panics_total", {"controller"}),
        ("controller_runtime_reconcile_time_seconds_bucket", {"controller", "le"}),
        ("controller_runtime_max_concurrent_reconciles", {"controller"}),
        ("controller_runtime_active_workers", {"controller"}),
        ("workqueue_depth", {"name", "controller"}),
        ("workqueue_adds_total", {"name", "controller"}),
        ("workqueue_retries_total", {"name", "controller"}),
        ("workqueue_queue_duration_seconds_bucket", {"name", "controller", "le"}),
        ("workqueue_work_duration_seconds_bucket", {"name", "controller", "le"}),
        ("workqueue_unfinished_work_seconds", {"name", "controller"}),
        ("workqueue_longest_running_processor_seconds", {"name", "controller"}),
        ("rest_client_requests_total", {"code", "host", "method"}),
        ("leader_election_master_status", {"name"}),
        ("process_resident_memory_bytes", set[str]()),
        ("stellwerk_tasks", set[str]()),
        ("python_info", {"implementation", "major", "minor", "patchlevel", "version"}),
    ],
)
def test_the_series_are_those_of_controller_runtime(name: str, labels: set[str]) -> None:
    assert families(busy())[name] == labels


def test_the_originals_have_no_created_series() -> None:
    assert not [name for name in families(busy()) if name.endswith("_created")]


def test_every_result_is_there_from_the_start() -> None:
    metrics = Metrics()
    metrics.controller("btpoperator", workers=1)
    for result in ("success", "error", "requeue", "requeue_after"):
        labels = {"controller": "btpoperator", "result": result}
        assert metrics.registry.get_sample_value("controller_runtime_reconcile_total", labels) == 0


def test_work_in_progress_is_read_at_the_scrape() -> None:
    metrics = busy()
    labels = {"name": "btpoperator", "controller": "btpoperator"}
    assert metrics.registry.get_sample_value("workqueue_unfinished_work_seconds", labels) == 7
    assert metrics.registry.get_sample_value("workqueue_longest_running_processor_seconds", labels) == 5


def test_buckets_of_a_queue_go_from_ten_nanoseconds_to_a_thousand_seconds() -> None:
    assert QUEUE_BUCKETS[0] == 1e-8
    assert QUEUE_BUCKETS[-1] == 1000
    assert len(QUEUE_BUCKETS) == 12


def test_two_managers_do_not_add_to_each_other() -> None:
    one, two = busy(), Metrics()
    labels = {"controller": "btpoperator", "result": "error"}
    assert one.registry.get_sample_value("controller_runtime_reconcile_total", labels) == 1
    assert two.registry.get_sample_value("controller_runtime_reconcile_total", labels) is None


def test_an_operator_adds_its_own_and_a_taken_name_is_refused() -> None:
    metrics = Metrics()
    own = Counter("btpmanager_certs_regenerations_total", "Certificates made anew", registry=None)
    metrics.register(own)
    own.inc()
    assert b"btpmanager_certs_regenerations_total 1.0" in metrics.exposition()
    with pytest.raises(ValueError, match="btpmanager_certs_regenerations"):
        metrics.register(own)


def test_no_answer_is_told_apart_from_an_http_code() -> None:
    metrics = Metrics()
    metrics.requested("GET", "host", 0)
    assert b'rest_client_requests_total{code="<error>",host="host",method="GET"} 1.0' in metrics.exposition()


def test_the_series_of_a_cluster_that_is_gone_vanish() -> None:
    metrics = Metrics()
    metrics.requested("GET", "gone:443", 200)
    metrics.requested("GET", "here:443", 200)
    metrics.forget_host("gone:443")
    text = metrics.exposition().decode()
    assert "gone:443" not in text
    assert 'host="here:443"' in text


async def test_tasks_are_counted_where_there_is_a_loop() -> None:
    def counted() -> float:
        return next(
            family.samples[0].value
            for family in text_string_to_metric_families(Metrics().exposition().decode())
            if family.name == "stellwerk_tasks"
        )

    before = counted()
    waiting = asyncio.create_task(asyncio.Event().wait())
    assert counted() == before + 1
    waiting.cancel()
    assert await asyncio.to_thread(counted) == 0


@pytest.mark.req("R-512")
def test_a_reading_that_fails_costs_a_scrape_only_its_own_series() -> None:
    class Broken(Collector):
        def describe(self) -> list[Metric]:
            return []

        def collect(self) -> list[Metric]:
            raise KeyError("gone")

    def fails() -> float:
        raise RecursionError

    metrics = busy()
    metrics.register(Broken())
    metrics.cache("broken", fails)
    metrics.cache("well", lambda: 3.0)
    metrics.certificate("broken", fails)
    page = metrics.exposition().decode()
    assert 'stellwerk_cache_age_seconds{kind="well"} 3.0' in page
    assert 'stellwerk_cache_age_seconds{kind="broken"}' not in page
    assert "controller_runtime_reconcile_total" in page
    assert metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "metrics"})


@pytest.mark.req("R-412")
async def test_a_scrape_of_a_busy_operator_does_not_stall_the_loop() -> None:
    metrics = busy()
    for number in range(500):
        metrics.cache(f"kind-{number}", lambda: 1.0)
        metrics.requested("GET", f"10.0.0.{number}:443", 200)
    with measured_stalls() as stalls:
        metrics.exposition()
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
