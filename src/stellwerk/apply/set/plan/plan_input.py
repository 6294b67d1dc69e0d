"""All that decides about one stage, as a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from stellwerk.apply.fields import managed_fields
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model import order
from stellwerk.apply.set.model.confirmation import Confirmation, Live
from stellwerk.apply.set.model.desired_set import is_definition
from stellwerk.apply.set.model.inventory import (
    APPLIED_ONCE,
    InventoryEntry,
    ManagedType,
    ObjectIdentity,
    is_managed,
)
from stellwerk.apply.set.model.owner import Ownership, Standing
from stellwerk.apply.set.model.policy import Policies
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource

IN_USE_SECONDS = 10.0
"""How soon to ask again whether others still have instances of a definition, which are not watched."""

UNWATCHED_END_SECONDS = 10.0
"""How soon to look again whether an object of others is gone, whose end is waited for."""

UNSERVED_SECONDS = 1.0
"""How soon to look again whether a kind is served that the set itself has brought."""

UNSERVED = "its kind is not served yet"

RECLAIMS = managed_fields.beginning_with("kubectl", "helm")
"""The tools whose fields SsaOverride takes over."""


@dataclass(frozen=True, slots=True)
class LiveObject:
    """A live object, and where it is served."""

    address: Address
    live: Live


@dataclass(frozen=True, slots=True)
class Proof:
    """An identity that has to prove by a write that it may change each object, before the set is done."""

    identity: str
    of_all: bool
    """Whether another identity is known to have applied the set. Otherwise only objects of unknown authors are meant,
    which a crash leaves behind between their creation and the record of it."""

    def is_missing(self, entry: InventoryEntry, uid: str, last: Confirmation | None) -> bool:
        """Whether no write by the identity is known for the object with this uid."""
        is_written = last is not None and (last.uid, last.written_as) == (uid, self.identity)
        is_meant = self.of_all or (not entry.uid and entry.digest != APPLIED_ONCE)
        return is_meant and not is_written


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How an operator treats all its sets."""

    reclaims: Claims = RECLAIMS
    """The managers whose fields SsaOverride takes over."""
    apply_order: Callable[[Resource], int] = order.apply_priority
    """Among objects that may be written now, lower ones are written first."""
    repairs_drift: bool = False
    """Whether what others change is taken back at once; otherwise it waits for the reapply interval."""
    needs_readable_status: bool = True
    """Whether a status that cannot be read is a failure of its object. Otherwise the set waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """A set, as it looks now."""

    owner: Ownership
    policies: Policies = field(default_factory=Policies)
    options: ApplyOptions = field(default_factory=ApplyOptions)
    seen: Mapping[ObjectIdentity, LiveObject]
    """The set's objects as the caches and the answers of this pass show them."""
    resources: Mapping[ObjectIdentity, Resource] = field(default_factory=dict)
    """Where the kinds of the inventory are served. What is missing is not served, so nothing of it is left."""
    absent: Collection[ObjectIdentity] = ()
    """What is known to be gone, however old the caches are."""
    in_use: Mapping[ObjectIdentity, str] = field(default_factory=dict)
    """Definitions of which others still have instances, and a sentence about them."""
    confirmations: Mapping[Address, Confirmation] = field(default_factory=dict)
    checked: Mapping[Address, datetime] = field(default_factory=dict)
    """When an object was last due and as wanted, so that nothing was written."""
    proof: Proof | None = None
    """Set if the identity that writes is not the one that applied the set."""
    now: datetime
    clock: float
    """The same moment on the clock of the confirmations, in seconds."""

    def proves(self, entry: InventoryEntry, live: Live) -> bool:
        """Whether a live object is the one that the entry is about, so that it may be deleted or released.

        An inventory is text in a status, and may be edited. So the object itself must carry the owner's label, and be
        the one that was written last: by its uid or, where that was not noted, by the digest of what was wanted last.
        A crash keeps a uid from being noted, and so does a cluster that was restored from a backup: a pass with an
        outdated view creates an object again that the restored inventory knows by its former uid, or not at all.
        """
        if self.owner.standing(live.metadata) is not Standing.OURS:
            return False
        if not entry.is_replaced_by(live.metadata.uid):
            return True
        digest = entry.digest or entry.former_digest
        return bool(digest) and self.owner.digest_on(live.metadata) == digest

    def is_held(self, gvk: GroupVersionKind, live: Live) -> bool:
        """Whether a definition has our finalizer, without which it could not be kept for the instances of others."""
        return is_definition(gvk) and self.owner.prefix in live.metadata.finalizers

    def is_instance(self, gvk: GroupVersionKind, types: Collection[ManagedType]) -> bool:
        """Whether objects of a kind need controllers of the set, which brings `types`."""
        return is_managed(gvk, types) or self.policies.type_patterns.matches(gvk.group, gvk.kind)
