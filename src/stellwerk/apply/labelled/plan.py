"""What has to be written, and why: decided from caches, without asking the server anything.

For each wanted object there is one action. Whether a live object is as wanted is decided by the first that applies:

1. another client wrote to it (`managed_fields`): Reclaim;
2. we applied exactly this content to exactly this object (`Confirmation`), and nothing but what the server made of it
   then differs now: Unchanged;
3. it is equal without remainder, and ours: Unchanged;
4. otherwise: Apply.

A restart forgets the confirmations. It costs one apply for each object that the server has given defaults, because a
default cannot be distinguished from a leftover of an older manifest; the server answers such an apply without writing.
We refused an annotation with a digest in each object: it would show in every diff of the users, and others could copy
it.

Objects that others change again and again are restored, but one of them at most every `FIGHT_SECONDS`.

A plan is a value: it can be printed, compared, and carried out (`execute`) or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias, cast

from stellwerk.apply.fields import managed_fields
from stellwerk.apply.fields.compare import Difference, FieldComparison, compare
from stellwerk.apply.labelled import order
from stellwerk.apply.objects.desired import Address, Desired, holds_secrets
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import (
    JsonValue,
    PartialObjectMetadata,
    Unstructured,
    View,
    metadata_of,
    unstructured,
)

FIGHT_SECONDS = 10.0
"""How long an object that was just restored is left to the client that changed it again (R-110)."""

_SHOWN = 3

Live: TypeAlias = Unstructured | PartialObjectMetadata
"""An object as a cache holds it. Of Secrets there is only the metadata."""


def live_view(resource: Resource) -> View[Live]:
    """The shape in which objects of a resource are read and held, so that no value of a Secret is."""
    return cast("View[Live]", metadata_of(resource) if holds_secrets(resource) else unstructured(resource))


Snapshot: TypeAlias = Mapping[Address, Live]
"""What the caches hold; an absent key is an object that does not exist, so the caches must have been filled."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the server answered when we last wrote an object."""

    digest: str
    """Of what we asked for (`Desired.digest`)."""
    uid: str
    resource_version: str
    owned: bool = True
    """Whether managedFields names us. It does not for an object in which we name no field but its name; then the server
    records no later writers either, and only the content shows it."""
    settled: frozenset[Difference] = frozenset()
    """What the server answered otherwise than asked: normalised values, another's mutating webhook."""
    extras: frozenset[str] = frozenset()
    """Where the object carried more than asked; kept only where it is not `owned`."""
    restored_at: float | None = None
    """When we last took back what others had changed, on the caller's clock in seconds."""
    written_at: float | None = None
    """When we wrote it, on the same clock; None where it is not needed."""


class LastApplied(dict[Address, Confirmation]):
    """The confirmations of one set of objects. Kept by the caller from pass to pass; losing it costs a few applies."""

    def forget_all_but(self, addresses: Collection[Address]) -> None:
        """Drop what no longer belongs to the set."""
        for address in self.keys() - set(addresses):
            del self[address]


# ---- actions


@dataclass(frozen=True, slots=True)
class Create:
    """The object does not exist."""

    desired: Desired
    restores: bool = False
    """Whether we had written it before, so that another client deleted it."""

    def __str__(self) -> str:
        return f"create {self.desired.ref}" + (": it was deleted" if self.restores else "")


@dataclass(frozen=True, slots=True)
class Apply:
    """The object is not as wanted, or was not proved to be."""

    desired: Desired
    why: str
    differences: tuple[Difference, ...] = ()
    restores: bool = False
    """Whether another client has changed what we had written."""

    def __str__(self) -> str:
        return f"apply {self.desired.ref}: {self.why}"


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Others wrote to the object; their fields become ours, and what is not wanted goes."""

    desired: Desired
    managers: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    restores: bool = False

    def __str__(self) -> str:
        found = f"; {_named(self.differences)}" if self.differences else ""
        return f"reclaim {self.desired.ref}: written by {', '.join(self.managers)}{found}"


@dataclass(frozen=True, slots=True)
class Delete:
    """The object goes, if it is still the one we saw."""

    address: Address
    uid: str
    resource_version: str = ""
    """Set where the object must also be in the state we saw."""

    def __str__(self) -> str:
        return f"delete {self.address}"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object is as wanted."""

    address: Address

    def __str__(self) -> str:
        return f"keep {self.address}"


@dataclass(frozen=True, slots=True)
class Throttled:
    """Others change the object again and again. It was restored just now and waits for its turn."""

    desired: Desired
    until: float
    """When it may be restored again, on the caller's clock in seconds."""
    managers: tuple[str, ...]
    """Who changes it, as far as known."""

    def __str__(self) -> str:
        who = ", ".join(self.managers) or "somebody"
        return f"hold {self.desired.ref}: {who} changes it again and again; restored every {FIGHT_SECONDS:.0f} s"


