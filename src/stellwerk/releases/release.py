"""A release, and the ConfigMap that it is kept in (pure).

The ConfigMap is `clm`'s, to the letter: its name, label, finalizer and keys. So releases made by either program are the
other's too, and a release is taken over by simply being worked on. We add two annotations. A word that we do not
know is taken for the state in which an object has to be applied again, which is always safe, and never for a reason to
delete something. Whatever else is on the ConfigMap (labels, annotations, finalizers of others) stays.

The inventory is text in it: YAML by `clm`, JSON by us, which is YAML for `clm`: each text is in quotes, so no YAML
reader takes the name `1e3` or `089` for a number. An API server validates a status, but not this text. A missing field
is read as unknown; only an entry that does not identify its object, or that no program has written, makes the inventory
unreadable.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from stellwerk.api.core import ConfigMap
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, Phase
from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.apply.set.model.owner import Owner, Standing, hash_of, mark
from stellwerk.kube import yaml
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue, Listing, to_json_object
from stellwerk.kube.types.object_meta import ObjectMeta, rfc3339
from stellwerk.kube.yaml import UnreadableYaml
from stellwerk.releases.errors import TooManyObjects, UnreadableRelease

RECONCILER = "clm.cs.sap.com"
"""Prefix of labels and annotations, field manager, and what templates see as the tool that installs them."""
FINALIZER = f"{RECONCILER}/finalizer"
LABEL = f"release.{RECONCILER}"
"""On the ConfigMap; its value is the release's name."""
WRITER = f"{RECONCILER}/writer"
"""Annotation on the ConfigMap, which only we use: a digest of its content and of the run that wrote it."""
ERROR = f"{RECONCILER}/error"
"""Annotation on the ConfigMap, which only we use: why the last run has failed."""
_MOST_ERROR = 1024
"""Letters of it, as of a condition."""
NAME_PREFIX = "com.sap.cs.clm.release."
_VERSION = "1"


class ReleaseState(StrEnum):
    """How a release is."""

    Pending = "Pending"
    Processing = "Processing"
    Ready = "Ready"
    Deleting = "Deleting"
    Error = "Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release, with the ConfigMap that holds it."""

    key: ObjectKey
    revision: int = 0
    state: str = ReleaseState.Pending
    inventory: Inventory = field(default_factory=Inventory)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    is_deleting: bool = False
    error: str = ""
    """Why the last run has failed, in state Error; empty where `clm` has ended it."""
    former_owners: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """As `Owner.former`."""
    stored: ConfigMap | None = field(default=None, compare=False, repr=False)
    """The ConfigMap as it was read or written last; None for a release that is not stored yet."""
    run: str = field(default_factory=lambda: secrets.token_hex(16), compare=False, repr=False)
    """Random, and kept by what follows from this release. A release that is read again gets another one."""

    @property
    def owner(self) -> Owner:
        """Whose its objects are."""
        return Owner(RECONCILER, f"{RECONCILER}/{self.key.namespace}/{self.key.name}", self.former_owners)

    def owns(self, metadata: ObjectMeta) -> bool:
        """Whether the object with this metadata carries the label of the release."""
        return self.owner.standing(metadata) is Standing.OURS

    @property
    def digest(self) -> str:
        """The digest that identifies the content of this revision."""
        return hashlib.sha256(str(self.revision).encode()).hexdigest()

    @property
    def objects(self) -> int:
        """How many objects it has."""
        return len(self.inventory)

    @property
    def ready_objects(self) -> int:
        """How many of them are ready."""
        return sum(entry.phase is Phase.READY for entry in self.inventory)

    @property
    def completed_objects(self) -> int:
        """How many of them have done their work and are gone."""
        return sum(entry.phase is Phase.COMPLETED for entry in self.inventory)

    @property
    def is_over(self) -> bool:
        """Whether it is being deleted and has no objects, so that nothing holds its ConfigMap any more."""
        return self.is_deleting and not len(self.inventory)

    def now(
        self, state: ReleaseState, now: datetime, inventory: Inventory | None = None, *, error: str = ""
    ) -> Release:
        """The release further on."""
        return replace(
            self,
            state=state,
            error=error[:_MOST_ERROR],
            updated_at=now.replace(microsecond=0),
            inventory=self.inventory if inventory is None else inventory,
        )

    def begun(self, now: datetime) -> Release:
        """The release as work on its next revision begins."""
        begun = replace(self, revision=self.revision + 1, created_at=self.created_at or now.replace(microsecond=0))
        return begun.now(ReleaseState.Processing, now)


