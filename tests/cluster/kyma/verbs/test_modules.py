"""`stellwerk module` on a Kyma of a remote cluster. The operator is not there; the test does its work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
from tests.cluster.kyma.kyma.test_kymas import body
from tests.cluster.program import CommandLine, Ended

from stellwerk.api.core import Namespace
from stellwerk.cli.completion import lookup
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.testing.eventually import eventually

NAMESPACE, NAME = labels.SKR_KYMA.namespace, labels.SKR_KYMA.name
OURS = {labels.MANAGED_BY_LABEL: labels.KYMA}
WATCHER: JsonObject = {
    "serviceInfo": {"port": 80, "name": "s", "namespace": "n"},
    "resourceToWatch": {"group": "g", "version": "v1", "resource": "r"},
    "field": "spec",
    "gateway": {"selector": {"matchLabels": {"a": "b"}}},
}
"""Any kind that is there can be that of the custom resources of a module."""


@pytest.fixture
async def user(home_client: Client) -> AsyncIterator[Client]:
    """A user of a cluster with the modules `keda` and `serverless`, and an empty Kyma."""
    await home_client.apply(Namespace, {"metadata": {"name": NAMESPACE}})

    async def put(kind: type[Kind], name: str, spec: JsonObject) -> None:
        await home_client.create(kind, body(kind, name, spec, NAMESPACE, labels=OURS))

    for name, version in (("keda", "1.0.0"), ("keda", "2.0.0"), ("serverless", "1.0.0")):
        data: JsonObject = {
            "apiVersion": Watcher.resource.api_version,
            "kind": "Watcher",
            "metadata": {"name": "default"},
        }
        spec: JsonObject = {"descriptor": {}, "moduleName": name, "version": version, "data": data}
        await put(ModuleTemplate, f"{name}-{version}", spec)
    channels: list[JsonValue] = [{"channel": "regular", "version": "1.0.0"}, {"channel": "fast", "version": "2.0.0"}]
    await put(ModuleReleaseMeta, "keda", {"moduleName": "keda", "channels": channels})
    await put(ModuleReleaseMeta, "serverless", {"moduleName": "serverless", "channels": [channels[0]]})
    await put(Kyma, NAME, {"channel": "regular"})
    yield home_client
    for kind in (Kyma, ModuleReleaseMeta, ModuleTemplate, Watcher):
        await home_client.delete_collection(kind, NAMESPACE)


def own_kind() -> JsonObject:
    return {"apiVersion": Watcher.resource.api_version, "kind": Watcher.resource.kind}


async def shows(client: Client, *modules: JsonObject) -> None:
    """Do the work of the operator."""
    await client.patch(Kyma, NAME, NAMESPACE, MergePatch({"status": {"modules": [*modules]}}), subresource="status")


async def test_a_user_chooses_modules_by_the_command_line(
    user: Client, home_cluster: LocalCluster, command_line: CommandLine
) -> None:
    async def call(*words: str) -> Ended:
        arguments = ["module", *words, "--kubeconfig", str(home_cluster.kubeconfig)]
        return await asyncio.to_thread(command_line.run, arguments)

    async def has(name: str, **fields: object) -> bool:
        found = await user.get(Kyma, NAME, NAMESPACE)
        return any(each.name == name and fields.items() <= _fields(each).items() for each in found.spec.modules)

    listed = await call("catalog", "-o", "json")
    assert [(each["name"], each["channel"], each["version"]) for each in json.loads(listed.stdout)] == [
        ("keda", "fast", "2.0.0"),
        ("keda", "regular", "1.0.0"),
        ("serverless", "regular", "1.0.0"),
    ], listed
    words = CallSettings(kubeconfig=home_cluster.kubeconfig, namespace=NAMESPACE)
    offered = partial(lookup.words, ModuleReleaseMeta.resource, words, budget_seconds=30)
    assert await asyncio.to_thread(offered) == ["keda", "serverless"]
    assert await asyncio.to_thread(offered, path=("spec", "channels", "channel")) == ["fast", "regular"]
    typo = await call("add", "kead")
    assert (typo.returncode, "did you mean keda?" in typo.stderr) == (2, True), typo

    adding = asyncio.create_task(call("add", "keda", "--channel", "fast", "--wait", "--timeout", "60s"))
    await eventually(lambda: has("keda", channel="fast", managed=True))
    await shows(user, {"name": "keda", "channel": "fast", "state": "Processing", "version": "2.0.0"})
    await user.patch(
        Kyma,
        NAME,
        NAMESPACE,
        MergePatch({"spec": {"modules": [{"name": "keda", "managed": True, "channel": "fast", "controller": "kept"}]}}),
    )
    default: JsonObject = {**own_kind(), "metadata": {"name": "default", "namespace": NAMESPACE}}
    keda: JsonObject = {"name": "keda", "channel": "fast", "version": "2.0.0", "resource": default}
    await shows(user, {**keda, "state": "Ready"})
    added = await adding
    assert (added.returncode, "✔ module keda 2.0.0 is Ready" in added.stdout) == (0, True), added

    older = await call("channel", "keda", "regular")
    assert (older.returncode, "a module is not downgraded" in older.stderr) == (2, True), older
    dry = await call("add", "serverless", "--dry-run")
    assert (dry.returncode, "(dry run)" in dry.stdout, await has("serverless")) == (0, True, False), dry
    assert (await call("add", "serverless", "--cr-policy", "Ignore")).returncode == 0
    assert await has("keda", channel="fast", controller="kept"), "entries of others keep all of their fields"
    assert await has("serverless", custom_resource_policy="Ignore")
    assert (await call("unmanage", "serverless")).returncode == 0
    assert await has("serverless", managed=False)

    for name in ("default", "mine"):
        await user.create(Watcher, body(Watcher, name, WATCHER, NAMESPACE))
    asks = await call("remove", "keda")
    assert (asks.returncode, await has("keda")) == (2, True), asks
    assert f"module keda stays until these objects of kind Watcher are deleted: {NAMESPACE}/mine\n" in asks.stderr
    late = await call("remove", "keda", "--yes", "--wait", "--timeout", "0")
    assert (late.returncode, await has("keda"), await has("serverless")) == (4, False, True), late
    await shows(user, {**keda, "state": "Deleting", "message": f"waits for Watcher {NAMESPACE}/mine"})
    late = await call("remove", "keda", "--wait", "--timeout", "1s")
    assert (late.returncode, f"waits for Watcher {NAMESPACE}/mine" in late.stderr) == (4, True), late
    table = await call("list")
    assert f"waits for Watcher {NAMESPACE}/mine" in table.stdout
    await shows(user)
    gone = await call("remove", "keda", "--wait")
    assert gone.returncode == 2, "the Kyma has no such module any more"


def _fields(module: object) -> dict[str, object]:
    return {name: getattr(module, name) for name in module.__struct_fields__}  # type: ignore[attr-defined]
