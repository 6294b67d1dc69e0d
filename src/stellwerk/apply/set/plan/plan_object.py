"""What one wanted object needs: a write, patience, or nothing. Pure.

Whether a live object is as wanted is decided by the first that applies:

1. it does not exist: it is made, unless it is a Job that was complete and that Kubernetes removes by itself. A cache
   that does not show it yet does no harm: it is only made where there is none;
2. it belongs to another owner now, or another client made it, and it may not be taken: nothing is done, and that is a
   failure. The object that we wrote and that has lost our marks is ours, whatever its adoption policy;
3. it is being deleted: its end is waited for;
4. it does not carry our marks, or not the digest of what is wanted: it is written;
5. the identity that writes is another one than before, and has to prove its rights (`Proof`): it is written;
6. its time has come, and it is proved not to be as we left it, or (`Replace`) another client may have added something:
   it is written.

What others change is taken back only when an object's reapply interval has passed since its last write, or since it was
last due and found as wanted, unless the operator's policy differs (`ApplyOptions.repairs_drift`); what they delete, and
marks that they take off, are restored at once, because without the marks an object is lost to us. None of it more often
than every `FIGHT_SECONDS` (R-110).

With `Recreate`, an object is deleted and created again for a changed manifest, for a reconcile policy that changes from
or to `once` (specification 5: an upgrade hook runs at the first upgrade), and for a field that is proved to differ. It
is not for a digest in another operator's spelling: an object that is taken over loses nothing. Nor is what another
client has put in the place of ours, under another uid and without our label.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stellwerk.apply.errors import Obstacle, UnreadableStatus
from stellwerk.apply.fields import managed_fields
from stellwerk.apply.fields.compare import Difference, FieldComparison, compare
from stellwerk.apply.fields.managed_fields import strangers
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.readiness.kstatus import StatusVerdict
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS, Confirmation, Live
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import (
    APPLIED_ONCE,
    THEIR_SPELLING,
    EntryStatus,
    Inventory,
    InventoryEntry,
    Phase,
)
from stellwerk.apply.set.model.owner import Evidence, Standing, unmarked
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.plan import readiness_grace
from stellwerk.apply.set.plan.actions import Action, Create, Remove, RemoveFinalizer, Update
from stellwerk.apply.set.plan.inventory_update import refusal
from stellwerk.apply.set.plan.plan_input import (
    IN_USE_SECONDS,
    UNSERVED,
    UNSERVED_SECONDS,
    UNWATCHED_END_SECONDS,
    PlanInput,
    Proof,
)
from stellwerk.apply.set.plan.stage import Throttled, deletion_wait
from stellwerk.kube.types.model import JsonObject, Unstructured, dig

_SHOWN = 3
_CLOCK_SKEW = timedelta(seconds=1)
"""How far ahead a time may be that another clock has given, or that was rounded."""
_OUR_SPELLING = re.compile(r"[0-9a-f]{32}(?:@.*)?")
"""Of a digest."""


@dataclass(frozen=True, slots=True)
class ObjectDecision:
    """What becomes of one object."""

    entry: InventoryEntry
    action: Action | None = None
    waits: str = ""
    """What is waited for, in words; empty where the object is ready."""
    again_at: float | None = None
    """When to look again though nothing changes, on the clock's seconds."""
    obstacle: Obstacle | None = None
    """`OWNED`: the object must not be touched. `UNREADABLE`: its readiness is unknown. `waits` is the cause."""
    throttled: Throttled | None = None
    """Set where the object waits because others change it again and again."""
    is_checked: bool = False
    """Whether the object was due and is as wanted: its reapply interval begins again, without a write."""


def decide(obj: DesiredObject, entry: InventoryEntry, state: PlanInput) -> ObjectDecision:
    """What a wanted object needs now."""
    last = state.confirmations.get(obj.address)
    seen = state.seen.get(obj.identity)
    if seen is None:
        return _create(obj, entry, last, state)
    live = seen.live
    if live.metadata.is_terminating:
        return _ending(obj, entry, live, state)
    standing = state.owner.standing(live.metadata)
    has_lost_marks = standing is Standing.UNOWNED and entry.uid == live.metadata.uid
    if standing is not Standing.OURS and not has_lost_marks and (why := refusal(obj, live, state.owner)):
        return ObjectDecision(entry, waits=why, obstacle=Obstacle.OWNED)
    update = _update(obj, entry, live, last, state, standing)
    if update is not None:
        return _updated(obj, entry, live, update, last, state)
    decision = _assessed(obj, _recalled(entry, live), live, last, state)
    return replace(decision, is_checked=True) if _has_interval(obj, state) and _is_due(obj, entry, state) else decision


