"""The checks of Kymas by the API server, which an administrator may install in any cluster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.kyma import admission
from stellwerk.operators.kyma.api import Kyma
from stellwerk.testing.eventually import eventually

SPACE = "admission"
NO_CHANNEL: list[Any] = [{"name": "a", "channel": "none"}]
UNMANAGED: list[Any] = [{"name": name, "managed": False} for name in ("busy", "done", "never")]
SHOWN: list[Any] = [
    {"name": "busy", "state": "Ready", "version": "1.0.0"},
    {"name": "done", "state": "Unmanaged", "version": "1.0.0"},
    {"name": "never", "state": "Error"},
]


def body(name: str, **spec: Any) -> JsonObject:
    resource, metadata = Kyma.resource, {"name": name, "namespace": SPACE}
    named: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {**metadata}}
    return {**named, "spec": {"channel": "regular", **spec}}


async def change(client: Client, name: str, **spec: Any) -> object:
    return await client.patch(Kyma, name, SPACE, MergePatch({"spec": spec}))


@pytest.fixture
async def checked(home_client: Client) -> AsyncIterator[Client]:
    """The control plane with the checks for Kymas of one namespace, some of which are older than the checks."""
    client = home_client
    await client.apply(Namespace, {"metadata": {"name": SPACE}})
    await client.create(Kyma, body("old", channel="none", modules=NO_CHANNEL))
    await client.create(Kyma, body("leaving", modules=UNMANAGED))
    shown: JsonObject = {"status": {"state": "Ready", "modules": [*SHOWN]}}
    await client.patch(Kyma, "leaving", SPACE, MergePatch(shown), subresource="status")
    policy, binding = yaml.safe_load_all(yaml.safe_dump_all(admission.objects()))
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SPACE}}}
    kinds = []
    for each in (policy, binding):
        resource = await client.mapper.resource(GroupVersionKind.parse(each["apiVersion"], each["kind"]))
        kinds.append(resource)
        await client.apply(unstructured(resource), each)

    async def is_refused() -> bool:
        try:
            await client.create(Kyma, body("probe", channel="none"))
        except Invalid:
            return True
        await client.delete(metadata_of(Kyma), "probe", SPACE)
        return False

    await eventually(is_refused, within=60, describe="the API server checks Kymas")
    yield client
    for resource in kinds:
        await client.delete(metadata_of(resource), admission.NAME)
    for each in (await client.list(Kyma, SPACE)).items:
        await client.delete(metadata_of(Kyma), each.metadata.name, SPACE)


@pytest.mark.req("KYMA-27")
async def test_kymas_with_no_channel_and_entries_that_still_become_unmanaged_are_refused_and_all_else_is_stored(
    checked: Client,
) -> None:
    with pytest.raises(Invalid, match="none is no channel; see the channels"):
        await checked.create(Kyma, body("new", channel="none"))
    with pytest.raises(Invalid, match="and that of a; see the channels"):
        await checked.create(Kyma, body("new", modules=NO_CHANNEL))
    await checked.create(Kyma, body("new", modules=[{"name": "b", "channel": "fast"}]))
    with pytest.raises(Invalid, match="that of a, b; see"):
        await change(checked, "new", modules=[*NO_CHANNEL, {"name": "b", "channel": "none"}])

    await change(checked, "old", skipMaintenanceWindows=True)
    with pytest.raises(Invalid, match="that of b; see"):
        await change(checked, "old", modules=[*NO_CHANNEL, {"name": "b", "channel": "none"}])
    await change(checked, "old", channel="regular", modules=[])

    early = re.escape("spec.modules: busy must not be removed")
    for left in ([], UNMANAGED[1:]):
        with pytest.raises(Invalid, match=early):
            await change(checked, "leaving", modules=left)
    with pytest.raises(Invalid, match=early):
        await change(checked, "leaving", modules=None)
    await change(checked, "leaving", modules=UNMANAGED[:1])
    await change(checked, "leaving", modules=[{"name": "busy", "managed": True}])
    await change(checked, "leaving", modules=[])
