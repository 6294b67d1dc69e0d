"""The objects of all sets in one cluster, by owner, as watches show them.

There is one watch for each resource, for all objects with an owner's label. It starts when the first set needs it. So
the objects of a set are found in memory, and their changes arrive as events: no request per object, and no polling.

Where the identity may not watch a resource in the whole cluster (a remote login for a few namespaces), the watches are
limited to the namespaces that are needed. The whole cluster is tried again after `WIDER_SECONDS`, and ever more seldom:
rights are granted, and a new API server refuses for seconds what it permits later. A trial whose list is permitted ends
the watches of namespaces; where the watch is then forbidden, they start again, and the next trial is as far away as if
the list had been forbidden. The watch of a namespace ends some time after the namespace. Where the rights to list and
watch are missing there too, the caller reads the objects one by one (`read`) until they are granted: `cover` returns
these places. Of Secrets, only the metadata is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from stellwerk.api.core import Namespace
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.apply.set.model.desired_set import DEFINITIONS
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.model.owner import mark
from stellwerk.apply.set.plan.actions import Remove
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.delivery.finished_jobs import FinishedJobs
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, Unreadable, metadata_of
from stellwerk.kube.types.object_meta import version_number
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Delta, Informer

T = TypeVar("T", bound=HasMetadata)

_OWNER = "owner"
PATIENCE_SECONDS = 30.0
"""How long a pass waits for a list. The watch itself goes on trying."""
WIDER_SECONDS = 300.0
"""After how long a resource that is watched by namespace is tried in the whole cluster again, the first time."""
LONGEST_WIDER_SECONDS = 3600.0
"""Also for how long the whole cluster has to be watched until a further refusal counts as the first."""
UNUSED_SECONDS = 600.0
"""After how long without a pass the watch of a namespace may end."""
_SWEEP_SECONDS = 60.0


class Unwatchable(Exception):
    """A resource cannot be watched; the message has the reason."""

    def __init__(self, resource: Resource, why: str) -> None:
        super().__init__(f"{resource} cannot be watched: {why}")
        self.resource = resource


class TooMuch(Exception):
    """A cluster shows more objects with our label than we hold of it."""

    def __init__(self, server: str, most: int) -> None:
        super().__init__(f"the cluster at {server} shows more than {most >> 10} KiB of objects with our label")


class NotListed(Unwatchable):
    """The cluster did not list the objects of a resource in time."""


class Place(NamedTuple):
    """Where objects of a resource are needed; the namespace is empty for cluster-scoped ones."""

    resource: Resource
    namespace: str


class _Narrow(NamedTuple):
    """When the whole cluster was tried last, on the clock's seconds, and how long to wait before the next time."""

    tried_at: float
    pause_seconds: float = WIDER_SECONDS


