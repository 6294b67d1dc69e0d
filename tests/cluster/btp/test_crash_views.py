"""What the operator sees may be late, doubled, or old, and it may be asked to end at any moment: nothing goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.api.coordination import Lease
from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import LEASE_NAME, BtpOperator
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    READS,
    WATCHES,
    Delay,
    Drop,
    Hold,
    OlderView,
    Repeat,
    events,
    nth,
    requests,
)
from stellwerk.testing.faults.upstream import Upstream
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import LASTING_WRITES, Run
from tests.cluster.btp.given import Given
from tests.cluster.btp.process import HISTORY, SELECTIONS, Operator, end_state, inputs, operator, same_end
from tests.cluster.btp.then import Then

CONVERGED_SECONDS = 60.0


@pytest.fixture
async def behind_proxy(
    btp_cluster: LocalCluster, given: Given, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Operator]:
    """The operator as a process, not started."""
    await inputs(given)
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        yield running


async def is_ready(then: Then) -> None:
    await then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)


async def delete(given: Given) -> None:
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")


async def fresh(cluster: LocalCluster, given: Given, then: Then, masks: Masks | None = None) -> tuple[Run, Run]:
    """What is there after a fresh deployment, and what after its deletion. Tried out once for all tests."""
    if str(masks) not in _FRESH:
        await given.btp_operator()
        await is_ready(then)
        ready = await end_state(cluster, masks=masks)
        await delete(given)
        await then.is_gone()
        _FRESH[str(masks)] = ready, await end_state(cluster, masks=masks)
    return _FRESH[str(masks)]


_FRESH: dict[str, tuple[Run, Run]] = {}


async def identities(cluster: LocalCluster) -> dict[str, str]:
    """Each object's identity, by kind and name."""
    found: dict[str, str] = {}
    async with Upstream(cluster.kubeconfig) as upstream:
        for one in SELECTIONS:
            for obj in await upstream.objects(one.resource, one.namespace, one.labels):
                metadata = obj["metadata"]
                assert isinstance(metadata, dict)
                found[f"{obj['kind']} {metadata['name']}"] = str(metadata["uid"])
    return found


@pytest.mark.req("R-103")
async def test_events_that_come_twice_change_nothing(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then
) -> None:
    await behind_proxy.process.start()
    ready, empty = await fresh(btp_cluster, given, then)

    with behind_proxy.proxy.on_events(events(), Repeat(2)):
        await given.btp_operator()
        await is_ready(then)
        await eventually(lambda: same_end(btp_cluster, ready))
        await delete(given)
        await then.is_gone(within=CONVERGED_SECONDS)
    await eventually(lambda: same_end(btp_cluster, empty))


@pytest.mark.req("R-103")
@pytest.mark.parametrize(
    ("resource", "merge"),
    [
        pytest.param("btpoperators.operator.kyma-project.io", False, id="the CR, late"),
        pytest.param("btpoperators.operator.kyma-project.io", True, id="the CR, merged"),
        pytest.param("secrets", True, id="Secrets, merged"),
        pytest.param("configmaps", False, id="ConfigMaps, late"),
        pytest.param("deployments.apps", False, id="the Deployment, late"),
        pytest.param("customresourcedefinitions.apiextensions.k8s.io", True, id="CRDs, merged"),
    ],
)
async def test_events_of_a_kind_that_come_late_change_nothing(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then, resource: str, merge: bool
) -> None:
    await behind_proxy.process.start()
    ready, empty = await fresh(btp_cluster, given, then)

    hold = Hold(merge=merge)
    behind_proxy.proxy.on_events(events("", resource), hold)
    await given.btp_operator()
    await hold.caught()
    await behind_proxy.proxy.history.settled()
    hold.release()
    await is_ready(then)
    await eventually(lambda: same_end(btp_cluster, ready))

    late = Hold(merge=merge)
    behind_proxy.proxy.on_events(events("", resource), late)
    await delete(given)
    await late.caught()
    await behind_proxy.proxy.history.settled()
    late.release()
    await then.is_gone(within=CONVERGED_SECONDS)
    await eventually(lambda: same_end(btp_cluster, empty))
    behind_proxy.process.assert_clean_log()


