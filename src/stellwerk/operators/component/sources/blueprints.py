"""Blueprints: what they offer to Components, and the versions that are kept of them.

`BlueprintStore` is what a pass on a Component asks: it offers the present content from the cache, and keeps a version
of a content when it is taken. `BlueprintReconciler` is the other half: it deletes unused
versions, and keeps a Blueprint while it is used.

The cache holds no contents: a tenant may store any number of Blueprints of more than a MiB. A content is read when a
Component needs it, once for each generation, and kept up to a number of bytes in all and for each namespace.

The status of a Component shows that a version is used, which is saved at the end of a pass and seen a moment later.
So while Components name the Blueprint, a version must be unused for a while before it is deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from stellwerk.kube import threads
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.component.api import FINALIZER, RECONCILER, Blueprint, BlueprintVersion, Component
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.errors import SourceNotReady
from stellwerk.operators.component.sources import blueprint_versions as versions
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.blueprint_versions import BlueprintSummary, VersionSummary
from stellwerk.operators.component.sources.sources import Source
from stellwerk.render.bounded_cache import Kept
from stellwerk.render.errors import SourceError
from stellwerk.render.files.files import Files
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.control.periodic import Periodic
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, Notice, SimpleReconciler

CONTROLLER = "blueprint"
BY_VERSION = "blueprint version taken"
BY_SOURCE = "source"
BY_BLUEPRINT = "blueprint"
"""Names of indices: of the Components by version and by source, of the versions by Blueprint."""

SWEEP_SECONDS = 600.0
AFTER_DELETION_SECONDS = 1.0
GRACE_SECONDS = 30.0
"""How long a version must have been unused. Longer than a pass takes to save its status."""

_KEPT_BYTES, _KEPT_BYTES_OF_TENANT = 32 * 2**20, 8 * 2**20
"""How much of the files is kept, in all and of one namespace."""
_FILE_BYTES = 500
"""As much text as takes as long as one more file."""

BLOCKED_SECONDS = 10.0
DELETION_BLOCKED = "DeletionBlocked"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """What Blueprints offer. Reads the caches and contents, and writes versions."""

    client: Client
    blueprints: Informer[BlueprintSummary]
    known: Informer[VersionSummary]
    _artifacts: dict[ObjectKey, tuple[tuple[str, int], Artifact]] = field(default_factory=dict)
    """By uid and generation."""
    _files: Kept[ObjectKey, tuple[str, Files]] = field(
        default_factory=lambda: Kept(
            _KEPT_BYTES, now=time.monotonic, largest=_KEPT_BYTES_OF_TENANT, tenant_capacity=_KEPT_BYTES_OF_TENANT
        )
    )
    """The present content of Blueprints that were asked for, so that each generation is read and hashed once."""
    _turns: WeakValueDictionary[ObjectKey, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def offer(self, source: Source) -> SourceStatus:
        """What the Blueprint offers now. Raises `SourceNotReady` or ApiError."""
        parked = self.blueprints.parked
        if parked is not None and not parked.is_not_served:
            raise SourceNotReady(source.place, f"Blueprint {source.key} cannot be read: {parked.why}")
        if odd := self.blueprints.unreadable.get(source.key):
            raise SourceNotReady(source.place, str(odd))
        found = self.blueprints.store.get(source.key)
        artifact = await self.artifact(found) if found is not None else None
        if found is None or artifact is None:
            raise SourceNotReady(source.place, f"Blueprint {source.key} not found")
        return sources.offer(found.metadata, artifact)

    async def artifact(self, blueprint: BlueprintSummary) -> Artifact | None:
        """The present content of a Blueprint; None where it is gone. Raises ApiError."""
        async with self._turn(blueprint.key):
            stamp, artifact = self._artifacts.get(blueprint.key, (("", 0), None))
            if artifact is not None and stamp == (blueprint.metadata.uid, blueprint.metadata.generation):
                return artifact
            artifact, _ = await self._read(blueprint.key)
            return artifact

    async def files(self, source: Source, artifact: Artifact) -> Files:
        """The files of a version, which is kept from then on. Raises a `SourceError`, or ApiError."""
        found = self.blueprints.store.get(source.key)
        present = await self.artifact(found) if found is not None else None
        if found is None or present is None or present.digest != artifact.digest:
            return await self._former(source.key, artifact)
        if (files := await self._present(source.key, artifact.digest)) is None:
            return await self._former(source.key, artifact)
        await self._keep(found, artifact, files)
        return files

    async def _present(self, key: ObjectKey, digest: str) -> Files | None:
        """The files of the present content; None where it has changed meanwhile."""
        async with self._turn(key):
            known, files = self._files.get(key) or ("", None)
            if files is not None and known == digest:
                return files
            artifact, content = await self._read(key)
            if artifact is None or artifact.digest != digest:
                return None
            if isinstance(content, SourceError):
                raise content
            return content

    async def _read(self, key: ObjectKey) -> tuple[Artifact | None, Files | SourceError | None]:
        """Read the content of a Blueprint and remember it, or why it has no files; None where it is gone.

        Raises ApiError.
        """
        found = await self.client.find(Blueprint, key.name, key.namespace)
        if found is None:
            return None, None
        size = _size(found.spec.files)
        artifact = await threads.run_if_large(size, lambda: versions.artifact(found))
        self._artifacts[key] = ((found.metadata.uid, found.metadata.generation), artifact)
        try:
            files = await _files(found.spec.files)
        except SourceError as error:
            return artifact, error
        self._files.put(key, (artifact.digest, files), files.size, key.namespace)
        return artifact, files

    def _turn(self, key: ObjectKey) -> asyncio.Lock:
        """Held by the reader of a Blueprint: many Components of one Blueprint read each generation once."""
        return self._turns.setdefault(key, asyncio.Lock())

    async def _keep(self, blueprint: BlueprintSummary, artifact: Artifact, files: Files) -> None:
        name = versions.version_name(blueprint.metadata.name, artifact.digest)
        if ObjectKey(blueprint.metadata.namespace, name) not in self.known.store:
            body = versions.version_of(blueprint.key, artifact, files)
            kept = await self.client.apply(VersionSummary, body, field_manager=RECONCILER)
            # Noted under the Blueprint, whose end must not come before the version shows.
            self.known.expect(blueprint.key, kept.metadata.resource_version)

    async def _former(self, blueprint: ObjectKey, artifact: Artifact) -> Files:
        name = versions.version_name(blueprint.name, artifact.digest)
        found = await self.client.find(BlueprintVersion, name, blueprint.namespace)
        if found is None:
            raise SourceError(f"BlueprintVersion {blueprint.namespace}/{name} is gone, and the Blueprint has changed")
        return await _files(found.spec.files)

    def forget(self, blueprint: ObjectKey) -> None:
        """The Blueprint is gone."""
        self._files.drop(blueprint)
        self._artifacts.pop(blueprint, None)


async def _files(contents: Mapping[str, str]) -> Files:
    """As `versions.files`, with their digest. Raises a `SourceError`."""

    def made() -> Files:
        files = versions.files(contents)
        _ = files.digest
        return files

    return await threads.run_if_large(_size(contents), made)


def _size(contents: Mapping[str, str]) -> int:
    """How much there is to do for a content: characters, and files, of which each costs as much as some hundred."""
    return sum(map(len, contents.values())) + _FILE_BYTES * len(contents)


class NoStatus(Record, frozen=True, kw_only=True):
    """Blueprints have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintReconciler(SimpleReconciler[BlueprintSummary, NoStatus]):
    """Deletes unused versions, and keeps Blueprints that are used."""

    store: BlueprintStore
    components: Informer[Component]
    clock: Clock
    cross_namespace_refs: bool = True
    """Whether Components of other namespaces may use a Blueprint."""
    grace_seconds: float = GRACE_SECONDS
    _told: dict[ObjectKey, str] = field(default_factory=dict)
    """The last report about each deletion that waits."""
    _unused: dict[ObjectKey, dict[str, float]] = field(default_factory=dict)
    """Since when each version of a Blueprint has been unused, by its uid."""

    async def reconcile(self, blueprint: BlueprintSummary) -> Next[NoStatus]:
        """Bring one Blueprint up to date. Raises Conflict, or another ApiError."""
        if not blueprint.metadata.is_terminating:
            await finalizer.add(self.store.client, blueprint, FINALIZER)
        if not self._sees_all():
            return Next.after(BLOCKED_SECONDS)
        digest = ""
        if self._of(blueprint.key):  # without versions, the content is not needed
            artifact = await self.store.artifact(blueprint)
            if artifact is None:
                return Next.after(AFTER_DELETION_SECONDS)  # gone, as the cache is about to show
            digest = artifact.digest
        usage = self._usage(blueprint.key, digest)
        due, wait_seconds = self._due(blueprint.key, usage)
        if due:
            await self._delete(due)
            return Next.after(AFTER_DELETION_SECONDS)
        if wait_seconds:
            return Next.after(wait_seconds)
        if not blueprint.metadata.is_terminating:
            return Next.after(SWEEP_SECONDS)
        return await self._release(blueprint, usage)

    async def forget(self, key: ObjectKey) -> None:
        """The Blueprint is gone, maybe by force: unused versions are deleted, too."""
        self.store.forget(key)
        self._told.pop(key, None)
        self._unused.pop(key, None)
        if self._sees_all():  # otherwise `sweep` deletes them later
            await self._delete(self._usage(key, "").unused)

    def _sees_all(self) -> bool:
        """Whether the caches show all users and all versions: where a watch is parked, absence proves nothing."""
        return self.components.has_synced and self.store.known.has_synced

    def _due(self, key: ObjectKey, usage: versions.BlueprintUsage) -> tuple[tuple[VersionSummary, ...], float]:
        """The versions to delete now, and in how many seconds the next one is due; 0: none is."""
        now, before = self.clock.monotonic(), self._unused.pop(key, {})
        since = {one.metadata.uid: before.get(one.metadata.uid, now) for one in usage.unused}
        if since:
            self._unused[key] = since
        grace = self.grace_seconds if usage.has_followers else 0.0
        due = tuple(one for one in usage.unused if now - since[one.metadata.uid] >= grace)
        return due, min((moment + grace - now for moment in since.values()), default=0.0)

    async def sweep(self) -> None:
        """Delete unused versions whose Blueprint is gone: another client removed its finalizer while they were in use.

        Raises ApiError.
        """
        if not self.store.blueprints.has_synced:
            return
        for key in {one.blueprint for one in self.store.known.store.all()}:
            if key not in self.store.blueprints.store and key not in self.store.blueprints.unreadable:
                await self.forget(key)

    async def _release(self, blueprint: BlueprintSummary, usage: versions.BlueprintUsage) -> Next[NoStatus]:
        if self._of(blueprint.key):
            return self._waiting(blueprint.key, _blocked(usage))
        if self.store.known.expected(blueprint.key) is not None:
            return Next.after(AFTER_DELETION_SECONDS)  # a version was kept that the cache does not show yet
        await finalizer.remove(self.store.client, blueprint, FINALIZER)
        return Next.done()

    def _waiting(self, key: ObjectKey, why: str) -> Next[NoStatus]:
        answer: Next[NoStatus] = Next.after(BLOCKED_SECONDS)
        if self._told.get(key) == why:
            return answer
        self._told[key] = why
        return answer.with_events(Notice(DELETION_BLOCKED, why, action="Delete"))

    def _usage(self, key: ObjectKey, digest: str) -> versions.BlueprintUsage:
        store = self.components.store
        found = versions.usage(
            key,
            digest,
            self._of(key),
            users=lambda url: store.by(BY_VERSION, url),
            followers=lambda value: store.by(BY_SOURCE, value),
            cross_namespace=self.cross_namespace_refs,
        )
        return versions.used_unseen(found, self._unseen_users(key.namespace))

    def _unseen_users(self, namespace: str) -> list[ObjectKey]:
        """Components of a namespace that cannot be decoded and never could. Elsewhere they would let a tenant keep the
        versions of others."""
        unseen = self.components.unreadable.keys()
        return [key for key in unseen if key.namespace == namespace and key not in self.components.store]

    def _of(self, key: ObjectKey) -> tuple[VersionSummary, ...]:
        return tuple(self.store.known.store.by(BY_BLUEPRINT, str(key)))

    async def _delete(self, unused: tuple[VersionSummary, ...]) -> None:
        for version in unused:
            # One that was created again or taken meanwhile is left: its change leads to the next look.
            await conditional.delete(self.store.client, VersionSummary, version, if_unchanged=True)


