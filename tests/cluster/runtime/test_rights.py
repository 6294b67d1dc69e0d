"""A process asks whether it has the rights that its operator needs, and tells what is missing and what has come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.access.permission_check import CALM_SECONDS, RECHECK_SECONDS, Need, Rights, RightsCheck
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, FaultProxy, requests

RBAC = "rbac.authorization.k8s.io"
WORK = (
    Need("", "configmaps", "list", "nothing is found"),
    Need("", "configmaps", "delete", "nothing goes"),
    Need("apps", "deployments/status", "patch", "nothing is shown"),
)
HOME = Need("", "secrets", "get", "nobody may enter", at_home=True)


@dataclass
class Account:
    """Somebody whose rights a test changes. `client` is the administrator's."""

    client: Client
    user: str
    namespace: str

    async def may_everywhere(self, *rules: tuple[str, str, str]) -> None:
        """These verbs on these resources, and no others in the whole cluster."""
        await self.client.apply(ClusterRole, {"metadata": {"name": self.user}, "rules": _rules(*rules)})
        await self.client.apply(ClusterRoleBinding, {"metadata": {"name": self.user}, **self._bound("ClusterRole")})

    async def may_at_home(self, *rules: tuple[str, str, str]) -> None:
        """These verbs on these resources of its own namespace."""
        named: JsonObject = {"name": self.user, "namespace": self.namespace}
        await self.client.apply(Role, {"metadata": named, "rules": _rules(*rules)})
        await self.client.apply(RoleBinding, {"metadata": named, **self._bound("Role")})

    def _bound(self, kind: str) -> JsonObject:
        return {
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": self.user},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": self.user}],
        }


def _rules(*rules: tuple[str, str, str]) -> list[JsonValue]:
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for group, resource, verb in rules]


ALL_OF_WORK = tuple((need.group, need.resource, need.verb) for need in WORK)


@pytest.fixture
async def account(client: Client, namespace: str) -> AsyncIterator[Account]:
    """Somebody without any rights yet."""
    somebody = Account(client, f"checked-{namespace}", namespace)
    yield somebody
    await client.delete(metadata_of(ClusterRoleBinding), somebody.user)
    await client.delete(metadata_of(ClusterRole), somebody.user)


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "stellwerk.runtime.access.permission_check"):
        yield caplog


@dataclass
class Checking:
    """A check under way."""

    check: RightsCheck
    metrics: Metrics
    clock: FakeClock
    regained: list[None]

    @property
    def series(self) -> list[str]:
        """The metric's series."""
        lines = self.metrics.exposition().decode().splitlines()
        return sorted(line for line in lines if line.startswith("stellwerk_missing_rights{"))

    async def asked(self) -> None:
        """Return when a round is over."""
        await self.clock.until_sleeping()

    async def a_minute_passes(self) -> None:
        """After which the next round is due."""
        await self.clock.advance(1.2 * RECHECK_SECONDS)


@asynccontextmanager
async def checking(client: Client, *needs: Need, namespace: str = "default") -> AsyncIterator[Checking]:
    metrics, clock, regained = Metrics(), FakeClock(), list[None]()
    check = RightsCheck(
        client,
        Rights(needs, "apply the role"),
        namespace=namespace,
        metrics=metrics,
        regained=lambda: regained.append(None),
        clock=clock,
    )
    running = asyncio.create_task(check.run())
    await clock.until_sleeping()
    await clock.advance(CALM_SECONDS)
    try:
        yield Checking(check, metrics, clock, regained)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("R-206")
async def test_each_missing_right_is_a_line_that_says_what_fails_and_what_to_do_and_a_series(
    cluster: LocalCluster, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    await account.may_everywhere(("", "configmaps", "list"))
    config = ClusterConfig.load(cluster.kubeconfig_for(account.user, ("system:authenticated",)))
    async with Client.connect(config) as client:
        await may(client, account.namespace, WORK[0])
    caplog.clear()
    async with (
        Client.connect(config) as client,
        checking(client, *WORK, HOME, namespace=account.namespace) as work,
    ):
        await work.asked()
        assert work.check.missing == (*WORK[1:], HOME)
        assert caplog.messages == [
            "missing right: delete configmaps in all namespaces. Without it nothing goes. Grant it: apply the role",
            "missing right: patch deployments.apps/status in all namespaces. Without it nothing is shown. "
            "Grant it: apply the role",
            f"missing right: get secrets in namespace {account.namespace}. Without it nobody may enter. "
            "Grant it: apply the role",
        ]
        assert work.series == [
            'stellwerk_missing_rights{group="",resource="configmaps",verb="delete"} 1.0',
            'stellwerk_missing_rights{group="",resource="secrets",verb="get"} 1.0',
            'stellwerk_missing_rights{group="apps",resource="deployments/status",verb="patch"} 1.0',
        ]


@pytest.mark.req("R-206")
async def test_a_right_that_is_granted_is_noticed_within_a_minute_and_what_failed_is_tried_again(
    cluster: LocalCluster, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    config = ClusterConfig.load(cluster.kubeconfig_for(account.user, ("system:authenticated",)))
    async with (
        Client.connect(config) as client,
        checking(client, *WORK, HOME, namespace=account.namespace) as work,
    ):
        await work.asked()
        assert set(work.check.missing) == {*WORK, HOME}
        await account.may_everywhere(*ALL_OF_WORK)
        await account.may_at_home(("", "secrets", "get"))
        await may(client, account.namespace, *WORK, HOME)

        await work.a_minute_passes()
        await eventually(lambda: not work.check.missing, describe="nothing is missing")

        assert not work.series
        assert work.regained == [None]
        assert f"this right is granted now: get secrets in namespace {account.namespace}" in caplog.messages


async def may(client: Client, namespace: str, *needs: Need) -> None:
    """Return when the API server has taken notice of what was granted, which it does a moment later."""

    async def allowed() -> bool:
        async with checking(client, *needs, namespace=namespace) as work:
            await work.asked()
            return not work.check.missing

    await eventually(allowed, describe="the API server knows of the rights")


async def test_who_has_all_rights_asks_once_until_something_is_refused(cluster: LocalCluster) -> None:
    asked: list[str] = []
    config = ClusterConfig.load(cluster.kubeconfig)
    async with (
        Client.connect(config, on_request=lambda facts: asked.append(facts.resource)) as client,
        checking(client, *WORK) as work,
    ):
        await work.asked()
        assert len(asked) == len(WORK)
        await work.clock.advance(100 * RECHECK_SECONDS)
        assert len(asked) == len(WORK), "it rests"

        work.check.invalidate("pods")
        work.check.invalidate("deployments")
        await work.asked()
        assert len(asked) == len(WORK) + 1, "only what was refused is asked about"


@pytest.mark.req("R-203")
async def test_a_question_without_an_answer_is_no_missing_right_and_is_asked_again(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    reviews = requests("create", "selfsubjectaccessreviews.authorization.k8s.io")
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        Client.connect(ClusterConfig.load(proxy.kubeconfig)) as client,
        AsyncExitStack() as checks,
    ):
        with proxy.on_requests(reviews, AnswerInstead(400)):
            work = await checks.enter_async_context(checking(client, *WORK))
            await work.asked()
        assert not work.check.missing
        assert not work.series
        assert "could not be checked, they are asked about again" in caplog.text

        await work.a_minute_passes()
        await eventually(
            lambda: len([one for one in proxy.history.all(reviews) if one.status == 201]) == len(WORK),
            on=proxy.history.changed,
        )
        assert not work.check.missing
