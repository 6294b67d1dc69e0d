"""What to write next so that a set becomes what is wanted, and what is waited for. Pure.

Objects go in waves by their apply order; a wave waits until everything in the one before is ready. Within a wave there
are three steps: what is plain; then APIServices, which need what they point to; then instances of kinds that the set
itself brings, which need their controllers. Within a step, kinds go in a fixed order, without waiting for readiness.

At the end of a wave what was only needed for it is purged. After the last wave, and only when everything new is ready,
what is no longer wanted goes.

A stage says what can be written now. The caller writes it, adds the answers to what it knows, and asks again: there is
no state here but the inventory, and nothing is assumed about what was done before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from stellwerk.apply import ownership
from stellwerk.apply.compare import Difference, compare
from stellwerk.apply.desired import Address
from stellwerk.apply.errors import InvalidSet, Problem, UnreadableStatus
from stellwerk.apply.kstatus import Readiness, Verdict, waiting
from stellwerk.apply.plan import FIGHT_SECONDS, Confirmation, Live
from stellwerk.apply.readiness import assess
from stellwerk.apply.rollout import departures, order
from stellwerk.apply.rollout.actions import Action, Create, LookUp, Remove, Update
from stellwerk.apply.rollout.carry import claims_of
from stellwerk.apply.rollout.inventory import (
    APPLIED_ONCE,
    Entry,
    Identity,
    Inventory,
    Phase,
    Status,
    is_managed,
)
from stellwerk.apply.rollout.owner import Owner, Standing
from stellwerk.apply.rollout.policy import UpdatePolicy
from stellwerk.apply.rollout.prepare import API_SERVICE, Wanted
from stellwerk.apply.rollout.register import refusal
from stellwerk.apply.rollout.scene import Scene
from stellwerk.apply.rollout.stage import Stage, Unready, grouped
from stellwerk.kube.model import Unstructured

SETTLING_SECONDS = 1.0
"""For how long an object that says nothing about itself counts as not ready after it was written: its controller has
not seen it yet."""

_SPEAKS_FOR_ITSELF = frozenset(
    {
        ("", "ConfigMap"),
        ("", "LimitRange"),
        ("", "Namespace"),
        ("", "ResourceQuota"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("networking.k8s.io", "Ingress"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
        ("batch", "CronJob"),
        ("policy", "PodDisruptionBudget"),
    }
)
_SPEAKING_GROUPS = frozenset({"rbac.authorization.k8s.io", "admissionregistration.k8s.io"})


def next_stage(wanted: Sequence[Wanted], inventory: Inventory, scene: Scene) -> Stage:
    """What can be done now. `inventory` has been registered with `wanted`."""
    completing = _completions(inventory, scene)
    if completing is not None:
        return completing
    steps = _Steps(wanted, inventory, scene)
    for wave in _waves(wanted):
        stage = steps.through(wave)
        if stage is not None:
            return stage
    return _farewell(steps.inventory(), scene)


def _farewell(inventory: Inventory, scene: Scene) -> Stage:
    """Everything new is ready: what is no longer wanted may go."""
    return departures.of_unwanted(inventory, scene)


# ---- completion: what was only needed for a while


def _completions(inventory: Inventory, scene: Scene) -> Stage | None:
    """The stage in which purged objects go; None where none is on its way."""
    actions: list[Action] = []
    changes: dict[Identity, Entry | None] = {}
    waits: list[Unready] = []
    for entry in inventory:
        if entry.phase not in (Phase.SCHEDULED_FOR_COMPLETION, Phase.COMPLETING):
            continue
        action = _completion(entry, scene)
        if action is None and entry.identity not in scene.seen:
            changes[entry.identity] = entry.now(Phase.COMPLETED, Status.NONE)
            continue
        changes[entry.identity] = entry.now(Phase.COMPLETING, Status.TERMINATING)
        waits.append(Unready(entry.ref, "has done its work and is being deleted"))
        if action is not None:
            actions.append(action)
    if not changes:
        return None
    groups = (tuple(actions),) if actions else ()
    return Stage(inventory.changed(changes), groups=groups, waits=tuple(waits), again=not waits)


def _completion(entry: Entry, scene: Scene) -> Remove | LookUp | None:
    """What it takes to end an object that has done its work; None where it is gone, or going."""
    seen = scene.seen.get(entry.identity)
    if seen is None:
        resource = scene.resources.get(entry.identity)
        is_gone = resource is None or entry.identity in scene.absent
        return None if is_gone or resource is None else LookUp(Address(resource, entry.key))
    metadata = seen.live.metadata
    if metadata.is_terminating or scene.owner.standing(metadata) is not Standing.OURS:
        return None
    return Remove(seen.address, metadata.uid, metadata.resource_version, "it has done its work")


# ---- waves


def _waves(wanted: Sequence[Wanted]) -> list[list[Wanted]]:
    ordered = sorted(wanted, key=lambda one: one.directive.apply_order)
    return [list(wave) for _, wave in groupby(ordered, key=lambda one: one.directive.apply_order)]


class _Steps:
    """One walk through the waves; collects what becomes of the entries."""

    def __init__(self, wanted: Sequence[Wanted], inventory: Inventory, scene: Scene) -> None:
        self._wanted = wanted
        self._inventory = inventory
        self._scene = scene
        self._entries = inventory.by_identity()
        self._changes: dict[Identity, Entry | None] = {}
        self._last_order = max((one.directive.apply_order for one in wanted), default=0)
        self._reached: list[Wanted] = []

    def inventory(self) -> Inventory:
        """The inventory with what was found so far."""
        return self._inventory.changed(self._changes)

    def through(self, wave: Sequence[Wanted]) -> Stage | None:
        """The stage that this wave needs; None where the wave is done."""
        self._reached.extend(wave)
        for step in self._parts(wave):
            stage = self._step(step)
            if stage is not None:
                return stage
        return self._purge(wave[0].directive.apply_order)

    def _parts(self, wave: Sequence[Wanted]) -> Iterator[list[Wanted]]:
        """Plain objects, then APIServices, then instances of the set's own kinds."""
        parts: tuple[list[Wanted], list[Wanted], list[Wanted]] = ([], [], [])
        types = self._inventory.managed_types
        patterns = self._scene.policies.managed_types
        for one in wave:
            gvk = one.address.resource.gvk
            if (gvk.group, gvk.kind) == API_SERVICE:
                parts[1].append(one)
            elif is_managed(gvk, types) or any(pattern.matches(gvk.group, gvk.kind) for pattern in patterns):
                parts[2].append(one)
            else:
                parts[0].append(one)
        yield from (part for part in parts if part)

    def _step(self, objects: Sequence[Wanted]) -> Stage | None:
        actions: list[Action] = []
        waits: list[Unready] = []
        again_at: list[float] = []
        refused: list[Problem] = []
        for one in objects:
            entry = self._entries[one.identity]
            if entry.phase is Phase.COMPLETED:
                continue
            decision = _decide(one, entry, self._scene)
            self._changes[entry.identity] = decision.entry
            if decision.action is not None:
                actions.append(decision.action)
            if decision.waits is not None:
                waits.append(decision.waits)
            if decision.again_at is not None:
                again_at.append(decision.again_at)
            if decision.refused:
                refused.append(Problem(str(one.desired.ref), decision.refused))
        if refused:
            raise InvalidSet(refused)
        if not waits and not actions:
            return None
        ordered = grouped(actions, key=lambda action: order.apply_priority(action.address.resource.gvk))
        return Stage(self.inventory(), groups=ordered, waits=tuple(waits), again_at=min(again_at, default=None))

    def _purge(self, reached: int) -> Stage | None:
        """At the end of a wave, schedule what was needed until here."""
        changes: dict[Identity, Entry | None] = {}
        for one in self._reached:
            purge = one.directive.purge_order
            entry = self._changes.get(one.identity) or self._entries[one.identity]
            is_due = purge is not None and (purge <= reached or reached == self._last_order)
            if is_due and entry.phase is not Phase.COMPLETED:
                changes[one.identity] = entry.now(Phase.SCHEDULED_FOR_COMPLETION, Status.TERMINATING)
        if not changes:
            return None
        # Saved first: an object that is gone and not known to have done its work would be made again.
        return Stage(self.inventory().changed(changes), must_be_saved=True)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What becomes of one object."""

    entry: Entry
    action: Action | None = None
    waits: Unready | None = None
    again_at: float | None = None
    """When to look again though nothing changes, on the clock's seconds."""
    refused: str = ""
    """Why the object must not be touched: it has become somebody else's."""