def _blocked(usage: versions.BlueprintUsage) -> str:
    named = ", ".join(map(str, usage.components[:_NAMED]))
    rest = len(usage.components) - _NAMED
    more = f" and {rest} others" if rest > 0 else ""
    users = f", used by Components {named}{more}" if named else ""
    count = len(usage.used)
    return f"deletion blocked: {count} version{'s' if count != 1 else ''} left{users}"


# ---- put together


def index(components: Informer[Component], known: Informer[VersionSummary]) -> None:
    """Add the indices that both halves need."""
    components.store.add_index(BY_VERSION, versions.index_by_version)
    components.store.add_index(BY_SOURCE, sources.index_by_source)
    known.store.add_index(BY_BLUEPRINT, lambda version: (str(version.blueprint),))


def install(
    manager: Manager,
    reconciler: BlueprintReconciler,
    *,
    recorder: EventSink | None = None,
    sweep_seconds: float = SWEEP_SECONDS,
) -> None:
    """Give the controller of Blueprints to a manager. `index` must have been called."""
    store = reconciler.store
    controller: Controller[BlueprintSummary, NoStatus] = Controller(
        CONTROLLER,
        store.blueprints,
        reconciler,
        write_status=StatusWriter(client=store.client, clock=manager.clock),
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    controller.ignore_updates(asks_for_nothing)
    controller.watches(store.known, lambda delta: [delta.latest.blueprint])
    controller.watches(reconciler.components, _whose_users_changed)
    manager.add_controller(controller)
    sweep = Periodic(f"{CONTROLLER} sweep", reconciler.sweep, interval_seconds=sweep_seconds, border=manager.border)
    manager.add_controller(sweep)


def asks_for_nothing(old: BlueprintSummary, new: BlueprintSummary) -> bool:
    """Whether an update needs no pass. Our finalizer that a client has removed has to come back."""

    def asked(one: BlueprintSummary) -> tuple[object, ...]:
        return one.metadata.generation, one.metadata.annotations, one.metadata.deletion_timestamp

    return asked(old) == asked(new) and not finalizer.is_lost(old, new, FINALIZER)


def _whose_users_changed(delta: Delta[Component]) -> list[ObjectKey]:
    """A Component that has moved on from a version may have been its last user."""
    before, now = (set(versions.index_by_version(one)) if one else set() for one in (delta.old, delta.new))
    return [versions.blueprint_of(url) for url in before - now]