def _recalled(entry: InventoryEntry, live: Live) -> InventoryEntry:
    """What a crash made us forget: an object that is as wanted is the one that we wrote, at its creation or later.

    Of what another operator wrote no uid is known, and none is noted before we write it: a calm object costs no write.
    """
    if entry.last_applied_at is not None and entry.uid in ("", live.metadata.uid):
        return entry
    written = entry.last_applied_at or live.metadata.creation_timestamp
    return replace(entry, uid=live.metadata.uid, last_applied_at=written)


# ---- it does not exist, or not for long


def _create(obj: DesiredObject, entry: InventoryEntry, last: Confirmation | None, state: PlanInput) -> ObjectDecision:
    if not obj.is_served:
        return ObjectDecision(entry, waits=UNSERVED, again_at=state.clock + UNSERVED_SECONDS)
    if entry.phase is Phase.READY and goes_by_itself(obj.desired.body):
        return ObjectDecision(entry.now(Phase.COMPLETED, EntryStatus.NONE))
    restores = entry.phase is Phase.READY or _is_remembered(obj, last)
    if restores and (held := _held_until(last, state)) is not None:
        why = f"it is deleted again and again; restored every {FIGHT_SECONDS:.0f} s only"
        return ObjectDecision(entry, waits=why, again_at=held, throttled=Throttled(obj.desired.ref, held))
    action = Create(obj.desired, obj.directive.update, restores=restores, takes_all=state.owner.takes_all)
    return ObjectDecision(entry.now(Phase.CREATING, EntryStatus.IN_PROGRESS), action, "is being created")


def goes_by_itself(body: JsonObject) -> bool:
    """Whether Kubernetes removes the object once it has done its work: a Job with `ttlSecondsAfterFinished`."""
    is_job = body.get("kind") == "Job" and str(body.get("apiVersion")).startswith("batch/")
    return is_job and dig(body, "spec", "ttlSecondsAfterFinished") is not None


def _ending(obj: DesiredObject, entry: InventoryEntry, live: Live, state: PlanInput) -> ObjectDecision:
    """It is being deleted. Of a definition, we must remove our finalizer: else it could never be created again.

    No watch need show the end of an object that is not ours: watches select objects by their owner.
    """
    metadata = live.metadata
    further = entry.now(entry.phase, EntryStatus.TERMINATING)
    waits = deletion_wait([name for name in metadata.finalizers if name != state.owner.prefix])
    if state.owner.standing(metadata) is not Standing.OURS:
        return ObjectDecision(further, waits=waits, again_at=state.clock + UNWATCHED_END_SECONDS)
    if not state.is_held(entry.gvk, live):
        return ObjectDecision(further, waits=waits)
    if (in_use := state.in_use.get(obj.identity)) is not None:
        return ObjectDecision(further, waits=f"is being deleted: {in_use}", again_at=state.clock + IN_USE_SECONDS)
    release = RemoveFinalizer(obj.address, metadata.uid, metadata.resource_version, metadata.finalizers)
    return ObjectDecision(further, release, waits)


# ---- it is not as wanted


def _updated(
    obj: DesiredObject, entry: InventoryEntry, live: Live, action: Update, last: Confirmation | None, state: PlanInput
) -> ObjectDecision:
    if action.restores and (held := _held_until(last, state)) is not None:
        throttled = Throttled(obj.desired.ref, held, tuple(strangers(live.metadata.managers, state.owner.prefix)))
        who = ", ".join(throttled.managers) or "another client"
        why = f"{who} changes it again and again; restored every {FIGHT_SECONDS:.0f} s only"
        return ObjectDecision(entry, waits=why, again_at=held, throttled=throttled)
    further = entry.now(Phase.UPDATING, EntryStatus.IN_PROGRESS)
    if action.update is not UpdatePolicy.RECREATE or action.marks_only:
        return ObjectDecision(further, action, "is being updated")
    if (in_use := state.in_use.get(obj.identity)) is not None:
        return ObjectDecision(
            further, waits=f"cannot be created again: {in_use}", again_at=state.clock + IN_USE_SECONDS
        )
    why = f"to create it again: {action.why}"
    remove = Remove(obj.address, action.uid, action.resource_version, why, restores=action.restores)
    return ObjectDecision(further, remove, "is being created again")


