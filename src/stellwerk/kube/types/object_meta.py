"""What every object carries: its metadata, its owners, its conditions."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_NAME = 1_024
"""No name, uid or version of Kubernetes has a quarter of these characters; caches keep them for every object."""
_MOST_DIGITS = 40
"""Versions of etcd have at most 19; a server of a tenant may answer with any number of them."""

_Word = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of everything that is read from or written to JSON: immutable, camelCase outside, defaults left out."""


def always_written() -> str:
    """The default of a text that a schema requires: empty, and written nevertheless.

    msgspec leaves a field out if it equals a default, but not if a function makes the default. Without this, a status
    that keeps an empty text of the original is refused: the message of a condition, or the state of an object.
    """
    made: str = msgspec.field(default_factory=str)
    return made


class OwnerReference(Record, frozen=True, kw_only=True):
    """Who this object dies with (garbage collection follows it)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Told(msgspec.Struct, frozen=True):
    """A set of fields of which nothing but its being there is read."""


class _Below(msgspec.Struct, frozen=True):
    """What a field set can hold below one key; the names are those of metadata."""

    finalizers: _Told | None = msgspec.field(name="f:finalizers", default=None)
    owner_references: _Told | None = msgspec.field(name="f:ownerReferences", default=None)
    labels: _Told | None = msgspec.field(name="f:labels", default=None)
    annotations: _Told | None = msgspec.field(name="f:annotations", default=None)
    generate_name: _Told | None = msgspec.field(name="f:generateName", default=None)

    @property
    def is_only_holds(self) -> bool:
        """Whether it does not identify the object."""
        return self.labels is None and self.annotations is None and self.generate_name is None


class FieldManager(Record, frozen=True, kw_only=True):
    """One entry of managedFields without the field list: who has written to the object, and how (KEP-555).

    `only_holds`: it owns nothing but finalizers and owner references, which decide how long the object exists and not
    what it is. That is all that is kept of `fields`, which only decoding fills.
    """

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    only_holds: bool = False
    fields: dict[str, _Below] | None = msgspec.field(name="fieldsV1", default=None)

    def __post_init__(self) -> None:
        if self.fields is None:
            return
        metadata = self.fields.pop("f:metadata", None)
        if metadata is not None and metadata.is_only_holds and not self.fields:
            force_setattr(self, "only_holds", True)
        force_setattr(self, "fields", None)


_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""With a time zone, as every API server writes it: a moment without one can be compared with no other (R-413)."""


class ObjectMeta(Record, frozen=True, kw_only=True):
    """The metadata we read. Decoding drops the rest, managedFields' field lists included."""

    name: _Word = ""
    namespace: _Word = ""
    generate_name: _Word = ""
    uid: _Word = ""
    resource_version: _Word = ""
    generation: int = 0
    creation_timestamp: _Moment | None = None
    deletion_timestamp: _Moment | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    managers: tuple[FieldManager, ...] = msgspec.field(name="managedFields", default=())

    @property
    def is_terminating(self) -> bool:
        """Whether a deletion was requested; finalizers may still keep the object."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The controller among the owner references; None without one."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def is_controlled_by(self, owner: ObjectMeta) -> bool:
        """Whether the object whose metadata is `owner` controls this one."""
        controller = self.controller
        return controller is not None and controller.uid == owner.uid


class ListMeta(Record, frozen=True, kw_only=True):
    """The metadata of a list: where a watch may go on, and the token of the next page."""

    resource_version: _Word = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class Condition(Record, frozen=True, kw_only=True):
    """A metav1.Condition. `last_transition_time` moves only when `status` changes (API conventions)."""

    type: str
    status: str
    reason: str = ""
    message: str = always_written()
    last_transition_time: datetime | None = None
    observed_generation: int = 0

    @property
    def is_true(self) -> bool:
        """Whether the condition holds."""
        return self.status == "True"


def version_number(resource_version: str) -> int:
    """A resourceVersion as the number by which it is ordered; 0, which is always reached, when it is none."""
    is_number = len(resource_version) <= _MOST_DIGITS and resource_version.isdecimal()
    return int(resource_version) if is_number else 0


def kubernetes_time(moment: datetime) -> datetime:
    """The moment as Kubernetes keeps it: UTC, whole seconds."""
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError:  # the first or last hours that a calendar knows, in another zone
        return moment.replace(tzinfo=UTC, microsecond=0)


def is_usable(moment: datetime) -> bool:
    """Whether a moment can be compared with others, and seconds added to it, in any time zone."""
    return moment.tzinfo is not None and MINYEAR < moment.year < MAXYEAR


def rfc3339(moment: datetime | None) -> str:
    """The moment as Kubernetes writes it; empty where there is none."""
    return kubernetes_time(moment).isoformat().replace("+00:00", "Z") if moment else ""
