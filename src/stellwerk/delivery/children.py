"""Objects that a custom resource controls: applied, restored, and deleted with their owner.

For operators that create a few objects for each custom resource. A child has an owner reference, so that the garbage
collector deletes it with its owner and its changes wake the owner, and a label, so that caches contain only children.

Each child is a set of one object (`apply.set.untracked_set`): it is left alone while it is as the last answer of the
API server showed it, and applied once after a restart. Fields of others stay. A child that another client changes again
and again is restored every ten seconds only, and the owner's condition names that client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS, Live
from stellwerk.apply.set.model.owner import ControllerOwner
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, UpdatePolicy
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, Kind, Unstructured, owner_reference
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.reconciler import ReconcileError
from stellwerk.runtime.telemetry.metrics import Metrics

T = TypeVar("T", bound=HasMetadata)

KEEPER_LABEL = "app.kubernetes.io/managed-by"

_OF_OWNER = "owner"
_MERGED = Directive(adoption=AdoptionPolicy.NEVER, update=UpdatePolicy.SSA_MERGE)
"""Fields of others stay, and so does an object that exists and has another owner, or none."""


class NameTaken(ReconcileError):
    """An object with the child's name exists and belongs to another owner."""

    reason = "NameTaken"

    def __init__(self, child: ObjectRef, owner: ObjectRef, cause: str) -> None:
        super().__init__(f"{child} cannot be created for {owner}: {cause}. Rename or delete one of the two")


class FormerChildEnding(ReconcileError):
    """The child's name belongs to an object of another owner that is being deleted, such as of a custom resource that
    was deleted and created again under its name."""

    reason = "FormerChildEnding"

    def __init__(self, child: ObjectRef, owner: ObjectRef) -> None:
        super().__init__(
            f"{child} cannot be created for {owner}: an object of another owner has this name and is being deleted. "
            "Wait until it is gone; if it stays, look at its finalizers"
        )


class ChildrenUnknown(ReconcileError):
    """The children are not listed, so that absence from the cache proves nothing."""

    reason = "ChildrenUnknown"

    def __init__(self, owner: ObjectRef, resource: Resource, why: str) -> None:
        super().__init__(f"cannot find the {resource.group_resource} of {owner}: {why}")


class ChangedByOthers(ReconcileError):
    """Another client undoes each restoration of a child."""

    reason = "ChangedByOthers"
    retry_after_seconds = FIGHT_SECONDS

    def __init__(self, child: ObjectRef, managers: Iterable[str]) -> None:
        who = ", ".join(sorted(set(managers))) or "another client"
        super().__init__(
            f"{child} is changed by {who} again and again, so it is restored every {FIGHT_SECONDS:.0f} s only. "
            f"Have {who} leave it alone"
        )


def child(owner: Kind, resource: Resource, content: JsonObject, *, keeper: str, name: str = "") -> Unstructured:
    """A child as `Children.keep` applies it; without an owner reference where the owner is not in the cluster yet.

    Raises ValueError where the child cannot belong to that owner at all.
    """
    return Unstructured.of(_owner(owner, keeper).stamped(_desired(owner, resource, content, name).body, ""))


def _desired(owner: Kind, resource: Resource, content: JsonObject, name: str) -> Desired:
    if owner.resource.namespaced and not resource.namespaced:
        raise ValueError(f"a {resource.kind} has no namespace and cannot belong to {owner.ref}, which has one")
    given = content.get("metadata")
    metadata: JsonObject = {**given} if isinstance(given, dict) else {}
    metadata["name"] = name or owner.metadata.name
    if resource.namespaced:
        metadata.setdefault("namespace", owner.metadata.namespace)
    body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, **content, "metadata": metadata}
    desired = Desired(Address(resource, Unstructured.of(body).key), body)
    if owner.resource.namespaced and desired.key.namespace != owner.metadata.namespace:
        raise ValueError(f"{desired.ref} cannot belong to {owner.ref}: an owner is in the child's own namespace")
    return desired


def _owner(owner: Kind, keeper: str) -> ControllerOwner:
    return ControllerOwner(keeper, owner_reference(owner), {KEEPER_LABEL: keeper})


def owners(kind: Resource) -> Callable[[Delta[T]], Sequence[ObjectKey]]:
    """For `Controller.watches`: a child that changes wakes its owner of this kind, also the one it had before."""

    def wakes(delta: Delta[T]) -> Sequence[ObjectKey]:
        sides = [side for side in (delta.old, delta.new) if side is not None]
        return tuple({key for side in sides if (key := _owner_key(side, kind)) is not None})

    return wakes


