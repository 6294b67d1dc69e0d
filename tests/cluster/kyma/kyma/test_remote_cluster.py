"""A real API server as a remote cluster: it gets what it lacks, and then nothing is written any more."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from tests.unit.kyma.kyma.worlds import PREFIX, a_kyma, a_meta, a_template

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.types.errors import NotFound, NotServed, StatusError
from stellwerk.kube.types.model import HasMetadata, JsonObject, Unstructured, plain_json, unstructured
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.kyma import api, labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma import sync
from stellwerk.operators.kyma.kyma.catalog import Catalog
from stellwerk.operators.kyma.kyma.sync import (
    DEFINITIONS,
    Applied,
    Change,
    Created,
    Deleted,
    Home,
    Marked,
    Remote,
    Shown,
)
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually

T = TypeVar("T", bound=HasMetadata)

DEFINITION = unstructured(CustomResourceDefinition.resource)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_source(body: JsonObject) -> Unstructured:
    """A definition of the control plane, with a webhook that converts."""
    spec: Any = body["spec"]
    webhook: JsonObject = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://localhost/convert"}}
    return Unstructured.of({**body, "spec": {**spec, "conversion": {"strategy": "Webhook", "webhook": webhook}}})


def a_home() -> Home:
    """A control plane with every kind of content."""
    module = {
        "name": "keda",
        "state": "Ready",
        "channel": "regular",
        "template": {"apiVersion": f"{PREFIX}/v1beta2", "kind": "ModuleTemplate", "metadata": {"name": "keda-1.0.0"}},
        "manifest": {"apiVersion": f"{PREFIX}/v1beta2", "kind": "Manifest", "metadata": {"name": "m"}},
    }
    kyma = a_kyma(
        labels={"kyma-project.io/runtime-id": "r"},
        spec={"modules": [{"name": "keda", "managed": True}], "skipMaintenanceWindows": True},
        status={"state": "Ready", "activeChannel": "regular", "modules": [module]},
    )
    ready = Condition(type="Modules", status="True", reason="Ready", message="all modules are in ready state")
    status = msgspec.structs.replace(kyma.status, conditions=conditions.set_condition((), ready, NOW))
    info: JsonObject = {
        "repository": "https://r",
        "documentation": "https://d",
        "icons": [{"name": "i", "link": "https://i"}],
    }
    rich = a_template(
        "keda",
        "1.0.0",
        labels={"team": "a"},
        data={"apiVersion": "g.io/v1", "kind": "Keda", "metadata": {"name": "default"}, "spec": {}},
        resources=[{"name": "rawManifest", "link": "https://m"}],
        info=info,
        requiresDowntime=False,
        manager={"group": "apps", "version": "v1", "kind": "Deployment", "name": "keda"},
    )
    catalog = Catalog(
        (rich, a_template("keda", "2.0.0", descriptor={"component": {"name": "c"}})),
        (a_meta("keda", regular="1.0.0", fast="2.0.0"),),
    )
    secret = {"metadata": {"name": "pull", "namespace": "kcp-system"}, "data": {"a": "e30="}}
    return Home(
        kyma=msgspec.structs.replace(kyma, status=status),
        definitions={each.name: a_source(each.body()) for each in api.DEFINITIONS},
        pull_secret=msgspec.convert(secret, Secret),
        catalog=catalog,
    )


async def find(client: Client, target: Target[T], name: str, namespace: str = "") -> T | None:
    """An object; None if there is none, or its kind is not served."""
    try:
        return await client.get(target, name, namespace)
    except (NotFound, NotServed):
        return None


async def read(client: Client) -> Remote:
    """What the remote cluster has."""
    definitions = {name: await find(client, DEFINITION, name) for name in DEFINITIONS}
    entries: list[ModuleTemplate | ModuleReleaseMeta] = []
    with contextlib.suppress(NotServed):
        entries += (await client.list(ModuleTemplate)).items
        entries += (await client.list(ModuleReleaseMeta)).items
    return Remote(
        namespace=await find(client, Namespace, labels.SKR_NAMESPACE),
        definitions={name: each for name, each in definitions.items() if each is not None},
        pull_secret=await find(client, Secret, "pull", labels.SKR_NAMESPACE),
        kyma=await find(client, Kyma, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace),
        entries=entries,
    )


async def carry_out(client: Client, change: Change) -> None:
    """A change, as the API server takes it."""
    kyma: JsonObject = {
        "apiVersion": Kyma.resource.api_version,
        "kind": "Kyma",
        "metadata": {"name": labels.SKR_KYMA.name, "namespace": labels.SKR_KYMA.namespace},
    }
    match change:
        case Applied(desired, manager):
            await client.apply(unstructured(desired.resource), desired.body, field_manager=manager)
        case Created(body):
            await client.create(Kyma, body)
        case Deleted(entry):
            await client.delete(unstructured(entry.resource), entry.key.name, entry.key.namespace)
        case Marked(metadata, manager):
            marked: Any = {**kyma, "metadata": {**kyma["metadata"], **metadata}}  # type: ignore[dict-item]
            await client.apply(Kyma, marked, field_manager=manager)
        case Shown(status):
            shown = {**kyma, "status": plain_json(status)}
            await client.apply(Kyma, shown, field_manager=labels.FIELD_MANAGER, subresource="status")


async def settled(client: Client, home: Home) -> list[str]:
    """The parts that were written until the cluster rests. A definition needs a moment until it is served."""
    parts: list[str] = []
    for _ in sync.Part:
        due = sync.next_part(home, await read(client))
        if due is None:
            break
        parts.append(due[0].name)
        for change in due[1]:

            async def succeeds(change: Change = change) -> bool:
                try:
                    await carry_out(client, change)
                except (NotServed, StatusError) as error:
                    raise AssertionError(str(error)) from error
                return True

            await eventually(succeeds, describe=f"{change} is written")
    assert sync.next_part(home, await read(client)) is None, "it does not rest"
    return parts


async def test_a_cluster_gets_what_it_lacks_then_rests_and_what_its_user_breaks_is_restored(
    remote_client: Client,
) -> None:
    """Scenarios 5, 9 and 32: nothing is written to a cluster that is as it should be, whatever its API server adds."""
    home = a_home()
    everything = ["NAMESPACE", "DEFINITIONS", "PULL_SECRET", "KYMA", "STATUS", "CATALOG"]
    assert await settled(remote_client, home) == everything
    there = await read(remote_client)
    assert there.kyma is not None
    assert [each.manifest for each in there.kyma.status.modules] == [None]

    # what a user does
    await remote_client.create(ModuleTemplate, _own_template())
    edit: Any = {"spec": {"version": "9.9.9"}, "metadata": {"labels": {"team": "b"}}}
    await remote_client.apply(ModuleTemplate, _named("keda-1.0.0", edit), field_manager="user")
    await remote_client.delete(ModuleReleaseMeta, "keda", labels.SKR_NAMESPACE)
    assert await settled(remote_client, home) == ["CATALOG"]
    names = [each.metadata.name for each in (await read(remote_client)).entries]
    assert names == ["keda-1.0.0", "keda-2.0.0", "users-1.0.0", "keda"]

    more: Any = {"spec": {"channels": [{"channel": "added", "version": "3.0.0"}]}}
    meta = {**_named("keda", more), "kind": "ModuleReleaseMeta"}
    await remote_client.apply(ModuleReleaseMeta, meta, field_manager="user")
    assert await settled(remote_client, home) == [], "a channel that the user adds is no reason to write"

    await remote_client.delete(Kyma, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
    assert await settled(remote_client, home) == ["KYMA", "STATUS"]

    # what the control plane does
    assert home.catalog is not None
    less = replace(home, catalog=Catalog(home.catalog.templates[:1], (a_meta("keda", regular="1.0.0"),)))
    assert await settled(remote_client, less) == ["CATALOG"]
    assert [each.metadata.name for each in (await read(remote_client)).entries] == ["keda-1.0.0", "users-1.0.0", "keda"]


def _named(name: str, fields: Any) -> JsonObject:
    """An object of the catalog with these fields."""
    metadata = {"name": name, "namespace": labels.SKR_NAMESPACE, **fields.get("metadata", {})}
    return {"apiVersion": f"{PREFIX}/v1beta2", "kind": "ModuleTemplate", **fields, "metadata": metadata}


def _own_template() -> JsonObject:
    return _named("users-1.0.0", {"spec": {"descriptor": {}, "moduleName": "users", "version": "1.0.0"}})
