"""What a watch has missed is what a cache shows twice in the same way, and the server in another."""

from __future__ import annotations

from collections.abc import Iterator

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import Listing, PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.cache.cache_audit import CacheAudit


def cached(**versions: str) -> list[ConfigMap]:
    return [ConfigMap(metadata=ObjectMeta(name=name, resource_version=one)) for name, one in versions.items()]


def listing(**versions: str) -> Listing[PartialObjectMetadata]:
    items = [
        PartialObjectMetadata(metadata=ObjectMeta(name=name, resource_version=one)) for name, one in versions.items()
    ]
    return Listing(items, "9")


async def missed(server: list[Listing[PartialObjectMetadata]], *caches: list[ConfigMap]) -> list[set[str]]:
    """The names of what was missed, at each of the comparisons."""
    answers: Iterator[Listing[PartialObjectMetadata]] = iter(server)

    async def answer() -> Listing[PartialObjectMetadata]:
        return next(answers)

    comparison = CacheAudit(answer)
    found = [await comparison.missed(lambda cache=cache: cache) for cache in caches]  # type: ignore[misc]
    return [{key.name for key in keys} for keys in found]


async def test_what_differs_once_may_be_on_its_way_and_what_differs_twice_was_missed() -> None:
    server = [listing(changed="2", new="3", same="1")] * 2
    cache = cached(changed="1", gone="1", same="1")
    assert await missed(server, cache, cache) == [set(), {"changed", "gone", "new"}]


async def test_what_differs_in_another_way_than_before_is_on_its_way() -> None:
    assert await missed([listing(a="2"), listing(a="3")], cached(a="1"), cached(a="2")) == [set(), set()]


async def test_an_object_that_goes_on_changing_is_missed_where_the_cache_does_not_move() -> None:
    server = [listing(a="2"), listing(a="3"), listing(a="4")]
    assert await missed(server, cached(a="1"), cached(a="1"), cached(a="4")) == [set(), {"a"}, set()]


async def test_what_the_cache_had_in_between_is_not_missed() -> None:
    server = [listing(a="2"), listing(a="1"), listing(a="3")]
    assert await missed(server, cached(a="1"), cached(a="1"), cached(a="1")) == [set(), set(), set()]


async def test_what_has_come_while_the_server_was_asked_is_not_missed() -> None:
    cache = cached()

    async def answer() -> Listing[PartialObjectMetadata]:
        cache.extend(cached(a="1"))
        return listing(a="1")

    comparison = CacheAudit(answer)
    assert list(await comparison.missed(lambda: cache)) == []
    assert list(await comparison.missed(list)) == [], "at the first comparison it was there"
