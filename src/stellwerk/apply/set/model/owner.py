"""Whose an object is, how that is written on it, and what proves that it is as it was written.

| strategy | an object belongs to the set by | unchanged is proved by |
| --- | --- | --- |
| `Owner` | a label with the hash of the owner's id | an annotation with the applied digest; drift by the fields |
| `LabelOwner` | fixed labels, such as `app.kubernetes.io/managed-by` | the last answer, or a hash as annotation |
| `ControllerOwner` | its controller, an ownerReference | the last answer, or an annotation with a hash of the content |

The spelling of `Owner` is the originals', to the letter: objects that they created belong to it without a write.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import msgspec

from stellwerk.apply.objects import json_edit
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta, OwnerReference


class Standing(Enum):
    """Whose a live object is, seen from one owner."""

    OURS = "ours"
    UNOWNED = "unowned"
    FOREIGN = "foreign"


class Evidence(Enum):
    """What proves that a live object is as it was written."""

    DIGEST = "digest"
    """The digest that it carries. Changes by others are found by its fields, when the object is due."""
    HASH = "hash"
    """The hash that it carries, alone: changes by others stay until the content changes."""
    LAST_ANSWER = "last answer"
    """The API server's answer to the last write, or that its content is equal without remainder."""


class Ownership(ABC):
    """How the objects of a set are recognized. Strategies for `plan_object` and the executor."""

    __slots__ = ()

    prefix: str
    """The field manager, and the finalizer where one is needed."""
    takes_all: bool = False
    """Whether an object that the caches do not show is taken over, so that its creation may change one that exists."""
    hash_key: str = ""
    """The annotation with the hash of an object's content; empty where there is none."""

    @property
    def evidence(self) -> Evidence:
        """What proves that an object is as it was written: the hash, where the objects carry one."""
        return Evidence.HASH if self.hash_key else Evidence.LAST_ANSWER

    @abstractmethod
    def standing(self, metadata: ObjectMeta) -> Standing:
        """Whose the object with this metadata is."""

    @abstractmethod
    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """The object with everything by which it is recognized."""

    def is_ours_or_siblings(self, metadata: ObjectMeta) -> bool:
        """Whether the object belongs to this set, or to another set of the same operator."""
        return self.standing(metadata) is Standing.OURS

    def owner_named_on(self, metadata: ObjectMeta) -> str:
        """The owner that the object names, for messages."""
        return ""

    @property
    def digest_key(self) -> str:
        """The annotation with the digest or hash; empty where the last answer is the evidence."""
        return self.hash_key

    def digest_on(self, metadata: ObjectMeta) -> str:
        """The digest that the object carries; empty where it carries none."""
        return metadata.annotations.get(self.digest_key, "") if self.digest_key else ""


@dataclass(frozen=True, slots=True)
class Owner(Ownership):
    """An owner with an id, for sets that keep an inventory.

    `prefix` is also our field manager and finalizer (`component-operator.cs.sap.com`).
    """

    prefix: str
    id: str
    """`<uid of the cluster>/<namespace>/<name>`."""
    former: frozenset[str] = frozenset()
    """The labels of owners that do not exist any more: what they have left behind has no owner."""

    @classmethod
    def of(cls, prefix: str, cluster_uid: str, key: ObjectKey) -> Owner:
        """The owner for an object with an inventory. `cluster_uid`: of the object's cluster, wherever the set goes."""
        return cls(prefix, f"{cluster_uid}/{key}")

    @property
    def evidence(self) -> Evidence:
        """The digest, as an annotation."""
        return Evidence.DIGEST

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
        """The annotation with the applied digest."""
        return f"{self.prefix}/digest"

    def standing(self, metadata: ObjectMeta) -> Standing:
        """Whose the object with this metadata is."""
        found = metadata.labels.get(self.mark, "")
        if not found or found in self.former:
            return Standing.UNOWNED
        return Standing.OURS if found == self.label_value else Standing.FOREIGN

    def is_ours_or_siblings(self, metadata: ObjectMeta) -> bool:
        """Whether the object names any owner of this operator."""
        return self.mark in metadata.labels

    def owner_named_on(self, metadata: ObjectMeta) -> str:
        """The owner that the object names, as people read it."""
        return metadata.annotations.get(self.mark) or metadata.labels.get(self.mark, "")

    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """The object with the owner's marks."""
        labelled = json_edit.with_labels(body, {self.mark: self.label_value})
        return json_edit.with_annotations(labelled, {self.mark: self.id, self.digest_key: digest})


