"""Kymas on two real API servers: their clusters, modules, catalogs and end, with faults between.

The controller of Manifests is not there; the tests do its work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.cluster.runtime.conftest import Bell
from tests.cluster.runtime.test_steps import Here
from tests.unit.kyma.kyma.worlds import component

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import collections as known
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.controllers import Adding
from stellwerk.operators.kyma.kyma.decide import KymaLogic, KymaSettings
from stellwerk.operators.kyma.kyma.sync import DEFINITIONS
from stellwerk.operators.kyma.mandatory.decide import MandatorySettings
from stellwerk.operators.kyma.module.resolution import Offers, manifest_name
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import RemoteClusters
from stellwerk.runtime.control.executor import Deciding, InformerSources, RemoteSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    AnswerInstead,
    CutConnection,
    Drop,
    FaultProxy,
    RequestFault,
    first,
    requests,
)

HOME = labels.KCP_NAMESPACE
HOME_COLLECTIONS = (
    known.KYMAS,
    known.TEMPLATES,
    known.METAS,
    known.MANIFESTS,
    known.ACCESS_SECRETS,
    known.OTHER_SECRETS,
    known.HOME_DEFINITIONS,
)
CRD = unstructured(known.HOME_DEFINITIONS.resource)
AMOD = manifest_name("k", "kyma-project.io/module/amod", "amod")
USER_KYMA = (labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)


def body(kind: type[Kind], name: str, spec: JsonObject, namespace: str = HOME, **metadata: Any) -> JsonObject:
    resource = kind.resource
    named: JsonObject = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": spec}


@dataclass
class Works:
    """The controller of Kymas, running, and users of both clusters."""

    engine: Deciding[Kyma, KymaStatus]
    clusters: RemoteClusters[RemoteSources]
    bell: Bell
    home: Client
    remote: Client
    home_line: FaultProxy
    remote_line: FaultProxy

    # ---- what people do

    async def log_in(self, name: str = "k", comment: str = "") -> None:
        """Give a Kyma an access Secret, or another one."""
        await self.log_in_with(name, self.remote_line.kubeconfig.read_text() + f"# {comment}\n")

    async def log_in_with(self, name: str, text: str) -> None:
        """Give a Kyma an access Secret with this kubeconfig."""
        metadata: JsonObject = {"name": f"access-{name}", "namespace": HOME, "labels": {labels.KYMA_NAME_LABEL: name}}
        await self.home.apply(Secret, {"metadata": metadata, "stringData": {labels.KUBECONFIG_KEY: text}})

    async def offer(self, module: str, **channels: str) -> None:
        """Offer a module in these versions, with templates that have every kind of field."""
        info: JsonObject = {"repository": "https://r", "documentation": "https://d", "icons": []}
        info["icons"] = [{"name": "i", "link": "https://i"}]
        for version in channels.values():
            rich: JsonObject = {
                "descriptor": {"component": {"name": "c"}},
                "moduleName": module,
                "version": version,
                "data": {"apiVersion": "g.io/v1", "kind": "Amod", "metadata": {"name": "default"}, "spec": {}},
                "resources": [{"name": "rawManifest", "link": "https://m"}],
                "info": info,
                "requiresDowntime": False,
                "manager": {"group": "apps", "version": "v1", "kind": "Deployment", "name": "keda"},
            }
            await self.home.apply(ModuleTemplate, body(ModuleTemplate, f"{module}-{version}", rich))
        listed: list[Any] = [{"channel": channel, "version": version} for channel, version in channels.items()]
        spec: JsonObject = {"moduleName": module, "channels": listed}
        spec["ocmComponentName"] = f"kyma-project.io/module/{module}"
        await self.home.apply(ModuleReleaseMeta, body(ModuleReleaseMeta, module, spec))

    async def create(self, name: str = "k", *modules: str) -> None:
        listed: list[Any] = [{"name": each, "managed": True} for each in modules]
        await self.home.create(Kyma, body(Kyma, name, {"channel": "regular", "modules": listed}))

    async def edit(self, spec: JsonObject) -> None:
        """The user edits the Kyma of the remote cluster."""
        await self.remote.patch(Kyma, *USER_KYMA, MergePatch({"spec": spec}))

    async def become(self, state: str) -> None:
        """Do the work of the controller of Manifests."""
        shown: JsonObject = {"status": {"state": state}, "metadata": {"finalizers": [labels.MANIFEST_FINALIZER]}}
        await eventually(self.has_manifest, within=30)
        await self.home.patch(Manifest, AMOD, HOME, MergePatch({"metadata": shown["metadata"]}))
        await self.home.patch(Manifest, AMOD, HOME, MergePatch({"status": shown["status"]}), subresource="status")

    async def release(self) -> None:
        """The controller of Manifests is done with one that is deleted."""

        async def is_leaving() -> bool:
            found = await self.home.find(Manifest, AMOD, HOME)
            return found is None or found.metadata.is_terminating

        await eventually(is_leaving, within=30)
        if await self.has_manifest():
            await self.home.patch(Manifest, AMOD, HOME, MergePatch({"metadata": {"finalizers": []}}))

    # ---- what is looked at

    async def has_manifest(self) -> bool:
        return await self.home.find(Manifest, AMOD, HOME) is not None

    async def shows(self, state: str, operation: str = "", name: str = "k") -> Kyma:
        """The Kyma of the control plane, as soon as it shows this, and the other one shows the same."""
        seen: list[Kyma] = []

        async def found() -> bool:
            seen.append(await self.home.get(Kyma, name, HOME))
            status = seen[-1].status
            shown = status.last_operation.operation if status.last_operation is not None else ""
            return status.state == state and operation in shown

        await eventually(found, within=60, describe=f"{name} is {state} {operation}")
        return seen[-1]

    async def tells(self, state: str, channel: str = "regular") -> Kyma:
        """The Kyma of the remote cluster, as soon as it shows this."""
        seen: list[Kyma] = []

        async def found() -> bool:
            seen[:] = [await self.remote.get(Kyma, *USER_KYMA)]
            return (seen[0].status.state, seen[0].status.active_channel) == (state, channel)

        await eventually(found, within=30, describe=f"the user reads {state} {channel}")
        return seen[0]

    async def is_gone(self, name: str = "k") -> bool:
        return await self.home.find(Kyma, name, HOME) is None

    def is_calm(self) -> bool:
        queue = self.engine.controller.queue
        return not queue.running and not len(queue)

    async def rest(self) -> None:
        """Return when nothing is under way, and forget what was asked before."""
        await eventually(self.is_calm)
        for line in (self.home_line, self.remote_line):
            await line.history.settled()
            line.history.clear()

    def written(self) -> list[str]:
        """What was written since, on both sides."""
        exchanges = [*self.home_line.history.writes(), *self.remote_line.history.writes()]
        return [f"{each.request.verb} {each.request.resource} {each.request.name}" for each in exchanges]


@pytest.fixture
async def works(
    home_cluster: LocalCluster, remote_cluster: LocalCluster, home_client: Client, remote_client: Client
) -> AsyncIterator[Works]:
    async with contextlib.AsyncExitStack() as stack:
        home_line = await stack.enter_async_context(FaultProxy(home_cluster.kubeconfig))
        remote_line = await stack.enter_async_context(FaultProxy(remote_cluster.kubeconfig))
        config = ClusterConfig.load(home_line.kubeconfig)
        ours = await stack.enter_async_context(Client.connect(config, field_manager=labels.FIELD_MANAGER))
        manager, bell = Manager(ours, grace_seconds=2.0), Bell()
        sources = InformerSources(Here(manager, HOME), HOME_COLLECTIONS)
        clusters = RemoteClusters[RemoteSources](
            Cluster(ours, clock=manager.clock),
            connect=lambda config, bounds: Client.connect(
                config, bounds, largest_answer_bytes=LARGEST_FOREIGN_ANSWER_BYTES
            ),
            build=lambda cluster, _: RemoteSources(cluster, known.RUNTIME_COLLECTIONS),
            clock=manager.clock,
            border=Border(manager.metrics, manager.clock),
            field_manager=labels.FIELD_MANAGER,
            on_trouble=RemoteSources.note,
        )
        loads = Loads(ours, manager.clock, sources.wakes)
        manager.add_controller(loads)
        adding = Adding(
            manager=manager,
            client=ours,
            sources=sources,
            clusters=clusters,
            loads=loads,
            backoff=Backoff(first_seconds=0.05, limit_seconds=0.5),
            recorder=bell,
        )
        offers = Offers(component=component)
        settings = KymaSettings(offers=lambda _: offers, pull_secret="pull")
        engine = adding.kind(KymaLogic(manager.clock), (settings,), 1, looks_abroad=True)
        adding.mandatory_modules(MandatorySettings(offers=lambda _: offers))
        apart = asyncio.create_task(clusters.run())
        task = asyncio.create_task(manager.run())
        made = Works(engine, clusters, bell, home_client, remote_client, home_line, remote_line)
        pull: JsonObject = {"metadata": {"name": "pull", "namespace": HOME}, "stringData": {".dockerconfigjson": "{}"}}
        await home_client.apply(Secret, {**pull, "type": "kubernetes.io/dockerconfigjson"})
        try:
            yield made
            await _clean(made)
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task
            apart.cancel()
            await asyncio.wait([apart])


async def _clean(works: Works) -> None:
    """Leave both clusters as they were: the operator itself takes its Kymas away."""
    for name in [each.metadata.name for each in (await works.home.list(Kyma, HOME)).items]:
        await works.home.delete(metadata_of(Kyma), name, HOME)
    await works.release()
    await eventually(works.is_gone, within=60)
    for kind in (ModuleTemplate, ModuleReleaseMeta):
        for each in (await works.home.list(kind, HOME)).items:
            await works.home.delete(metadata_of(kind), each.metadata.name, HOME)
    await works.home.delete(metadata_of(Secret), "access-k", HOME)


@pytest.mark.req("KYMA-01", "KYMA-02", "KYMA-06", "KYMA-09", "KYMA-20", "KYMA-34")
async def test_a_module_is_installed_by_channel_upgraded_and_removed(works: Works) -> None:
    """Each change of a user arrives, and at rest nothing is asked."""
    await works.offer("amod", regular="1.0.0", fast="2.0.0")
    await works.create("k", "amod")
    await works.shows("Error", "access secret not found")
    await works.log_in()
    await works.become("Ready")
    here, there = await works.shows("Ready", "kyma is ready"), await works.tells("Ready")
    assert [(each.type, each.status) for each in here.status.conditions] == [
        ("CRDsSync", "True"),
        ("Modules", "True"),
        ("ModuleCatalog", "True"),
        ("SKRImagePullSecretSync", "True"),
    ]
    pull = await works.remote.get(Secret, "pull", labels.SKR_NAMESPACE)
    assert (pull.type, pull.decoded()) == ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": b"{}"})
    assert [(each.name, each.version, each.manifest) for each in there.status.modules] == [("amod", "1.0.0", None)]
    space = await works.remote.get(Namespace, labels.SKR_NAMESPACE)
    assert labels.SKR_NAMESPACE_LABELS.items() <= space.metadata.labels.items()
    reasons = [notice.reason for _, notice in works.bell.heard]
    assert reasons.count("RemoteInstallation") == reasons.count("MetricsError") == 1

    await works.rest()
    works.engine.controller.queue.add(ObjectKey(HOME, "k"))
    await works.rest()
    assert works.written() == []

    await works.edit({"channel": "fast"})
    await eventually(lambda: _has_version(works, "2.0.0"), within=30)
    await works.become("Ready")
    await works.shows("Ready")
    await works.tells("Ready", "fast")

    await works.edit({"modules": []})
    await works.release()
    await eventually(lambda: _has_modules(works, 0), within=30)
    await works.shows("Ready")


async def _has_version(works: Works, version: str) -> bool:
    found = await works.home.find(Manifest, AMOD, HOME)
    return found is not None and found.spec.version == version


async def _has_modules(works: Works, number: int) -> bool:
    return len((await works.home.get(Kyma, "k", HOME)).status.modules) == number


@pytest.mark.req("KYMA-05", "KYMA-32")
async def test_what_a_user_breaks_in_the_cluster_is_restored_and_what_is_theirs_stays(works: Works) -> None:
    await works.offer("amod", regular="1.0.0", fast="2.0.0")
    await works.create()
    await works.log_in()
    await works.shows("Ready")
    await works.rest()
    theirs = body(ModuleTemplate, "users-1.0.0", {"descriptor": {}, "moduleName": "users", "version": "1.0.0"})
    theirs["metadata"] = {"name": "users-1.0.0", "namespace": labels.SKR_NAMESPACE}
    await works.remote.create(ModuleTemplate, theirs)
    edit = MergePatch({"spec": {"version": "9.9.9"}, "metadata": {"labels": {labels.MANAGED_BY_LABEL: None}}})
    await works.remote.patch(ModuleTemplate, "amod-1.0.0", labels.SKR_NAMESPACE, edit)
    await works.remote.delete(metadata_of(ModuleReleaseMeta), "amod", labels.SKR_NAMESPACE)
    await works.remote.delete(metadata_of(Kyma), *USER_KYMA)
    await works.remote.delete(metadata_of(Secret), "pull", labels.SKR_NAMESPACE)

    async def is_restored() -> bool:
        template = await works.remote.get(ModuleTemplate, "amod-1.0.0", labels.SKR_NAMESPACE)
        meta = await works.remote.find(ModuleReleaseMeta, "amod", labels.SKR_NAMESPACE)
        kyma = await works.remote.find(Kyma, *USER_KYMA)
        pull = await works.remote.find(Secret, "pull", labels.SKR_NAMESPACE)
        return template.spec.version == "1.0.0" and None not in (meta, kyma, pull)

    await eventually(is_restored, within=30)
    await works.tells("Ready")
    more: Any = {"spec": {"channels": [{"channel": "added", "version": "3.0.0"}]}}
    meta = {**body(ModuleReleaseMeta, "amod", more["spec"], labels.SKR_NAMESPACE)}
    await works.remote.apply(ModuleReleaseMeta, meta, field_manager="theirs")
    await works.rest()
    works.engine.controller.queue.add(ObjectKey(HOME, "k"))
    await works.rest()
    assert works.written() == [], "a channel that the user adds is no reason to write"
    await works.offer("amod", regular="1.0.0")
    await works.home.delete(metadata_of(ModuleTemplate), "amod-2.0.0", HOME)
    gone = ("amod-2.0.0", labels.SKR_NAMESPACE)

    async def is_gone() -> bool:
        return await works.remote.find(ModuleTemplate, *gone) is None

    await eventually(is_gone, within=30)
    assert await works.remote.find(ModuleTemplate, "users-1.0.0", labels.SKR_NAMESPACE) is not None


@pytest.mark.req("KYMA-43")
async def test_a_kyma_goes_step_by_step_and_leaves_nothing_of_ours(works: Works) -> None:
    await works.offer("amod", regular="1.0.0")
    await works.create("k", "amod")
    await works.log_in()
    await works.become("Ready")
    await works.shows("Ready")
    await works.home.delete(metadata_of(Kyma), "k", HOME)
    await works.shows("Deleting", "waiting for modules to be deleted")
    await works.release()
    await eventually(works.is_gone, within=60)
    expected = [
        "SetKcpKymaStateDeleting",
        "SetSkrKymaStateDeleting",
        "DeleteManifests",
        "DeleteSkrModuleTemplateCrd",
        "DeleteSkrModuleReleaseMetaCrd",
        "DeleteSkrKyma",
        "DeleteSkrKymaCrd",
        "DropKymaFinalizer",
    ]

    def has_told_all() -> bool:
        steps = [notice.reason for _, notice in works.bell.heard if notice.message == "Success"]
        assert [*dict.fromkeys(steps)] == expected  # one is repeated while a cache does not show its deletion
        return True

    await eventually(has_told_all)  # the last Event follows the end of the Kyma
    assert [await works.remote.find(CRD, name) for name in DEFINITIONS] == [None, None, None]
    await eventually(lambda: len(works.clusters) == 0, describe="the cluster is left")


@pytest.mark.req("KYMA-44", "KYMA-46")
async def test_a_cluster_that_refuses_the_login_is_an_error_until_the_secret_changes(works: Works) -> None:
    """Nothing is taken for absent, and a new login counts at once."""
    await works.offer("amod", regular="1.0.0")
    await works.create("k", "amod")
    await works.log_in()
    await works.become("Ready")
    await works.shows("Ready")
    with works.remote_line.on_requests(requests(), AnswerInstead(401)):
        await works.log_in(comment="a revoked login")
        shown = await works.shows("Error", "the cluster of Secret kcp-system/access-k")
        assert [each.state for each in shown.status.modules] == ["Error"]
    await works.log_in(comment="a new login")
    await works.shows("Ready")
    with works.remote_line.on_requests(requests(), CutConnection()):
        await works.home.delete(metadata_of(Kyma), "k", HOME)
        await works.log_in(comment="of a cluster that does not answer")
        await works.shows("Deleting", "the cluster of Secret kcp-system/access-k")
        assert not (await works.home.get(Manifest, AMOD, HOME)).metadata.is_terminating
        await works.home.delete(metadata_of(Secret), "access-k", HOME)
        await works.release()
        await eventually(works.is_gone, within=60)
    for name in DEFINITIONS:
        await works.remote.delete(CRD, name)
    await works.log_in()


HOSTILE: dict[str, tuple[RequestFault | None, str]] = {
    "silent": (Drop(), "answer"),
    "cut": (CutConnection(), "the connection was cut"),
    "garbage": (AnswerInstead(200, raw=b"<html>who are you?</html>"), "cannot"),
    "flood": (AnswerInstead(200, raw=b" " * (LARGEST_FOREIGN_ANSWER_BYTES + 1)), "the answer is larger than 16 MiB"),
    "forbidden": (AnswerInstead(403), "not permitted to list and watch"),
    "refused": (AnswerInstead(401), "the fault proxy refuses it"),
    "another": (None, "leads to another cluster than before"),
    "certificate": (None, "does not prove its identity"),
}
"""How a cluster fails, and what its Kyma says about it."""


@pytest.mark.req("KYMA-46")
async def test_fifty_clusters_that_fail_in_their_ways_hold_up_no_other_kyma(
    works: Works, remote_cluster: LocalCluster
) -> None:
    """Eight faults, and one worker: a good one becomes Ready among them, and each of the others names its own cause."""
    await works.offer("amod", regular="1.0.0")
    names = {f"{fault}-{number}": fault for fault in HOSTILE for number in range(2 if fault == "flood" else 7)}
    async with contextlib.AsyncExitStack() as stack:
        for fault, (meets, _) in HOSTILE.items():
            line = await stack.enter_async_context(FaultProxy(remote_cluster.kubeconfig))
            if meets is not None:
                line.on_requests(requests("list", "namespaces") if fault == "flood" else requests(), meets)
            login = line.kubeconfig.read_text()
            if fault == "certificate":  # that of the authority which signed the one of another server
                login = works.remote_line.kubeconfig.read_text().replace(works.remote_line.url, line.url)
            for name in (name for name, its in names.items() if its == fault):
                await works.log_in_with(name, f"{login}# {name}\n")
                noted = {labels.CLUSTER_ANNOTATION: "that of yesterday"} if fault == "another" else {}
                listed: list[Any] = [{"name": "amod", "managed": True}]
                spec: JsonObject = {"channel": "regular", "modules": listed}
                await works.home.create(Kyma, body(Kyma, name, spec, annotations={**noted}))
        await works.log_in()
        await works.create("k", "amod")
        await works.become("Ready")
        await works.shows("Ready")
        for name, fault in names.items():
            await works.shows("Error", HOSTILE[fault][1], name)
        for name in names:
            await works.home.delete(metadata_of(Kyma), name, HOME)
            await works.home.delete(metadata_of(Secret), f"access-{name}", HOME)
        for name in names:
            await eventually(partial(works.is_gone, name), within=30)


@pytest.mark.req("R-210")
async def test_another_cluster_behind_the_login_gets_nothing_until_it_is_confirmed(works: Works) -> None:
    await works.create()
    await works.log_in()
    shown = await works.shows("Ready")
    here = (await works.remote.get(Namespace, labels.SYSTEM_NAMESPACE)).metadata.uid
    assert shown.metadata.annotations[labels.CLUSTER_ANNOTATION] == here
    await works.rest()
    another = MergePatch({"metadata": {"annotations": {labels.CLUSTER_ANNOTATION: "that of yesterday"}}})
    await works.home.patch(Kyma, "k", HOME, another)
    await works.shows("Error", f"is {here}, and not that of yesterday")
    await works.remote.delete(metadata_of(Kyma), *USER_KYMA)
    await works.rest()
    works.engine.controller.queue.add(ObjectKey(HOME, "k"))
    await works.rest()
    assert await works.remote.find(Kyma, *USER_KYMA) is None
    confirmed = MergePatch({"metadata": {"annotations": {labels.CLUSTER_ANNOTATION: None}}})
    await works.home.patch(Kyma, "k", HOME, confirmed)
    shown = await works.shows("Ready")
    assert shown.metadata.annotations[labels.CLUSTER_ANNOTATION] == here
    await works.tells("Ready")


@pytest.mark.req("KYMA-59")
@pytest.mark.parametrize("fault", ["conflict", "lost answer", "lost request", "refused"])
async def test_a_fault_of_any_write_to_the_cluster_converges(works: Works, fault: str) -> None:
    faults: dict[str, Any] = {
        "conflict": AnswerInstead(409),
        "lost answer": CutConnection(after_forwarding=True),
        "lost request": CutConnection(),
        "refused": AnswerInstead(422),
    }
    await works.offer("amod", regular="1.0.0")
    await works.remote.apply(Namespace, {"metadata": {"name": labels.SKR_NAMESPACE}})
    bare = MergePatch({"metadata": {"labels": {labels.MANAGED_BY_LABEL: None}}})
    await works.remote.patch(Namespace, labels.SKR_NAMESPACE, "", bare)
    with contextlib.ExitStack() as stack:
        rules = [
            stack.enter_context(works.remote_line.on_requests(requests(verb, resource), faults[fault], first(1)))
            for verb, resource in (
                ("apply", "namespaces"),
                ("apply", "customresourcedefinitions.apiextensions.k8s.io"),
                ("create", Kyma.resource.group_resource),
                ("update", Kyma.resource.group_resource),
                ("apply", ModuleTemplate.resource.group_resource),
            )
        ]
        await works.create("k", "amod")
        await works.log_in()
        await works.become("Ready")
        await works.shows("Ready")
        await works.tells("Ready")
        assert [each.fired for each in rules] == [1] * len(rules)


@pytest.mark.req("KYMA-48")
async def test_a_mandatory_module_comes_to_every_kyma_and_goes_with_its_meta(works: Works) -> None:
    """Upgraded with its meta, in no status, restored if it is edited, and removed before its meta is."""
    for version in ("1.0.0", "2.0.0"):
        spec: JsonObject = {"descriptor": {}, "moduleName": "bmod", "version": version, "mandatory": True}
        await works.home.apply(ModuleTemplate, body(ModuleTemplate, f"bmod-{version}", spec))
    wanted: JsonObject = {"moduleName": "bmod", "ocmComponentName": "kyma-project.io/module/bmod"}
    await works.home.create(
        ModuleReleaseMeta, body(ModuleReleaseMeta, "bmod", {**wanted, "mandatory": {"version": "1.0.0"}})
    )
    await works.create()
    name = manifest_name("k", "kyma-project.io/module/bmod", "bmod")

    async def found(version: str) -> bool:
        manifest = await works.home.find(Manifest, name, HOME)
        return manifest is not None and manifest.spec.version == version

    await eventually(lambda: found("1.0.0"), within=30)
    manifest = await works.home.get(Manifest, name, HOME)
    assert manifest.metadata.labels[labels.MANDATORY_MODULE_LABEL] == "true"
    assert labels.CHANNEL_LABEL not in manifest.metadata.labels
    assert (await works.home.get(Kyma, "k", HOME)).status.modules == ()
    await works.home.patch(ModuleReleaseMeta, "bmod", HOME, MergePatch({"spec": {"mandatory": {"version": "2.0.0"}}}))
    await eventually(lambda: found("2.0.0"), within=30)
    await works.home.patch(Manifest, name, HOME, MergePatch({"spec": {"version": "9.9.9"}}))
    await eventually(lambda: found("2.0.0"), within=30)
    await works.home.patch(Manifest, name, HOME, MergePatch({"metadata": {"finalizers": [labels.MANIFEST_FINALIZER]}}))
    await works.home.delete(metadata_of(ModuleReleaseMeta), "bmod", HOME)

    async def is_leaving() -> bool:
        return (await works.home.get(Manifest, name, HOME)).metadata.is_terminating

    await eventually(is_leaving, within=30)
    held = await works.home.get(ModuleReleaseMeta, "bmod", HOME)
    assert held.metadata.finalizers == (labels.MANDATORY_MODULE_FINALIZER,)
    await works.home.patch(Manifest, name, HOME, MergePatch({"metadata": {"finalizers": []}}))

    async def is_gone() -> bool:
        return await works.home.find(ModuleReleaseMeta, "bmod", HOME) is None

    await eventually(is_gone, within=30)
    assert await works.home.find(Manifest, name, HOME) is None