@dataclass(slots=True)
class OwnedObjects:
    """The watches of one cluster. `wake` is called with the owner's label of an object that has changed,
    `kinds_changed` when that is a definition of further kinds."""

    cluster: Cluster
    prefix: str
    wake: Callable[[str], None]
    kinds_changed: Callable[[], None]
    most_bytes: int = 0
    """How much of a cluster is held, as JSON; 0: all. What comes beyond it calls `too_much`, and `cover` raises it."""
    too_much: Callable[[], None] = lambda: None
    grown: Callable[[], None] = lambda: None
    """Called for each further 64th of `most_bytes` that is held."""
    _weights: dict[tuple[Resource, ObjectKey], int] = field(default_factory=dict)
    weight: int = 0
    """Bytes that are held, as JSON; counted where `most_bytes` bounds them."""
    _watches: dict[Place, Informer[Live]] = field(default_factory=dict)
    _narrow: dict[Resource, _Narrow] = field(default_factory=dict)
    """Resources that we may only watch by namespace."""
    _widened: dict[Resource, _Narrow] = field(default_factory=dict)
    """Of resources that are watched in the whole cluster again: the trial that succeeded, and the next pause."""
    _used: dict[Place, float] = field(default_factory=dict)
    """When a pass last needed the watch of a namespace."""
    _swept_at: float = 0.0
    _unwatched: set[Place] = field(default_factory=set)
    """Places that `cover` found without the rights to list and watch. Their informers go on trying."""
    _namespaces: Informer[PartialObjectMetadata] | None = None
    _finished: FinishedJobs = field(default_factory=FinishedJobs)
    _own_versions: dict[str, str] = field(default_factory=dict)
    _own_ends: set[str] = field(default_factory=set)
    """Our own writes and deletions, by uid: their events wake no owner. An entry is removed with its event."""

    async def cover(self, places: Iterable[Place]) -> Mapping[Place, str]:
        """Watch all of these, and return when the caches are full.

        Returns the places whose objects have to be read one by one, because the rights to list and watch are missing,
        and why. Raises Unwatchable, which may be NotListed, and TooMuch.
        """
        unwatched: dict[Place, str] = {}
        self._release_unused()
        for place in dict.fromkeys(places):
            if why := await self._cover(place):
                unwatched[place] = why
                self._unwatched.add(place)
            else:
                self._unwatched.discard(place)
            self._check_weight()
        await _settled(self._namespace_cache())
        self._check_weight()
        return unwatched

    def of(self, label_value: str) -> dict[ObjectIdentity, LiveObject]:
        """The objects of one owner. Complete for the places that are covered."""
        found: dict[ObjectIdentity, LiveObject] = {}
        for place, informer in self._watches.items():
            if informer.is_outdated:
                continue
            for obj in informer.store.by(_OWNER, label_value):
                address = Address(place.resource, obj.key)
                found[ObjectIdentity.of(address.ref)] = LiveObject(address, obj)
        return self._finished.of(lambda live: label_value in self._owners(live)) | found

    def unreadable(self, label_value: str, identities: Container[ObjectIdentity]) -> list[Unreadable]:
        """The objects of one owner that cannot be decoded: those with its label, and those of its set."""
        return [
            obj
            for informer in self._watches.values()
            for obj in informer.unreadable.values()
            if obj.metadata.labels.get(mark(self.prefix)) == label_value or ObjectIdentity.of(obj.ref) in identities
        ]

    def find(self, address: Address) -> Live | None:
        """An object of any owner. Meaningful for the places that are covered."""
        informer = self._watch_of(address)
        return informer.store.get(address.key) if informer is not None and not informer.is_outdated else None

    def expect(self, carried: Iterable[ActionResult]) -> None:
        """What was written must be seen before the next pass on its set."""
        for each in carried:
            informer = self._watch_of(each.address)
            if informer is None or informer.is_outdated:
                continue  # no cache will ever show it
            self._note_used(Place(each.address.resource, each.address.key.namespace))
            if isinstance(each.action, Remove) and each.live is None and not each.stays:
                if each.address.key in informer.store:
                    self._own_ends.add(each.action.uid)
            elif each.live is not None and each.confirmation is not None:
                version = each.live.metadata.resource_version
                informer.expect(each.address.key, version)
                if informer.expected(each.address.key) is not None:
                    self._own_versions[each.live.metadata.uid] = version

    def namespace_exists(self, name: str) -> bool | None:
        """Whether the cluster has a namespace; None where we may not know."""
        cache = self._namespace_cache()
        return ObjectKey("", name) in cache.store if cache.has_synced else None

    def namespace_is_ending(self, name: str) -> bool:
        """Whether the cluster is known to delete a namespace, or to have deleted it."""
        cache = self._namespace_cache()
        found = cache.store.get(ObjectKey("", name))
        return cache.has_synced and (found is None or found.metadata.is_terminating)

    # Watches

    async def _cover(self, place: Place) -> str:
        """Why the place cannot be watched for missing rights; empty where it is watched. Raises Unwatchable."""
        resource = place.resource
        await self._widen(resource)
        while True:
            watched = place if resource in self._narrow else Place(resource, "")
            informer = await self._opened(watched)
            if self._watches.get(watched) is not informer:
                continue  # another pass has found out meanwhile what may be watched
            parked = informer.parked
            if parked is None:
                return ""
            if not parked.is_forbidden:
                raise Unwatchable(resource, parked.why)
            if watched == place:
                return parked.why
            self._narrow[resource] = self._narrowed(resource)
            self._release(watched)  # what it has seen before would pass for what is there

    def _narrowed(self, resource: Resource) -> _Narrow:
        """A new refusal. One that follows soon after a trial goes on with its pause: the right to list was there, the
        right to watch was not."""
        now, trial = self.cluster.clock.monotonic(), self._widened.pop(resource, None)
        if trial is not None and now - trial.tried_at < LONGEST_WIDER_SECONDS:
            return _Narrow(now, trial.pause_seconds)
        return _Narrow(now)

    async def _widen(self, resource: Resource) -> None:
        """Watch the whole cluster in the place of namespaces, where that is permitted now."""
        now, narrow = self.cluster.clock.monotonic(), self._narrow.get(resource)
        if narrow is None or now - narrow.tried_at < narrow.pause_seconds:
            return
        # Other passes go on with the namespaces.
        self._narrow[resource] = _Narrow(now, min(2 * narrow.pause_seconds, LONGEST_WIDER_SECONDS))
        wide = self._made(Place(resource, ""))
        wide.is_refusal_expected = True
        try:
            with suppress(NotListed):
                await _settled(wide)
        finally:
            if wide.has_synced:
                self._take_over(resource, wide)
            else:
                self._end(wide)

    def _take_over(self, resource: Resource, wide: Informer[Live]) -> None:
        """Watch a resource by this watch alone."""
        self._widened[resource] = self._narrow.pop(resource)
        wide.is_refusal_expected = False
        self._watches[Place(resource, "")] = wide
        for place in [place for place in self._watches if place.resource == resource and place.namespace]:
            shown = self._watches[place].store.all()
            self._release(place)
            for obj in shown:
                if obj.key not in wide.store:  # no event will show its end
                    self._on_change(Delta(obj, None, is_replay=True))

    async def _opened(self, place: Place) -> Informer[Live]:
        informer = self._watches.get(place)
        if informer is None:
            informer = self._watches[place] = self._made(place)
        elif informer.is_outdated and place not in self._unwatched:
            informer.wake()  # the right, or the definition, may be there now
        self._note_used(place)
        await _settled(informer)
        return informer

    def _made(self, place: Place) -> Informer[Live]:
        informer = self.cluster.informer(live_view(place.resource), namespace=place.namespace, labels=mark(self.prefix))
        informer.store.add_index(_OWNER, self._owners)
        informer.on_change(self._on_change)
        informer.on_unreadable(self._on_unreadable)
        informer.on_parked(partial(self._on_parked, informer))
        self._weigh(informer)
        if (place.resource.group, place.resource.kind) in DEFINITIONS:
            informer.on_change(lambda _: self.kinds_changed())
        return informer

    def _release(self, place: Place) -> None:
        self._used.pop(place, None)
        self._unwatched.discard(place)
        self._end(self._watches.pop(place))

    def _end(self, informer: Informer[Live]) -> None:
        """End a watch. Of what it held, only what another watch shows counts from now on."""
        resource = informer.view.resource
        for obj in informer.store.all() if self.most_bytes else ():
            other = self._watch_of(Address(resource, obj.key))
            if other is None or obj.key not in other.store:
                self.weight -= self._weights.pop((resource, obj.key), 0)
        self.cluster.release(informer)

    def _release_unused(self) -> None:
        """End the watches that no pass has needed for a while and that show nothing: of namespaces that are gone, or,
        where namespaces are not listed, without the rights to list and watch.

        The removal of a namespace ends none at once: a pass may be creating it and its objects again.
        """
        now = self.cluster.clock.monotonic()
        if now - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = now
        for place, used in [*self._used.items()]:
            if now - used >= UNUSED_SECONDS and self._is_over(place):
                self._release(place)

    def _is_over(self, place: Place) -> bool:
        informer = self._watches[place]
        match self.namespace_exists(place.namespace):
            case True:
                return False
            case False:
                return informer.is_outdated or not (informer.store or informer.unreadable)
            case None:
                return informer.is_forbidden

    def _note_used(self, place: Place) -> None:
        if place.namespace and place in self._watches:
            self._used[place] = self.cluster.clock.monotonic()

    def _weigh(self, informer: Informer[T]) -> None:
        """Count the bytes that a cache holds from now on, where they are bounded."""
        if self.most_bytes:
            resource = informer.view.resource
            informer.on_change(lambda delta: self._count(resource, delta))

    def _count(self, resource: Resource, delta: Delta[T]) -> None:
        name = (resource, delta.key)
        weight = len(msgspec.json.encode(delta.new)) if delta.new is not None else 0
        before = self.weight
        self.weight += weight - self._weights.pop(name, 0)
        if weight:
            self._weights[name] = weight
        if self.weight > self.most_bytes:
            self.too_much()
        elif self.weight * 64 // self.most_bytes > before * 64 // self.most_bytes:
            self.grown()

    def _check_weight(self) -> None:
        if self.most_bytes and self.weight > self.most_bytes:
            raise TooMuch(self.cluster.name, self.most_bytes)

    def _watch_of(self, address: Address) -> Informer[Live] | None:
        wide = self._watches.get(Place(address.resource, ""))
        return wide or self._watches.get(Place(address.resource, address.key.namespace))

    def _on_change(self, delta: Delta[Live]) -> None:
        self._finished.note(delta)
        sides = [side for side in (delta.old, delta.new) if side is not None]
        concerned = dict.fromkeys(owner for side in sides for owner in self._owners(side))
        if self._is_echo(delta):  # wakes only a former owner
            for owner in self._owners(delta.latest):
                del concerned[owner]
        for label_value in concerned:
            self.wake(label_value)

    def _on_unreadable(self, _: ObjectKey, obj: Unreadable | None) -> None:
        if obj is not None and (owner := obj.metadata.labels.get(mark(self.prefix))):
            self.wake(owner)

    def _on_parked(self, informer: Informer[Live]) -> None:
        """No watch ends the waiting of these owners any more: their passes read the objects one by one."""
        informer.expect_nothing()
        for owner in dict.fromkeys(owner for obj in informer.store.all() for owner in self._owners(obj)):
            self.wake(owner)

    def _is_echo(self, delta: Delta[Live]) -> bool:
        """Whether a change is the one that a pass made and knows of."""
        uid = delta.latest.metadata.uid
        if delta.new is None:
            self._own_versions.pop(uid, None)
            ended = uid in self._own_ends
            self._own_ends.discard(uid)
            return ended
        version = self._own_versions.get(uid)
        if version is None:
            return False
        shown = delta.new.metadata.resource_version
        if version_number(shown) >= version_number(version):
            del self._own_versions[uid]
        return shown == version

    def _owners(self, obj: Live) -> Iterable[str]:
        owner = obj.metadata.labels.get(mark(self.prefix))
        return (owner,) if owner else ()

    def _namespace_cache(self) -> Informer[PartialObjectMetadata]:
        if self._namespaces is None:
            self._namespaces = self.cluster.informer(metadata_of(Namespace))
            self._weigh(self._namespaces)
        return self._namespaces