@dataclass(frozen=True, slots=True)
class ReleaseListing:
    """Releases by name, and why others cannot be read."""

    releases: tuple[Release, ...]
    problems: tuple[str, ...] = ()


def config_name(release: str) -> str:
    """The ConfigMap that a release is kept in."""
    return f"{NAME_PREFIX}{release}"


def read(found: ConfigMap) -> Release:
    """The release that a ConfigMap holds. Raises UnreadableRelease.

    Name and label must agree: one release is asked for by its name, and the objects of another would be deleted.
    """
    metadata, data = found.metadata, found.data
    key = ObjectKey(metadata.namespace, metadata.name.removeprefix(NAME_PREFIX))
    label = metadata.labels.get(LABEL) or key.name
    if metadata.name != config_name(label):
        raise UnreadableRelease(key, f"its ConfigMap {metadata.name} has the label of release {label!r}")
    if data.get("version", _VERSION) != _VERSION:
        raise UnreadableRelease(key, f"it was written in version {data['version']!r} of the store; ours is {_VERSION}")
    return Release(
        key=key,
        revision=_number(key, data.get("revision", "0")),
        state=data.get("state", ""),
        inventory=_inventory(key, data.get("inventory", "")),
        created_at=_moment(key, data.get("creationTimestamp", "")) or metadata.creation_timestamp,
        updated_at=_moment(key, data.get("updateTimestamp", "")),
        is_deleting=metadata.is_terminating,
        error=metadata.annotations.get(ERROR, "") if data.get("state") == ReleaseState.Error else "",
        stored=found,
    )


def former_owner(metadata: ObjectMeta) -> ObjectKey | None:
    """The release that an object names as its owner; None where it names none, or its label another one (pure)."""
    named = metadata.annotations.get(mark(RECONCILER), "")
    prefix, _, key = named.partition("/")
    if prefix != RECONCILER or key.count("/") != 1 or metadata.labels.get(mark(RECONCILER)) != hash_of(named):
        return None
    return ObjectKey.parse(key)


def listing(found: Listing[ConfigMap]) -> ReleaseListing:
    """The releases that ConfigMaps hold, by name. One that cannot be read hides no other."""
    read_ones, problems = [], [str(odd) for odd in found.unreadable]
    for config_map in found.items:
        try:
            read_ones.append(read(config_map))
        except UnreadableRelease as error:
            problems.append(str(error))
    return ReleaseListing(tuple(sorted(read_ones, key=lambda release: release.key)), tuple(sorted(problems)))


def written(release: Release) -> JsonObject:
    """The ConfigMap that holds a release, without our finalizer once the release is over."""
    stored = release.stored or ConfigMap()
    found = stored.metadata
    data = _data(release)
    others: list[JsonValue] = [name for name in found.finalizers if name != FINALIZER]
    metadata: JsonObject = {
        **{key: value for key, value in to_json_object(found).items() if key in _KEPT},
        "name": config_name(release.key.name),
        "namespace": release.key.namespace,
        "annotations": {
            **{key: value for key, value in found.annotations.items() if key != ERROR},
            WRITER: _signature(release, data),
            **({ERROR: release.error} if release.error else {}),
        },
        "labels": {**found.labels, LABEL: release.key.name},
        "finalizers": others if release.is_over else [*others, FINALIZER],
    }
    return {**to_json_object(stored), "metadata": metadata, "data": {**data}}


def _data(release: Release) -> dict[str, str]:
    return {
        **(release.stored.data if release.stored is not None else {}),
        "version": _VERSION,
        "creationTimestamp": rfc3339(release.created_at),
        "updateTimestamp": rfc3339(release.updated_at),
        "revision": str(release.revision),
        "inventory": _inventory_text(release.inventory),
        "state": release.state,
    }


def _signature(release: Release, data: Mapping[str, str]) -> str:
    """Identifies data that the run of a release wrote.

    The data is part of it because another program that writes the release may keep our annotation.
    """
    return hashlib.sha256(msgspec.json.encode((release.run, dict(data)), order="sorted")).hexdigest()


