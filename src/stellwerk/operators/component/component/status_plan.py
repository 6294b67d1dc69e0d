"""What a Component's status becomes, step by step (pure).

    start_content   the content that is worked on; a new one restarts the clock
    record_attempt  what is about to be rendered
    finished        everything is applied and ready
    with_report     the status with the report of the pass

What all kinds with an inventory have is in `delivery.sets.set_status`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeVar

import msgspec

from stellwerk.apply.set.model import inventory_codec, policy
from stellwerk.apply.set.model.inventory import Inventory, Phase
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.actions import Create, Update
from stellwerk.apply.set.plan.plan_input import Proof
from stellwerk.delivery import reconcile_request
from stellwerk.delivery.sets import set_status
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION, Component
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.api_status import Artifact, ComponentStatus, SourceStatus
from stellwerk.operators.component.errors import ClusterChanged, ClusterUnidentified, InvalidInventory, InvalidSpec
from stellwerk.operators.component.intervals import Intervals
from stellwerk.operators.component.targets.seals import KUBECONFIG, Purpose, Signet

E_ = TypeVar("E_", bound=Enum)

_UNWRITTEN = ("", Phase.SCHEDULED_FOR_APPLICATION.value, Phase.CREATING.value)

_DIGEST_LENGTH, _FOREIGN_DIGEST_LENGTH = 40, 64
"""The original's digests have 64 digits, ours 40; they are made from other representations and never equal."""


# ---- what the spec asks for


_DOUBLING_SECONDS, _SECONDLY_SECONDS, _EVERY_OTHER_SECONDS = 1.55, 16.55, 76.55


def polling_pause(elapsed_seconds: float) -> float:
    """Seconds until the next look at objects that cannot be watched (specification 6.4).

    As the original: 50, 100, 200, 400, 800 ms, then 1 s up to the 20th look, 2 s up to the 50th, then 10 s. It is a
    function of the time that has elapsed, so nothing has to be counted.
    """
    if elapsed_seconds < _DOUBLING_SECONDS:
        return min(max(elapsed_seconds, 0.05), 0.8)
    if elapsed_seconds < _SECONDLY_SECONDS:
        return 1.0
    return 2.0 if elapsed_seconds < _EVERY_OTHER_SECONDS else 10.0


MOST_MANAGED_TYPES = 1_000
"""A cluster has a few hundred kinds."""


def policies(spec: ComponentSpec) -> policy.Policies:
    """What holds for all objects of a Component. Raises InvalidSpec.

    `Orphan` for the whole Component means its deletion only: what a manifest no longer has is deleted all the same.
    """
    if len(spec.additional_managed_types) > MOST_MANAGED_TYPES:
        why = f"has {len(spec.additional_managed_types)} entries; at most {MOST_MANAGED_TYPES} are allowed"
        raise InvalidSpec("additionalManagedTypes", why)
    delete = chosen("deletePolicy", spec.delete_policy, policy.DeletePolicy.DELETE)
    return policy.Policies(
        adoption=chosen("adoptionPolicy", spec.adoption_policy, policy.AdoptionPolicy.IF_UNOWNED),
        update=chosen("updatePolicy", spec.update_policy, policy.UpdatePolicy.SSA_OVERRIDE),
        delete=policy.DeletePolicy.ORPHAN_ON_DELETE if delete is policy.DeletePolicy.ORPHAN else delete,
        missing_namespaces=chosen(
            "missingNamespacesPolicy", spec.missing_namespaces_policy, policy.MissingNamespacesPolicy.CREATE
        ),
        reapply_seconds=Intervals.of(spec).reapply.total_seconds(),
        managed_types=_managed_types(spec),
    )


def policies_of_deletion(spec: ComponentSpec) -> policy.Policies:
    """What of that still counts when a Component goes; what stays is in its inventory.

    It raises nothing, because an invalid spec must not prevent a deletion.
    """
    return policy.Policies(managed_types=_managed_types(spec))


def _managed_types(spec: ComponentSpec) -> tuple[policy.TypePattern, ...]:
    """Each once. A spec that was never applied may have more than are allowed, and none is dropped."""
    return tuple(dict.fromkeys(policy.TypePattern(type_.group, type_.kind) for type_ in spec.additional_managed_types))


