"""Identities in the operator's own cluster: none may be the operator where that is refused, and few are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.operators.component.errors import ServiceAccountRequired
from stellwerk.operators.component.settings import Mode, Settings
from stellwerk.operators.component.targets.seals import OPERATOR
from stellwerk.operators.component.targets.targets import MOST_ACCOUNTS, Targets
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock


@pytest.fixture
async def home() -> AsyncIterator[Cluster]:
    async with Client.connect(ClusterConfig(server="https://127.0.0.1:1")) as client:
        yield Cluster(client, clock=FakeClock())


def targets(home: Cluster, mode: Mode, clients: list[int] | None = None) -> Targets:
    return Targets(
        home,
        connect=Client.connect,
        wake=lambda label: None,
        clock=FakeClock(),
        settings=Settings(tenancy=mode),
        border=Border(Metrics(), FakeClock()),
        on_client=clients.append if clients is not None else lambda active: None,
    )


@pytest.mark.req("R-509")
async def test_strict_tenancy_has_no_target_that_acts_as_the_operator(home: Cluster) -> None:
    with pytest.raises(ServiceAccountRequired):
        targets(home, Mode.STRICT).local(None)
    tenant = targets(home, Mode.STRICT).local(ActingAccount("shop", "deployer"))
    assert tenant.identity == tenant.acts_as == "system:serviceaccount:shop:deployer"
    assert targets(home, Mode.COMPATIBLE).local(None).identity == OPERATOR


@pytest.mark.req("R-411")
async def test_accounts_that_come_and_go_leave_a_bounded_number_of_targets(home: Cluster) -> None:
    clients = list[int]()
    local = targets(home, Mode.STRICT, clients)
    first = local.local(ActingAccount("shop", "first"))
    for number in range(2 * MOST_ACCOUNTS):
        local.local(ActingAccount("shop", f"a{number}"))
        assert local.local(ActingAccount("shop", "first")) is first
    assert max(clients) == MOST_ACCOUNTS
    assert local.local(ActingAccount("shop", "a1")).kinds is first.kinds