async def _settled(informer: Informer[T]) -> None:
    """Return when its cache is full, or when it is known why it cannot be. Raises NotListed."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_settled()
    except TimeoutError:
        raise NotListed(informer.view.resource, "the API server does not list what there is") from None


async def read(
    resources: Mapping[ObjectIdentity, Resource], unwatched: Mapping[Place, str], client: Client
) -> dict[ObjectIdentity, LiveObject]:
    """The objects in places that cannot be watched, one request each, with any owner.

    Raises Unwatchable where the right to get is missing too, and ApiError.
    """
    singly = [
        (identity, Place(resource, identity.key.namespace))
        for identity, resource in resources.items()
        if Place(resource, identity.key.namespace) in unwatched
    ]

    async def found(one: tuple[ObjectIdentity, Place]) -> tuple[ObjectIdentity, LiveObject | None]:
        identity, place = one
        try:
            live = await client.find(live_view(place.resource), identity.key.name, place.namespace)
        except Forbidden as error:
            raise Unwatchable(place.resource, f"{unwatched[place]}, nor to get: {error}") from error
        return identity, LiveObject(Address(place.resource, identity.key), live) if live is not None else None

    return {identity: seen for identity, seen in await together(singly, found) if seen is not None}


def places(resources: Mapping[ObjectIdentity, Resource]) -> list[Place]:
    """Where the objects of a set are needed."""
    return [Place(resource, identity.key.namespace) for identity, resource in resources.items()]
