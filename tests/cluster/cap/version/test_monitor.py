"""Versions that are not used any more are reported, and deleted where the application asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, server
from tests.cluster.cap.version.metrics import Metrics, metrics

from stellwerk.api.events import Event
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.eventually import eventually

VERSION = metadata_of(CAPApplicationVersion)


@pytest.fixture
async def measured() -> AsyncIterator[Metrics]:
    """What Prometheus answers."""
    async with metrics() as made:
        yield made


@pytest.fixture
async def attentive(running: Running, measured: Metrics) -> Running:
    """The operator, which looks all the time."""
    await running.stop()
    running.settings["metrics_eval_interval"] = timedelta(milliseconds=200)
    running.settings["prometheus_address"] = measured.address
    await running.start()
    return running


async def opened(shop: Shop, asked: str, *workloads: JsonObject) -> None:
    await shop.open(*workloads, host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    patch = MergePatch({"metadata": {"annotations": {names.CLEANUP_ANNOTATION: asked}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, patch)
    await shop.release("2")
    await shop.tenant_shows("UpgradeCompleted")


async def reports(shop: Shop) -> list[tuple[str, str]]:
    events = (await shop.client.list(Event, shop.namespace)).items
    return [(event.action, event.regarding.name) for event in events if event.reason == "ReadyForDeletion"]


@pytest.mark.req("CAP-53")
async def test_a_version_that_no_tenant_has_is_deleted(attentive: Running, shop: Shop) -> None:
    await opened(shop, "true")

    async def is_gone() -> bool:
        return await shop.client.find(VERSION, "shop-v1", shop.namespace) is None

    await eventually(is_gone)
    await attentive.has_sent_events()
    assert set(await reports(shop)) == {("EvaluateMetrics", "shop-v1")}
    assert await shop.client.find(VERSION, "shop-v2", shop.namespace) is not None


@pytest.mark.req("CAP-53")
async def test_a_dry_run_reports_and_deletes_nothing(attentive: Running, shop: Shop) -> None:
    await opened(shop, "dry-run")

    async def is_reported() -> bool:
        return bool(await reports(shop))

    await eventually(is_reported)
    found = await shop.client.get(VERSION, "shop-v1", shop.namespace)
    assert not found.metadata.is_terminating


@pytest.mark.req("CAP-53")
@pytest.mark.parametrize("asked", ["true", "dry-run"])
async def test_a_version_with_metrics_stays_until_they_show_that_it_is_idle(
    attentive: Running, shop: Shop, measured: Metrics, asked: str
) -> None:
    rule: JsonObject = {
        "name": "current_sessions",
        "type": "Gauge",
        "calculationPeriod": "30m",
        "thresholdValue": "0.1",
    }
    measured.samples = [2.0]
    app = server("app", "Router", monitoring={"deletionRules": {"metrics": [rule]}})
    await opened(shop, asked, job("mtxs"), app)
    await is_asked_again(measured)
    series = f'current_sessions{{job="shop-v1-app-svc",namespace="{shop.namespace}"}}[30m]'
    assert set(measured.queries) == {f"sum(avg_over_time({series}))"}
    await attentive.has_sent_events()
    assert await reports(shop) == []
    assert not (await shop.client.get(VERSION, "shop-v1", shop.namespace)).metadata.is_terminating

    measured.samples = [0.1]

    async def is_reported() -> bool:
        return ("EvaluateMetrics", "shop-v1") in await reports(shop)

    async def is_gone() -> bool:
        return await shop.client.find(VERSION, "shop-v1", shop.namespace) is None

    await eventually(is_reported)
    if asked == "true":
        await eventually(is_gone)
    else:
        await is_asked_again(measured)
        assert not await is_gone()
    assert await shop.client.find(VERSION, "shop-v2", shop.namespace) is not None


async def is_asked_again(measured: Metrics) -> None:
    """The operator has made a further look, from its beginning to its end."""
    looks = len(measured.queries) + 2
    await eventually(lambda: len(measured.queries) > looks, on=measured.asked, describe="it asks again")