def differs(release: Release, found: ConfigMap) -> bool:
    """Whether a ConfigMap has become another release, or one in another state.

    It has not where the content is as it was stored, nor where the run of this release wrote it: then the answer to
    that write was lost. Content alone does not prove it, because two runs that begin in the same second write the same.
    """
    stored, now = release.stored, found.metadata
    is_ours = now.annotations.get(WRITER) == _signature(release, found.data)
    if stored is None:
        return now.is_terminating or bool(found.binary_data) or not is_ours
    before = stored.metadata
    if (before.uid, before.is_terminating, stored.binary_data) != (now.uid, now.is_terminating, found.binary_data):
        return True
    return found.data != stored.data and not is_ours


def check_size(release: Release) -> None:
    """Raise TooManyObjects where the ConfigMap has no room for a release, with all its objects applied.

    Without an object that is new, a release that was stored has room.
    Uids and times come with the writes. If there were no room for them then, the release could not be saved any more,
    nor the deletion of its objects.
    """
    if all(entry.uid for entry in release.inventory):
        return
    full = [
        replace(
            entry,
            uid=entry.uid or _LONGEST_UID,
            phase=Phase.SCHEDULED_FOR_APPLICATION,
            status=EntryStatus.TERMINATING,
            last_applied_at=entry.last_applied_at or datetime.fromtimestamp(0, UTC),
        )
        for entry in release.inventory
    ]
    inventory = len(_inventory_text(Inventory(tuple(full))).encode())
    stored = release.stored or ConfigMap()
    others = (text for key, text in {**stored.data, **stored.binary_data}.items() if key != "inventory")
    room = _MOST_BYTES - _RESERVE - sum(len(text.encode()) for text in others)
    if inventory > room:
        raise TooManyObjects(release.key, len(full), max(0, room) * len(full) // inventory)


_MOST_BYTES, _RESERVE = 2**20, 2**10
"""Of the values of a ConfigMap, set by the API server; and what the other values of a release need."""
_LONGEST_UID = "0" * 36
_KEPT = ("uid", "resourceVersion", "ownerReferences")
_MOST_DIGITS = 18


def _number(key: ObjectKey, word: str) -> int:
    if not word.isdecimal() or len(word) > _MOST_DIGITS:
        raise UnreadableRelease(key, f"its revision is {word[:_MOST_DIGITS]!r}, which is no number")
    return int(word)


def _moment(key: ObjectKey, word: str) -> datetime | None:
    if not word:
        return None
    try:
        return datetime.fromisoformat(word)
    except ValueError:
        raise UnreadableRelease(key, f"{word!r} is no time") from None


# ---- the inventory

_UNSAID: JsonObject = {
    "group": "",
    "adoptionPolicy": "",
    "reconcilePolicy": "",
    "updatePolicy": "",
    "deletePolicy": "",
    "applyOrder": 0,
    "deleteOrder": 0,
    "digest": "",
}
_ORDERS = ("applyOrder", "deleteOrder")


def _inventory(key: ObjectKey, text: str) -> Inventory:
    try:
        kept = _inventory_value(text)
        if isinstance(kept, list):
            kept = [{**_UNSAID, **item} if isinstance(item, dict) else item for item in kept]
        items = msgspec.convert(kept or [], tuple[Item, ...])
        if found := inventory_codec.complaint(items):
            place, why = found
            raise ValueError(f"entry {place + 1}: {why}")
        return inventory_codec.read(items)
    except (UnreadableYaml, ValueError) as error:
        raise UnreadableRelease(key, f"its inventory cannot be read: {error}") from None


def _inventory_value(text: str) -> JsonValue:
    if not text.startswith("["):
        return yaml.read_value(text)
    try:
        found: JsonValue = msgspec.json.decode(text)
    except UNREADABLE:  # a list of YAML in one line
        return yaml.read_value(text)
    return found


def _inventory_text(inventory: Inventory) -> str:
    """The inventory as JSON, without orders that are 0: it has to be smaller than YAML was."""
    items = (msgspec.to_builtins(item) for item in inventory_codec.write(inventory))
    kept = [{name: value for name, value in item.items() if value or name not in _ORDERS} for item in items]
    return msgspec.json.encode(kept).decode()
