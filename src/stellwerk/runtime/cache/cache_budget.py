"""How much memory the objects of a cluster may take in the caches of a process, in all and of each namespace.

Users store objects of up to 1.5 MiB, as many as they like, under labels that caches select; without a bound one of them
could end the process for all, and again after each restart. An object that does not fit is kept as metadata: it counts
as unreadable (`kube.types.model.Unreadable`), which is neither absent nor what it was, and is read when there is room.

Nothing is displaced. A namespace may have twice as much as is free at that moment, as switches share their buffers (by
dynamic thresholds): alone it has two thirds of the budget, the next one that takes what it can two thirds of the rest.
A namespace that has little, a 64th of the budget, may have that as long as all have less than five quarters together,
so that those that come later are served however many took what they could. A limit by a fixed share was refused: with
three namespaces beyond it nothing is left.
Objects without a namespace, which only administrators create, always fit, and count.

The weight of an object is the length of its JSON and what lists, objects and texts take besides in Python. It is
computed again when the object leaves, because a remembered one would cost memory for each object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta

SHARE = 0.3
"""Of the memory limit of the container; the rest is for the program, requests, and lists while they are read."""
_FREE_FACTOR = 2
"""How many times the free part a namespace may have."""
_LITTLE = 64
"""Which part of the budget a namespace may have although others have the rest."""
_SMALL_CHANGE = 16 << 10
"""By so much an object that is held may grow although its namespace has more than it would get now."""
_LARGEST_METADATA = 4 << 10
"""Labels, owners and finalizers of an object that did not fit are kept up to this size."""
_STRING_BYTES = 40
"""What a text takes besides its characters."""
_OBJECT_BYTES, _LIST_BYTES, _ITEM_BYTES = 150, 64, 16
FIX = "make the objects of the namespace fewer or smaller, or raise --cache-memory-mib"

_encode = msgspec.json.Encoder().encode


def weight(obj: HasMetadata) -> int:
    """About how many bytes an object takes in memory."""
    text = _encode(obj)
    lists = _OBJECT_BYTES * text.count(b"{") + _LIST_BYTES * text.count(b"[") + _ITEM_BYTES * text.count(b",")
    return len(text) + lists + _STRING_BYTES * (text.count(b'"') // 2)


class CacheBudget:
    """What the caches of a cluster hold, by namespace, and how much they may."""

    def __init__(self, most_bytes: int | None = None) -> None:
        """Without `most_bytes` everything fits, and nothing is weighed."""
        self.most_bytes = most_bytes
        self.used_bytes = 0
        self._of: Counter[str] = Counter()
        self._waiting: set[Callable[[], None]] = set()

    def usage(self) -> tuple[int, int] | None:
        """The bytes that are held and those that may be; None without a bound. For `Metrics.cache_memory`."""
        return None if self.most_bytes is None else (self.used_bytes, self.most_bytes)

    def has_room(self, namespace: str, size: int, *, former: int = 0) -> bool:
        """Whether an object of this weight fits, in place of one of its own with the weight `former`."""
        if self.most_bytes is None or not namespace or size <= former:
            return True
        most = self.most_bytes
        used, own = self.used_bytes + size - former, self._of[namespace] + size - former
        if own <= most // _LITTLE:
            return used <= most * 5 // 4
        if former and size - former <= _SMALL_CHANGE:
            return used <= most and own * (_FREE_FACTOR + 1) <= most * _FREE_FACTOR
        return own <= _FREE_FACTOR * (most - used)

    def charge(self, namespace: str, size: int, *, former: int = 0) -> bool:
        """Count an object if it fits. Returns whether it does."""
        fits = self.has_room(namespace, size, former=former)
        if fits:
            self.add(namespace, size - former)
        return fits

    def add(self, namespace: str, size: int) -> None:
        """So many bytes more, or fewer, are held of a namespace."""
        self.used_bytes += size
        self._of[namespace] += size
        if self._of[namespace] <= 0:
            del self._of[namespace]
        if size < 0:
            for tell in [*self._waiting]:
                tell()

    def wait(self, tell: Callable[[], None]) -> None:
        """Call this whenever something has left, until `wait_no_more`."""
        self._waiting.add(tell)

    def wait_no_more(self, tell: Callable[[], None]) -> None:
        """The opposite of `wait`."""
        self._waiting.discard(tell)

    def refusal(self, resource: Resource, obj: HasMetadata) -> Unreadable:
        """What is kept of an object that does not fit."""
        namespace = obj.metadata.namespace
        why = f"namespace {namespace} has more than its share of the memory for cached objects (--cache-memory-mib)"
        return Unreadable(resource, _identifying(obj.metadata), why, fix=FIX)


def _identifying(metadata: ObjectMeta) -> ObjectMeta:
    """The metadata that identify an object, and those by which it is found if they are small."""
    kept = msgspec.structs.replace(metadata, annotations={}, managers=())
    if len(_encode(kept)) <= _LARGEST_METADATA:
        return kept
    return msgspec.structs.replace(kept, labels={}, finalizers=(), owner_references=())