def _decide(one: Wanted, entry: Entry, scene: Scene) -> _Decision:
    seen = scene.seen.get(one.identity)
    last = scene.confirmations.get(one.address)
    if seen is None:
        return _create(one, entry, last, scene)
    live = seen.live
    if scene.owner.standing(live.metadata) is not Standing.OURS and (why := refusal(one, live, scene.owner)):
        return _Decision(entry, waits=Unready(one.desired.ref, why), refused=why)
    if live.metadata.is_terminating:
        return _Decision(entry.now(entry.phase, Status.TERMINATING), waits=_end_of(one, live))
    update = _update(one, entry, live, last, scene)
    if update is not None:
        return _updated(one, entry, live, update, last, scene)
    return _assessed(one, entry, live, scene)


def _create(one: Wanted, entry: Entry, last: Confirmation | None, scene: Scene) -> _Decision:
    restores = entry.phase is Phase.READY
    if restores and (held := _held_until(last, scene)) is not None:
        why = f"it is deleted again and again; restored every {FIGHT_SECONDS:.0f} s only"
        return _Decision(entry, waits=Unready(one.desired.ref, why), again_at=held)
    action = Create(one.desired, one.directive.update, restores=restores)
    return _Decision(
        entry.now(Phase.CREATING, Status.IN_PROGRESS), action, Unready(one.desired.ref, "is being created")
    )