@pytest.mark.req("R-104")
async def test_after_a_restart_onto_an_older_view_nothing_of_the_present_module_is_deleted(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then
) -> None:
    await behind_proxy.process.start()
    await given.btp_operator()
    await is_ready(then)
    await behind_proxy.process.kill()
    await delete(given)
    leaving = await given.client.get(BtpOperator, "btpoperator", "kyma-system")
    await behind_proxy.process.start()
    await then.is_gone(within=CONVERGED_SECONDS)
    await given.btp_operator()
    await is_ready(then)
    await behind_proxy.process.kill()
    before = await identities(btp_cluster)
    behind_proxy.proxy.history.clear()

    older = OlderView(leaving.metadata.resource_version)
    behind_proxy.proxy.on_requests(READS | WATCHES, older)
    await behind_proxy.process.start()
    await behind_proxy.proxy.history.write_seen(1, LASTING_WRITES)
    await behind_proxy.proxy.history.settled()
    assert await identities(btp_cluster) == before

    older.heal()
    await eventually(lambda: healed(behind_proxy), within=CONVERGED_SECONDS, describe="the operator is idle")
    await is_ready(then)
    assert await identities(btp_cluster) == before
    assert (await given.client.get(BtpOperator, "btpoperator", "kyma-system")).metadata.finalizers


def healed(running: Operator) -> bool:
    """Whether the operator has heard of the present CR, on a watch that was silent before."""
    watches = running.proxy.history.all(requests("watch", "btpoperators.operator.kyma-project.io"))
    return any(exchange.arrived for exchange in watches)


@pytest.mark.req("R-105")
async def test_a_cr_made_again_while_we_were_away_is_a_new_one(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then
) -> None:
    await behind_proxy.process.start()
    ready, _ = await fresh(btp_cluster, given, then)
    old = await given.btp_operator()
    await is_ready(then)
    await behind_proxy.process.kill()
    await delete(given)
    patch = MergePatch({"metadata": {"finalizers": None}})
    await given.client.patch(metadata_of(BtpOperator), "btpoperator", "kyma-system", patch)
    await then.is_gone()

    new = await given.btp_operator()
    await behind_proxy.process.start()
    await is_ready(then)

    await eventually(lambda: same_end(btp_cluster, ready), describe="the module as after a fresh deployment")
    present = await given.client.get(BtpOperator, "btpoperator", "kyma-system")
    assert present.metadata.uid == new.metadata.uid != old.metadata.uid
    assert not present.metadata.is_terminating


@pytest.mark.req("R-107")
@pytest.mark.parametrize("key", ["clientid", "cluster_id", "credentials_namespace"])
async def test_a_secret_that_is_changed_and_changed_back_leaves_what_a_fresh_deployment_has(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then, key: str
) -> None:
    other = await given.a_namespace("btp-elsewhere")
    await behind_proxy.process.start()
    ready, _ = await fresh(btp_cluster, given, then, HISTORY)
    await given.btp_operator()
    await is_ready(then)

    # The first write after the change is held up until the change is taken back.
    changed = other if key == "credentials_namespace" else "changed"
    clock, history = FakeClock(), behind_proxy.proxy.history
    with behind_proxy.proxy.on_requests(LASTING_WRITES, Delay(1.0, clock=clock), nth(1)):
        history.clear()
        await given.required_secret(labelled=True, without=(), **{key: changed})
        await history.seen(1, LASTING_WRITES)
        await given.required_secret()
        await clock.until_sleeping()
        await clock.advance(1.0)
        await history.write_seen(1, LASTING_WRITES)  # until then all is as it was before, and looks like the end

    await eventually(lambda: same_end(btp_cluster, ready, HISTORY), within=CONVERGED_SECONDS, describe="as fresh")
    left = await given.client.find(metadata_of(Secret), "sap-btp-service-operator", other)
    assert left is None, "the credentials of the namespace that was asked for in between are gone"


@pytest.mark.req("R-303")
async def test_asked_to_end_at_any_write_it_gives_its_lease_back_in_time_and_the_next_one_goes_on(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> None:
    await inputs(given)
    await given.client.delete(Lease, LEASE_NAME, "kyma-system")  # one that was killed before may still hold it
    async with operator(btp_cluster, tmp_path, "--leader-elect", nursery=nursery) as running:
        await given.btp_operator()
        for number in (1, 1, 1, 4, 8, 5, 1, 1):
            running.proxy.history.clear()
            with running.proxy.on_requests(LASTING_WRITES, Delay(0.2), nth(number)):
                await running.process.start(awaits_readiness=False)
                await running.proxy.history.seen(number, LASTING_WRITES)
                assert await running.process.terminate(within=10) == 0
            lease = await given.client.get(Lease, LEASE_NAME, "kyma-system")
            assert not lease.spec.holder_identity, running.process.log_text()

        await running.process.start()
        await is_ready(then)
        running.process.assert_clean_log()


@pytest.mark.req("R-303")
async def test_asked_to_end_while_the_api_server_does_not_answer_it_ends_in_time(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> None:
    await inputs(given)
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        running.proxy.on_requests(LASTING_WRITES, Drop())
        await given.btp_operator()
        await running.proxy.history.seen(1, LASTING_WRITES)

        # It stops waiting after six seconds; a call that is not given up would last a minute.
        await running.process.terminate(within=25)
