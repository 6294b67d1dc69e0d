"""A conflict is told apart: a change, another object, a taken name, a busy server, and one's own lost answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.cluster.kube.conftest import config_map

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client, Deletion
from stellwerk.kube.client.conditional import Ended, Ensured, Left, NotAsSeen, Taken, Written
from stellwerk.kube.client.patch import JsonPatch, MergePatch, Patch, replace, test
from stellwerk.kube.types.errors import Busy, Invalid
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.faults import (
    WRITES,
    AnswerInstead,
    ChangedBefore,
    CutConnection,
    FaultProxy,
    RecordedRequest,
    always,
    first,
    nth,
)
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply

BUSY, LOST = AnswerInstead(409), CutConnection(after_forwarding=True)


@dataclass
class Meanwhile:
    """Another client does something right before a write arrives."""

    act: Callable[[], Awaitable[object]]
    times: list[int] = field(default_factory=list)

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        self.times.append(request.number)
        await self.act()
        return await proceed(request)


def body(namespace: str, owner: str) -> JsonObject:
    metadata: JsonObject = {"name": "one", "namespace": namespace, "labels": {"owner": owner}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


def is_ours(found: ConfigMap) -> bool:
    return found.metadata.labels.get("owner") == "us"


def counted(found: ConfigMap) -> MergePatch | None:
    """A change that depends on what is there: it counts up to one more than it has ever seen, and no further than 3."""
    number = int(found.data["count"])
    return MergePatch({"data": {"count": str(number + 1)}}) if number < 3 else None


async def count(client: Client, namespace: str) -> str:
    return (await client.get(ConfigMap, "one", namespace)).data["count"]


# ---- change


async def test_a_change_is_computed_anew_from_what_is_there(
    behind: Client, client: Client, proxy: FaultProxy, namespace: str
) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    other = MergePatch({"data": {"count": "1"}})
    with proxy.on_requests(WRITES, Meanwhile(lambda: client.patch(ConfigMap, "one", namespace, other)), nth(1)):
        written = await conditional.change(behind, ConfigMap, seen, counted)
    assert isinstance(written, Written)
    assert (written.obj.data, await count(client, namespace)) == ({"count": "2"}, "2")


async def test_a_change_that_must_not_follow_another_one_is_given_up(
    behind: Client, client: Client, proxy: FaultProxy, namespace: str
) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    other = MergePatch({"data": {"count": "3"}})
    with proxy.on_requests(WRITES, Meanwhile(lambda: client.patch(ConfigMap, "one", namespace, other)), nth(1)):
        left = await conditional.change(behind, ConfigMap, seen, counted)
    assert isinstance(left, Left)
    assert (left.obj.data, len(proxy.history.writes())) == ({"count": "3"}, 1)


async def test_what_is_done_already_needs_no_request(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    seen = await config_map(behind, ConfigMap, namespace, "one", count="3")
    proxy.history.clear()
    assert await conditional.change(behind, ConfigMap, seen, counted) == Left(seen)
    assert proxy.history.all() == []


async def test_a_change_whose_answer_was_lost_is_done_once(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    seen = await config_map(behind, ConfigMap, namespace, "one", count="2")
    with proxy.on_requests(WRITES, LOST, nth(1)):
        outcome = await conditional.change(behind, ConfigMap, seen, counted)
    assert isinstance(outcome, Left)
    assert await count(behind, namespace) == "3"


@pytest.mark.parametrize("is_recreated", [False, True])
async def test_an_object_that_is_gone_or_another_one_is_left_alone(
    client: Client, namespace: str, is_recreated: bool
) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    await client.delete(ConfigMap, "one", namespace)
    if is_recreated:
        await config_map(client, ConfigMap, namespace, "one", count="0")
    for any_version in (False, True):
        assert await conditional.change(client, ConfigMap, seen, counted, any_version=any_version) == Ended()
    assert await conditional.delete(client, ConfigMap, seen) is Deletion.ABSENT
    if is_recreated:
        assert await count(client, namespace) == "0"


async def test_a_conflict_without_a_change_is_a_busy_server_and_no_change(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    seen = await config_map(behind, ConfigMap, namespace, "one", count="0")
    with proxy.on_requests(WRITES, BUSY, always):
        with pytest.raises(Busy):
            await conditional.change(behind, ConfigMap, seen, counted)
        with pytest.raises(Busy):
            await conditional.delete(behind, ConfigMap, seen, if_unchanged=True)
        with pytest.raises(Busy):
            await conditional.ensure(behind, ConfigMap, body(namespace, "us"), is_ours)
    assert await count(behind, namespace) == "0"


@pytest.mark.parametrize("any_version", [False, True])
async def test_a_busy_server_is_asked_again_at_once(
    behind: Client, client: Client, proxy: FaultProxy, namespace: str, any_version: bool
) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"other": "1"}}))
    with proxy.on_requests(WRITES, BUSY, first(4)):
        written = await conditional.change(behind, ConfigMap, seen, counted, any_version=any_version)
    assert isinstance(written, Written)
    assert written.obj.data == {"count": "1", "other": "1"}


async def test_changes_without_end_are_a_busy_server(
    behind: Client, client: Client, proxy: FaultProxy, namespace: str
) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    with (
        proxy.on_requests(WRITES, ChangedBefore(client), always) as rule,
        pytest.raises(Busy, match="another client keeps changing the object"),
    ):
        await conditional.change(behind, ConfigMap, seen, counted)
    assert (rule.fired, await count(client, namespace)) == (5, "0")


async def test_a_test_that_does_not_hold_is_told_from_a_refused_object(client: Client, namespace: str) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"count": "1"}}))

    def tested(found: ConfigMap) -> Patch:
        return JsonPatch([test("/data/count", found.data["count"]), replace("/data/count", found.data["count"] + "0")])

    written = await conditional.change(client, ConfigMap, seen, tested)
    assert isinstance(written, Written)
    assert written.obj.data == {"count": "10"}
    refused = JsonPatch([replace("/metadata/labels/made-by", "not a label")])
    with pytest.raises(Invalid):
        await conditional.change(client, ConfigMap, written.obj, lambda _: refused)


# ---- ensure, delete, one try


async def test_what_exists_is_ours_or_taken(client: Client, namespace: str) -> None:
    made = await conditional.ensure(client, ConfigMap, body(namespace, "us"), is_ours)
    assert isinstance(made, Ensured)
    assert made.is_new
    again = await conditional.ensure(client, ConfigMap, body(namespace, "us"), is_ours)
    assert again == Ensured(made.obj, is_new=False)
    assert await conditional.ensure(client, ConfigMap, body(namespace, "us"), lambda _: False) == Taken(made.obj)
    assert isinstance(await conditional.create_if_absent(client, ConfigMap, body(namespace, "us")), NotAsSeen)


async def test_an_object_whose_creation_was_not_answered_is_ours(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    with proxy.on_requests(WRITES, LOST, nth(1)):
        made = await conditional.ensure(behind, ConfigMap, body(namespace, "us"), is_ours)
    assert isinstance(made, Ensured)
    assert is_ours(made.obj)


async def test_one_that_has_just_gone_is_created_again_and_not_without_end(
    behind: Client, client: Client, proxy: FaultProxy, namespace: str
) -> None:
    exists = AnswerInstead(409, reason="AlreadyExists")
    with proxy.on_requests(WRITES, exists, nth(1)):
        made = await conditional.ensure(behind, ConfigMap, body(namespace, "us"), is_ours)
    assert isinstance(made, Ensured)
    await client.delete(ConfigMap, "one", namespace)
    with proxy.on_requests(WRITES, exists, always) as rule, pytest.raises(Busy):
        await conditional.ensure(behind, ConfigMap, body(namespace, "us"), is_ours)
    assert rule.fired == 5


async def test_a_version_that_has_changed_is_not_deleted_or_replaced(client: Client, namespace: str) -> None:
    seen = await config_map(client, ConfigMap, namespace, "one", count="0")
    changed = await client.patch(ConfigMap, "one", namespace, MergePatch({"data": {"count": "1"}}))
    assert await conditional.delete(client, ConfigMap, seen, if_unchanged=True) == Left(changed)
    version: JsonObject = {"resourceVersion": seen.metadata.resource_version}
    patch = MergePatch({"metadata": version, "data": {"count": "2"}})
    assert isinstance(await conditional.patch_if_unchanged(client, ConfigMap, "one", namespace, patch), NotAsSeen)
    replaced: JsonObject = {"metadata": {"name": "one", "namespace": namespace, **version}}
    assert isinstance(await conditional.update_if_unchanged(client, ConfigMap, replaced), NotAsSeen)
    assert await count(client, namespace) == "1"
    assert await conditional.delete(client, ConfigMap, seen) is Deletion.GONE