def _updated(
    one: Wanted, entry: Entry, live: Live, action: Update, last: Confirmation | None, scene: Scene
) -> _Decision:
    if action.restores and (held := _held_until(last, scene)) is not None:
        who = ", ".join(ownership.strangers(live.metadata.managers, scene.owner.prefix)) or "somebody"
        why = f"{who} changes it again and again; restored every {FIGHT_SECONDS:.0f} s only"
        return _Decision(entry, waits=Unready(one.desired.ref, why), again_at=held)
    further = entry.now(Phase.UPDATING, Status.IN_PROGRESS)
    waits = Unready(one.desired.ref, "is being updated")
    if action.update is not UpdatePolicy.RECREATE:
        return _Decision(further, action, waits)
    return _Decision(
        further, Remove(one.address, action.uid, action.resource_version, f"to make it anew: {action.why}"), waits
    )


def _held_until(last: Confirmation | None, scene: Scene) -> float | None:
    if last is None or last.restored_at is None or scene.clock - last.restored_at >= FIGHT_SECONDS:
        return None
    return last.restored_at + FIGHT_SECONDS


def _end_of(one: Wanted, live: Live) -> Unready:
    finalizers = ", ".join(live.metadata.finalizers)
    return Unready(
        one.desired.ref, "is being deleted" + (f" and waits for finalizers {finalizers}" if finalizers else "")
    )


# ---- does it need a write


def _update(one: Wanted, entry: Entry, live: Live, last: Confirmation | None, scene: Scene) -> Update | None:
    """The write that a live object needs; None where it needs none."""
    found = scene.owner.digest_on(live.metadata)
    if found == one.digest == APPLIED_ONCE:
        return None
    if found != one.digest:
        return _changed(one, live, scene, _why_changed(entry, found))
    if entry.last_applied_at is None:
        return _changed(one, live, scene, "not known to have been written")
    drift = _drift(one, live, last, scene)
    if drift is None:
        return None
    due = scene.habits.repairs_drift or scene.now - entry.last_applied_at >= timedelta(
        seconds=one.directive.reapply_seconds
    )
    return drift if due else None


def _why_changed(entry: Entry, found: str) -> str:
    if not found:
        return "it was not ours"
    return "its manifest has changed" if entry.last_applied_at else "its marks differ"


def _changed(one: Wanted, live: Live, scene: Scene, why: str) -> Update:
    differences = compare(one.desired.body, live.body).differences if isinstance(live, Unstructured) else ()
    policy = one.directive.update
    if policy is UpdatePolicy.RECREATE and isinstance(live, Unstructured) and _only_marks(differences, scene.owner):
        policy = UpdatePolicy.SSA_MERGE  # another's spelling of the digest is no reason to lose the object
    return _update_of(one, live, scene, policy, why, differences)


