"""A module that the original has installed, with all that it left on both clusters, goes on under our operator.

What ours leaves is what the original looks for.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cluster.component.kinds import established
from tests.cluster.kyma.manifest.test_modules import (
    COMPONENT,
    DEFAULT,
    DEPLOYMENTS,
    HOME,
    ONLY_FIRST,
    SAMPLES,
    SPACE,
    USER_KYMA,
    Works,
    body,
    layer,
    works,
)

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.objects import json_edit
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, dig, owner_reference, plain_json, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.sync import DEFINITIONS
from stellwerk.operators.kyma.module.resolution import manifest_name
from stellwerk.operators.kyma.sources.descriptors import ModuleObjects
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy

__all__ = ["works"]  # a fixture

OP = "operator.kyma-project.io"
NAME = manifest_name("k", COMPONENT, "sample")
LAYER = layer("1.0.0", colour="red", extra=ONLY_FIRST)
CRDS = unstructured(CustomResourceDefinition.resource)
GADGETS = Resource(SAMPLES.group, "v1", "Gadget", "gadgets", True)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
MADE = (
    (CONFIG_MAPS, "settings", SPACE),
    (DEPLOYMENTS, "manager", SPACE),
    (GADGETS, "built-in", SPACE),
    (CustomResourceDefinition.resource, f"samples.{SAMPLES.group}", ""),
    (CustomResourceDefinition.resource, f"gadgets.{SAMPLES.group}", ""),
)
"""Objects of the module that both of its versions have."""
BESIDES = (
    (CONFIG_MAPS, "former", SPACE),
    (SAMPLES, "default", labels.SKR_NAMESPACE),
    *((CustomResourceDefinition.resource, name, "") for name in DEFINITIONS),
    (Namespace.resource, labels.SKR_NAMESPACE, ""),
    (Kyma.resource, *USER_KYMA),
    (ModuleTemplate.resource, "sample-1.0.0", labels.SKR_NAMESPACE),
    (ModuleReleaseMeta.resource, "sample", labels.SKR_NAMESPACE),
)


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def condition(kind: str, reason: str, message: str) -> JsonObject:
    shown: JsonObject = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {**shown, "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}


def operation(text: str) -> JsonObject:
    return {"operation": text, "lastUpdateTime": "2026-01-01T00:00:00Z"}


def tracked(kind: type[Kind], name: str, namespace: str = HOME) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": namespace, "generation": 1}
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata}


KYMA_STATUS: JsonObject = {
    "state": "Ready",
    "activeChannel": "regular",
    "conditions": [
        condition("CRDsSync", "Ready", "CRDs are synchronized to the SKR"),
        condition("Modules", "Ready", "all modules are in ready state"),
        condition("ModuleCatalog", "Ready", "module templates are synchronized"),
    ],
    "lastOperation": operation("kyma is ready"),
    "modules": [
        {
            "name": "sample",
            "fqdn": COMPONENT,
            "ocmComponentName": COMPONENT,
            "channel": "regular",
            "version": "1.0.0",
            "state": "Ready",
            "manifest": tracked(Manifest, NAME),
            "template": tracked(ModuleTemplate, "sample-1.0.0"),
            "resource": {
                "apiVersion": SAMPLES.api_version,
                "kind": "Sample",
                "metadata": {"name": "default", "namespace": labels.SKR_NAMESPACE},
            },
        }
    ],
}


def synced() -> list[Any]:
    """What of the layer is in the cluster, in the order of the layer, which is not ours."""
    found = []
    for each in ModuleObjects.of(LAYER):
        group, _, version = str(each.body["apiVersion"]).rpartition("/")
        metadata = cast("dict[str, str]", each.body["metadata"])
        namespace = metadata.get("namespace", "")
        found.append({"group": group, "version": version, "kind": each.body["kind"], "name": metadata["name"],
                      "namespace": namespace})  # fmt: skip
    return found


class Original:
    """What the original writes, by its field managers."""

    def __init__(self, home: Client, remote: Client, line: FaultProxy, folder: Path) -> None:
        self.home, self.remote, self.line, self.folder = home, remote, line, folder

    async def prepares_the_cluster(self) -> None:
        for name in (SPACE, labels.SKR_NAMESPACE):
            marks = {**labels.SKR_NAMESPACE_LABELS} if name == labels.SKR_NAMESPACE else {}
            await self.remote.apply(
                Namespace, named(Namespace.resource, name, labels=marks), field_manager=labels.SYNC_MANAGER
            )
        for name in DEFINITIONS:
            found = await self.home.get(CRDS, name)
            spec: JsonObject = {**cast("JsonObject", found.body["spec"]), "conversion": {"strategy": "None"}}
            wanted = named(CustomResourceDefinition.resource, name, labels={labels.MANAGED_BY_LABEL: labels.KYMA})
            await self.remote.apply(CRDS, {**wanted, "spec": spec}, field_manager=labels.FIELD_MANAGER)
        definitions = [each for each in self.objects if each["kind"] == "CustomResourceDefinition"]
        for each in definitions:
            await self.remote.apply(CRDS, each, field_manager=labels.MODULE_MANAGER)
        for name in (*DEFINITIONS, *(str(dig(each, "metadata", "name")) for each in definitions)):
            await eventually(lambda name=name: established(self.remote, name), within=30)  # type: ignore[misc]

    @property
    def objects(self) -> list[JsonObject]:
        """Of the module, with their marks."""
        marks = {labels.MANAGED_BY_LABEL: labels.KYMA, labels.COMPONENT_LABEL: NAME, labels.PART_OF_LABEL: "Kyma"}
        notes = {
            labels.OWNED_BY_ANNOTATION: f"{HOME}/{NAME}",
            labels.DISCLAIMER_ANNOTATION: "DO NOT EDIT - This resource is managed by Kyma.\nAny modifications are "
            "discarded and the resource is reverted to the original state.",
        }
        bodies = [each.body for each in ModuleObjects.of(LAYER)]
        return [json_edit.with_annotations(json_edit.with_labels(each, marks), notes) for each in bodies]

    async def offers(self) -> None:
        """The module in two versions, here and, as far as a channel leads to it, in the catalog."""
        for version, text in (("1.0.0", LAYER), ("2.0.0", layer("2.0.0", colour="blue"))):
            (self.folder / f"{version}.yaml").write_text(text)
            spec: JsonObject = {
                "moduleName": "sample",
                "version": version,
                "descriptor": {"component": {"name": COMPONENT, "version": version}},
                "data": DEFAULT,
                "resources": [{"name": "rawManifest", "link": (self.folder / f"{version}.yaml").as_uri()}],
            }
            await self._offer(ModuleTemplate, f"sample-{version}", spec)
        channels: list[Any] = [{"channel": "regular", "version": "1.0.0"}, {"channel": "fast", "version": "2.0.0"}]
        spec = {"moduleName": "sample", "channels": channels, "ocmComponentName": COMPONENT}
        await self._offer(ModuleReleaseMeta, "sample", spec)

    async def _offer(self, kind: type[Kind], name: str, spec: JsonObject) -> None:
        await self.home.apply(kind, body(kind, name, spec))
        kept = await self.home.get(unstructured(kind.resource), name, HOME)
        copied = named(kind.resource, name, labels.SKR_NAMESPACE, labels={labels.MANAGED_BY_LABEL: labels.KYMA})
        copied["spec"] = kept.body["spec"]
        await self.remote.apply(kind, copied, field_manager=labels.CATALOG_MANAGER)

    async def installs(self) -> None:
        """The objects of the module, its running manager and its default custom resource."""
        for each in self.objects:
            resource = next(one for one, *_ in (*MADE, *BESIDES) if one.kind == each["kind"])
            await self.remote.apply(unstructured(resource), each, field_manager=labels.MODULE_MANAGER)
        conditions: list[Any] = [
            {"type": kind, "status": "True", "reason": "NewReplicaSetAvailable"}
            for kind in ("Progressing", "Available")
        ]
        status = MergePatch({"status": {"observedGeneration": 1, "conditions": conditions}})
        await self.remote.patch(unstructured(DEPLOYMENTS), "manager", SPACE, status, subresource="status")
        default: JsonObject = {**DEFAULT, "metadata": {"name": "default", "namespace": labels.SKR_NAMESPACE}}
        await self.remote.create(unstructured(SAMPLES), default, field_manager=labels.RESOURCE_MANAGER)

    async def writes_its_own_objects(self) -> None:
        """Kyma and Manifest as they are at rest."""
        marks = {
            labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME,
            labels.RUNTIME_ID_LABEL: "runtime",
            labels.INSTANCE_ID_LABEL: "instance",
        }
        notes = {labels.SKR_DOMAIN_ANNOTATION: "shoot.example.org"}
        finalizers = [labels.KYMA_FINALIZER]
        wanted = named(Kyma.resource, "k", HOME, labels=marks, annotations=notes, finalizers=finalizers)
        wanted["spec"] = {"channel": "regular", "modules": [{"name": "sample", "managed": True}]}
        kyma = await self.home.create(Kyma, wanted)
        await self._status(self.home, Kyma, "k", HOME, KYMA_STATUS, labels.FIELD_MANAGER)
        await self._manifest(kyma)
        there = named(Kyma.resource, *USER_KYMA)
        await self.remote.create(Kyma, {**there, "spec": wanted["spec"]}, field_manager=labels.FIELD_MANAGER)
        seen = {labels.WATCHED_BY_LABEL: labels.KYMA, labels.MANAGED_BY_LABEL: labels.KYMA}
        seen[labels.RUNTIME_ID_LABEL] = "runtime"
        there = named(Kyma.resource, *USER_KYMA, labels=seen, annotations={labels.OWNED_BY_ANNOTATION: f"{HOME}/k"})
        await self.remote.apply(Kyma, there, field_manager=labels.SYNC_MANAGER)
        (module,) = cast("list[JsonObject]", KYMA_STATUS["modules"])
        module = {key: value for key, value in module.items() if key != "manifest"}
        module["template"] = tracked(ModuleTemplate, "sample-1.0.0", labels.SKR_NAMESPACE)
        copied = MergePatch({"status": {**KYMA_STATUS, "modules": [module]}})
        await self.remote.patch(Kyma, *USER_KYMA, copied, subresource="status", field_manager=labels.FIELD_MANAGER)

    async def _manifest(self, kyma: Kyma) -> None:
        marks = {
            labels.KYMA_NAME_LABEL: "k",
            labels.MODULE_NAME_LABEL: "sample",
            labels.CHANNEL_LABEL: "regular",
            labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME,
        }
        notes = {labels.FQDN_ANNOTATION: COMPONENT, labels.OCM_COMPONENT_NAME_ANNOTATION: COMPONENT}
        owners = [plain_json(owner_reference(kyma))]
        wanted = named(Manifest.resource, NAME, HOME, labels=marks, annotations=notes, ownerReferences=owners)
        source: JsonObject = {
            "type": "raw-url",
            "url": (self.folder / "1.0.0.yaml").as_uri(),
            "ref": digest(LAYER),
        }
        required: JsonObject = {"install": {"name": "raw-manifest", "source": source}, "remote": True}
        wanted["spec"] = {
            **required,
            "version": "1.0.0",
            "resource": {**DEFAULT, "metadata": {"name": "default", "namespace": labels.SKR_NAMESPACE}},
            "customResourcePolicy": "CreateAndDelete",
        }
        await self.home.apply(Manifest, wanted, field_manager=labels.FIELD_MANAGER)
        own = named(
            Manifest.resource,
            NAME,
            HOME,
            finalizers=[labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER],
            annotations={labels.SYNCED_LAYER_ANNOTATION: digest(LAYER)},
        )
        await self.home.apply(Manifest, {**own, "spec": required}, field_manager=labels.MODULE_MANAGER)
        held = named(Manifest.resource, NAME, HOME, finalizers=[labels.RESOURCE_FINALIZER])
        await self.home.apply(Manifest, {**held, "spec": required}, field_manager=labels.RESOURCE_MANAGER)
        shown: JsonObject = {
            "state": "Ready",
            "conditions": [
                condition("Resources", "ResourcesAvailable", "resources are parsed and ready for use"),
                condition("Installation", "Ready", "installation is ready and resources can be used"),
                condition("ModuleCR", "ModuleCRCreated", "module CR was created"),
            ],
            "lastOperation": operation("resources are ready"),
            "synced": synced(),
        }
        await self._status(self.home, Manifest, NAME, HOME, shown, labels.MODULE_MANAGER)

    async def _status(
        self, client: Client, kind: type[Kind], name: str, namespace: str, status: JsonObject, manager: str
    ) -> None:
        wanted = named(kind.resource, name, namespace)
        await client.apply(kind, {**wanted, "status": status}, field_manager=manager, subresource="status")

    async def gives_the_login(self) -> None:
        metadata: JsonObject = {"name": "access-k", "namespace": HOME, "labels": {labels.KYMA_NAME_LABEL: "k"}}
        login = {labels.KUBECONFIG_KEY: self.line.kubeconfig.read_text()}
        await self.home.apply(Secret, {"metadata": metadata, "stringData": {**login}})


def named(resource: Resource, name: str, namespace: str = "", **metadata: Any) -> JsonObject:
    placed = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **placed, **metadata},
    }


@pytest.fixture
async def original(
    home_client: Client, remote_client: Client, remote_cluster: LocalCluster, tmp_path: Path
) -> AsyncIterator[Original]:
    """The original, after it has done its work."""
    async with FaultProxy(remote_cluster.kubeconfig) as line:
        made = Original(home_client, remote_client, line, tmp_path)
        await made.prepares_the_cluster()
        await made.offers()
        await made.installs()
        await made.writes_its_own_objects()
        await made.gives_the_login()
        yield made


async def kept(client: Client, which: Iterable[tuple[Resource, str, str]]) -> dict[str, Unstructured]:
    return {f"{each.kind} {name}": await client.get(unstructured(each), name, space) for each, name, space in which}


@pytest.mark.req("R-306")
async def test_what_the_original_has_installed_is_taken_over_and_given_back(original: Original, works: Works) -> None:
    """Nothing is made anew or restarted, and it costs one note; then a new version comes as by the original."""
    both = (*MADE, *BESIDES)
    before = await kept(original.remote, both)
    manifest = await original.home.get(Manifest, NAME, HOME)

    async def is_taken_over() -> bool:
        return labels.CLUSTER_ANNOTATION in (await original.home.get(Kyma, "k", HOME)).metadata.annotations

    await eventually(is_taken_over, within=60)
    looked_at = ((works.made.kymas, ObjectKey(HOME, "k")), (works.made.manifests, manifest.key))
    for engine, key in looked_at:
        engine.controller.queue.add(key)

    def is_at_rest() -> bool:
        return works.is_calm() and not any(engine.waits_of(key) for engine, key in looked_at)

    await eventually(is_at_rest, within=30)
    after = await kept(original.remote, both)
    assert {name: each.metadata.resource_version for name, each in after.items()} == {
        name: each.metadata.resource_version for name, each in before.items()
    }
    assert await original.home.get(Manifest, NAME, HOME) == manifest
    assert [each.request.name for each in works.home_line.history.writes()] == ["k"], "its cluster is noted"
    written = [each.request.verb for each in original.line.history.writes()]
    assert written == ["apply"] * len(written)
    assert len(written) <= len(MADE) + 1, "an object at most once, to know what the API server makes of it"

    await works.edit(channel="fast")
    await works.roll_out("manager:2.0.0")

    async def is_upgraded() -> bool:
        found = await works.shows("Ready")
        noted = found.metadata.annotations[labels.SYNCED_LAYER_ANNOTATION]
        return noted == digest((original.folder / "2.0.0.yaml").read_text())

    await eventually(is_upgraded, within=60)
    found = await works.shows("Ready")
    assert {labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER, labels.RESOURCE_FINALIZER} == {
        *found.metadata.finalizers
    }
    assert {(each.kind, each.name) for each in found.status.synced} == {(kind.kind, name) for kind, name, _ in MADE}
    assert found.metadata.uid == manifest.metadata.uid
    for name, each in (await kept(original.remote, MADE)).items():
        assert each.metadata.uid == before[name].metadata.uid
        appliers = {one.manager for one in each.metadata.managers if one.operation == "Apply"}
        assert appliers == {labels.MODULE_MANAGER}, name
