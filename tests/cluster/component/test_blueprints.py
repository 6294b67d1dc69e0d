"""A Blueprint offers what it says now; what it said before stays as long as a Component needs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import FINALIZER, RECONCILER, Blueprint, BlueprintVersion, Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import SourceNotReady
from stellwerk.operators.component.sources import blueprints
from stellwerk.operators.component.sources.blueprint_versions import BlueprintSummary, VersionSummary
from stellwerk.operators.component.sources.blueprints import BlueprintReconciler, BlueprintStore
from stellwerk.operators.component.sources.sources import Source, SourceKind
from stellwerk.render.errors import SourceError
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Notice
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy, Hold, events
from tests.cluster.component.kinds import serve

GRACE_SECONDS = 1.0


@dataclass
class Drawer:
    """The controller of Blueprints, running, and the hands that draw and use them."""

    client: Client
    namespace: str
    store: BlueprintStore
    components: Informer[Component]
    heard: list[Notice] = field(default_factory=list)

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        self.heard.append(notice)

    @property
    def source(self) -> Source:
        return Source(SourceKind.Blueprint, ObjectKey(self.namespace, "print"))

    async def draw(self, **files: str) -> Artifact:
        """Have the Blueprint hold these files, and return what it then offers."""
        named: JsonObject = {"name": "print", "namespace": self.namespace}
        written = await self.client.apply(Blueprint, {"metadata": named, "spec": {"files": {**files}}})
        await eventually(lambda: self._shows(written.metadata.generation))
        artifact = (await self.store.offer(self.source)).artifact
        assert artifact is not None
        return artifact

    def _shows(self, generation: int) -> bool:
        found = self.store.blueprints.store.get(ObjectKey(self.namespace, "print"))
        return found is not None and found.metadata.generation == generation

    async def use(self, name: str, artifact: Artifact | None) -> None:
        """Have a Component that follows the Blueprint, and whose status says what it has taken, as the cache knows."""
        named: JsonObject = {"name": name, "namespace": self.namespace}
        spec: JsonObject = {"sourceRef": {"blueprint": {"name": "print"}}}
        await self.client.apply(Component, {"metadata": named, "spec": spec})
        taken: JsonObject | None = None
        if artifact is not None:
            taken = {"artifact": {"url": artifact.url, "digest": artifact.digest, "revision": artifact.revision}}
        status: JsonObject = {"observedGeneration": 1, "sourceRef": taken}
        patch = MergePatch({"status": status})
        shown = await self.client.patch(Component, name, self.namespace, patch, subresource="status")
        await self.components.wait_for(shown.key, shown.metadata.resource_version, 30)

    async def versions(self) -> set[str]:
        """The digests of all versions."""
        return {one.spec.digest for one in (await self.client.list(BlueprintVersion, self.namespace)).items}


@pytest.fixture
async def drawer(cluster: LocalCluster, namespace: str) -> AsyncIterator[Drawer]:
    async with drawing(cluster.kubeconfig, namespace) as drawer:
        yield drawer


@contextlib.asynccontextmanager
async def drawing(kubeconfig: Path, namespace: str) -> AsyncIterator[Drawer]:
    config = ClusterConfig.load(kubeconfig)
    async with Client.connect(config, field_manager=RECONCILER) as client:
        await serve(client)
        manager = Manager(client)
        components = manager.informer(Component, namespace=namespace)
        known = manager.informer(VersionSummary, namespace=namespace)
        store = BlueprintStore(client, manager.informer(BlueprintSummary, namespace=namespace), known)
        drawer = Drawer(client, namespace, store, components)
        blueprints.index(components, known)
        keeper = BlueprintReconciler(
            store=store, components=components, clock=manager.clock, grace_seconds=GRACE_SECONDS
        )
        blueprints.install(manager, keeper, recorder=drawer, sweep_seconds=1.0)
        running = asyncio.create_task(manager.run())
        yield drawer
        manager.stop()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(10):
                await running
        await clean(client, namespace)


async def clean(client: Client, namespace: str) -> None:
    """Let the namespace go: nobody tends our finalizers any more."""
    for one in (await client.list(Blueprint, namespace)).items:
        with contextlib.suppress(Exception):
            await client.patch(Blueprint, one.metadata.name, namespace, MergePatch({"metadata": {"finalizers": []}}))


async def test_what_a_blueprint_says_can_be_taken_and_is_kept_as_a_version(drawer: Drawer) -> None:
    artifact = await drawer.draw(**{"a.yaml": "a: 1", "deploy/b.yaml": "b: 2"})
    await drawer.use("user", None)

    files = await drawer.store.files(drawer.source, artifact)

    assert dict(files) == {"a.yaml": b"a: 1", "deploy/b.yaml": b"b: 2"}
    kept = await drawer.client.get(BlueprintVersion, f"print--{artifact.digest}", drawer.namespace)
    assert (kept.spec.blueprint, kept.spec.digest, kept.spec.revision) == ("print", artifact.digest, "generation:1")
    assert kept.spec.files == {"a.yaml": "a: 1", "deploy/b.yaml": "b: 2"}


async def test_a_blueprint_that_is_absent_offers_nothing_yet(drawer: Drawer) -> None:
    await drawer.store.blueprints.wait_synced()

    with pytest.raises(SourceNotReady, match=r"Blueprint .*/print not found"):
        await drawer.store.offer(drawer.source)


async def test_a_former_content_stays_as_long_as_a_component_uses_it(drawer: Drawer) -> None:
    first = await drawer.draw(a="1")
    await drawer.use("slow", None)
    await drawer.store.files(drawer.source, first)
    await drawer.use("slow", first)
    second = await drawer.draw(a="2")
    await drawer.store.files(drawer.source, second)
    await drawer.use("fast", second)

    assert dict(await drawer.store.files(drawer.source, first)) == {"a": b"1"}
    await drawer.use("slow", second)

    await eventually(lambda: _are(drawer, {second.digest}))
    with pytest.raises(SourceError, match="is gone, and the Blueprint has changed"):
        await drawer.store.files(drawer.source, first)


@pytest.mark.req("R-112")
async def test_a_blueprint_in_use_does_not_vanish_and_names_its_users(drawer: Drawer) -> None:
    artifact = await drawer.draw(a="1")
    await drawer.use("user", None)
    await drawer.store.files(drawer.source, artifact)
    await drawer.use("user", artifact)
    await eventually(lambda: _has_finalizer(drawer))

    await drawer.client.delete(Blueprint, "print", drawer.namespace)

    await eventually(lambda: [one.reason for one in drawer.heard] == ["DeletionBlocked"])
    assert f"1 version left, used by Components {drawer.namespace}/user" in drawer.heard[0].message
    assert await drawer.client.find(Blueprint, "print", drawer.namespace) is not None

    await drawer.client.delete(Component, "user", drawer.namespace)
    await eventually(lambda: _is_gone(drawer))
    assert await drawer.versions() == set()


@pytest.mark.req("R-112")
async def test_a_blueprint_does_not_vanish_while_a_version_of_it_is_on_its_way_into_the_cache(
    cluster: LocalCluster, namespace: str
) -> None:
    async with FaultProxy(cluster.kubeconfig) as proxy, drawing(proxy.kubeconfig, namespace) as drawer:
        late = Hold()
        proxy.on_events(events("ADDED", BlueprintVersion.resource.group_resource), late)
        artifact = await drawer.draw(a="1")
        await drawer.use("user", artifact)
        await eventually(lambda: _has_finalizer(drawer))
        await drawer.store.files(drawer.source, artifact)
        await late.caught()

        await drawer.client.delete(Blueprint, "print", drawer.namespace)
        await drawer.client.apply(
            Blueprint, {"metadata": {"name": "next", "namespace": namespace}, "spec": {"files": {}}}
        )
        await eventually(lambda: _has_finalizer(drawer, "next"), describe="the turn of the one before is over")
        assert await _has_finalizer(drawer)
        assert drawer.heard == []

        late.release()
        await eventually(lambda: [one.reason for one in drawer.heard] == ["DeletionBlocked"])
        await drawer.client.delete(Component, "user", drawer.namespace)
        await eventually(lambda: _is_gone(drawer))


@pytest.mark.req("R-112")
async def test_versions_do_not_outlive_a_blueprint_whose_finalizer_somebody_removed(drawer: Drawer) -> None:
    artifact = await drawer.draw(a="1")
    await drawer.use("user", artifact)
    await drawer.store.files(drawer.source, artifact)
    await eventually(lambda: _has_finalizer(drawer))
    await drawer.client.delete(Blueprint, "print", drawer.namespace)
    await drawer.client.patch(Blueprint, "print", drawer.namespace, MergePatch({"metadata": {"finalizers": []}}))
    await drawer.client.delete(Component, "user", drawer.namespace)

    await eventually(lambda: _are(drawer, set()))


@pytest.mark.req("R-510")
async def test_a_version_stays_while_a_component_that_may_use_it_cannot_be_decoded(
    cluster: LocalCluster, namespace: str
) -> None:
    async with drawing(cluster.kubeconfig, namespace) as drawer:
        artifact = await drawer.draw(a="1")
        await drawer.use("user", artifact)
        await drawer.store.files(drawer.source, artifact)
        await drawer.draw(a="2")
        await eventually(lambda: _are(drawer, {artifact.digest}))
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        path = Component.resource.path(namespace, "user")
        deep = b'{"spec":{"values":{"a":%s}}}' % (b"[" * 200 + b"]" * 200)
        await client.raw("PATCH", path, body=deep, content_type="application/merge-patch+json")
    async with drawing(cluster.kubeconfig, namespace) as drawer:
        await eventually(lambda: ObjectKey(namespace, "user") in drawer.components.unreadable)
        await eventually(lambda: _has_finalizer(drawer))
        await drawer.client.delete(Blueprint, "print", namespace)
        await eventually(lambda: any("user" in notice.message for notice in drawer.heard))
        assert await drawer.versions() == {artifact.digest}
        await drawer.client.delete(metadata_of(Component), "user", namespace)
        await eventually(lambda: _are(drawer, set()))


async def test_an_unclean_path_is_refused_before_anything_is_kept(drawer: Drawer) -> None:
    artifact = await drawer.draw(**{"../up": "x"})

    with pytest.raises(SourceError, match=r"invalid file path in blueprint: \.\./up"):
        await drawer.store.files(drawer.source, artifact)
    assert await drawer.versions() == set()


async def _are(drawer: Drawer, digests: set[str]) -> bool:
    return await drawer.versions() == digests


async def _has_finalizer(drawer: Drawer, name: str = "print") -> bool:
    found = await drawer.client.find(Blueprint, name, drawer.namespace)
    return found is not None and FINALIZER in found.metadata.finalizers


async def _is_gone(drawer: Drawer) -> bool:
    return await drawer.client.find(Blueprint, "print", drawer.namespace) is None
