"""The webhook double is asked by the real API server and answers as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster.testing.conftest import Api

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.servers.webhooks import (
    Accept,
    Behaviour,
    GarbageReview,
    HangingReview,
    Reject,
    ScriptedAdmissionServer,
    WebhookRule,
)


@pytest.fixture
async def webhook() -> AsyncIterator[ScriptedAdmissionServer]:
    """The double, listening."""
    async with ScriptedAdmissionServer() as made:
        yield made


def config_map(name: str) -> JsonObject:
    return {"metadata": {"name": name}}


async def test_it_is_asked_and_accepts_rejects_and_answers_nonsense(
    cluster: LocalCluster, webhook: ScriptedAdmissionServer, api: Api, namespace: str, maps: str
) -> None:
    configuration = webhook.configuration(namespace, [WebhookRule(resource="configmaps")], namespace=namespace)
    async with webhook.registered(cluster.kubeconfig, configuration, namespace):
        assert (await api.ask("POST", maps, config_map("accepted")))[0] == 201
        assert (await webhook.asked())["name"] == "accepted"
        webhook.behaviour = Reject("not on a Sunday", code=422)
        status, answer = await api.ask("POST", maps, config_map("rejected"))
        assert (status, "not on a Sunday" in str(answer["message"])) == (422, True)
        webhook.behaviour = GarbageReview()
        assert (await api.ask("POST", maps, config_map("garbage")))[0] == 500
    assert [request["name"] for request in webhook.reviewed] == ["accepted", "rejected", "garbage"]


@pytest.mark.parametrize(("policy", "expected"), [("Fail", 500), ("Ignore", 201)])
@pytest.mark.parametrize("behaviour", [HangingReview(), GarbageReview(status=500)])
async def test_a_webhook_that_fails_is_met_by_the_failure_policy(
    cluster: LocalCluster,
    webhook: ScriptedAdmissionServer,
    api: Api,
    namespace: str,
    maps: str,
    behaviour: Behaviour,
    policy: str,
    expected: int,
) -> None:
    webhook.behaviour = behaviour
    configuration = webhook.configuration(
        namespace,
        [WebhookRule(resource="configmaps")],
        namespace=namespace,
        failure_policy="Fail" if policy == "Fail" else "Ignore",
        timeout_seconds=1,
    )
    async with webhook.registered(cluster.kubeconfig, configuration, namespace):
        assert (await api.ask("POST", maps, config_map("one")))[0] == expected


async def test_a_mutating_webhook_changes_what_is_stored(
    cluster: LocalCluster, webhook: ScriptedAdmissionServer, api: Api, namespace: str, maps: str
) -> None:
    webhook.behaviour = Accept(patch=[{"op": "add", "path": "/data", "value": {"by": "webhook"}}], warnings=["mind"])
    configuration = webhook.configuration(
        namespace, [WebhookRule(resource="configmaps")], namespace=namespace, mutating=True
    )
    async with webhook.registered(cluster.kubeconfig, configuration, namespace):
        _, stored = await api.ask("POST", maps, config_map("one"))
        assert stored["data"] == {"by": "webhook"}
