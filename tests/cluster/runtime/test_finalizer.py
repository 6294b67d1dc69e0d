"""Our finalizer comes and goes; those of others are never touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.cluster.runtime.example_kind import Lamp, lamp

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Busy, Conflict, Invalid, NotFound
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.control import finalizer
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.faults import AnswerInstead, FaultProxy, RecordedRequest, first, requests
from stellwerk.testing.faults.reply import Reply

OURS, THEIRS = "engine.test/ours", "engine.test/theirs"


async def hold(client: Client, namespace: str, *finalizers: str) -> Lamp:
    return await client.create(Lamp, lamp("hall", namespace, finalizers=[*finalizers]))


async def free(client: Client, namespace: str) -> None:
    """Let the lamp go, so that the namespace can end."""
    await client.patch(Lamp, "hall", namespace, MergePatch({"metadata": {"finalizers": None}}))


async def test_it_is_put_on_once_and_beside_others(client: Client, namespace: str) -> None:
    made = await hold(client, namespace, THEIRS)
    held = await finalizer.add(client, made, OURS)
    assert held.metadata.finalizers == (THEIRS, OURS)
    assert await finalizer.add(client, held, OURS) is held
    await free(client, namespace)


async def test_only_ours_is_taken_off(client: Client, namespace: str) -> None:
    made = await hold(client, namespace, THEIRS, OURS)
    left = await finalizer.remove(client, made, OURS)
    assert left is not None
    assert left.metadata.finalizers == (THEIRS,)
    assert await finalizer.remove(client, left, OURS) is left
    await free(client, namespace)


async def test_a_finalizer_that_others_add_meanwhile_survives(client: Client, namespace: str) -> None:
    stale = await hold(client, namespace, OURS)
    await client.patch(Lamp, "hall", namespace, MergePatch({"metadata": {"finalizers": [OURS, THEIRS]}}))
    left = await finalizer.remove(client, stale, OURS)
    assert left is not None
    assert left.metadata.finalizers == (THEIRS,)
    await free(client, namespace)


async def test_a_change_of_something_else_meanwhile_costs_no_further_request(
    client: Client, namespace: str, audit: AuditLog
) -> None:
    stale = await hold(client, namespace, THEIRS, OURS)
    await client.patch(Lamp, "hall", namespace, MergePatch({"spec": {"lit": True}}))
    audit.mark()
    left = await finalizer.remove(client, stale, OURS)
    assert left is not None
    assert (left.metadata.finalizers, left.spec.lit) == ((THEIRS,), True)
    assert [entry.verb for entry in audit.entries(lambda entry: entry.namespace == namespace)] == ["patch"]
    await free(client, namespace)


async def test_a_refusal_that_has_another_cause_is_raised_at_once(
    client: Client, namespace: str, proxy: FaultProxy
) -> None:
    made = await hold(client, namespace, OURS)
    refused = AnswerInstead(422, message="spec.lit: is not what it was")
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig), field_manager="engine-test") as behind:
        patches = requests("patch", Lamp.resource.group_resource)
        with proxy.on_requests(patches, refused, first(1)), pytest.raises(Invalid, match="is not what it was"):
            await finalizer.remove(behind, made, OURS)
    await free(client, namespace)


class Meddling:
    """Another client changes the finalizers right before each patch arrives."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def meet(self, request: RecordedRequest, proceed: Callable[[RecordedRequest], Awaitable[Reply]]) -> Reply:
        finalizers: JsonObject = {"finalizers": [OURS, f"{THEIRS}-{request.number}"]}
        await self._client.patch(Lamp, "hall", self._namespace, MergePatch({"metadata": finalizers}))
        return await proceed(request)


async def test_finalizers_that_another_client_changes_each_time_are_a_conflict_in_the_end(
    client: Client, namespace: str, proxy: FaultProxy
) -> None:
    made = await hold(client, namespace, OURS)
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig), field_manager="engine-test") as behind:
        patches = requests("patch", Lamp.resource.group_resource)
        with proxy.on_requests(patches, Meddling(client, namespace)) as rule, pytest.raises(Busy, match="another"):
            await finalizer.remove(behind, made, OURS)
    assert rule.fired == 5
    await free(client, namespace)


async def test_putting_it_on_a_changed_object_is_a_conflict(client: Client, namespace: str) -> None:
    stale = await hold(client, namespace)
    await client.patch(Lamp, "hall", namespace, MergePatch({"metadata": {"finalizers": [THEIRS]}}))
    with pytest.raises(Conflict):
        await finalizer.add(client, stale, OURS)
    await free(client, namespace)


async def test_a_terminating_object_gets_none_and_can_lose_ours(client: Client, namespace: str) -> None:
    made = await hold(client, namespace, THEIRS, OURS)
    await client.delete(Lamp, "hall", namespace)
    ending = await client.get(Lamp, "hall", namespace)
    assert await finalizer.add(client, ending, "engine.test/late") is ending
    left = await finalizer.remove(client, made, OURS)
    assert left is not None
    assert left.metadata.finalizers == (THEIRS,)
    await free(client, namespace)
    assert await client.find(Lamp, "hall", namespace) is None


@pytest.mark.req("R-105")
async def test_an_object_that_is_gone_or_replaced_is_left_alone(client: Client, namespace: str) -> None:
    old = await hold(client, namespace, OURS)
    await free(client, namespace)
    await client.delete(Lamp, "hall", namespace)
    assert await finalizer.remove(client, old, OURS) is None
    await hold(client, namespace, OURS)
    assert await finalizer.remove(client, old, OURS) is None
    with pytest.raises((Conflict, NotFound)):
        await finalizer.add(client, old, "engine.test/late")
    assert (await client.get(Lamp, "hall", namespace)).metadata.finalizers == (OURS,)
    await free(client, namespace)


@pytest.mark.req("R-105")
async def test_an_object_is_of_the_present_until_it_is_gone_or_replaced(client: Client, namespace: str) -> None:
    old = await hold(client, namespace, OURS)
    assert await finalizer.is_of_the_present(client, old)
    await client.delete(Lamp, "hall", namespace)
    assert await finalizer.is_of_the_present(client, old), "it is leaving, and still there"
    await free(client, namespace)
    assert not await finalizer.is_of_the_present(client, old)
    successor = await hold(client, namespace)
    assert not await finalizer.is_of_the_present(client, old)
    assert await finalizer.is_of_the_present(client, successor)
    assert (await client.get(Lamp, "hall", namespace)).metadata.resource_version == successor.metadata.resource_version
