"""What a cache may have missed: it is compared with the server, by metadata alone.

A watch that lost an event on the way never finds out by itself; client-go lives with that. At one comparison, what
differs may just be on its way. Where the cache shows the same at two comparisons in a row, and the server something
else each time, it was missed; the server need not show the same twice, because an object may change all the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, Listing, PartialObjectMetadata

Suspicion: TypeAlias = tuple[str, str]
"""The version that the cache has of an object, and the one that the server has; empty where there is none."""


class CacheAudit:
    """Compares one cache with what `listing` answers, and remembers what differed the last time."""

    def __init__(self, listing: Callable[[], Awaitable[Listing[PartialObjectMetadata]]]) -> None:
        self._listing = listing
        self._suspects: Mapping[ObjectKey, Suspicion] = {}

    async def missed(self, cached: Callable[[], Iterable[HasMetadata]]) -> Sequence[ObjectKey]:
        """The keys of which something was missed, at the second time. Raises ApiError.

        `cached` is asked after the server was, so that what has come meanwhile arouses no suspicion.
        """
        listed = (await self._listing()).items
        before, self._suspects = self._suspects, suspects(cached(), listed)
        return [key for key, (shown, _) in self._suspects.items() if key in before and before[key][0] == shown]


def suspects(cached: Iterable[HasMetadata], listed: Iterable[HasMetadata]) -> Mapping[ObjectKey, Suspicion]:
    """What the cache may have missed (pure)."""
    there = {obj.key: obj.metadata.resource_version for obj in listed}
    here = {obj.key: obj.metadata.resource_version for obj in cached}
    seen = {key: (here.get(key, ""), there.get(key, "")) for key in here.keys() | there.keys()}
    return {key: versions for key, versions in seen.items() if versions[0] != versions[1]}