@dataclass(frozen=True, slots=True)
class Deferred:
    """The object cannot be written or deleted yet. The change that it waits for wakes the next pass."""

    address: Address
    waits_for: str

    def __str__(self) -> str:
        return f"defer {self.address}: waits for {self.waits_for}"


Write: TypeAlias = Create | Apply | Reclaim | Delete
Action: TypeAlias = Write | Unchanged | Throttled | Deferred


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in waves: the members of a wave may be carried out together, a wave waits for the one before it."""

    waves: tuple[tuple[Action, ...], ...] = ()

    def __iter__(self) -> Iterator[Action]:
        return (action for wave in self.waves for action in wave)

    @property
    def writes(self) -> tuple[Write, ...]:
        """What goes to the server."""
        return tuple(action for action in self if isinstance(action, Create | Apply | Reclaim | Delete))

    @property
    def is_calm(self) -> bool:
        """Whether the cluster agrees already: nothing to write, nothing to wait for."""
        return all(isinstance(action, Unchanged) for action in self)

    @property
    def again_at(self) -> float | None:
        """When the next pass is due though nothing changes: the first held object's turn."""
        return min((action.until for action in self if isinstance(action, Throttled)), default=None)

    def __str__(self) -> str:
        lines = [str(action) for action in self if not isinstance(action, Unchanged)]
        kept = sum(isinstance(action, Unchanged) for action in self)
        return "\n".join([*lines, f"{kept} unchanged"] if kept or not lines else lines)


# ---- planning


@dataclass(frozen=True, slots=True)
class Rules:
    """How a set is kept."""

    field_manager: str
    tolerated: Collection[str] = field(default=managed_fields.CONTROL_PLANE)
    """Other writers whose fields may stay."""


def plan(
    desired: Iterable[Desired], live: Snapshot, ledger: Mapping[Address, Confirmation], rules: Rules, *, now: float
) -> Plan:
    """What has to be written so that the cluster agrees with `desired`. Pure.

    `now` is the caller's clock in seconds, the same that `execute` is given; only differences matter.
    """
    wanted = sorted(desired, key=lambda one: order.apply_wave(one.resource))
    missing = _unserved(wanted, live)
    actions = [
        _deferred(one, missing[one.resource.group_resource])
        if one.resource.group_resource in missing
        else _action(one, live.get(one.address), ledger.get(one.address), rules, now)
        for one in wanted
    ]
    return Plan(_in_waves(actions, lambda action: order.apply_wave(_address(action).resource)))


def plan_delete(live: Snapshot, *, exact: bool = False) -> Plan:
    """What has to be deleted now so that `live` goes in order; later waves are deferred until earlier ones are gone.

    The caller plans again when its caches change, until nothing is left. With `exact`, an object that has changed since
    is not deleted either.
    """
    definitions = {address.key.name for address in live if order.is_definition(address.resource)}
    waves = {address: order.delete_wave(address.resource, definitions) for address in live}
    first = min(waves.values(), default=0)
    actions = [
        _leaving(address, live[address], exact)
        if waves[address] == first or live[address].metadata.is_terminating
        else Deferred(address, "the deletion of what needs it")
        for address in sorted(live, key=lambda address: (waves[address], str(address)))
    ]
    return Plan(_in_waves(actions, lambda action: waves[_address(action)]))


def confirm(desired: Desired, answer: Live, field_manager: str, *, restored_at: float | None = None) -> Confirmation:
    """What to remember of the server's answer to an apply of `desired`."""
    metadata = answer.metadata
    comparison = compare(desired.body, answer.body) if isinstance(answer, Unstructured) else _NOTHING
    owned = managed_fields.applied_by(metadata.managers, field_manager)
    return Confirmation(
        digest=desired.digest,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owned=owned,
        settled=frozenset(comparison.differences) if comparison.differences else _NO_DIFFERENCES,
        extras=frozenset(comparison.extras) if comparison.extras and not owned else _NO_EXTRAS,
        restored_at=restored_at,
    )


_NOTHING = FieldComparison((), ())
_NO_DIFFERENCES: frozenset[Difference] = frozenset()
_NO_EXTRAS: frozenset[str] = frozenset()
"""Shared: one is kept for every object, and an empty set weighs more than a small object."""