def _only_marks(differences: Sequence[Difference], owner: Owner) -> bool:
    return all(f"{owner.prefix}/" in difference.path for difference in differences)


def _drift(one: Wanted, live: Live, last: Confirmation | None, scene: Scene) -> Update | None:
    """What others have changed since our last write; None where nothing is proved to be amiss."""
    strangers = _reclaimable(one, live, scene)
    known = last if last is not None and last.uid == live.metadata.uid and last.digest == one.desired.digest else None
    if known is not None and known.resource_version == live.metadata.resource_version:
        return None
    differences = compare(one.desired.body, live.body).differences if isinstance(live, Unstructured) else ()
    if known is not None:
        differences = tuple(each for each in differences if each not in known.settled)
    elif one.directive.update is UpdatePolicy.RECREATE:
        return None  # a default cannot be told from a change, and that is too little to delete an object for
    if not differences and not strangers:
        return None
    who = f"changed by {', '.join(strangers)}" if strangers else ", ".join(str(each) for each in differences[:3])
    return _update_of(one, live, scene, one.directive.update, who, differences, restores=True)


def _reclaimable(one: Wanted, live: Live, scene: Scene) -> list[str]:
    claims = claims_of(one.directive.update, scene.owner.prefix, scene.habits.reclaims)
    return ownership.claimed(live.metadata.managers, scene.owner.prefix, claims)


def _update_of(
    one: Wanted,
    live: Live,
    scene: Scene,
    policy: UpdatePolicy,
    why: str,
    differences: tuple[Difference, ...],
    *,
    restores: bool = False,
) -> Update:
    claims = claims_of(policy, scene.owner.prefix, scene.habits.reclaims)
    return Update(
        one.desired,
        policy,
        uid=live.metadata.uid,
        resource_version=live.metadata.resource_version,
        finalizers=live.metadata.finalizers,
        takes_over=policy.is_apply and bool(ownership.claimed(live.metadata.managers, scene.owner.prefix, claims)),
        why=why,
        differences=differences,
        restores=restores,
    )


# ---- is it ready


def _assessed(one: Wanted, entry: Entry, live: Live, scene: Scene) -> _Decision:
    readiness = readiness_of(one, entry, live, scene.now)
    status = Status(readiness.verdict.value)
    if readiness.is_ready:
        return _Decision(entry.now(Phase.READY, status))
    again_at = scene.clock + SETTLING_SECONDS if readiness is _SETTLING else None
    if readiness.look_again_at is not None:
        again_at = scene.clock + max(0.0, (readiness.look_again_at - scene.now).total_seconds())
    return _Decision(entry.now(entry.phase, status), waits=Unready(one.desired.ref, str(readiness)), again_at=again_at)


_SETTLING = waiting("was just written")


def readiness_of(one: Wanted, entry: Entry, live: Live, now: datetime) -> Readiness:
    """Whether an object is ready, with the hints of its author.

    One that was just written and carries no status at all is given a moment: its controller has not seen it yet.
    """
    if not isinstance(live, Unstructured):
        return Readiness(Verdict.CURRENT, "")
    try:
        readiness = assess(live, now=now, hints=one.directive.hints)
    except UnreadableStatus as error:
        return waiting(str(error))
    written = entry.last_applied_at
    is_fresh = written is not None and (now - written).total_seconds() < SETTLING_SECONDS
    if readiness.is_ready and is_fresh and not live.body.get("status") and not _speaks(one):
        return _SETTLING
    return readiness


def _speaks(one: Wanted) -> bool:
    resource = one.address.resource
    return resource.group in _SPEAKING_GROUPS or (resource.group, resource.kind) in _SPEAKS_FOR_ITSELF


def drifted(wanted: Sequence[Wanted], scene: Scene) -> dict[Address, Update]:
    """What others have changed and we have not taken back: to be told about."""
    found: dict[Address, Update] = {}
    for one in wanted:
        seen = scene.seen.get(one.identity)
        if seen is None or one.digest == APPLIED_ONCE or scene.owner.digest_on(seen.live.metadata) != one.digest:
            continue
        last = scene.confirmations.get(one.address)
        drift = _drift(one, seen.live, last, scene) if last is not None else None
        if drift is not None:
            found[one.address] = drift
    return found
