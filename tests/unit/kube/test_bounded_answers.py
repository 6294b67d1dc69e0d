"""A server that answers without end, or small answers that unfold, costs one call; large lists are read in pages."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.kube.scripted import Server, serving

from stellwerk.api.core import ConfigMap
from stellwerk.delivery import template_lookup
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types import sizes
from stellwerk.kube.types.errors import AnswerTooLarge, ApiError, Undecodable
from stellwerk.kube.types.model import LARGEST_OBJECT_BYTES, MOST_CONTAINERS, metadata_of, unstructured, view
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import WatchSuspended
from stellwerk.render.errors import LimitExceeded
from stellwerk.render.request.request import TemplateQuery
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall

pytestmark = pytest.mark.heavy

MEBIBYTE = 1 << 20
FREE = unstructured(ConfigMap.resource)
Words = Callable[[int, bytes], bytes | None]


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


def page(items: bytes, token: str = "") -> bytes:
    return b'{"metadata": {"resourceVersion": "5", "continue": "%b"}, "items": [%b]}' % (token.encode(), items)


def named(name: str, size: int = 0) -> bytes:
    data = {"text": "x" * size} if size else {}
    return json.dumps({"metadata": {"name": name, "namespace": "here"}, "data": data}).encode()


def packed(size: int) -> bytes:
    """So many blanks in gzip, made without ever having them in memory."""
    maker, piece = zlib.compressobj(1, wbits=31), b" " * MEBIBYTE
    return b"".join(maker.compress(piece) for _ in range(size // MEBIBYTE)) + maker.flush()


@asynccontextmanager
async def reaching(
    words: Words | bytes, road: str = "own", *, answer: int = MEBIBYTE, listed: int | None = None
) -> AsyncIterator[tuple[Server, Client]]:
    async with serving(words) as (server, _):
        address = f"http://127.0.0.1:{server.port}"
        config = (
            ClusterConfig(server=address)
            if road == "own"
            else ClusterConfig(server="http://behind.example", proxy=address)
        )
        async with Client.connect(config, largest_answer_bytes=answer, largest_list_bytes=listed) as client:
            yield server, client


class Shelf:
    """Answers lists as an API server does: as many objects as asked for, and a token for those that follow."""

    def __init__(self, objects: list[bytes]) -> None:
        self.objects = objects
        self.limits: list[int] = []

    def answer(self, number: int, request: bytes) -> bytes:
        query = parse_qs(urlsplit(request.split()[1].decode()).query)
        begin = int(query.get("continue", ["0"])[0])
        self.limits.append(int(query.get("limit", ["0"])[0]))
        end = begin + (self.limits[-1] or len(self.objects))
        return ok(page(b", ".join(self.objects[begin:end]), str(end) if end < len(self.objects) else ""))


class ForgetfulShelf(Shelf):
    """Forgets the moment of each list before its third page."""

    def answer(self, number: int, request: bytes) -> bytes:
        answered = super().answer(number, request)
        begin = int(parse_qs(urlsplit(request.split()[1].decode()).query).get("continue", ["0"])[0])
        return EXPIRED if begin >= 2 * self.limits[-1] > 0 else answered


EXPIRED = b"HTTP/1.1 410 Gone\r\nContent-Length: %d\r\n\r\n%b" % (
    len(STATUS := b'{"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}'), STATUS
)  # fmt: skip

roads = pytest.mark.parametrize("road", ["own", "proxy"])


# ---- pages of large objects


async def test_a_list_that_takes_longer_than_the_server_keeps_its_moment_is_read_in_one_answer() -> None:
    shelf = ForgetfulShelf([named(f"small-{number}") for number in range(5_000)])
    async with reaching(shelf.answer) as (_, client):
        assert len((await client.list(ConfigMap, "here")).items) == 5_000
    assert shelf.limits == [500, 500, 500, 0]


@pytest.mark.req("R-209", "R-411")
async def test_a_list_that_is_neither_kept_for_long_enough_nor_small_enough_parks_its_watch_with_the_cause() -> None:
    shelf = ForgetfulShelf([named(f"large-{number}", 50_000) for number in range(100)])
    async with reaching(shelf.answer) as (_, client), aclosing(Watcher(client, ConfigMap).changes()) as changes:
        assert await anext(changes) == WatchSuspended(
            "cannot list configmaps everywhere: the answer is larger than 1 MiB; "
            "in pages, the API server forgets the list before the last one is read"
        )


@pytest.mark.req("R-209")
@pytest.mark.parametrize("limit", [500, 0])
async def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects(limit: int) -> None:
    shelf = Shelf([named(f"large-{number}", 50_000) for number in range(100)])
    async with reaching(shelf.answer) as (_, client):
        listing = await client.list(ConfigMap, "here", limit=limit)
    assert [obj.metadata.name for obj in listing.items] == [f"large-{number}" for number in range(100)]
    assert shelf.limits[:4] == [limit, 62, 7, 10]
    assert max(shelf.limits[2:]) <= 20
    assert len(shelf.limits) < 16


@pytest.mark.req("R-209", "R-941")
async def test_a_page_of_many_large_objects_is_given_up_long_before_the_largest_answer() -> None:
    shelf = Shelf([named(f"large-{number}", 200_000) for number in range(100)])
    async with reaching(shelf.answer, answer=64 * MEBIBYTE) as (_, client):
        listing = await client.list(ConfigMap, "here")
    assert len(listing.items) == 100
    assert shelf.limits[:3] == [500, 62, 7]
    assert max(shelf.limits[2:]) <= 40


@pytest.mark.req("R-209")
async def test_an_object_that_is_too_large_by_itself_fails_its_list_with_the_size() -> None:
    shelf = Shelf([named("large", 2 * MEBIBYTE)])
    async with reaching(shelf.answer) as (_, client):
        with pytest.raises(AnswerTooLarge, match="cannot list configmaps in here: the answer is larger than 1 MiB"):
            await client.list(ConfigMap, "here")
    assert shelf.limits == [500, 62, 7, 1]


@pytest.mark.req("R-209")
async def test_pages_of_small_objects_are_asked_for_once_and_whole() -> None:
    shelf = Shelf([named(f"small-{number}") for number in range(20_000)])
    async with reaching(shelf.answer) as (_, client):
        assert len((await client.list(ConfigMap, "here")).items) == 20_000
        assert len((await client.list(FREE, "here")).items) == 20_000
        assert len((await client.list(metadata_of(ConfigMap), "here")).items) == 20_000
    assert shelf.limits == [500] * 120


@pytest.mark.req("R-209")
async def test_pages_grow_again_behind_large_objects() -> None:
    objects = [named(f"large-{number}", 400_000) for number in range(40)]
    shelf = Shelf(objects + [named(f"small-{number}") for number in range(2_000)])
    async with reaching(shelf.answer, answer=8 * MEBIBYTE) as (_, client):
        assert len((await client.list(FREE, "here")).items) == 2_040
    assert min(shelf.limits) < 20
    assert shelf.limits[-1] == 500


# ---- servers without an end


def endless(*, items: bytes) -> Words:
    tokens = itertools.count()
    return lambda number, request: ok(page(items, f"token-{next(tokens)}"))


@pytest.mark.req("R-411")
@pytest.mark.req("R-210")
@roads
@pytest.mark.parametrize("items", [named("a", 200_000), b"[]," * 50_000 + b"[]", b"1"], ids=["large", "dense", "odd"])
async def test_pages_without_end_fail_their_list(road: str, items: bytes) -> None:
    async with reaching(endless(items=items), road, listed=8 * MEBIBYTE) as (server, client):
        with pytest.raises(ApiError):
            await client.list(FREE, "here")
    assert len(server.asked) < 50


@pytest.mark.req("R-411")
async def test_a_list_may_have_a_smaller_bound_than_its_server() -> None:
    objects = [named(f"a-{number}", 200_000) for number in range(20)]
    async with reaching(Shelf(objects).answer) as (_, client):
        assert len((await client.list(FREE, "here")).items) == 20
        with pytest.raises(AnswerTooLarge, match="list configmaps in here: the list takes more than 2 MiB of memory"):
            await client.list(FREE, "here", largest_bytes=2 * MEBIBYTE)
    async with reaching(Shelf(objects).answer, listed=2 * MEBIBYTE) as (_, client):
        with pytest.raises(AnswerTooLarge, match="2 MiB"):
            await client.list(FREE, "here", largest_bytes=20 * MEBIBYTE)


@pytest.mark.req("R-411")
async def test_a_template_cannot_list_more_than_its_bound_in_the_cluster_of_the_operator() -> None:
    shelf = Shelf([named(f"a-{number}", 900_000) for number in range(80)])
    kinds = json.dumps(
        {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]}]}
    )

    def answer(number: int, request: bytes) -> bytes:
        is_list = b"/configmaps" in request.split()[1]
        return shelf.answer(number, request) if is_list else ok(kinds.encode())

    async with reaching(answer) as (server, client):
        with pytest.raises(LimitExceeded, match="list configmaps in here: the list takes more than 64 MiB of memory"):
            await template_lookup.answer(client, TemplateQuery("v1", "ConfigMap", "here", many=True))
    assert len(server.asked) < 90


@pytest.mark.req("R-411")
async def test_empty_pages_without_end_fail_their_list() -> None:
    async with reaching(endless(items=b"")) as (server, client):
        with pytest.raises(AnswerTooLarge, match="has more than 10000 pages"):
            await client.list(metadata_of(ConfigMap), "here")
    assert len(server.asked) == 10_001


@pytest.mark.req("R-411")
async def test_a_page_with_many_more_objects_than_asked_for_is_refused_before_they_are_decoded() -> None:
    flood = ok(page(b", ".join([named("a")] * 2_000)))
    async with reaching(flood) as (_, client):
        with pytest.raises(AnswerTooLarge, match="more objects on a page than the 500 asked for"):
            await client.list(FREE, "here")


@pytest.mark.req("R-411")
@roads
async def test_a_body_without_end_fails_its_call(road: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with reaching(head + b"10000\r\n" + b" " * 65_536 + b"\r\n", road) as (server, client):
        server.words = lambda number, request: head + (b"10000\r\n" + b" " * 65_536 + b"\r\n") * 40
        server.hangs_up = True
        with pytest.raises(AnswerTooLarge, match="cannot GET /version: the answer is larger than 1 MiB"):
            await client.document("/version")


@pytest.mark.req("R-411")
@roads
async def test_a_small_answer_that_unpacks_to_much_fails_its_call(road: str) -> None:
    bomb = packed(200 * MEBIBYTE)
    async with reaching(ok(bomb, b"Content-Encoding: gzip"), road) as (_, client):
        with pytest.raises(AnswerTooLarge, match="larger than 1 MiB"):
            await client.document("/version")


@roads
async def test_a_packed_answer_is_read(road: str) -> None:
    packed = gzip.compress(b'{"gitVersion": "v1"}')
    async with reaching(ok(packed, b"Content-Encoding: gzip"), road) as (server, client):
        assert await client.document("/version") == {"gitVersion": "v1"}
    assert b"gzip" in server.asked[0].lower()


@pytest.mark.req("R-401")
@roads
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", b"{}"),
        (b"gzip", gzip.compress(b"{}")[:-4]),
        (b"gzip", gzip.compress(b"{}") * 2),
        (b"br", b"{}"),
        (b"deflate", b"{}"),
        (b"gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
    ],
    ids=["no gzip", "half", "two", "brotli", "deflate", "twice"],
)
async def test_an_encoding_that_was_not_asked_for_or_is_broken_is_no_answer(
    road: str, encoding: bytes, body: bytes
) -> None:
    async with reaching(ok(body, b"Content-Encoding: " + encoding), road) as (_, client):
        with pytest.raises(ApiError):
            await client.raw("POST", "/version")


@pytest.mark.req("R-411")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * MEBIBYTE + b"\r\n") * 20,
            "a line of more than 16 MiB",
        ),
        (ok(packed(200 * MEBIBYTE), b"Content-Encoding: gzip"), "an unknown encoding"),
    ],
    ids=["endless", "packed"],
)
async def test_a_line_of_a_watch_without_end_ends_the_watch(said: bytes, why: str) -> None:
    async with reaching(said) as (server, client):
        server.hangs_up = True
        with pytest.raises(ApiError, match=why):
            await anext(client.watch(ConfigMap, "here", resource_version="1", silence_seconds=10))


@pytest.mark.req("R-411")
async def test_discovery_without_end_fails_its_call() -> None:
    async with reaching(ok(b'{"items": [' + b"{}," * 300_000 + b"{}]}")) as (_, client):
        with pytest.raises(AnswerTooLarge, match="more lists and objects"):
            await client.mapper.described()


FLOODS = {
    "pages of lists in lists": 'endless(items=b\'{"metadata": {"name": "a"}, "x": [\' + b\'[],\' * 90_000 + b\'[]]}\')',
    "pages of empty objects": "endless(items=b'{},' * 900 + b'{}')",
    "pages of text": "endless(items=named('a', 3 << 20))",
    "one page of empty objects": "ok(page(b'{},' * 5_000_000 + b'{}'))",
    "one answer that unpacks": "ok(packed(1 << 30), b'Content-Encoding: gzip')",
}


@pytest.mark.req("R-411")
@pytest.mark.req("R-209")
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_a_foreign_server_takes_bounded_memory(flood: str) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio, contextlib, gzip, json, resource, sys
        from tests.unit.kube.test_bounded_answers import *
        from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES, LARGEST_FOREIGN_LIST_BYTES

        def memory():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def main():
            said = {flood}
            bounds = dict(answer=LARGEST_FOREIGN_ANSWER_BYTES, listed=LARGEST_FOREIGN_LIST_BYTES)
            async with reaching(said, **bounds) as (server, client):
                before = memory()
                try:
                    await client.list(FREE, "here")
                except ApiError as error:
                    print(memory() - before, error)

        asyncio.run(main())
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    kibibytes, _, words = done.stdout.partition(" ")
    assert int(kibibytes) < 320 * 1024, words


# ---- time on the event loop


async def by_list(client: Client) -> object:
    return await client.list(FREE, "here")


async def by_typed_list(client: Client) -> object:
    return await client.list(ConfigMap, "here")


async def by_get(client: Client) -> object:
    return await client.get(FREE, "a", "here")


def dense(piece: bytes, size: int) -> bytes:
    return b'{"metadata": {"name": "a", "namespace": "here"}, "x": [' + piece * (size // len(piece)) + b"0]}"


def many_values(name: str, count: int) -> bytes:
    data = {f"key{number}": str(number) for number in range(count)}
    return json.dumps({"metadata": {"name": name, "namespace": "here"}, "data": data}).encode()


def data(value: bytes) -> bytes:
    return named("a").replace(b'"data": {}', b'"data": ' + value)


HEAVY: dict[str, tuple[Callable[[], bytes], Callable[[Client], Awaitable[object]]]] = {
    "a page of usual objects": (lambda: page(b",".join([named(f"a{n}", 900) for n in range(900)])), by_list),
    "typed": (lambda: page(b",".join([named(f"a{n}", 900) for n in range(900)])), by_typed_list),
    "a page of many values": (lambda: page(b",".join([many_values(f"a{n}", 1_000) for n in range(900)])), by_list),
    "a page of large objects": (lambda: page(b",".join([named(f"a{n}", 300_000) for n in range(40)])), by_list),
    "empty objects": (lambda: page(b"{}," * 5_000_000 + b"{}"), by_list),
    "empty typed objects": (lambda: page(b"{}," * 900_000 + b"{}"), by_typed_list),
    "lists in an object": (lambda: dense(b"[],", 1_500_000), by_get),
    "objects in an object": (lambda: dense(b"{},", 4_000_000), by_get),
    "lists in a listed object": (lambda: page(dense(b"[],", 3_000_000)), by_list),
    "numbers": (lambda: dense(b"0.5,", 4_000_000), by_get),
    "words": (lambda: dense(b'"ab",', 4_000_000), by_get),
    "brackets in text": (lambda: data(b'{"x": "' + b"[" * 1_500_000 + b'"}'), by_get),
}


@pytest.mark.req("R-412")
@pytest.mark.parametrize(("body", "way"), HEAVY.values(), ids=HEAVY)
async def test_no_answer_blocks_the_event_loop(
    body: Callable[[], bytes], way: Callable[[Client], Awaitable[object]]
) -> None:
    async with reaching(ok(body()), answer=16 * MEBIBYTE) as (_, client):
        stall = await least_stall(lambda: asyncio.gather(way(client), return_exceptions=True), tries=2)
    assert stall < LONGEST_STALL_SECONDS


# ---- what counts as heavy


@pytest.mark.req("R-411")
async def test_an_object_with_too_many_parts_is_unreadable_and_its_neighbours_are_not() -> None:
    odd = dense(b"[],", 3 * MOST_CONTAINERS + 100)
    async with reaching(ok(page(b",".join([named("one"), odd, named("two")]))), answer=16 * MEBIBYTE) as (_, client):
        listing = await client.list(FREE, "here", skip_unreadable=True)
        assert [obj.metadata.name for obj in listing.items] == ["one", "two"]
        assert [obj.why for obj in listing.unreadable] == [f"holds more than {MOST_CONTAINERS} lists and objects"]
        with pytest.raises(Undecodable, match="holds more than"):
            await client.list(FREE, "here")


@pytest.mark.req("R-411")
def test_an_object_is_readable_up_to_its_largest_size() -> None:
    fits = named("a", LARGEST_OBJECT_BYTES - 200)
    assert view(ConfigMap).decode(fits).metadata.name == "a"
    assert FREE.decode(named("a").replace(b'"data": {}', b'"data": {"x": "' + b"[{" * 700_000 + b'"}')).key.name == "a"
    for target in (view(ConfigMap), FREE, metadata_of(ConfigMap)):
        with pytest.raises(ValueError, match="larger than 4 MiB"):
            target.decode(named("a", LARGEST_OBJECT_BYTES))


def test_brackets_in_strings_weigh_nothing() -> None:
    text = b'"' + b"[{" * 300_000 + b'\\"[" '
    assert not sizes.is_heavier(text, 2 * MEBIBYTE)
    assert not sizes.has_more_containers(text, 10)
    assert sizes.is_heavier(b"[" * 600_000, 2 * MEBIBYTE)
    assert sizes.has_more_containers(b'["' + b"[" * 100 + b'", {}, [' + b"{}" * 10, 10)
    assert not sizes.is_heavier(b"[" * 60_000, 100), "small text is never looked at"