def chosen(field: str, text: str, fallback: E_) -> E_:
    """The word of a field that has a fixed choice; `fallback` where it is empty. Raises InvalidSpec."""
    if not text:
        return fallback
    try:
        return type(fallback)(text)
    except ValueError:
        known = ", ".join(str(word.value) for word in type(fallback))
        raise InvalidSpec(field, f"{text!r} is unknown; expected one of {known}") from None


# ---- what the status becomes


@dataclass(frozen=True, slots=True)
class Begun:
    """The status with the content that is worked on now."""

    status: ComponentStatus
    digest: str
    """Its fingerprint."""
    is_new: bool
    """Whether the content is another one than before."""


def start_content(component: Component, source: SourceStatus, digest: str) -> Begun:
    """The status as work on a content begins. `digest` is its fingerprint (`digests.of_component`).

    Content that the original finished, or was applying, is not started again: its fingerprints mean the same. The
    status keeps the original's until the inventory has ours (`with_content`), so that a pass that fails before is
    still a take-over.
    """
    status, digest = component.status, digest[:_DIGEST_LENGTH]
    asked = reconcile_request.asked(component.metadata)
    base = msgspec.structs.replace(status, source_ref=source, last_handled_reconcile_at=asked)
    if status.processing_digest == digest:
        return Begun(base, digest, is_new=False)
    if _is_of_the_original(status) and is_unchanged(component, source.artifact):
        taken = msgspec.structs.replace(base, last_processing_digest=status.processing_digest)
        return Begun(taken, digest, is_new=False)
    return Begun(set_status.begun(base, digest), digest, is_new=True)


def _is_of_the_original(status: ComponentStatus) -> bool:
    return len(status.processing_digest) == _FOREIGN_DIGEST_LENGTH


def is_unchanged(component: Component, artifact: Artifact | None) -> bool:
    """Whether this spec and this artifact are those that were brought to Ready, or that the original was applying."""
    status = component.status
    return is_applied(component, artifact) or (
        _is_of_the_original(status)
        and status.observed_generation == component.metadata.generation
        and status.last_processing_digest == status.processing_digest
        and artifact is not None
        and status.has_attempted(artifact)
    )


def is_applied(component: Component, artifact: Artifact | None) -> bool:
    """Whether this spec was brought to Ready with this artifact already, by whomever."""
    status = component.status
    return (
        status.applied_generation == component.metadata.generation
        and artifact is not None
        and (status.last_applied_digest, status.last_applied_revision) == (artifact.digest, artifact.revision)
    )


def set_target_cluster(component: Component, status: ComponentStatus, found: str, home: str) -> ComponentStatus:
    """The status with the cluster that the objects go to. `found` identifies it, empty where nothing does; `home` is
    the uid of the operator's own. Raises ClusterChanged, ClusterUnidentified.

    A Component that has no objects may go anywhere, and one of which it is not known where they are goes on as before.
    """
    was_home = status.applied_as not in ("", KUBECONFIG)
    former = status.target_cluster or (home if was_home else "")
    if former and not found and status.inventory:
        raise ClusterUnidentified(former)
    if not found or found == former or (not former and found == home):
        return status
    is_confirmed = component.metadata.annotations.get(CONFIRMED_CLUSTER_ANNOTATION) == found
    if former and status.inventory and not is_confirmed:
        raise ClusterChanged(former, found)
    return msgspec.structs.replace(status, target_cluster="" if found == home else found)


def check_inventory(component: Component) -> None:
    """Raises InvalidInventory where the status holds an entry that nothing can be done with."""
    command = f"kubectl -n {component.metadata.namespace} patch component {component.metadata.name}"
    if why := set_status.inventory_complaint(component.status, command):
        raise InvalidInventory(why)


def has_applied(status: ComponentStatus) -> bool:
    """Whether any object of the inventory may have been written. An entry is saved before its object is."""
    return any(item.uid or item.last_applied_at or item.phase not in _UNWRITTEN for item in status.inventory)


def proof_of(recorded: str, signet: Signet) -> Proof | None:
    """What the identity of a signet has to prove if `recorded` is the one that applied; None if it is the same, or
    could not be recorded."""
    if signet.key is None or signet.scope.identity == recorded:
        return None
    return Proof(signet.scope.identity, of_all=bool(recorded))


