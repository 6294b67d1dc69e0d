"""A call that the API server refuses is told under the reason that belongs to it, and over once it is granted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stellwerk.testing.faults import AnswerInstead, FaultProxy, always, requests
from tests.cluster.btp.beginnings import RETRY, ready
from tests.cluster.btp.charts import ModuleChart
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

REFUSED = AnswerInstead(403, message="nobody may do this now")
RECORD = "btp-manager-versions"
CLUSTER_ID, CREDENTIALS, REQUIRED = "sap-btp-operator-clusterid", "sap-btp-service-operator", "sap-btp-manager"


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator is at the end of a bad line."""
    return proxy.kubeconfig


@pytest.mark.req("R-206")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (REQUIRED, "InvalidSecret"),
        (CLUSTER_ID, "GettingSapBtpServiceOperatorClusterIdSecretFailed"),
        ("ca-server-cert", "ReconcileFailed"),
    ],
)
async def test_a_secret_that_may_not_be_read_is_named_and_read_again(
    running: Running, given: Given, then: Then, proxy: FaultProxy, name: str, reason: str
) -> None:
    await ready(running, given, then)
    await given.operand_cluster_id("cluster-one")
    await running.stop()

    with proxy.on_requests(requests("get", "secrets", name=name), REFUSED, always):
        await running.start(**RETRY)
        await then.shows("Error", reason, saying=[name])

    await then.shows("Ready", "ReconcileSucceeded")


async def other_cluster(given: Given) -> None:
    await given.required_secret(cluster_id="cluster-two")


async def other_memory(given: Given) -> None:
    await given.operand_cluster_id("cluster-of-a-former-life")


async def other_namespace(given: Given) -> None:
    await given.required_secret(credentials_namespace=await given.a_namespace("btp-credentials"))


@pytest.mark.parametrize(
    ("verb", "name", "change", "reason"),
    [
        ("patch", REQUIRED, other_cluster, "AnnotatingSecretFailed"),
        ("delete", CLUSTER_ID, other_memory, "DeletionOfOrphanedResourcesFailed"),
        ("delete", CREDENTIALS, other_namespace, "ResourceRemovalFailed"),
    ],
)
async def test_a_move_of_credentials_that_is_refused_says_at_which_step(
    running: Running,
    given: Given,
    then: Then,
    proxy: FaultProxy,
    verb: str,
    name: str,
    change: Callable[[Given], Awaitable[None]],
    reason: str,
) -> None:
    await ready(running, given, then)

    with proxy.on_requests(requests(verb, "secrets", name=name), REFUSED, always):
        await change(given)
        await then.shows("Error", reason, saying=[name])

    await then.shows("Ready", "ReconcileSucceeded")


async def test_a_record_of_versions_that_may_not_be_read_stops_a_chart(
    running: Running, given: Given, then: Then, proxy: FaultProxy, module: Module
) -> None:
    ModuleChart.of(module)
    await given.required_secret()

    with proxy.on_requests(requests("get", "configmaps", name=RECORD), REFUSED, always):
        await running.start(ModuleSource="chart", **RETRY)
        await given.btp_operator()
        await then.shows("Error", "GettingConfigMapFailed", saying=["Getting config map failed", RECORD])

    await then.shows("Ready", "ReconcileSucceeded")


async def test_pods_that_work_with_a_stale_cluster_id_are_replaced_with_the_secret_that_holds_it(
    running: Running, given: Given, then: Then
) -> None:
    await ready(running, given, then)
    before = {pod.metadata.uid for pod in await given.operand_pods()}

    await other_memory(given)

    await then.has_shown(("Processing", "ClusterIdChanged"), ("Ready", "ReconcileSucceeded"))
    await then.operand_pods_are_others_than(before)