@dataclass(frozen=True, slots=True)
class LabelOwner(Ownership):
    """All objects with these labels belong to one set, whichever release created them."""

    prefix: str
    labels: Mapping[str, str]
    """Must not be empty: without a label every object would belong to the set."""
    takes_all: bool = True
    hash_key: str = ""
    """Empty where the last answer is the evidence: a digest would show in the diffs of users, and others could copy
    it."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise ValueError("without a label every object would belong to the set")

    def standing(self, metadata: ObjectMeta) -> Standing:
        """Ours with all labels; otherwise of no owner."""
        is_ours = all(metadata.labels.get(name) == value for name, value in self.labels.items())
        return Standing.OURS if is_ours else Standing.UNOWNED

    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """The object with the labels and the hash."""
        stamped = json_edit.with_labels(body, self.labels)
        return json_edit.with_annotations(stamped, {self.hash_key: digest}) if self.hash_key else stamped


@dataclass(frozen=True, slots=True)
class ControllerOwner(Ownership):
    """The objects that a custom resource controls: the garbage collector deletes them with it."""

    prefix: str
    owner: OwnerReference
    labels: Mapping[str, str]
    """What a cache of all such objects selects them by."""
    hash_key: str = ""
    """The annotation with the hash of an object's content; empty where the last answer is the evidence."""

    def standing(self, metadata: ObjectMeta) -> Standing:
        """Whose the object is, by its controller."""
        controller = metadata.controller
        if controller is None:
            return Standing.UNOWNED
        return Standing.OURS if controller.uid == self.owner.uid else Standing.FOREIGN

    def owner_named_on(self, metadata: ObjectMeta) -> str:
        """Kind and name of the controller."""
        controller = metadata.controller
        return f"{controller.kind} {controller.name}" if controller is not None else ""

    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """The object with its controller, the labels and the hash. An owner that is not stored yet has no reference."""
        stamped = json_edit.with_labels(body, self.labels)
        if self.owner.uid:
            reference = msgspec.to_builtins(self.owner)
            stamped = json_edit.with_value(stamped, [reference], "metadata", "ownerReferences")
        return json_edit.with_annotations(stamped, {self.hash_key: digest}) if self.hash_key else stamped


def mark(prefix: str) -> str:
    """The key under which owners are noted; as a selector: every object that has one."""
    return f"{prefix}/owner-id"


def stripped(body: JsonObject, prefix: str) -> JsonObject:
    """The object without marks, which a manifest saved from a cluster may carry."""
    owner_id, digest = mark(prefix), f"{prefix}/digest"
    bare = json_edit.without_keys(body, "labels", lambda key: key == owner_id)
    return json_edit.without_keys(bare, "annotations", lambda key: key in (owner_id, digest))


def unmarked(body: JsonObject, prefix: str) -> JsonObject:
    """The object without everything by which we know and hold it, whatever it is."""
    bare = json_edit.without(body, "metadata", "finalizers")
    for name in ("labels", "annotations"):
        bare = json_edit.without_keys(bare, name, lambda key: key.startswith(f"{prefix}/"))
    return bare


@lru_cache(maxsize=16_384)
def hash_of(owner_id: str) -> str:
    """An owner's id as a label value: base32 of its SHA-256 in lower case, 52 characters."""
    digest = hashlib.sha256(owner_id.encode()).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()