def acted(before: ComponentStatus, after: ComponentStatus, signet: Signet, progress: SetProgress) -> ComponentStatus:
    """`after` with the identity that applied the objects.

    The first identity is recorded once it has written an object, another one when it has applied everything: until
    then, objects are those of the former. It has proved that by a write of each object.
    """
    is_first = not has_applied(before) and any(isinstance(each.action, Create | Update) for each in progress.carried)
    holds_objects = any(entry.phase is not Phase.COMPLETED for entry in progress.inventory)
    return applied(after, signet) if is_first or (progress.done and holds_objects) else after


def applied(status: ComponentStatus, signet: Signet) -> ComponentStatus:
    """The status with the identity that applied the objects; as it is where that cannot be sealed."""
    if not (seal := signet.seal(Purpose.IDENTITY)):
        return status
    return msgspec.structs.replace(status, applied_as=signet.scope.identity, applied_as_seal=seal)


def proved_identity(status: ComponentStatus, recorded: Signet) -> str:
    """The identity that applied the objects; empty where none was applied, none is recorded, or the record does not
    fit its seal.

    The scope of `recorded` has the identity that the status names.
    """
    is_sealed = recorded.fits(status.applied_as_seal, Purpose.IDENTITY)
    return status.applied_as if is_sealed and has_applied(status) else ""


def sealing(status: ComponentStatus, seal: str) -> ComponentStatus:
    """The status before delete hooks are written: with their seal, that of the present ones, and that of the ones that
    were there when everything was applied."""
    known = status.delete_hook_seals
    if seal in known:
        return status
    # The first is of the identity that applied everything, and stays as long as that deletes.
    kept = dict.fromkeys((*known[:1], *known[-1:], seal))
    return msgspec.structs.replace(status, delete_hook_seals=tuple(kept))


def sealed(status: ComponentStatus, seals: Sequence[str]) -> ComponentStatus:
    """The status when everything is applied: only the seals of the hooks that are there are left."""
    return msgspec.structs.replace(status, delete_hook_seals=tuple(seals))


def record_attempt(status: ComponentStatus, artifact: Artifact) -> ComponentStatus:
    """The status as templates see it. A content that was never rendered raises the revision."""
    return msgspec.structs.replace(
        set_status.attempted(status),
        last_attempted_digest=artifact.digest,
        last_attempted_revision=artifact.revision,
    )


def with_inventory(status: ComponentStatus, inventory: Inventory) -> ComponentStatus:
    """The status with the objects as they are now."""
    shown = set_status.with_inventory(status, inventory)
    return msgspec.structs.replace(shown, inventory_summary=inventory_codec.summary(inventory))


def with_content(status: ComponentStatus, inventory: Inventory, digest: str) -> ComponentStatus:
    """The status with the objects of a content as they are now. Its fingerprint replaces that of the original, whose
    fingerprints in the inventory are replaced, too."""
    shown = with_inventory(status, inventory)
    return msgspec.structs.replace(shown, processing_digest=digest, last_processing_digest=digest)


def with_drift(component: Component, status: ComponentStatus, progress: SetProgress) -> ComponentStatus:
    """The status with what others have changed, and, as all is applied, with the forced request that is done."""
    handled = reconcile_request.force_asked(component.metadata) or status.last_handled_force_at
    return msgspec.structs.replace(status, last_handled_force_at=handled, drifted_objects=len(progress.drifted))


def is_forced(component: Component) -> bool:
    """Whether a request to put back what others have changed is not done yet."""
    asked = reconcile_request.force_asked(component.metadata)
    return bool(asked) and asked != component.status.last_handled_force_at


def finished(component: Component, status: ComponentStatus, now: datetime) -> ComponentStatus:
    """The status when everything is applied and ready."""
    shown = msgspec.structs.replace(
        status,
        last_applied_digest=status.last_attempted_digest,
        last_applied_revision=status.last_attempted_revision,
    )
    return set_status.finished(shown, component.metadata.generation, now)


def with_report(component: Component, status: ComponentStatus, report: SetReport, now: datetime) -> ComponentStatus:
    """The status with the report of the pass, written at `now`; the present one where nothing else differs."""
    before, generation = component.status, component.metadata.generation
    if not before.applied_as:  # a calm Component of an earlier version costs no write
        calm = msgspec.structs.replace(status, applied_as="", applied_as_seal=before.applied_as_seal)
        if set_status.with_report(before, calm, report, generation, now) is before:
            return before
    return set_status.with_report(before, status, report, generation, now)
