"""Versions that are not used any more are reported, and deleted where the application asks for it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop

from stellwerk.api.events import Event
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_application import CAPApplication
from stellwerk.operators.cap.api_version import CAPApplicationVersion
from stellwerk.testing.eventually import eventually

VERSION = metadata_of(CAPApplicationVersion)


@pytest.fixture
async def attentive(running: Running) -> Running:
    """The operator, which looks all the time."""
    await running.stop()
    running.settings["metrics_eval_interval"] = timedelta(milliseconds=200)
    await running.start()
    return running


async def opened(shop: Shop, asked: str) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    patch = MergePatch({"metadata": {"annotations": {names.CLEANUP_ANNOTATION: asked}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, patch)
    await shop.release("2")
    await shop.tenant_shows("UpgradeCompleted")


async def reports(shop: Shop) -> list[tuple[str, str]]:
    events = (await shop.client.list(Event, shop.namespace)).items
    return [(event.action, event.regarding.name) for event in events if event.reason == "ReadyForDeletion"]


async def test_a_version_that_no_tenant_has_is_deleted(attentive: Running, shop: Shop) -> None:
    await opened(shop, "true")

    async def is_gone() -> bool:
        return await shop.client.find(VERSION, "shop-v1", shop.namespace) is None

    await eventually(is_gone)
    await attentive.has_sent_events()
    assert set(await reports(shop)) == {("EvaluateMetrics", "shop-v1")}
    assert await shop.client.find(VERSION, "shop-v2", shop.namespace) is not None


async def test_a_dry_run_reports_and_deletes_nothing(attentive: Running, shop: Shop) -> None:
    await opened(shop, "dry-run")

    async def is_reported() -> bool:
        return bool(await reports(shop))

    await eventually(is_reported)
    found = await shop.client.get(VERSION, "shop-v1", shop.namespace)
    assert not found.metadata.is_terminating
