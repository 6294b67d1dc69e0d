"""Objects that belong to ours: kept as wanted, restored when another client changes them, deleted with their owner.

For operators that make a few objects for each custom resource. (Sets of manifests with orders, policies and inventories
are the business of `stellwerk.apply`.) A child has an owner reference, so the garbage collector takes it away with its
owner and its changes wake the owner; and a label, so that only children are cached.

Whether a child is as wanted is not read off its fields: the API server adds defaults and rewrites values. Remembered is
what our last apply made of the same wish, as a digest. A child that still looks like that is left alone; any other, and
every child once after a restart, is applied again, which changes nothing where nothing has changed.

Two who keep changing one field would do so for ever. After a few restorations in a row a child is restored every ten
seconds only, and the owner's condition names who else writes to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, Kind, Unstructured, metadata_of
from stellwerk.kube.types.object_meta import OwnerReference
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.reconciler import ReconcileError

KEEPER_LABEL = "app.kubernetes.io/managed-by"
RESTORATIONS = 3
"""So many in a row look like an accident; more look like a client that repeats it."""
FIGHT_SECONDS = 10.0

_OF_OWNER = "owner"
_encoder = msgspec.json.Encoder(order="deterministic")


class NameTaken(ReconcileError):
    """An object with the child's name exists and belongs to another owner."""

    reason = "NameTaken"

    def __init__(self, child: ObjectRef, owner: ObjectRef, holder: str) -> None:
        super().__init__(
            f"{child} cannot be made for {owner}: an object of that name exists and belongs to {holder}. "
            "Rename or delete one of the two"
        )


class ChangedByOthers(ReconcileError):
    """Another client undoes each restoration of a child."""

    reason = "ChangedByOthers"
    retry_after_seconds = FIGHT_SECONDS

    def __init__(self, child: ObjectRef, managers: Iterable[str]) -> None:
        who = ", ".join(sorted(set(managers))) or "somebody"
        super().__init__(
            f"{child} is changed by {who} again and again, so it is restored every {FIGHT_SECONDS:.0f} s only. "
            f"Have {who} leave it alone"
        )


def owner_reference(owner: Kind) -> OwnerReference:
    """The reference by which a child goes with its owner, and by which its changes wake the owner."""
    resource, metadata = owner.resource, owner.metadata
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def child(owner: Kind, resource: Resource, content: JsonObject, *, keeper: str, name: str = "") -> Unstructured:
    """A child as `Children.keep` applies it; without an owner reference where the owner is not in the cluster yet.

    Raises ValueError where the child cannot belong to that owner at all.
    """
    if owner.resource.namespaced and not resource.namespaced:
        raise ValueError(f"a {resource.kind} has no namespace and cannot belong to {owner.ref}, which has one")
    given = content.get("metadata")
    metadata: JsonObject = {**given} if isinstance(given, dict) else {}
    labels = metadata.get("labels")
    metadata["labels"] = {**(labels if isinstance(labels, dict) else {}), KEEPER_LABEL: keeper}
    metadata["name"] = name or owner.metadata.name
    if owner.metadata.uid:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner_reference(owner))]
    if resource.namespaced:
        metadata.setdefault("namespace", owner.metadata.namespace)
    body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, **content, "metadata": metadata}
    wanted = Unstructured.of(body)
    if owner.resource.namespaced and wanted.key.namespace != owner.metadata.namespace:
        raise ValueError(f"{wanted.ref} cannot belong to {owner.ref}: an owner is in the child's own namespace")
    return wanted


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """The controller among the owner references; None without one."""
    return next((owner for owner in obj.metadata.owner_references if owner.controller), None)


def owners(kind: Resource) -> Callable[[Delta[Unstructured]], Sequence[ObjectKey]]:
    """For `Controller.watches`: a child that changes wakes its owner of this kind, also the one it had before."""

    def wakes(delta: Delta[Unstructured]) -> Sequence[ObjectKey]:
        sides = [side for side in (delta.old, delta.new) if side is not None]
        return tuple({key for side in sides if (key := _owner_key(side, kind)) is not None})

    return wakes


@dataclass(frozen=True, slots=True)
class _Settled:
    """What our last apply made of a wish, and how often in a row it had to be restored."""

    uid: str
    wanted: bytes
    live: bytes
    restored: int = 0
    restored_at: float = 0.0


