"""What can be done at once, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.plan.actions import Action
from stellwerk.kube.types.identifiers import ObjectRef


@dataclass(frozen=True, slots=True)
class Throttled:
    """An object that others change again and again. It was restored a moment ago and waits for its turn."""

    ref: ObjectRef
    until: float
    """When it may be restored again, on the clock's seconds."""
    managers: tuple[str, ...] = ()
    """The clients that change it, as far as the object records them."""


@dataclass(frozen=True, slots=True)
class Unready:
    """An object that is waited for, and why."""

    ref: ObjectRef
    why: str
    obstacle: Obstacle | None = None
    """Set where waiting is an error, and not only a delay."""

    def __str__(self) -> str:
        return f"{self.ref}: {self.why}"


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a rollout. A value; the executor carries it out.

    `groups` are carried out one after the other, the members of a group at the same time.
    """

    inventory: Inventory
    groups: tuple[tuple[Action, ...], ...] = ()
    waits: tuple[Unready, ...] = ()
    throttled: tuple[Throttled, ...] = ()
    """Of those, the objects that others change again and again."""
    refused: tuple[Unready, ...] = ()
    """Objects that must not be touched, because they belong to another owner now, or that have no readable status."""
    done: bool = False
    must_be_saved: bool = False
    """The inventory has to be saved before anything further is done."""
    again: bool = False
    """Nothing has to be written for the next stage."""
    again_at: float | None = None
    """When to look again though nothing changes, on the clock's seconds."""
    checked: tuple[Address, ...] = ()
    """Objects that were due and are as wanted."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """Everything that it does, in order."""
        return tuple(action for group in self.groups for action in group)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.actions, *self.waits)))


def deletion_wait(finalizers: Sequence[str]) -> str:
    """What an object that is being deleted waits for, in words."""
    return f"is being deleted and waits for finalizers {', '.join(finalizers)}" if finalizers else "is being deleted"


def grouped(actions: Sequence[Action], key: Callable[[Action], int]) -> tuple[tuple[Action, ...], ...]:
    """Actions in groups of equal rank, lower ranks first."""
    ranked = sorted(actions, key=key)
    return tuple(tuple(group) for _, group in groupby(ranked, key=key))
