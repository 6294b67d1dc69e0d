"""A watch goes on whatever happens to it, and lists anew only when it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.cluster.kube.conftest import Read, config_map

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, metadata_of, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANYTHING,
    WATCHES,
    CutConnection,
    CutFrame,
    EndWatchAfter,
    ErrorFrame,
    FaultProxy,
    Hold,
    events,
    first,
    nth,
    requests,
)

T = TypeVar("T", bound=HasMetadata)

OURS = "made-by=wire-test"


async def test_a_watcher_tells_what_is_there_and_what_changes(client: Client, namespace: str, read: Read) -> None:
    await config_map(client, ConfigMap, namespace, "one")
    reader = read(Watcher(client, ConfigMap, namespace, labels=OURS))
    await reader.shows("one")
    await config_map(client, ConfigMap, namespace, "two", a="1")
    await reader.shows("one", "two")
    await client.patch(ConfigMap, "two", namespace, MergePatch({"data": {"a": "2"}}))
    await reader.until(lambda: reader.present["two"].data == {"a": "2"})
    await client.delete(ConfigMap, "one", namespace)
    await reader.shows("two")
    assert reader.lists == 1


async def test_an_object_that_no_longer_matches_is_removed(client: Client, namespace: str, read: Read) -> None:
    await config_map(client, ConfigMap, namespace, "one")
    reader = read(Watcher(client, metadata_of(ConfigMap), namespace, labels=OURS))
    await reader.shows("one")
    await client.patch(ConfigMap, "one", namespace, MergePatch({"metadata": {"labels": {"made-by": None}}}))
    await reader.shows()


@pytest.mark.req("R-201")
async def test_a_watch_that_ends_in_order_goes_on_without_a_list(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read
) -> None:
    proxy.on_requests(WATCHES, EndWatchAfter(0.3), first(3))
    reader = read(Watcher(behind, ConfigMap, namespace, labels=OURS))
    for number in range(4):
        await config_map(client, ConfigMap, namespace, f"one-{number}")
        await proxy.history.seen(number + 1, WATCHES.holds)
    await reader.shows("one-0", "one-1", "one-2", "one-3")
    assert reader.lists == 1


@pytest.mark.req("R-201")
async def test_a_watch_that_is_cut_inside_a_frame_loses_and_doubles_nothing(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read
) -> None:
    proxy.on_events(events(name="two"), CutFrame(), nth(1))
    reader = read(Watcher(behind, unstructured(ConfigMap.resource), namespace, labels=OURS))
    await config_map(client, ConfigMap, namespace, "one")
    await reader.shows("one")
    await config_map(client, ConfigMap, namespace, "two")
    await reader.shows("one", "two")
    assert reader.lists == 1
    assert reader.watcher.restarts == 1
    assert sum("two" in str(change) for change in reader.told) == 1


@pytest.mark.req("R-201")
async def test_a_version_that_was_forgotten_leads_to_a_new_list(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read
) -> None:
    reasons: list[str] = []
    proxy.on_events(events(name="two"), ErrorFrame(410), nth(1))
    reader = read(Watcher(behind, ConfigMap, namespace, labels=OURS, on_restart=reasons.append))
    await reader.until(lambda: reader.lists == 1)
    await config_map(client, ConfigMap, namespace, "two")
    await reader.shows("two")
    assert (reader.lists, reasons) == (2, ["gone"])


@pytest.mark.req("R-201")
async def test_a_dead_server_is_found_again_soon_after_it_heals(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read
) -> None:
    reader = read(Watcher(behind, ConfigMap, namespace, labels=OURS, silence_seconds=0.3))
    await reader.until(lambda: reader.lists == 1)
    dead = proxy.on_requests(ANYTHING, CutConnection())
    await config_map(client, ConfigMap, namespace, "one")
    await proxy.history.seen(8)
    dead.end()
    await config_map(client, ConfigMap, namespace, "two")
    await reader.shows("one", "two")
    assert reader.lists == 1


@pytest.mark.req("R-202")
async def test_a_silent_connection_is_given_up_and_nothing_is_missed(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read
) -> None:
    hold = Hold()
    rule = proxy.on_events(events(name="unheard"), hold, nth(1))
    reader = read(Watcher(behind, ConfigMap, namespace, labels=OURS, silence_seconds=1.0))
    await reader.until(lambda: reader.lists == 1)
    await config_map(client, ConfigMap, namespace, "unheard")
    await hold.caught()
    rule.end()
    await reader.shows("unheard")
    assert reader.watcher.restarts >= 1
    assert reader.lists == 1
    hold.release()


async def test_contact_is_dated(client: Client, namespace: str, read: Read) -> None:
    watcher = Watcher(client, ConfigMap, namespace, labels=OURS)
    before = watcher.last_contact
    reader = read(watcher)
    await reader.until(lambda: reader.lists == 1)
    assert watcher.last_contact > before


@pytest.mark.req("R-206")
async def test_a_kind_that_we_may_not_watch_is_parked_by_name_and_resumes_when_granted(
    client: Client, namespace: str, read: Read
) -> None:
    watcher = Watcher(client.acting_as(f"reader-of-{namespace}"), ConfigMap, namespace, labels=OURS)
    reader = read(watcher)
    await reader.until(lambda: bool(reader.parked))
    assert reader.parked == [
        f"user reader-of-{namespace} is not permitted to list and watch configmaps in namespace {namespace}"
    ]
    await config_map(client, ConfigMap, namespace, "one")
    await grant(client, namespace)
    await woken(watcher, lambda: set(reader.present) == {"one"})
    assert len(reader.parked) == 1


async def woken(watcher: Watcher[T], holds: Callable[[], bool]) -> None:
    """Wake a parked watcher, as somebody who knows better would, until it has found what there is."""

    def look() -> bool:
        watcher.wake()
        return holds()

    await eventually(look, describe="the watch resumes")


async def grant(client: Client, namespace: str) -> None:
    rbac = "rbac.authorization.k8s.io"
    role = unstructured(Resource(rbac, "v1", "Role", "roles", namespaced=True))
    binding = unstructured(Resource(rbac, "v1", "RoleBinding", "rolebindings", namespaced=True))
    metadata: JsonObject = {"name": "reader", "namespace": namespace}
    rule: JsonObject = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    await client.apply(role, {"metadata": metadata, "rules": [rule]})
    subject: JsonObject = {"kind": "User", "name": f"reader-of-{namespace}", "apiGroup": rbac}
    reference: JsonObject = {"kind": "Role", "name": "reader", "apiGroup": rbac}
    await client.apply(binding, {"metadata": metadata, "subjects": [subject], "roleRef": reference})


@pytest.mark.req("R-207")
async def test_a_kind_that_is_not_served_is_parked_and_resumes_when_it_is(
    client: Client, namespace: str, read: Read
) -> None:
    group = f"{namespace}.example.com"
    kind = Resource(group, "v1", "Late", "lates", namespaced=True)
    watcher = Watcher(client, unstructured(kind))
    reader = read(watcher)
    await reader.until(lambda: bool(reader.parked))
    assert f"serves no {group}/v1 Late" in reader.parked[0]
    try:
        await client.apply(CustomResourceDefinition, definition(kind))
        await woken(watcher, lambda: reader.lists == 1)
        await client.create(
            unstructured(kind),
            {"apiVersion": kind.api_version, "kind": "Late", "metadata": {"name": "one", "namespace": namespace}},
        )
        await reader.shows("one")
        await client.delete(CustomResourceDefinition, f"lates.{group}")
        await reader.until(lambda: len(reader.parked) == 2)
        await client.apply(CustomResourceDefinition, definition(kind))
        await woken(watcher, lambda: reader.lists == 2)
        await reader.shows()
    finally:
        await client.delete(CustomResourceDefinition, f"lates.{group}")


def definition(kind: Resource) -> JsonObject:
    schema: JsonObject = {"openAPIV3Schema": {"type": "object"}}
    version: JsonObject = {"name": kind.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": kind.group_resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [version],
        },
    }


async def test_a_fault_on_one_watch_leaves_requests_alone(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    with proxy.on_requests(requests("watch"), CutConnection(), required=False):
        assert (await behind.list(ConfigMap, namespace, labels=OURS)).items == []