def _action(desired: Desired, live: Live | None, last: Confirmation | None, rules: Rules, now: float) -> Action:
    if live is None:
        write: Action = Create(desired, restores=last is not None and last.digest == desired.digest)
        return _throttled(write, (), last, now)
    if live.metadata.is_terminating:
        return Deferred(desired.address, _end_of(live))
    # What we know of an object of the same name that is gone proves nothing about this one.
    known = last if last is not None and last.uid == live.metadata.uid else None
    managers = tuple(managed_fields.strangers(live.metadata.managers, rules.field_manager, rules.tolerated))
    return _throttled(_kept(desired, live, known, managers, rules), managers, last, now)


def _kept(desired: Desired, live: Live, known: Confirmation | None, managers: tuple[str, ...], rules: Rules) -> Action:
    """What a live object needs, fights left aside."""
    ours = known is not None and known.digest == desired.digest
    if known is not None and ours and not managers and live.metadata.resource_version == known.resource_version:
        return Unchanged(desired.address)  # no client wrote since our apply, not even a status
    comparison = compare(desired.body, live.body) if isinstance(live, Unstructured) else None
    if managers:
        return Reclaim(desired, managers, comparison.differences if comparison else (), restores=ours)
    owned = managed_fields.applied_by(live.metadata.managers, rules.field_manager)
    if known is not None and ours:
        return _checked(desired, known, comparison, owned)
    if comparison is not None and comparison.is_equal and owned:
        return Unchanged(desired.address)
    return Apply(desired, _first_look(known, comparison), comparison.differences if comparison else ())


def _checked(
    desired: Desired, known: Confirmation, comparison: FieldComparison | None, owned: bool
) -> Apply | Unchanged:
    """What an object needs that was written to since we applied exactly this content."""
    if comparison is None:
        return Apply(desired, "it was changed", restores=True)
    drift = tuple(difference for difference in comparison.differences if difference not in known.settled)
    if drift:
        return Apply(desired, _named(drift), drift, restores=True)
    if known.owned and not owned:
        return Apply(desired, "its managedFields no longer name us", restores=True)
    if not owned and (added := [path for path in comparison.extras if path not in known.extras]):
        return Apply(desired, f"{', '.join(added[:_SHOWN])} was added", restores=True)
    return Unchanged(desired.address)


def _first_look(known: Confirmation | None, comparison: FieldComparison | None) -> str:
    if comparison is not None and comparison.differences:
        return _named(comparison.differences)
    if known is not None:
        return "its manifest has changed"
    return "not written by this process yet"


def _named(differences: Sequence[Difference]) -> str:
    shown = ", ".join(str(difference) for difference in differences[:_SHOWN])
    rest = len(differences) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _throttled(action: Action, managers: tuple[str, ...], last: Confirmation | None, now: float) -> Action:
    restoring = isinstance(action, Create | Apply | Reclaim) and action.restores
    if not restoring or last is None or last.restored_at is None or now - last.restored_at >= FIGHT_SECONDS:
        return action
    assert isinstance(action, Create | Apply | Reclaim)
    return Throttled(action.desired, last.restored_at + FIGHT_SECONDS, managers)


def _leaving(address: Address, live: Live, exact: bool) -> Delete | Deferred:
    metadata = live.metadata
    if metadata.is_terminating:
        return Deferred(address, _end_of(live))
    return Delete(address, metadata.uid, metadata.resource_version if exact else "")


def _end_of(live: Live) -> str:
    finalizers = ", ".join(live.metadata.finalizers)
    return f"the end of its deletion (finalizers: {finalizers})" if finalizers else "the end of its deletion"


def _deferred(desired: Desired, definition: Address) -> Deferred:
    return Deferred(desired.address, f"{definition} to be established")


def _unserved(wanted: Iterable[Desired], live: Snapshot) -> dict[str, Address]:
    """CustomResourceDefinitions of the set that are not served yet, by their names, which are `plural.group`."""
    definitions = (one.address for one in wanted if order.is_definition(one.resource))
    return {address.key.name: address for address in definitions if not _is_established(live.get(address))}


def _is_established(definition: Live | None) -> bool:
    if not isinstance(definition, Unstructured):
        return definition is not None  # of bare metadata no more is known; the server answers NotServed if not
    conditions = definition.at("status", "conditions")
    return isinstance(conditions, list) and any(_holds(condition, "Established") for condition in conditions)


def _holds(condition: JsonValue, type_: str) -> bool:
    return isinstance(condition, dict) and condition.get("type") == type_ and condition.get("status") == "True"


def _address(action: Action) -> Address:
    return action.desired.address if isinstance(action, Create | Apply | Reclaim | Throttled) else action.address


def _in_waves(actions: Sequence[Action], wave_of: Callable[[Action], int]) -> tuple[tuple[Action, ...], ...]:
    return tuple(tuple(wave) for _, wave in groupby(actions, key=wave_of))
