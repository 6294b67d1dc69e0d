"""What is known of a set's objects beyond what caches show.

Caches lag behind our own writes. What the server has answered in this pass, and what we have deleted in this process,
is known better; so a pass works on the caches' view, corrected (`ObservedSet`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.confirmation import Confirmation, Live
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.plan.actions import Action, Create, Remove, Update
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured

BELIEVED_SECONDS = 60.0
"""For how long our own deletion is believed rather than a cache that still shows the object."""


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """An object that we deleted. `gone`: the server confirmed it at once; otherwise it was to take a while."""

    uid: str
    gone: bool
    at: float
    """When, on the clock's seconds."""
    may_have_successor: bool = False
    """Whether a creation of another object of this name has been sent since. Its answer may have been lost, so only
    the API server knows whether there is an object now."""


@dataclass(slots=True)
class ObservedState:
    """What a process remembers of a set from pass to pass. Losing it costs a few requests and nothing else."""

    confirmations: dict[Address, Confirmation] = field(default_factory=dict)
    checked: dict[Address, datetime] = field(default_factory=dict)
    """When an object was last due and as wanted. Its status keeps the time of the last write only: a check must not
    cost a write, and an object that was calm for an interval would be due in every pass."""
    removed: dict[ObjectIdentity, DeletedObject] = field(default_factory=dict)
    """Objects that we asked the server to delete: caches may show them for a while as they were, and when a cache that
    has shown one shows it no more, it is gone."""

    def keep_only(self, addresses: Collection[Address]) -> None:
        """Drop the confirmations of objects that no longer belong to the set."""
        for address in self.confirmations.keys() - set(addresses):
            del self.confirmations[address]

    def clear(self) -> None:
        """Drop everything: the set is gone."""
        self.confirmations.clear()
        self.checked.clear()
        self.removed.clear()


class ObservedSet:
    """The set's objects as far as they are known in one pass."""

    def __init__(
        self,
        seen: Mapping[ObjectIdentity, LiveObject],
        resources: Mapping[ObjectIdentity, Resource],
        memory: ObservedState,
        *,
        now: datetime,
        clock: float,
    ) -> None:
        self.seen = dict(seen)
        self.absent: set[ObjectIdentity] = set()
        """What is known to be gone, however old the caches are."""
        self._resources = resources
        self._memory = memory
        self._now = now
        self._clock = clock
        for identity, removed in [*memory.removed.items()]:
            self._correct(identity, removed)

    def learn(self, identity: ObjectIdentity, carried: ActionResult) -> None:
        """What the server has answered."""
        live = carried.live
        if isinstance(carried.action, Remove) and carried.done:
            removed = DeletedObject(carried.action.uid, gone=not carried.stays, at=self._clock)
            self._memory.removed[identity] = removed
            live = self._terminating(self.seen[identity].live) if carried.stays else None
        if live is None:
            self._lose(identity, is_sure=carried.done)
            return
        self.seen[identity] = LiveObject(carried.address, live)
        self.absent.discard(identity)
        if not live.metadata.is_terminating:
            self._memory.removed.pop(identity, None)
        if carried.confirmation is not None:
            self._confirm(carried.address, carried.confirmation)

    def begin(self, actions: Iterable[Action]) -> None:
        """Note what is about to be created or taken over: before the server answers it may be done, or half done."""
        for action in actions:
            last = self._memory.confirmations.get(action.address)
            if isinstance(action, Update) and action.claimed and last is not None:
                self._memory.confirmations[action.address] = replace(last, is_interrupted=True)
            elif isinstance(action, Create):
                identity = ObjectIdentity.of(action.address.ref)
                self.absent.discard(identity)
                if (removed := self._memory.removed.get(identity)) is not None:
                    self._memory.removed[identity] = replace(removed, may_have_successor=True)

    def note_checked(self, addresses: Iterable[Address]) -> None:
        """Objects that were due and are as wanted: they are due again after an interval."""
        self._memory.checked.update(dict.fromkeys(addresses, self._now))

    def forget(self, before: Inventory, after: Inventory) -> None:
        """What has left the set: nothing that is remembered of it may be held against a successor."""
        if len(before) == len(after):
            return
        kept = {entry.identity for entry in after}
        for entry in before:
            resource = self._resources.get(entry.identity)
            if entry.identity not in kept and resource is not None:
                address = Address(resource, entry.key)
                self._memory.confirmations.pop(address, None)
                self._memory.checked.pop(address, None)

    def _correct(self, identity: ObjectIdentity, removed: DeletedObject) -> None:
        """What we have deleted ourselves is known better than by a cache that lags behind; for a while, because what
        is in etcd may come back from a backup."""
        seen, is_recent = self.seen.get(identity), self._clock - removed.at < BELIEVED_SECONDS
        if seen is None:
            self._lose(identity, is_sure=not removed.may_have_successor)
            if not is_recent and identity not in self._resources:
                del self._memory.removed[identity]
        elif seen.live.metadata.uid != removed.uid or not (is_recent or seen.live.metadata.is_terminating):
            del self._memory.removed[identity]
        elif removed.gone:
            self._lose(identity, is_sure=not removed.may_have_successor)
        else:
            self.seen[identity] = LiveObject(seen.address, self._terminating(seen.live))

    def _lose(self, identity: ObjectIdentity, *, is_sure: bool) -> None:
        self.seen.pop(identity, None)
        if is_sure:
            self.absent.add(identity)

    def _confirm(self, address: Address, confirmation: Confirmation) -> None:
        """Remember it. When we last restored the object is not forgotten with what we then made of it."""
        before = self._memory.confirmations.get(address)
        restored_at = confirmation.restored_at
        if restored_at is None and before is not None:
            restored_at = before.restored_at
        self._memory.confirmations[address] = replace(confirmation, restored_at=restored_at)

    def _terminating(self, live: Live) -> Live:
        """An object as it looks when it is being deleted, as far as it is known."""
        metadata = live.metadata
        metadata = msgspec.structs.replace(metadata, deletion_timestamp=metadata.deletion_timestamp or self._now)
        if isinstance(live, Unstructured):
            return Unstructured(live.body, metadata)
        return PartialObjectMetadata(metadata=metadata)
