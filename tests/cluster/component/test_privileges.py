"""An operator with strict tenancy says so at its start when it has far more rights than it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import HasMetadata
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.settings import Mode
from stellwerk.operators.component.targets.privileges import METRIC, REASON, RETRY_SECONDS, PrivilegeCheck
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, FaultProxy, requests


class Sink:
    """Keeps Events."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        self.sent.append((obj.metadata.name, notice.reason))


@asynccontextmanager
async def checking(client: Client, tenancy: Mode = Mode.STRICT) -> AsyncIterator[tuple[Sink, Metrics, FakeClock]]:
    sink, metrics, clock = Sink(), Metrics(), FakeClock()
    check = PrivilegeCheck(client, "default", events=sink, metrics=metrics, clock=clock, tenancy=tenancy)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(check.run(), name="check")
        yield sink, metrics, clock
        check.stop()


def shown(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value(METRIC)


@pytest.mark.req("R-509")
async def test_a_cluster_admin_is_warned_by_log_event_and_metric(
    admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stellwerk.operators.component.targets.privileges"):
        async with checking(admin) as (sink, metrics, _):
            await eventually(lambda: sink.sent == [("default", REASON)])
            assert shown(metrics) == 1
    assert "--tenancy=strict and is cluster-admin" in caplog.text


async def test_in_compatible_tenancy_the_log_states_that_the_operator_is_cluster_admin(
    admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stellwerk.operators.component.targets.privileges"):
        async with checking(admin, Mode.COMPATIBLE) as (sink, metrics, _):
            await eventually(lambda: "so is every user that may create a Component" in caplog.text)
            assert (sink.sent, shown(metrics)) == ([], 0.0)


@pytest.mark.req("R-509")
async def test_an_operator_of_few_rights_is_not_and_silence_is_no_answer(
    component_cluster: LocalCluster, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    reviews = requests("create", "selfsubjectaccessreviews.authorization.k8s.io")
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(component_cluster.kubeconfig_for("modest", [])))
        modest = await stack.enter_async_context(Client.connect(ClusterConfig.load(proxy.kubeconfig)))
        stack.enter_context(caplog.at_level(logging.WARNING, "stellwerk.operators.component.targets.privileges"))
        with proxy.on_requests(reviews, AnswerInstead(400)):
            sink, metrics, clock = await stack.enter_async_context(checking(modest))
            await clock.until_sleeping()
        before = proxy.history.count()
        await clock.advance(RETRY_SECONDS)
        await eventually(lambda: any(one.is_over for one in proxy.history.all()[before:]), describe="it asks again")
        assert (sink.sent, shown(metrics), caplog.text) == ([], 0.0, "")