def _held_until(last: Confirmation | None, state: PlanInput) -> float | None:
    if last is None or last.restored_at is None or state.clock - last.restored_at >= FIGHT_SECONDS:
        return None
    return last.restored_at + FIGHT_SECONDS


def _is_remembered(obj: DesiredObject, last: Confirmation | None) -> bool:
    """Whether we wrote exactly this before: if it differs now, another client has changed it."""
    return last is not None and last.digest == obj.desired.digest


def _known(obj: DesiredObject, live: Live, last: Confirmation | None) -> Confirmation | None:
    """The answer to our last write, where it was about this very object and content."""
    return last if last is not None and last.uid == live.metadata.uid and _is_remembered(obj, last) else None


def _update(
    obj: DesiredObject,
    entry: InventoryEntry,
    live: Live,
    last: Confirmation | None,
    state: PlanInput,
    standing: Standing,
) -> Update | None:
    """The write that a live object needs; None where it needs none."""
    if state.owner.evidence is Evidence.LAST_ANSWER:
        return drift(obj, live, last, state)
    found = state.owner.digest_on(live.metadata)
    is_as_wanted = standing is Standing.OURS and found == obj.digest
    if is_as_wanted and state.proof is not None and state.proof.is_missing(entry, live.metadata.uid, last):
        return _proving(obj, live, state, state.proof)
    if found == obj.digest == APPLIED_ONCE:
        return None if standing is Standing.OURS else _marked(obj, live, last, state, _unmarked(found))
    if standing is not Standing.OURS and entry.is_replaced_by(live.metadata.uid):
        return _taken(obj, live, last, state)
    if standing is not Standing.OURS or found != obj.digest:
        why = "its manifest has changed" if standing is Standing.OURS else _unmarked(found)
        return _changed(obj, live, last, state, found, why)
    if state.owner.evidence is Evidence.HASH or not _is_due(obj, entry, state):
        return None
    if entry.last_applied_at is None and _is_of_another_hand(obj, live, state):
        return _changed(obj, live, last, state, found, "it was written by another hand")
    return drift(obj, live, last, state) or _replaced(obj, entry, live, last, state)


def _unmarked(found: str) -> str:
    return "its owner's marks were changed" if found else "it was not ours"


def _is_due(obj: DesiredObject, entry: InventoryEntry, state: PlanInput) -> bool:
    return state.options.repairs_drift or _is_interval_over(obj, entry, state)


def _is_interval_over(obj: DesiredObject, entry: InventoryEntry, state: PlanInput) -> bool:
    if entry.last_applied_at is None:
        return True
    return is_interval_over(obj, [entry.last_applied_at, state.checked.get(obj.address)], state.now)


def is_interval_over(obj: DesiredObject, looks: Iterable[datetime | None], now: datetime) -> bool:
    """Whether the object was last looked at longer ago than its reapply interval.

    A time that is further ahead than clocks differ is of one that was set back, or of a former leader: it proves no
    recent look.
    """
    interval = timedelta(seconds=obj.directive.reapply_seconds)
    return not any(look is not None and -_CLOCK_SKEW <= now - look < interval for look in looks)


def _has_interval(obj: DesiredObject, state: PlanInput) -> bool:
    """Whether the object is compared with its manifest at its reapply interval only."""
    by_digest = state.owner.evidence is Evidence.DIGEST and obj.digest != APPLIED_ONCE
    return by_digest and not state.options.repairs_drift


def _is_of_another_hand(obj: DesiredObject, live: Live, state: PlanInput) -> bool:
    """Labelled as ours and not applied by us, for example from a backup. Our next apply could not remove fields."""
    return obj.directive.update.is_apply and not managed_fields.applied_by(live.metadata.managers, state.owner.prefix)


def _changed(
    obj: DesiredObject, live: Live, last: Confirmation | None, state: PlanInput, found: str, why: str
) -> Update:
    policy = obj.directive.update
    if policy is UpdatePolicy.RECREATE and is_alike(obj, live, found, state.owner.prefix):
        return _marked(obj, live, last, state, why)
    return _update_of(obj, live, state, policy, why, _differences(obj, live), restores=_is_remembered(obj, last))


def _taken(obj: DesiredObject, live: Live, last: Confirmation | None, state: PlanInput) -> Update:
    """Another client has put its object in the place of ours, and it may become ours. It is overwritten:
    an object of others is not deleted to create it again."""
    policy = obj.directive.update
    if policy is UpdatePolicy.RECREATE:
        policy = UpdatePolicy.SSA_MERGE
    differences, restores = _differences(obj, live), _is_remembered(obj, last)
    return _update_of(obj, live, state, policy, "another client has created it again", differences, restores=restores)


