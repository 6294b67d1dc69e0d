"""Brings a release into a cluster and takes it out again, from a program that ends when that is done.

The set engine is the operators' own; the differences are those of a program without a controller. It has no watches, so
it reads the objects of the release by their label before each pass, and waits between passes (`patience`). What a pass
has decided is saved before the next one begins, so a run that is interrupted is continued by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from stellwerk.api.core import Namespace
from stellwerk.apply.errors import ApplyError
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.checks.adoption import existing
from stellwerk.apply.set.checks.crd_usage import CrdUsage
from stellwerk.apply.set.checks.resource_lookup import resources_of
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.apply.set.model.desired_set import API_SERVICE, DesiredObject, prepared, promised, remembered
from stellwerk.apply.set.model.inventory import Inventory, ManagedType, ObjectIdentity, is_managed
from stellwerk.apply.set.model.policy import MissingNamespacesPolicy, Policies, UpdatePolicy
from stellwerk.apply.set.object_set import ObjectSet, SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan import inventory_update
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.delivery import watched_objects
from stellwerk.delivery.watched_objects import Place, Unwatchable
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import ApiError, Forbidden, NotFound, NotServed
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, metadata_of
from stellwerk.releases import fleeting_jobs, removal, takeover
from stellwerk.releases import release as releases
from stellwerk.releases.errors import InUse, Leaving, NoSuchRelease, ReleaseError, UnreadableRelease, WorkedOn
from stellwerk.releases.fleeting_jobs import WatchedJobs
from stellwerk.releases.release import RECONCILER, Release, ReleaseState
from stellwerk.releases.release_store import ReleaseStore
from stellwerk.releases.removal import Departure
from stellwerk.releases.retry_policy import RetryPolicy
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock

_LAST_WORDS_SECONDS = 5.0
"""How long an interrupted run may take to store that."""

Tell = Callable[[str], None]
Pass = Callable[[Release], Awaitable[SetProgress]]


@dataclass(slots=True, kw_only=True)
class Engine:
    """Applies and deletes releases with one client."""

    client: Client
    clock: Clock
    tell: Tell
    """Receives messages about retries and waits."""
    report: Tell = lambda words: None
    """Receives how far a run is, after each of its passes."""
    creates_namespaces: bool = False
    store: ReleaseStore = field(init=False)
    _memory: ObservedState = field(default_factory=ObservedState)

    def __post_init__(self) -> None:
        self.client = self.client.with_field_manager(RECONCILER)
        self.store = ReleaseStore(self.client, self.tell)

    async def next_revision(self, key: ObjectKey) -> Release:
        """The release as its next revision begins; nothing is stored yet. Raises Leaving."""
        found = await self.store.find(key) or Release(key=key)
        if found.is_deleting:
            raise Leaving(key)
        return found.begun(self.clock.now())

    async def wanted(self, release: Release, documents: Sequence[Document]) -> tuple[DesiredObject, ...]:
        """The objects as they would be applied. Raises InvalidSet, ApiError."""
        served = await discover.served(documents, self.client.mapper, promised(documents))
        return prepared(
            documents,
            remembered(documents, served, lambda: release.inventory),
            namespace=release.key.namespace,
            owner=release.owner,
            policies=self._policies,
            set_digest=release.digest,
        )

    async def taken_over(self, release: Release, wanted: Sequence[DesiredObject]) -> Release:
        """The release without what `clm` has done already and would not do again. Raises ApiError."""
        done = takeover.done(wanted, release.inventory)
        if not done:
            return release
        resources = await self._resources(wanted, release.inventory)
        seen = await self._seen(release, resources)
        inventory = takeover.settled(wanted, release.inventory, seen, release.owner)
        if inventory is not release.inventory:
            for one in done:
                self.tell(f"{one.address} has done its work under clm, and is not made again: nothing else has changed")
        return replace(release, inventory=inventory)

    async def check(self, release: Release, wanted: Sequence[DesiredObject]) -> None:
        """Raise what `apply` would raise before its first write: TooManyObjects, InvalidSet, WorkedOn, ApiError."""
        releases.check_size(replace(release, inventory=inventory_update.joined(wanted, release.inventory)))
        try:
            await self.store.save(release, dry_run=True)
        except NotFound:
            if not self.creates_namespaces:
                raise
        newcomers = inventory_update.newcomers(wanted, release.inventory)
        found = await existing(self.client, newcomers, lambda name: None)
        owner = replace(release, former_owners=await self._former_owners(release, found)).owner
        inventory_update.register(wanted, release.inventory, found, owner)

    async def _former_owners(self, release: Release, found: Mapping[ObjectIdentity, LiveObject]) -> frozenset[str]:
        """Which releases of those that have left objects behind do not exist any more. Raises ApiError.

        A deletion keeps objects that are meant to stay, such as definitions, with the marks of their release.
        """
        left = {one.address: key for one in found.values() if (key := releases.former_owner(one.live.metadata))}
        keys = [key for key in dict.fromkeys(left.values()) if key != release.key]
        gone = {key for key, there in zip(keys, await together(keys, self._is_there), strict=True) if not there}
        for address, key in left.items():
            if key in gone:
                self.tell(f"{address} is taken over: release {key}, which has left it behind, does not exist any more")
        return frozenset(Release(key=key).owner.label_value for key in gone)

    async def _is_there(self, key: ObjectKey) -> bool:
        """Whether there is a release, or there may be one that cannot be read."""
        try:
            return await self.store.find(key) is not None
        except (Forbidden, UnreadableRelease):
            return True

    async def apply(self, release: Release, documents: Sequence[Document], timeout_seconds: float = 0) -> Release:
        """Bring the revision into the cluster; returns when all is ready. 0 seconds: for ever.

        Raises TooManyObjects, InvalidSet, WriteFailed or TooLate; once the revision is stored they leave it in state
        Error.
        """
        wanted = await self.wanted(release, documents)
        releases.check_size(replace(release, inventory=inventory_update.joined(wanted, release.inventory)))
        if self.creates_namespaces:
            await self._create_namespace(release.key.namespace)
        release = await self.store.save(await self.taken_over(release, wanted))
        async with fleeting_jobs.watched(self.client, release.owner, wanted, self.clock) as jobs:
            former = frozenset[str]()

            async def pass_(current: Release) -> SetProgress:
                nonlocal former
                objects = wanted if all(obj.is_served for obj in wanted) else await self.wanted(current, documents)
                resources = await self._resources(objects, current.inventory)
                seen = await self._seen(current, resources, jobs)
                if new := inventory_update.newcomers(objects, current.inventory):
                    former |= await self._former_owners(current, await existing(self.client, new, lambda name: None))
                current = replace(current, former_owners=former)
                progress = await self._object_set(current).apply(objects, current.inventory, seen, resources)
                await jobs.catch_up(progress.carried)
                return progress

            return await self._until_done(release, ReleaseState.Processing, ReleaseState.Ready, pass_, timeout_seconds)

    async def delete(self, key: ObjectKey, timeout_seconds: float = 0) -> None:
        """Take the release out of the cluster; returns when it is gone. Raises NoSuchRelease, InUse, TooLate."""
        found = await self.deletable(key)
        ending: Release | None = found
        if not found.is_deleting:
            # Saved first: the finalizer must be there, also on a release that another program created.
            ending = await self.store.end(await self.store.save(found.now(ReleaseState.Deleting, self.clock.now())))
        if ending is None:
            return
        if not len(ending.inventory):
            await self.store.save(ending)
            return

        async def pass_(current: Release) -> SetProgress:
            resources = await self._resources((), current.inventory)
            seen = await self._seen(current, resources)
            left = removal.without_own_namespace(current, seen, self.clock.now())
            return await self._object_set(left).delete(left.inventory, seen, resources)

        await self._until_done(ending, ReleaseState.Deleting, ReleaseState.Deleting, pass_, timeout_seconds)

    async def deletable(self, key: ObjectKey) -> Release:
        """A release that may be deleted, or whose deletion may go on. Raises NoSuchRelease, InUse, ApiError.

        A ConfigMap that is being deleted proves nothing: `kubectl delete` may have done that, and instances of others
        may be new.
        """
        found = await self.store.find(key)
        if found is None:
            raise NoSuchRelease(key)
        what = await CrdUsage(self.client, found.owner, self.clock.now()).obstacle(found.inventory)
        if what:
            raise InUse(key, what)
        return found

    async def departures(self, release: Release) -> list[Departure]:
        """What the deletion of a release would do with those of its objects that exist. Raises ApiError."""
        resources = await self._resources((), release.inventory)
        seen = await self._seen(release, resources)
        others = {identity: resource for identity, resource in resources.items() if identity not in seen}
        places = dict.fromkeys(watched_objects.places(others), "the list by label does not show it")
        try:
            seen |= await watched_objects.read(others, places, self.client)
        except Unwatchable as error:
            raise error.__cause__ or error from None
        return removal.departures(release, seen, self.clock.now())

    # ---- passes

    async def _until_done(
        self,
        release: Release,
        meanwhile: ReleaseState,
        finally_: ReleaseState,
        pass_: Pass,
        timeout_seconds: float,
    ) -> Release:
        run = _Run(self, release, meanwhile, finally_, pass_, RetryPolicy(timeout_seconds))
        try:
            return await run.until_done()
        except WorkedOn:
            raise
        except (ApplyError, ReleaseError, ApiError) as error:
            await self._note_error(run.release, str(error))
            raise
        except asyncio.CancelledError:  # the user has interrupted the run and waits
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await self._note_error(run.release, "the run was interrupted")
            raise

    async def _note_error(self, release: Release, why: str) -> None:
        """Best effort: a further failure must not hide the error."""
        with suppress(WorkedOn, ApiError):
            await self.store.save(release.now(ReleaseState.Error, self.clock.now(), error=why))

    def _object_set(self, release: Release) -> ObjectSet:
        return ObjectSet(
            client=self.client,
            owner=release.owner,
            policies=self._policies,
            memory=self._memory,
            namespace_exists=lambda name: None,
            now=self.clock.now(),
            clock=self.clock.monotonic(),
        )

    @property
    def _policies(self) -> Policies:
        chosen = MissingNamespacesPolicy
        return Policies(
            update=UpdatePolicy.SSA_OVERRIDE,
            missing_namespaces=chosen.CREATE if self.creates_namespaces else chosen.DO_NOT_CREATE,
        )

    # ---- reading

    async def _resources(
        self, wanted: Sequence[DesiredObject], inventory: Inventory
    ) -> Mapping[ObjectIdentity, Resource]:
        return await resources_of(wanted, inventory, self.client, self.clock.now())

    async def _seen(
        self, release: Release, resources: Mapping[ObjectIdentity, Resource], jobs: WatchedJobs | None = None
    ) -> dict[ObjectIdentity, LiveObject]:
        """The objects of the release as they are now: one list for each kind, by label, unless `jobs` shows them."""

        async def read(place: Place) -> dict[ObjectIdentity, LiveObject]:
            shown = jobs.shown(*place) if jobs is not None else None
            return await self._listed(release, place, resources) if shown is None else shown

        # A kind that an APIService of the release has yet to bring has no path, and no objects.
        served = [place for place in dict.fromkeys(watched_objects.places(resources)) if place.resource.plural]
        services = [place for place in served if (place.resource.group, place.resource.kind) == API_SERVICE]
        seen = {name: one for part in await together(services, read) for name, one in part.items()}
        silent = silent_types(release.inventory, seen)
        rest = [place for place in served if place not in services and not is_managed(place.resource.gvk, silent)]
        return seen | {name: one for part in await together(rest, read) for name, one in part.items()}

    async def _listed(
        self, release: Release, place: Place, resources: Mapping[ObjectIdentity, Resource]
    ) -> dict[ObjectIdentity, LiveObject]:
        """The objects of one kind and namespace. Without the right to list, those of `resources` are read singly."""
        selector = f"{release.owner.mark}={release.owner.label_value}"
        try:
            listing = await self.client.list(live_view(place.resource), place.namespace, labels=selector)
        except (NotServed, NotFound):
            return {}  # a kind that a definition of this very release will bring
        except Forbidden as error:
            try:
                found = await watched_objects.read(resources, {place: str(error)}, self.client)
            except Unwatchable:
                raise error from None
            return {name: one for name, one in found.items() if release.owns(one.live.metadata)}
        addresses = [(Address(place.resource, obj.key), obj) for obj in listing.items]
        return {ObjectIdentity.of(address.ref): LiveObject(address, obj) for address, obj in addresses}

    async def _create_namespace(self, name: str) -> None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await conditional.create_if_absent(self.client, metadata_of(Namespace), body, repeatable=True)
        except Forbidden:
            return  # if there is none, the release cannot be stored, and that error names the namespace


def silent_types(inventory: Inventory, seen: Mapping[ObjectIdentity, LiveObject]) -> list[ManagedType]:
    """What APIServices of a release bring that are not available: their objects cannot be listed. Pure."""
    return [
        type_
        for entry in inventory
        if (entry.gvk.group, entry.gvk.kind) == API_SERVICE
        and entry.identity in seen
        and not _is_available(seen[entry.identity].live)
        for type_ in entry.managed_types
    ]


def _is_available(live: Live) -> bool:
    return isinstance(live, Unstructured) and conditions.is_true(conditions.listed_in(live.body), "Available")


def _far(progress: SetProgress) -> str:
    """How many objects are ready, and what is waited for."""
    entries = [*progress.inventory]
    settled = sum(entry.phase.is_settled for entry in entries)
    waits = f"; waits for {progress.waits[0]}" if progress.waits else ""
    more = f" and {len(progress.waits) - 1} more" if len(progress.waits) > 1 else ""
    return f"{settled} of {len(entries)} objects ready{waits}{more}"


@dataclass(slots=True)
class _Run:
    """The loop over the passes of one run."""

    engine: Engine
    release: Release
    meanwhile: ReleaseState
    finally_: ReleaseState
    one_pass: Pass
    patience: RetryPolicy
    _told: set[str] = field(default_factory=set)

    async def until_done(self) -> Release:
        clock = self.engine.clock
        began = clock.monotonic()
        while True:
            progress = await self.one_pass(self.release)
            await self._save(progress)
            for sentence in (*self._remarks(progress), *self.patience.judge(progress.failures)):
                self.engine.tell(sentence)
            self.engine.report(_far(progress))
            if progress.done:
                return self.release
            if not progress.must_be_saved:
                passed, wrote = clock.monotonic() - began, bool(progress.carried)
                await clock.sleep(self.patience.wait(self.release.key, passed, progress.waits, wrote=wrote))

    def _remarks(self, progress: SetProgress) -> Iterator[str]:
        """What the API server remarked about objects, each once in a run, in kubectl's form."""
        for result in progress.carried:
            for remark in result.remarks:
                sentence = f"Warning: {result.address}: {remark}"
                if sentence not in self._told:
                    self._told.add(sentence)
                    yield sentence

    async def _save(self, progress: SetProgress) -> None:
        """What the pass has decided, unless that is stored already."""
        state = self.finally_ if progress.done else self.meanwhile
        if (state, progress.inventory) == (self.release.state, self.release.inventory) and len(progress.inventory):
            return
        # Kept before it is stored: without an answer it may be stored, and a note of the error must not undo it.
        self.release = self.release.now(state, self.engine.clock.now(), progress.inventory)
        self.release = await self.engine.store.save(self.release)