class Children:
    """The children of one resource. `informer` holds all that carry the keeper's label."""

    def __init__(
        self, client: Client, informer: Informer[Unstructured], *, keeper: str, clock: Clock | None = None
    ) -> None:
        self.informer = informer
        self._client = client
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._settled: dict[ObjectKey, _Settled] = {}
        informer.store.add_index(_OF_OWNER, _owner_uid)
        informer.on_change(self._on_change)

    def of(self, owner: Kind) -> Sequence[Unstructured]:
        """All children of an owner, as the cache has them."""
        return self.informer.store.by(_OF_OWNER, owner.metadata.uid)

    async def keep(self, owner: Kind, content: JsonObject, *, name: str = "") -> Unstructured:
        """Have a child with this content: `data`, `spec`, or `metadata` with labels and annotations.

        It is named like its owner without a `name`. Returns it as it is now. Raises NameTaken,
        ChangedByOthers, and ApiError; ValueError where the child cannot belong to that owner at all.
        """
        wanted = child(owner, self._resource, content, keeper=self._keeper, name=name)
        live = self.informer.store.get(wanted.key)
        if live is None:
            await self._look_for(wanted, owner)
        elif not _belongs(live, owner):
            raise NameTaken(wanted.ref, owner.ref, _holder(live))
        elif self._is_settled(wanted, live):
            return live
        return await self._apply(wanted, live)

    async def drop(self, owner: Kind, *, name: str = "") -> bool:
        """Have no such child. Returns whether there was one."""
        key = self._resource.key(owner.metadata.namespace, name or owner.metadata.name)
        live = self.informer.store.get(key)
        if live is None or not _belongs(live, owner):
            return False
        if not live.metadata.is_terminating:
            target = metadata_of(self._resource)
            await self._client.delete(target, key.name, key.namespace, uid=live.metadata.uid, propagation="Background")
        return True

    @property
    def _resource(self) -> Resource:
        return self.informer.view.resource

    async def _look_for(self, wanted: Unstructured, owner: Kind) -> None:
        """The cache has only what carries our label. Raises NameTaken where another owner has the name."""
        found = await self._client.find(metadata_of(self._resource), wanted.key.name, wanted.key.namespace)
        if found is not None and not _belongs(found, owner):
            raise NameTaken(wanted.ref, owner.ref, _holder(found))

    def _is_settled(self, wanted: Unstructured, live: Unstructured) -> bool:
        settled = self._settled.get(wanted.key)
        if settled is None or settled.uid != live.metadata.uid:
            return False
        return (settled.wanted, settled.live) == (_digest(wanted), _digest(live))

    async def _apply(self, wanted: Unstructured, live: Unstructured | None) -> Unstructured:
        before = self._counted(wanted, live)
        written = await self._client.apply(self.informer.view, wanted.body)
        settled = _Settled(written.metadata.uid, _digest(wanted), _digest(written))
        if before is not None:
            settled = replace(settled, restored=before.restored + 1, restored_at=self._clock.monotonic())
        self._settled[written.key] = settled
        self.informer.expect(written.key, written.metadata.resource_version)
        return written

    def _counted(self, wanted: Unstructured, live: Unstructured | None) -> _Settled | None:
        """What is known where this is a restoration of the same wish. Raises ChangedByOthers where it has to wait."""
        settled = self._settled.get(wanted.key)
        if live is None or settled is None or settled.uid != live.metadata.uid or settled.wanted != _digest(wanted):
            return None
        calm = self._clock.monotonic() - settled.restored_at
        if settled.restored >= RESTORATIONS and calm < FIGHT_SECONDS:
            others = (entry.manager for entry in live.metadata.managers if entry.manager != self._client.field_manager)
            raise ChangedByOthers(wanted.ref, others)
        return settled if calm < RESTORATIONS * FIGHT_SECONDS else replace(settled, restored=0)

    def _on_change(self, delta: Delta[Unstructured]) -> None:
        if delta.new is None:
            self._settled.pop(delta.key, None)


def _belongs(obj: HasMetadata, owner: Kind) -> bool:
    holder = controller_of(obj)
    return holder is not None and holder.uid == owner.metadata.uid


def _holder(obj: HasMetadata) -> str:
    holder = controller_of(obj)
    return f"{holder.kind} {holder.name}" if holder is not None else "nobody that it names"


def _owner_uid(obj: Unstructured) -> Iterable[str]:
    holder = controller_of(obj)
    return () if holder is None else (holder.uid,)


def _owner_key(obj: Unstructured, kind: Resource) -> ObjectKey | None:
    holder = controller_of(obj)
    if holder is None or holder.kind != kind.kind or holder.api_version.rpartition("/")[0] != kind.group:
        return None
    return kind.key(obj.metadata.namespace, holder.name)


def _digest(obj: Unstructured) -> bytes:
    """The content of the object, without its status and without what changes at each write."""
    content = {key: value for key, value in obj.body.items() if key != "status"}
    metadata = content.get("metadata")
    if isinstance(metadata, dict):
        moving = ("resourceVersion", "generation", "managedFields")
        content["metadata"] = {key: value for key, value in metadata.items() if key not in moving}
    return hashlib.sha256(_encoder.encode(content)).digest()