def _proving(obj: DesiredObject, live: Live, state: PlanInput, proof: Proof) -> Update:
    """The write that proves that another identity may change the object. It changes nothing that is as wanted: an
    object is not created again for it, and one that is written once keeps its content."""
    policy = obj.directive.update
    marks_only = policy is UpdatePolicy.RECREATE or obj.digest == APPLIED_ONCE
    return _update_of(
        obj, live, state, policy, f"{proof.identity} takes it over", restores=False, marks_only=marks_only
    )


def is_alike(obj: DesiredObject, live: Live, found: str, prefix: str) -> bool:
    """Whether a live object that carries the digest `found` is as wanted but for its marks.

    An object whose digest comes from this operator is not, because the digest differs. The same holds if exactly one of
    the two digests is that of `once`: a change of the policy from or to `once` makes the object due.
    """
    if found and found == obj.digest:
        return True
    if found == APPLIED_ONCE or (found and obj.digest == APPLIED_ONCE) or _OUR_SPELLING.fullmatch(found):
        return False
    if not isinstance(live, Unstructured):  # a Secret: its content is not at hand
        return THEIR_SPELLING.fullmatch(found) is not None
    return not compare(unmarked(obj.desired.body, prefix), live.body).differences


def _marked(obj: DesiredObject, live: Live, last: Confirmation | None, state: PlanInput, why: str) -> Update:
    """Only the marks are written."""
    policy, restores = obj.directive.update, _is_remembered(obj, last)
    return _update_of(obj, live, state, policy, why, restores=restores, marks_only=True)


def drift(obj: DesiredObject, live: Live, last: Confirmation | None, state: PlanInput) -> Update | None:
    """The write that takes back what others have changed since our last write; None where nothing needs one.

    An object that carries a digest was applied by us with that content, so that only proved changes count. One that
    carries none is written unless the last answer, or equality without remainder, proves that it is as wanted: what it
    has more than asked may be a default, or left from an older manifest.
    """
    known = _known(obj, live, last)
    is_proof_needed = state.owner.evidence is Evidence.LAST_ANSWER
    is_untouched = known is not None and known.resource_version == live.metadata.resource_version
    if is_untouched and not is_proof_needed:
        return None  # no client wrote since, not even a status
    claimed = _reclaimable(obj.directive.update, live, state)
    if is_untouched and not claimed:
        return None
    comparison = compare(obj.desired.body, live.body) if isinstance(live, Unstructured) else None
    differences = comparison.differences if comparison is not None else ()
    if known is not None:
        differences = tuple(each for each in differences if each not in known.settled)
    policy = obj.directive.update
    if policy is UpdatePolicy.RECREATE and known is None and comparison is not None:
        return None  # a default looks like a change, and that is too little to delete an object for
    if policy is UpdatePolicy.RECREATE and comparison is None:
        policy = UpdatePolicy.SSA_MERGE  # so is the suspicion about a Secret, of which only the metadata is held
    if claimed:
        why = f"changed by {', '.join(claimed)}"
    elif differences:
        why = _first(differences)
    elif is_proof_needed:
        why = _doubt(
            last is not None and last.uid == live.metadata.uid,
            known,
            comparison,
            managed_fields.applied_by(live.metadata.managers, state.owner.prefix),
        )
    else:
        why = "it may have been changed" if comparison is None else ""
    return _update_of(obj, live, state, policy, why, differences, restores=known is not None) if why else None


def _replaced(
    obj: DesiredObject, entry: InventoryEntry, live: Live, last: Confirmation | None, state: PlanInput
) -> Update | None:
    """The write that takes away what others have added to an object that is replaced as a whole; None where none did.

    What an object has more than asked may be a default: only managedFields show whose it is. An entry of a client that
    wrote the same values as we did stays after the write, so it is made at most once per interval.
    """
    if obj.directive.update is not UpdatePolicy.REPLACE or not _is_interval_over(obj, entry, state):
        return None
    known = _known(obj, live, last)
    if known is not None and known.resource_version == live.metadata.resource_version:
        return None
    ours = state.owner.prefix
    others = strangers(live.metadata.managers, ours, managed_fields.CONTROL_PLANE | {ours})
    why = f"changed by {', '.join(others)}"
    return _update_of(obj, live, state, UpdatePolicy.REPLACE, why, restores=known is not None) if others else None


