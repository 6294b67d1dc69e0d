"""What a set of objects consisted of before, and what of it is stale now.

Two ways to know: a record of the kinds that were ever part of the set (BTP Manager keeps one, as text in a ConfigMap),
with labels on the objects that say whose they are and from which version; or a list of the objects themselves. A kind
in the record is only where to look. What is deleted is decided object by object, from its labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from stellwerk.apply.desired import Address, Desired
from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.manifests import read_value
from stellwerk.apply.plan import Live, Snapshot
from stellwerk.kube.model import JsonValue
from stellwerk.kube.names import GroupVersionKind, ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One object that belonged to the set."""

    gvk: GroupVersionKind
    key: ObjectKey
    uid: str = ""
    """Empty where it is not known yet; a known one tells the object from a successor of the same name."""
    version: str = ""
    """Which version of the set it came from."""

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.gvk, self.key)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The objects of a set, in a fixed order."""

    items: tuple[Item, ...] = ()

    @classmethod
    def of(cls, desired: Iterable[Desired], live: Snapshot, version: str = "") -> Inventory:
        """The inventory of what is wanted, with the uids of what exists."""
        found = (Item(one.resource.gvk, one.key, _uid(live.get(one.address)), version) for one in desired)
        return cls(tuple(sorted(found)))

    def without(self, wanted: Iterable[Address]) -> tuple[Item, ...]:
        """The items that are no longer wanted. The version of a kind does not count: it is the same object."""
        kept = {(address.resource.group, address.resource.kind, address.key) for address in wanted}
        return tuple(item for item in self.items if (item.gvk.group, item.gvk.kind, item.key) not in kept)


def _uid(live: Live | None) -> str:
    return live.metadata.uid if live is not None else ""


# ---- the record of kinds


def format_gvks(gvks: Iterable[GroupVersionKind]) -> str:
    """Kinds as the YAML list that BTP Manager's record of versions holds: group, version, kind; each kind once."""
    rows = [gvk._asdict() for gvk in dict.fromkeys(gvks)]
    return str(yaml.safe_dump(rows, sort_keys=False)) if rows else "[]\n"


def parse_gvks(text: str) -> tuple[GroupVersionKind, ...]:
    """Kinds from such a list, each once, in order. Raises `UnreadableManifest` where the text is none."""
    listed = read_value(text)
    if listed is not None and not isinstance(listed, list):
        raise UnreadableManifest("expected a list of group, version and kind")
    return tuple(dict.fromkeys(_gvk(row, number) for number, row in enumerate(listed or [], start=1)))


def _gvk(row: JsonValue, number: int) -> GroupVersionKind:
    try:
        found = msgspec.convert(row, _Row)
    except msgspec.ValidationError as error:
        raise UnreadableManifest(f"entry {number} does not have group, version and kind as text") from error
    if not found.version or not found.kind:
        raise UnreadableManifest(f"entry {number} lacks its version or kind")
    return GroupVersionKind(found.group, found.version, found.kind)


class _Row(msgspec.Struct):
    version: str
    kind: str
    group: str = ""


# ---- what is stale


@dataclass(frozen=True, slots=True)
class Marks:
    """The labels by which objects of a set are known."""

    ours: Mapping[str, str]
    """All of these say that the object is ours. Must not be empty."""
    version_labels: Sequence[str]
    """Any of these tells the version; an object that has none of them is never stale."""
    version: str
    """The version that is wanted now."""

    def __post_init__(self) -> None:
        if not self.ours:
            raise ValueError("without a label of ours every object would be ours")

    def is_stale(self, labels: Mapping[str, str]) -> bool:
        """Whether labels say: ours, and from another version."""
        ours = all(labels.get(name) == value for name, value in self.ours.items())
        versions = [labels[name] for name in self.version_labels if name in labels]
        return ours and bool(versions) and self.version not in versions


def stale(
    live: Snapshot, wanted: Iterable[Address], marks: Marks, *, spared: Collection[ObjectRef] = ()
) -> dict[Address, Live]:
    """The objects that an older version of the set left behind: what to give to `plan_delete`.

    `spared` stays whatever its labels say: a CustomResourceDefinition that users still have instances of. Pure.
    """
    kept = {(address.resource.group, address.resource.kind, address.key) for address in wanted}
    return {
        address: found
        for address, found in live.items()
        if marks.is_stale(found.metadata.labels)
        and (address.resource.group, address.resource.kind, address.key) not in kept
        and address.ref not in spared
    }
