"""The metrics of the CAP Operator have the names, types and labels of the original."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap.given import operation, tenant, version

from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation, OperationState
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.telemetry.metrics import Metrics

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
LABELS = {"sme.sap.com/app-identifier-hash": "abc"}


def made(*, detailed: bool = False) -> tuple[Metrics, CapMetrics]:
    metrics = Metrics()
    return metrics, CapMetrics(metrics, detailed=detailed)


def lines(metrics: Metrics) -> list[str]:
    return [
        line for line in metrics.exposition().decode().splitlines() if line.startswith(("cap_op_", "# TYPE cap_op_"))
    ]


def of_app() -> CAPTenantOperation:
    found = operation()
    created = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = msgspec.structs.replace(found.metadata, labels=LABELS, creation_timestamp=created)
    return msgspec.structs.replace(found, metadata=metadata)


def test_counters_have_no_suffix_as_in_the_original() -> None:
    metrics, counts = made()
    counts.ended(of_app(), OperationState.COMPLETED, NOW)
    counts.failed(tenant(), False)
    found = lines(metrics)
    assert "# TYPE cap_op_tenant_operations counter" in found
    assert 'cap_op_tenant_operations{app="abc",operation="provisioning"} 1.0' in found
    assert 'cap_op_reconcile_errors{kind="CAPTenant",name="acme",namespace="shop"} 1.0' in found
    assert not [line for line in found if line.startswith("cap_op_panics{")]
    assert not [line for line in found if "failures" in line or "operation_duration" in line]


def test_details_have_a_series_for_each_tenant_which_goes_with_it() -> None:
    metrics, counts = made(detailed=True)
    counts.ended(of_app(), OperationState.FAILED, NOW)
    counts.routed(version(), failed=True)
    found = lines(metrics)
    assert 'cap_op_last_tenant_operation_duration_seconds{app="abc",tenant_id="acme-id"} 60.0' in found
    failure = 'operation="provisioning",tenant_id="acme-id"} 1.0'
    assert [line for line in found if line.startswith("cap_op_tenant_operation_failures{") and line.endswith(failure)]
    assert [line for line in found if line.startswith("cap_op_service_operation_failures{")]

    gone = msgspec.structs.replace(tenant(), metadata=msgspec.structs.replace(tenant().metadata, labels=LABELS))
    for obj in (of_app(), gone, version()):
        counts.on_change(Delta(obj, None))
    left = lines(metrics)
    assert not [line for line in left if 'name="' in line or "tenant_id" in line]


def test_a_tenant_takes_no_series_of_another_application_along() -> None:
    metrics, counts = made(detailed=True)
    counts.ended(of_app(), OperationState.COMPLETED, NOW)
    other = tenant()
    labels = {"sme.sap.com/app-identifier-hash": "other"}
    other = msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, labels=labels))
    counts.on_change(Delta(other, None))
    assert 'cap_op_last_tenant_operation_duration_seconds{app="abc",tenant_id="acme-id"} 60.0' in lines(metrics)


def test_histograms_have_the_buckets_of_the_original() -> None:
    metrics, _ = made()
    metrics.queue("CAPTenant", running=lambda: ()).added(1)
    buckets = [line for line in lines(metrics) if line.startswith("cap_op_queue_latency_seconds_bucket")]
    bounds = [line.partition('le="')[2].partition('"')[0] for line in buckets]
    assert bounds == ["1e-08", "1e-07", "1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1.0", "10.0", "+Inf"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("queue_depth", "gauge"),
        ("queue_unfinished_work_seconds", "gauge"),
        ("queue_longest_running_processor_seconds", "gauge"),
        ("queue_adds_total", "counter"),
        ("queue_retries_total", "counter"),
        ("queue_latency_seconds", "histogram"),
        ("queue_work_duration_seconds", "histogram"),
        ("rest_client_requests_total", "counter"),
    ],
)
def test_queues_and_requests_are_shown_under_the_names_of_the_original(name: str, kind: str) -> None:
    metrics, _ = made()
    metrics.queue("CAPTenant", running=lambda: ()).added(1)
    metrics.requested("GET", "api:443", 200)
    found = lines(metrics)
    assert f"# TYPE cap_op_{name} {kind}" in found
    series = next(line for line in found if line.startswith(f"cap_op_{name.removesuffix('_seconds')}"))
    assert 'name="CAPTenant"' in series or 'host="api:443"' in series
    assert "controller=" not in series