def _doubt(is_written: bool, known: Confirmation | None, comparison: FieldComparison | None, owned: bool) -> str:
    """Why an object without proved changes has to be written all the same; empty where it is proved to be as wanted."""
    if known is not None and known.is_interrupted:
        return "fields of others were taken over and not yet removed"
    if known is None:
        if comparison is not None and comparison.is_equal and owned:
            return ""
        return "its manifest has changed" if is_written else "not written by this process yet"
    if comparison is None:
        return "it was changed"
    if known.owned and not owned:
        return "its managedFields no longer name us"
    added = [] if owned else [path for path in comparison.extras if path not in known.extras]
    return f"{', '.join(added[:_SHOWN])} was added" if added else ""


def _first(differences: Sequence[Difference]) -> str:
    shown = ", ".join(map(str, differences[:_SHOWN]))
    rest = len(differences) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _differences(obj: DesiredObject, live: Live) -> tuple[Difference, ...]:
    return compare(obj.desired.body, live.body).differences if isinstance(live, Unstructured) else ()


def _reclaimable(policy: UpdatePolicy, live: Live, state: PlanInput) -> tuple[str, ...]:
    claims = policy.claims(state.owner.prefix, state.options.reclaims)
    return tuple(managed_fields.claimed(live.metadata.managers, state.owner.prefix, claims))


def _update_of(
    obj: DesiredObject,
    live: Live,
    state: PlanInput,
    policy: UpdatePolicy,
    why: str,
    differences: tuple[Difference, ...] = (),
    *,
    restores: bool,
    marks_only: bool = False,
) -> Update:
    return Update(
        obj.desired,
        policy,
        uid=live.metadata.uid,
        resource_version=live.metadata.resource_version,
        finalizers=live.metadata.finalizers,
        claimed=() if marks_only else _reclaimable(policy, live, state),
        why=why,
        differences=differences,
        restores=restores,
        marks_only=marks_only,
    )


# ---- it is as wanted


def _assessed(
    obj: DesiredObject, entry: InventoryEntry, live: Live, last: Confirmation | None, state: PlanInput
) -> ObjectDecision:
    try:
        readiness = readiness_grace.readiness_of(obj, entry, live, last, state)
    except UnreadableStatus as error:
        further = entry.now(entry.phase, EntryStatus.UNKNOWN)
        obstacle = Obstacle.UNREADABLE if state.options.needs_readable_status else None
        return ObjectDecision(further, waits=str(error), obstacle=obstacle)
    if readiness.verdict is StatusVerdict.CURRENT:
        return ObjectDecision(entry.now(Phase.READY, EntryStatus.CURRENT))
    further = entry.now(entry.phase, EntryStatus(readiness.verdict.value))
    return ObjectDecision(further, waits=str(readiness), again_at=readiness_grace.look_again_at(readiness, last, state))


def drifted(wanted: Sequence[DesiredObject], state: PlanInput) -> dict[Address, Update]:
    """What others have changed and we have not taken back, for the report. Only what is proved."""
    found: dict[Address, Update] = {}
    for obj in wanted:
        seen = state.seen.get(obj.identity)
        if seen is None or obj.digest == APPLIED_ONCE:
            continue
        live = seen.live
        known = _known(obj, live, state.confirmations.get(obj.address))
        if known is None or known.resource_version == live.metadata.resource_version:
            continue
        # Of a Secret, whose content is not at hand, only its managers prove a change.
        is_provable = isinstance(live, Unstructured) or _reclaimable(obj.directive.update, live, state)
        if is_provable and (update := drift(obj, live, known, state)) is not None:
            found[obj.address] = update
    return found


def reapply_at(
    addresses: Container[Address], wanted: Sequence[DesiredObject], inventory: Inventory, state: PlanInput
) -> float | None:
    """When the first of these objects is due, on the clock's seconds. An object that is due now is not meant: what this
    pass has left as it is, the next one would, too."""
    entries = inventory.by_identity()
    left = [_seconds_left(obj, entries[obj.identity], state) for obj in wanted if obj.address in addresses]
    first = min((seconds for seconds in left if seconds > 0), default=None)
    return None if first is None else state.clock + first


def _seconds_left(obj: DesiredObject, entry: InventoryEntry, state: PlanInput) -> float:
    """Until the object's reapply interval is over."""
    looks = [look for look in (entry.last_applied_at, state.checked.get(obj.address)) if look is not None]
    since = (state.now - max(looks, default=state.now)).total_seconds()
    return obj.directive.reapply_seconds - since
