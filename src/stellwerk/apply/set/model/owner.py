"""Whose an object is, and how that is written on it.

An object of a set carries the owner's hash as a label (so that it can be selected), the owner's id in clear as an
annotation (so that people can read it), and the digest of what was asked for. The spelling is the originals', to the
letter: objects that they made are ours without a write.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from stellwerk.apply.objects import json_edit
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.kube.types.object_meta import ObjectMeta


class Standing(Enum):
    """Whose a live object is, seen from one owner."""

    OURS = "ours"
    UNOWNED = "unowned"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a set. `prefix` is also our field manager and finalizer (`component-operator.cs.sap.com`)."""

    prefix: str
    id: str
    """`<uid of the cluster>/<namespace>/<name>`."""

    @property
    def label_value(self) -> str:
        """The hash of the id."""
        return hash_of(self.id)

    @property
    def mark(self) -> str:
        """The key of the label and of the annotation."""
        return mark(self.prefix)

    @property
    def digest_key(self) -> str:
        """The key of the annotation with the digest."""
        return f"{self.prefix}/digest"

    def standing(self, metadata: ObjectMeta) -> Standing:
        """Whose the object with this metadata is."""
        found = metadata.labels.get(self.mark, "")
        if not found:
            return Standing.UNOWNED
        return Standing.OURS if found == self.label_value else Standing.FOREIGN

    def owner_named_on(self, metadata: ObjectMeta) -> str:
        """The owner that the object names, as people read it."""
        return metadata.annotations.get(self.mark) or metadata.labels.get(self.mark, "")

    def digest_on(self, metadata: ObjectMeta) -> str:
        """The digest that the object carries; empty where it carries none."""
        return metadata.annotations.get(self.digest_key, "")

    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """The object with the owner's marks."""
        labelled = json_edit.with_labels(body, {self.mark: self.label_value})
        return json_edit.with_annotations(labelled, {self.mark: self.id, self.digest_key: digest})


def mark(prefix: str) -> str:
    """The key under which owners are noted; as a selector: every object that has one."""
    return f"{prefix}/owner-id"


def stripped(body: JsonObject, prefix: str) -> JsonObject:
    """The object without marks, which a manifest saved from a cluster may carry."""
    owner_id = mark(prefix)
    bare = _without_keys(body, "labels", (owner_id,))
    return _without_keys(bare, "annotations", (owner_id, f"{prefix}/digest"))


def unmarked(body: JsonObject, prefix: str) -> JsonObject:
    """The object without everything by which we know and hold it, whatever it is."""
    bare = json_edit.without(body, "metadata", "finalizers")
    for words in ("labels", "annotations"):
        found = dig(bare, "metadata", words)
        keys = found if isinstance(found, dict) else {}
        bare = _without_keys(bare, words, [key for key in keys if key.startswith(f"{prefix}/")])
    return bare


def _without_keys(body: JsonObject, words: str, keys: Collection[str]) -> JsonObject:
    found = dig(body, "metadata", words)
    if not isinstance(found, dict) or found.keys().isdisjoint(keys):
        return body
    kept = {key: value for key, value in found.items() if key not in keys}
    return json_edit.with_value(body, kept, "metadata", words) if kept else json_edit.without(body, "metadata", words)


@lru_cache(maxsize=16_384)
def hash_of(owner_id: str) -> str:
    """An owner's id as a label value: base32 of its SHA-256 in lower case, 52 characters."""
    digest = hashlib.sha256(owner_id.encode()).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()
