"""What an older version of a set left behind.

BTP Manager keeps a record of the kinds that were ever part of its set, as text in a ConfigMap, and labels on the
objects whose labels name owner and version. A kind in the record is only where to look. What is deleted is
decided object by object, from its labels. (Sets with an inventory of their objects are the business of `rollout`.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.labelled.plan import Live, Snapshot
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.objects.manifests import read_value
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectRef
from stellwerk.kube.types.model import JsonValue

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
    """All of these mark the object as ours. Must not be empty."""
    version_labels: Sequence[str]
    """Any of these names the version; an object that has none of them is never stale."""
    version: str
    """The version that is wanted now."""

    def __post_init__(self) -> None:
        if not self.ours:
            raise ValueError("without a label of ours every object would be ours")

    def is_stale(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels mean: ours, and from another version."""
        ours = all(labels.get(name) == value for name, value in self.ours.items())
        versions = [labels[name] for name in self.version_labels if name in labels]
        return ours and bool(versions) and self.version not in versions


def stale(
    live: Snapshot, wanted: Iterable[Address], marks: Marks, *, spared: Collection[ObjectRef] = ()
) -> dict[Address, Live]:
    """The objects that an older version of the set left behind: what to give to `plan_delete`.

    `spared` stays whatever its labels are: a CustomResourceDefinition that users still have instances of. Pure.
    """
    kept = {(address.resource.group, address.resource.kind, address.key) for address in wanted}
    return {
        address: found
        for address, found in live.items()
        if marks.is_stale(found.metadata.labels)
        and (address.resource.group, address.resource.kind, address.key) not in kept
        and address.ref not in spared
    }
