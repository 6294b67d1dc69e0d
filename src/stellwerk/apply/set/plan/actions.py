"""What can be done to an object of a set. Values: a stage lists them, the executor carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.apply.fields.compare import Difference
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.policy import UpdatePolicy


@dataclass(frozen=True, slots=True)
class Create:
    """The object does not exist. `desired` carries the owner's marks."""

    desired: Desired
    update: UpdatePolicy
    restores: bool = False
    """Whether we had written it before, so that another client deleted it."""
    takes_all: bool = False
    """Whether an object that exists all the same is changed; otherwise its creation fails."""

    @property
    def address(self) -> Address:
        """Which object."""
        return self.desired.address

    def __str__(self) -> str:
        return f"create {self.address}" + (": it was deleted" if self.restores else "")


@dataclass(frozen=True, slots=True)
class Update:
    """The object is there and not as wanted."""

    desired: Desired
    update: UpdatePolicy
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]
    claimed: tuple[str, ...]
    """The managers whose fields become ours first: others, or we by other verbs."""
    why: str
    differences: tuple[Difference, ...] = ()
    restores: bool = False
    """Whether another client has changed what we had written."""
    marks_only: bool = False
    """Whether only the owner's marks are written, and the content is left as it is."""

    @property
    def address(self) -> Address:
        """Which object."""
        return self.desired.address

    def __str__(self) -> str:
        return f"{'mark' if self.marks_only else 'update'} {self.address}: {self.why}"


@dataclass(frozen=True, slots=True)
class Remove:
    """The object goes, if it is still the one, in the state, that we saw."""

    address: Address
    uid: str
    resource_version: str
    why: str
    restores: bool = False
    """Whether it is replaced because another client has changed what we had written."""

    def __str__(self) -> str:
        return f"delete {self.address}: {self.why}"


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Our finalizer comes off the object."""

    address: Address
    uid: str
    resource_version: str
    finalizers: tuple[str, ...]
    """As seen, ours among them."""

    def __str__(self) -> str:
        return f"release {self.address}"


@dataclass(frozen=True, slots=True)
class LookUp:
    """The caches do not show the object. Whether it is gone is asked for once before it is forgotten."""

    address: Address
    is_unwritten: bool = False
    """Whether no write of the object is known, so that it may never have existed."""

    def __str__(self) -> str:
        return f"look up {self.address}"


Action: TypeAlias = Create | Update | Remove | RemoveFinalizer | LookUp
