"""The objects of all sets in one cluster, by owner, as watches show them.

One watch for each resource, over everything that carries an owner's label, opened when the first set needs it. So what
a set consists of is looked up in memory, and what becomes of it arrives as an event: nothing is fetched object by
object, and nothing is polled.

Where we may not watch a resource in the whole cluster (a remote login that is bound to a few namespaces), it is watched
in the namespaces that are needed. Of Secrets only the metadata is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from stellwerk.api.core import Namespace
from stellwerk.apply.desired import Address
from stellwerk.apply.plan import Live, live_view
from stellwerk.apply.rollout.actions import Remove
from stellwerk.apply.rollout.carry import Carried
from stellwerk.apply.rollout.inventory import Identity
from stellwerk.apply.rollout.owner import mark
from stellwerk.apply.rollout.prepare import DEFINITIONS
from stellwerk.apply.rollout.scene import Seen
from stellwerk.kube.model import HasMetadata, PartialObjectMetadata, metadata_of
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.runtime.clusters import Cluster
from stellwerk.runtime.informer import Delta, Informer
from stellwerk.runtime.progress import version_number

T = TypeVar("T", bound=HasMetadata)

_OWNER = "owner"
PATIENCE_SECONDS = 30.0
"""How long a pass waits for a list. The watch itself goes on trying."""


class Unwatchable(Exception):
    """A resource cannot be watched; says why."""

    def __init__(self, resource: Resource, why: str) -> None:
        super().__init__(f"{resource} cannot be watched: {why}")


class NoAnswer(Unwatchable):
    """The cluster has not said in time what there is of a resource."""


class Place(NamedTuple):
    """Where objects of a resource are needed; the namespace is empty for cluster-scoped ones."""

    resource: Resource
    namespace: str


@dataclass(slots=True)
class OwnedObjects:
    """The watches of one cluster. `wake` is called with the owner's label of an object that has changed,
    `kinds_changed` when that is a definition of further kinds."""

    cluster: Cluster
    prefix: str
    wake: Callable[[str], None]
    kinds_changed: Callable[[], None]
    _watches: dict[Place, Informer[Live]] = field(default_factory=dict)
    _narrow: set[Resource] = field(default_factory=set)
    """Resources that we may only watch by namespace."""
    _namespaces: Informer[PartialObjectMetadata] | None = None
    _own_versions: dict[str, str] = field(default_factory=dict)
    _own_ends: set[str] = field(default_factory=set)
    """What we wrote and deleted, by uid: when it shows, it is news to nobody. Each is forgotten when it has shown."""

    async def cover(self, places: Iterable[Place]) -> None:
        """Watch all of these, and return when the caches are full. Raises Unwatchable, which may be NoAnswer."""
        for place in dict.fromkeys(places):
            await self._cover(place)
        await _settled(self._namespace_cache())

    def of(self, label_value: str) -> dict[Identity, Seen]:
        """The objects of one owner. Complete for the places that are covered."""
        found: dict[Identity, Seen] = {}
        for place, informer in self._watches.items():
            for obj in informer.store.by(_OWNER, label_value):
                address = Address(place.resource, obj.key)
                found[Identity.of(address.ref)] = Seen(address, obj)
        return found

    def find(self, address: Address) -> Live | None:
        """An object of any owner. Meaningful for the places that are covered."""
        informer = self._watch_of(address)
        return informer.store.get(address.key) if informer is not None else None

    def expect(self, carried: Iterable[Carried]) -> None:
        """What was written must be seen before the next pass on its set."""
        for each in carried:
            informer = self._watch_of(each.address)
            if informer is None:
                continue
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

    # Watches

    async def _cover(self, place: Place) -> None:
        if place.resource not in self._narrow:
            informer = await self._opened(Place(place.resource, ""))
            if informer.parked is None:
                return
            if not place.namespace or not _is_forbidden(informer):
                raise Unwatchable(place.resource, informer.parked.why)
            self._narrow.add(place.resource)
            # What it has seen before the right was taken away would pass for what is there.
            self._watches.pop(Place(place.resource, ""), None)
        informer = await self._opened(place)
        if informer.parked is not None:
            raise Unwatchable(place.resource, informer.parked.why)

    async def _opened(self, place: Place) -> Informer[Live]:
        informer = self._watches.get(place)
        if informer is None:
            informer = self.cluster.informer(
                live_view(place.resource), namespace=place.namespace, labels=mark(self.prefix)
            )
            informer.store.add_index(_OWNER, self._owners)
            informer.on_change(self._on_change)
            if (place.resource.group, place.resource.kind) in DEFINITIONS:
                informer.on_change(lambda _: self.kinds_changed())
            self._watches[place] = informer
        elif informer.parked is not None:
            informer.wake()
        await _settled(informer)
        return informer

    def _watch_of(self, address: Address) -> Informer[Live] | None:
        wide = self._watches.get(Place(address.resource, ""))
        return wide or self._watches.get(Place(address.resource, address.key.namespace))

    def _on_change(self, delta: Delta[Live]) -> None:
        sides = [side for side in (delta.old, delta.new) if side is not None]
        concerned = dict.fromkeys(owner for side in sides for owner in self._owners(side))
        if self._is_echo(delta):  # news only to somebody from whom the object was taken
            for owner in self._owners(delta.latest):
                del concerned[owner]
        for label_value in concerned:
            self.wake(label_value)

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
        return self._namespaces


async def _settled(informer: Informer[T]) -> None:
    """Return when its cache is full, or when it is known why it cannot be. Raises NoAnswer."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_settled()
    except TimeoutError:
        raise NoAnswer(informer.view.resource, "the API server does not say what there is") from None


def _is_forbidden(informer: Informer[Live]) -> bool:
    return informer.parked is not None and informer.parked.is_forbidden


def places(resources: Mapping[Identity, Resource]) -> list[Place]:
    """Where the objects of a set are needed."""
    return [Place(resource, identity.key.namespace) for identity, resource in resources.items()]