class Children:
    """The children of one resource. `informer` holds all that carry the keeper's label."""

    def __init__(
        self,
        client: Client,
        informer: Informer[Unstructured],
        *,
        keeper: str,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.informer = informer
        self._client = client
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._memory = ObservedState()
        informer.store.add_index(_OF_OWNER, controller_uid)
        informer.on_change(self._on_change)

    def of(self, owner: Kind) -> Sequence[Unstructured]:
        """All children of an owner, as the cache has them. There are none of a kind that is not served.

        Raises ChildrenUnknown.
        """
        if self._is_not_served:
            return ()
        self._check_listed(owner)
        return self.informer.store.by(_OF_OWNER, owner.metadata.uid)

    async def keep(self, owner: Kind, content: JsonObject, *, name: str = "") -> Live:
        """Have a child with this content: `data`, `spec`, or `metadata` with labels and annotations.

        It is named like its owner without a `name`. Returns it as it is now. Raises ChildrenUnknown, NameTaken,
        FormerChildEnding, ChangedByOthers, and ApiError; ValueError where the child cannot belong to that owner at all.
        """
        desired = _desired(owner, self._resource, content, name)
        self._check_listed(owner)
        live = self.informer.store.get(desired.key)
        progress = await self._set(owner, desired.address, live).apply([desired])
        for failure in progress.failures:
            if failure.obstacle is Obstacle.OWNED:
                raise NameTaken(desired.ref, owner.ref, failure.cause)
            raise failure.error
        self._metrics.drift_throttled(len(progress.throttled))
        for throttled in progress.throttled:
            raise ChangedByOthers(throttled.ref, throttled.managers)
        # Where the answer to a create was lost, the child is found as wanted before the cache shows it.
        answers = (*progress.found.values(), *(result.live for result in progress.carried))
        answer = next((each for each in answers if each is not None), None)
        kept = answer or live
        assert kept is not None, "a child that is not there is created or found, or that fails"
        if not kept.metadata.is_controlled_by(owner.metadata):
            raise FormerChildEnding(desired.ref, owner.ref)  # others' objects are left alone only while they end
        if answer is not None:
            self.informer.expect(desired.key, answer.metadata.resource_version)
        return kept

    async def drop(self, owner: Kind, *, name: str = "") -> bool:
        """Have no such child. Returns whether there was one. Raises ChildrenUnknown and ApiError."""
        if self._is_not_served:
            return False
        self._check_listed(owner)
        key = self._resource.key(owner.metadata.namespace, name or owner.metadata.name)
        live = self.informer.store.get(key)
        if live is None or not live.metadata.is_controlled_by(owner.metadata):
            return False
        address = Address(self._resource, key)
        progress = await self._set(owner, address, live).delete({address: live})
        for failure in progress.failures:
            raise failure.error
        return True

    @property
    def _resource(self) -> Resource:
        return self.informer.view.resource

    @property
    def _is_not_served(self) -> bool:
        """Whether there can be no children: an owner that waits for their end would wait for ever."""
        return self.informer.parked is not None and self.informer.parked.is_not_served

    def _check_listed(self, owner: Kind) -> None:
        if not self.informer.has_synced:
            parked = self.informer.parked
            raise ChildrenUnknown(owner.ref, self._resource, parked.why if parked is not None else "not listed yet")

    def _set(self, owner: Kind, address: Address, live: Live | None) -> UntrackedSet:
        return UntrackedSet(
            client=self._client,
            owner=_owner(owner, self._keeper),
            memory=self._memory,
            live={address: live} if live is not None else {},
            now=self._clock.now(),
            clock=self._clock.monotonic(),
            directive=_MERGED,
        )

    def _on_change(self, delta: Delta[Unstructured]) -> None:
        if delta.new is None:
            self._memory.confirmations.pop(Address(self._resource, delta.key), None)


def controller_uid(obj: HasMetadata) -> Iterable[str]:
    """For `Store.add_index`: the uid of the object's controller; nothing where it has none."""
    controller = obj.metadata.controller
    return () if controller is None else (controller.uid,)


def _owner_key(obj: HasMetadata, kind: Resource) -> ObjectKey | None:
    controller = obj.metadata.controller
    if controller is None or controller.kind != kind.kind or controller.api_version.rpartition("/")[0] != kind.group:
        return None
    return kind.key(obj.metadata.namespace, controller.name)
