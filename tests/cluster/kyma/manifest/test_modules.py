"""Modules from their templates into a remote cluster, and out of it again: all controllers on two real API servers.

Nothing simulates pods: the tests write the status of Deployments.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.kyma.conftest import login_of_operator
from tests.cluster.runtime.conftest import Bell

from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import access, labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, RUNTIME_KYMAS
from stellwerk.operators.kyma.controllers import LifecycleManager, install
from stellwerk.operators.kyma.insight.why import KymaDiagnostician
from stellwerk.operators.kyma.module.resolution import manifest_name
from stellwerk.operators.kyma.settings import ManifestLinks, Settings
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.view import Overlay
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, CutConnection, FaultProxy, first, requests
from stellwerk.testing.faults.traffic import Exchange

HOME, SPACE = labels.KCP_NAMESPACE, "ours"
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True)
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
SAMPLES = Resource("operator.example.org", "v1", "Sample", "samples", True)
USER_KYMA = (labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
COMPONENT = "kyma-project.io/module/sample"
DEFAULT: JsonObject = {"apiVersion": SAMPLES.api_version, "kind": "Sample", "metadata": {"name": "default"}, "spec": {}}
"""The default custom resource of the module, in the namespace of all modules."""


def definition(kind: str) -> str:
    return f"""
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {kind.lower()}s.{SAMPLES.group}}}
spec:
  group: {SAMPLES.group}
  scope: Namespaced
  names: {{kind: {kind}, plural: {kind.lower()}s}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}"""


def layer(version: str, *, colour: str, extra: str = "") -> str:
    """The objects of a version of the module. An instance of one of its kinds comes first, the definition last."""
    objects = f"""
apiVersion: {SAMPLES.group}/v1
kind: Gadget
metadata: {{name: built-in, namespace: {SPACE}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {SPACE}}}
data: {{colour: {colour}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: manager, namespace: {SPACE}}}
spec:
  selector: {{matchLabels: {{app: manager}}}}
  template:
    metadata: {{labels: {{app: manager}}}}
    spec: {{containers: [{{name: manager, image: "example.org/manager:{version}"}}]}}"""
    return objects + definition("Sample") + definition("Gadget") + extra


ONLY_FIRST = f"""
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: former, namespace: {SPACE}}}
"""


@dataclass
class Works:
    """Two clusters, the running operator, and its users."""

    home: Client
    remote: Client
    folder: Path
    home_line: FaultProxy
    remote_line: FaultProxy
    made: LifecycleManager
    figures: Metrics
    name: str = "k"
    bell: Bell = field(default_factory=Bell)
    watches: list[Exchange] = field(default_factory=list)
    """Those under way when the history was cleared."""

    # ---- what users do

    async def offer(self, **channels: str) -> None:
        """Offer the module in these versions."""
        for version in channels.values():
            spec: JsonObject = {
                "moduleName": "sample",
                "version": version,
                "descriptor": {"component": {"name": COMPONENT, "version": version}},
                "data": DEFAULT,
                "resources": [{"name": "rawManifest", "link": (self.folder / f"{version}.yaml").as_uri()}],
            }
            await self.home.apply(ModuleTemplate, body(ModuleTemplate, f"sample-{version}", spec))
        listed: list[Any] = [{"channel": channel, "version": version} for channel, version in channels.items()]
        spec = {"moduleName": "sample", "channels": listed, "ocmComponentName": COMPONENT}
        await self.home.apply(ModuleReleaseMeta, body(ModuleReleaseMeta, "sample", spec))

    async def begin(self) -> None:
        """A Kyma with the module and a login to its cluster."""
        metadata: JsonObject = {
            "name": f"access-{self.name}",
            "namespace": HOME,
            "labels": {labels.KYMA_NAME_LABEL: self.name},
        }
        text = self.remote_line.kubeconfig.read_text()
        await self.home.apply(Secret, {"metadata": metadata, "stringData": {labels.KUBECONFIG_KEY: text}})
        module: JsonObject = {"name": "sample", "managed": True}
        await self.home.create(Kyma, body(Kyma, self.name, {"channel": "regular", "modules": [module]}))

    async def edit(self, **spec: Any) -> None:
        """The user edits the Kyma of the remote cluster."""
        await self.remote.patch(Kyma, *USER_KYMA, MergePatch({"spec": spec}))

    async def roll_out(self, image: str) -> None:
        """Pods of the manager with this image run."""

        async def is_wanted() -> bool:
            found = await self.deployment()
            return found is not None and image in str(found.at("spec", "template", "spec", "containers"))

        await eventually(is_wanted, within=60, describe=f"the Deployment has {image}")
        found = await self.deployment()
        assert found is not None
        await self.run(found)

    async def run(self, seen: Unstructured) -> None:
        """Pods of the manager run, as it was seen."""
        conditions: list[Any] = [
            {"type": kind, "status": "True", "reason": "NewReplicaSetAvailable"}
            for kind in ("Progressing", "Available")
        ]
        status: JsonObject = {"observedGeneration": seen.metadata.generation, "conditions": conditions}
        await self.remote.patch(
            unstructured(DEPLOYMENTS), "manager", SPACE, MergePatch({"status": status}), subresource="status"
        )

    # ---- what is looked at

    @property
    def manifest_name(self) -> str:
        return manifest_name(self.name, COMPONENT, "sample")

    async def manifest(self) -> Manifest | None:
        return await self.home.find(Manifest, self.manifest_name, HOME)

    async def deployment(self) -> Unstructured | None:
        return await self.remote.find(unstructured(DEPLOYMENTS), "manager", SPACE)

    async def samples(self) -> list[str]:
        found = await self.remote.list(metadata_of(SAMPLES))
        return sorted(str(each.key) for each in found.items)

    async def shows(self, state: str, operation: str = "") -> Manifest:
        seen: list[Manifest] = []

        async def found() -> bool:
            manifest = await self.manifest()
            if manifest is None:
                return False
            seen.append(manifest)
            last = manifest.status.last_operation
            return manifest.status.state == state and operation in (last.operation if last is not None else "")

        try:
            await eventually(found, within=60, describe=f"the Manifest is {state} {operation}")
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {seen[-1].status if seen else None}") from error
        return seen[-1]

    async def kyma_shows(self, state: str) -> Kyma:
        seen: list[Kyma] = []

        async def found() -> bool:
            seen.append(await self.home.get(Kyma, self.name, HOME))
            return seen[-1].status.state == state

        await eventually(found, within=60, describe=f"the Kyma is {state}")
        return seen[-1]

    async def is_uninstalled(self) -> bool:
        maps = await self.remote.list(ConfigMap, SPACE)
        ours = [each for each in maps.items if each.metadata.labels.get(labels.MANAGED_BY_LABEL)]
        return await self.manifest() is None and await self.deployment() is None and not ours

    def is_calm(self) -> bool:
        queues = [each.controller.queue for each in (self.made.kymas, self.made.manifests)]
        return not any(queue.running or len(queue) for queue in queues)

    async def rest(self) -> None:
        """Return when nothing is under way, and forget what was asked before."""
        await eventually(self.is_calm)
        for line in (self.home_line, self.remote_line):
            await line.history.settled()
            self.watches += [each for each in line.history.all() if each.request.verb == "watch" and not each.is_over]
            line.history.clear()

    async def story(self) -> str:
        """How all stands, for a failure: objects here and as the caches show them, passes, and what was asked."""
        kyma, manifest = ObjectKey(HOME, self.name), ObjectKey(HOME, self.manifest_name)
        view = self.made.kymas.view(kyma, Overlay())
        lines = [f"calm: {self.is_calm()}"]
        for engine, key in ((self.made.kymas, kyma), (self.made.manifests, manifest)):
            queue = engine.controller.queue
            state = (
                f"{len(queue)} ready, {queue.running} running, {queue.delayed} delayed, {queue.failures(key)} failures"
            )
            lines.append(f"{engine.controller.name}: {state}; waits for {engine.waits_of(key)}")
        for client, kind, key, cached in (
            (self.home, Kyma, kyma, view.get(KYMAS, kyma)),
            (self.home, Manifest, manifest, view.get(MANIFESTS, manifest)),
            (self.remote, Kyma, labels.SKR_KYMA, access.runtime(view, kyma).get(RUNTIME_KYMAS, labels.SKR_KYMA)),
        ):
            found = await client.find(unstructured(kind.resource), key.name, key.namespace)
            lines += [f"{kind.resource.kind} {key}: {found.body if found else None}", f"  in the cache: {cached}"]
        for resource in (DEPLOYMENTS, ConfigMap.resource, CRDS):
            listed = await self.remote.list(unstructured(resource), labels=labels.PART_OF_LABEL)
            lines += [f"{resource.kind}: {each.metadata}" for each in listed.items]
        exchanges = [*self.watches, *self.home_line.history.all(), *self.remote_line.history.all()]
        lines += [f"{each}{f', last {each.arrived[-3:]}' if each.arrived else ''}" for each in exchanges]
        return "\n".join(lines)

    def written(self) -> list[str]:
        """What was written for the module, on both sides: its Manifest and its objects."""
        exchanges = [*self.home_line.history.writes(), *self.remote_line.history.writes()]
        others = {Kyma.resource.plural, ModuleTemplate.resource.plural, ModuleReleaseMeta.resource.plural, "namespaces"}
        found = [each for each in exchanges if each.request.resource not in others]
        return [str(each) for each in found if not each.request.name.endswith(Kyma.resource.group)]

    def asked(self) -> list[str]:
        """What was asked since on both sides, beside watches."""
        exchanges = [*self.home_line.history.all(), *self.remote_line.history.all()]
        return [str(each) for each in exchanges if each.request.verb not in ("watch", "list")]


def body(kind: type[Kind], name: str, spec: JsonObject) -> JsonObject:
    resource = kind.resource
    named: JsonObject = {"name": name, "namespace": HOME}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": spec}


@pytest.fixture
async def works(
    home_cluster: LocalCluster, remote_cluster: LocalCluster, home_client: Client, remote_client: Client, tmp_path: Path
) -> AsyncIterator[Works]:
    (tmp_path / "1.0.0.yaml").write_text(layer("1.0.0", colour="red", extra=ONLY_FIRST))
    (tmp_path / "2.0.0.yaml").write_text(layer("2.0.0", colour="blue"))
    await remote_client.apply(Namespace, {"metadata": {"name": SPACE}})
    async with contextlib.AsyncExitStack() as stack:
        home_line = await stack.enter_async_context(FaultProxy(login_of_operator(home_cluster)))
        remote_line = await stack.enter_async_context(FaultProxy(remote_cluster.kubeconfig))
        config = ClusterConfig.load(home_line.kubeconfig)
        ours = await stack.enter_async_context(Client.connect(config, field_manager=labels.FIELD_MANAGER))
        http = HttpClient(tls=None, user_agent="test", connect_seconds=5.0, silence_seconds=5.0)
        stack.push_async_callback(http.close)
        manager = Manager(ours, grace_seconds=2.0)
        settings = Settings(
            without_registry=True,
            raw_manifest_links=ManifestLinks.FILE,
            module_rollout_at_once=1,  # the Kyma waits for its turn, and gets it
            disable_watcher=True,
            failure_base_delay=timedelta(seconds=0.1),
            module_upgrade_rollout_max_delay=timedelta(0),
        )
        made = install(
            manager,
            settings,
            modules=Sources.of(settings, http, EgressRules()),
            connect=lambda config, bounds: Client.connect(config, bounds),
        )
        task = asyncio.create_task(manager.run())
        works = Works(home_client, remote_client, tmp_path, home_line, remote_line, made, manager.metrics)
        try:
            yield works
            await _clean(works)
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task


async def _clean(works: Works) -> None:
    """Leave both clusters as they were: the operator itself takes its Kymas away."""
    if await works.home.find(Kyma, works.name, HOME) is not None:
        await works.home.delete(metadata_of(Kyma), works.name, HOME)

        async def is_gone() -> bool:
            return await works.home.find(Kyma, works.name, HOME) is None

        await eventually(is_gone, within=60, describe="the Kyma is gone")
    for kind in (ModuleTemplate, ModuleReleaseMeta):
        for each in (await works.home.list(kind, HOME)).items:
            await works.home.delete(metadata_of(kind), each.metadata.name, HOME)
    await works.home.delete(metadata_of(Secret), f"access-{works.name}", HOME)


@pytest.mark.req("KYMA-08", "KYMA-12", "KYMA-13", "KYMA-14", "KYMA-15", "KYMA-16", "KYMA-20", "KYMA-34", "R-210")
async def test_a_module_is_installed_moved_to_another_channel_and_removed(works: Works) -> None:
    """Its definition is awaited, drift is put back, and at rest nothing is asked."""
    await works.offer(regular="1.0.0", fast="2.0.0")
    await works.begin()
    await works.roll_out("manager:1.0.0")
    ready = await works.shows("Ready", "resources are ready")
    assert {(each.kind, each.name) for each in ready.status.synced} == {
        ("ConfigMap", "settings"),
        ("ConfigMap", "former"),
        ("CustomResourceDefinition", f"gadgets.{SAMPLES.group}"),
        ("CustomResourceDefinition", f"samples.{SAMPLES.group}"),
        ("Deployment", "manager"),
        ("Gadget", "built-in"),
    }
    assert [(each.type, each.status) for each in ready.status.conditions] == [
        ("Resources", "True"),
        ("Installation", "True"),
        ("ModuleCR", "True"),
    ]
    assert await works.samples() == ["kyma-system/default"]
    await works.kyma_shows("Ready")
    figures = works.figures.exposition().decode()
    for reason in ("initial_state_handling", "crds_sync", "manifest_add_finalizer", "manifest_sync_resources"):
        assert f'requeue_reason="{reason}",requeue_type="intended"' in figures
    written = works.written()
    assert len(written) <= 12, written
    settings = await works.remote.get(ConfigMap, "settings", SPACE)
    assert settings.metadata.annotations[labels.OWNED_BY_ANNOTATION] == f"{HOME}/{works.manifest_name}"

    theirs = MergePatch({"spec": {"of": "the user"}, "status": {"state": "Error"}})
    await works.remote.patch(unstructured(SAMPLES), "default", labels.SKR_NAMESPACE, theirs)
    await works.rest()
    works.made.manifests.controller.queue.add(ready.key)
    await eventually(works.is_calm)
    assert works.asked() == []
    await works.shows("Ready", "resources are ready")
    kept = await works.remote.get(unstructured(SAMPLES), "default", labels.SKR_NAMESPACE)
    assert kept.at("spec", "of") == "the user"
    await works.remote.delete(metadata_of(SAMPLES), "default", labels.SKR_NAMESPACE)

    await works.remote.patch(ConfigMap, "settings", SPACE, MergePatch({"data": {"colour": "green", "mine": "kept"}}))

    async def is_restored() -> bool:
        return (await works.remote.get(ConfigMap, "settings", SPACE)).data == {"colour": "red", "mine": "kept"}

    await eventually(is_restored, within=30)
    await works.remote.delete(metadata_of(ConfigMap), "former", SPACE)

    async def is_there_again() -> bool:
        return await works.remote.find(ConfigMap, "former", SPACE) is not None

    await eventually(is_there_again, within=30)

    await works.edit(channel="fast")
    await works.roll_out("manager:2.0.0")

    async def is_moved() -> bool:
        found = await works.shows("Ready")
        return found.spec.version == "2.0.0" and "former" not in {each.name for each in found.status.synced}

    await eventually(is_moved, within=60)
    assert await works.remote.find(ConfigMap, "former", SPACE) is None
    assert (await works.remote.get(ConfigMap, "settings", SPACE)).data["colour"] == "blue"
    assert await works.samples() == [], "its user has deleted it"

    elsewhere = MergePatch({"metadata": {"annotations": {labels.CLUSTER_ANNOTATION: "that of yesterday"}}})
    await works.home.patch(Manifest, works.manifest_name, HOME, elsewhere)

    async def is_made_here() -> bool:
        return await works.samples() == ["kyma-system/default"]

    await eventually(is_made_here, within=60, describe="its user has deleted it in another cluster")

    await works.edit(modules=[])
    await eventually(works.is_uninstalled, within=60)
    await works.kyma_shows("Ready")


@pytest.mark.req("KYMA-36")
async def test_custom_resources_of_users_hold_a_module_until_they_are_gone(works: Works) -> None:
    """What holds it is named, and nothing of the module goes before."""
    await works.offer(regular="1.0.0")
    await works.begin()
    await works.roll_out("manager:1.0.0")
    await works.shows("Ready")
    theirs: JsonObject = {**DEFAULT, "metadata": {"name": "theirs", "namespace": "default"}}
    await works.remote.create(unstructured(SAMPLES), theirs)
    await works.edit(modules=[])
    await works.shows("Deleting", "default/theirs")
    assert await works.deployment() is not None
    step = f"delete it, in the remote cluster: kubectl delete sample.{SAMPLES.group} -n default theirs"

    async def is_explained() -> bool:
        kyma = await works.home.get(unstructured(Kyma.resource), works.name, HOME)
        return (await KymaDiagnostician().diagnose(works.home, kyma)).next_step.startswith(step)

    await eventually(is_explained, within=30, describe="why names the command that ends it")
    await works.remote.delete(metadata_of(SAMPLES), "theirs", "default")
    await eventually(works.is_uninstalled, within=60)


@pytest.mark.req("KYMA-35", "KYMA-37")
async def test_a_module_that_is_enabled_again_while_its_removal_is_held_up_is_installed_anew(works: Works) -> None:
    await works.offer(regular="1.0.0", fast="2.0.0")
    await works.begin()
    await works.roll_out("manager:1.0.0")
    former = await works.shows("Ready")
    default = (unstructured(SAMPLES), "default", labels.SKR_NAMESPACE)
    await works.remote.patch(*default, MergePatch({"metadata": {"finalizers": ["example.org/held"]}}))
    await works.edit(modules=[])
    await works.shows("Deleting", "held by its finalizers example.org/held")
    assert await works.deployment() is not None
    await works.edit(channel="fast", modules=[{"name": "sample", "managed": True}])
    await works.roll_out("manager:2.0.0")
    held = await works.manifest()
    assert held is not None
    assert (held.metadata.uid, held.metadata.is_terminating) == (former.metadata.uid, True)
    await works.remote.patch(*default, MergePatch({"metadata": {"finalizers": []}}))

    async def is_new() -> bool:
        found = await works.manifest()
        return found is not None and found.metadata.uid != former.metadata.uid

    await eventually(is_new, within=60)
    await works.roll_out("manager:2.0.0")
    await works.shows("Ready")
    assert await works.samples() == ["kyma-system/default"]


@pytest.mark.req("KYMA-60", "KYMA-62")
async def test_two_refused_objects_are_one_message_however_often_they_are_tried(works: Works) -> None:
    maps = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {SPACE}}}\ndata: {{'no key': x}}\n"
        for name in ("zeta", "alpha")
    )
    (works.folder / "3.0.0.yaml").write_text("---\n".join(maps))
    await works.offer(regular="3.0.0")
    await works.begin()
    last = (await works.shows("Error", "server-side apply of module resources failed")).status.last_operation
    assert last is not None
    assert -1 < last.operation.find("alpha") < last.operation.find("zeta")
    await works.kyma_shows("Error")
    await works.rest()

    def is_tried_again() -> bool:
        tried = [each for each in works.remote_line.history.writes() if each.request.name == "alpha"]
        return len(tried) >= 2

    await eventually(is_tried_again, within=60)
    assert [str(each) for each in works.home_line.history.writes()] == []


@pytest.mark.req("KYMA-38", "KYMA-39", "KYMA-40")
async def test_a_module_that_is_not_managed_any_more_stays_without_our_label(works: Works) -> None:
    """Unmanaged, and managed again."""
    await works.offer(regular="1.0.0")
    await works.begin()
    await works.roll_out("manager:1.0.0")
    await works.shows("Ready")
    await works.edit(modules=[{"name": "sample", "managed": False}])

    async def is_released() -> bool:
        found = await works.deployment()
        return (
            await works.manifest() is None
            and found is not None
            and labels.MANAGED_BY_LABEL not in found.metadata.labels
        )

    await eventually(is_released, within=60)
    await works.edit(modules=[{"name": "sample", "managed": True}])
    await works.shows("Ready")
    found = await works.deployment()
    assert found is not None
    assert found.metadata.labels[labels.MANAGED_BY_LABEL] == labels.KYMA


@pytest.mark.req("KYMA-59")
@pytest.mark.parametrize(
    "fault", [CutConnection(after_forwarding=True), AnswerInstead(409)], ids=["a lost answer", "a conflict"]
)
async def test_a_fault_of_the_remote_cluster_at_the_first_writes_converges(works: Works, fault: Any) -> None:
    """Each of the first four writes fails once; the module becomes ready, and goes without a rest."""
    await works.offer(regular="1.0.0")
    with works.remote_line.on_requests(requests(("apply", "create", "patch")), fault, first(4)) as rule:
        await works.begin()
        await works.roll_out("manager:1.0.0")
        await works.shows("Ready")
    assert rule.fired == 4
    await works.edit(modules=[])
    await eventually(works.is_uninstalled, within=60)
