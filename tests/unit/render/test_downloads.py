"""URLs become files: verified, bounded, once, and without harm to others."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from stellwerk.local import certs
from stellwerk.local.host.private_files import write_private
from stellwerk.render.errors import (
    BadArchive,
    EgressRefused,
    IncompleteAnswer,
    RenderError,
    SourceError,
    Unavailable,
    WrongDigest,
)
from stellwerk.render.sources.downloads import Budget, Downloads
from stellwerk.render.sources.egress import IN_CLUSTER, PUBLIC, EgressRules
from stellwerk.render.sources.http import OriginCredentials, TlsMaterial
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.artifacts import (
    ArtifactServer,
    Endless,
    GarbageDownload,
    HangingDownload,
    Redirect,
    Refuse,
    Serve,
    Slow,
    TruncatedDownload,
)

pytestmark = pytest.mark.heavy

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
HERE = EgressRules(http=True, private=True, networks=LOOPBACK)
TREE = {"a.yaml": b"kind: A\n", "b/c.yaml": b"kind: C\n"}


@pytest.fixture
async def server() -> AsyncIterator[ArtifactServer]:
    async with ArtifactServer() as found:
        yield found


@pytest.fixture
async def downloads() -> AsyncIterator[Downloads]:
    async with Downloads() as found:
        yield found


async def failure(work: Awaitable[object], kind: type[RenderError]) -> str:
    with pytest.raises(kind) as caught:
        await work
    return str(caught.value)


async def test_an_artifact_becomes_its_files(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    assert dict(await downloads.fetch(artifact.url, artifact.digest, rules=HERE)) == TREE


@pytest.mark.parametrize(("name", "form"), [("x.zip", "zip"), ("x", "tar"), ("y", "tar.bz2")])
async def test_the_form_is_found_out(server: ArtifactServer, downloads: Downloads, name: str, form: str) -> None:
    artifact = server.publish(name, TREE, form=form)  # type: ignore[arg-type]
    assert dict(await downloads.fetch(artifact.url, artifact.digest, rules=HERE)) == TREE


async def test_a_plain_manifest_is_told_by_its_type(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("latest", b"kind: A\n", content_type="application/yaml")
    assert dict(await downloads.fetch(artifact.url, rules=HERE)) == {"manifest.yaml": b"kind: A\n"}


@pytest.mark.req("R-403")
@pytest.mark.req("R-604")
async def test_content_that_was_not_promised_is_refused(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    server.behave("app.tar.gz", GarbageDownload())
    assert "was promised" in await failure(downloads.fetch(artifact.url, artifact.digest, rules=HERE), WrongDigest)
    for malformed in ("sha256:abc", "sha512:" + "0" * 64, "sha256:" + "g" * 64):
        await failure(downloads.fetch(artifact.url, malformed, rules=HERE), WrongDigest)
    assert server.count("app.tar.gz") == 1


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
async def test_digests_of_all_kinds_are_verified(server: ArtifactServer, downloads: Downloads, algorithm: str) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    right = hashlib.new(algorithm, artifact.content).hexdigest()
    assert await downloads.fetch(artifact.url, f"{algorithm}:{right.upper()}", rules=HERE)
    await failure(downloads.fetch(artifact.url, f"{algorithm}:{'0' * len(right)}", rules=HERE), WrongDigest)


UNCHECKABLE = [
    *("SHA256:" + "a" * 64, "Sha256:" + "a" * 64, "sha256:", "sha256:abc", "sha512:" + "a" * 64),
    *(" sha256:" + "a" * 64, "sha256:" + "a" * 64 + " ", "sha384:" + "g" * 96),
]
WORDS = [
    *("main", "v1.2.3", '"5f-abc:1"', "0123abcd", "crc32c=4waSgw==,md5=YWFh", "sha-256=:YWFh:", "sha-256=YWFh"),
    *("sha1:" + "a" * 40, "md5:" + "a" * 32, "sha256-" + "A" * 43 + "=", "sha512/256:" + "a" * 64, "crc32:aaaaaaaa"),
]


@pytest.mark.req("R-604")
@pytest.mark.parametrize("digest", UNCHECKABLE)
async def test_a_digest_that_cannot_be_checked_is_refused_before_anything_is_called(
    server: ArtifactServer, downloads: Downloads, digest: str
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    for header in ("", "x-digest"):
        fetch = downloads.fetch(artifact.url, digest, rules=HERE, digest_header=header)
        assert "the promised digest" in await failure(fetch, WrongDigest)
    assert server.seen == []


@pytest.mark.req("R-604")
@pytest.mark.parametrize("word", WORDS)
async def test_a_word_passes_for_a_digest_only_where_a_header_carries_it(
    server: ArtifactServer, downloads: Downloads, word: str
) -> None:
    artifact = server.publish("app.tar.gz", TREE, headers={"X-Word": word})
    await failure(downloads.fetch(artifact.url, word, rules=HERE), WrongDigest)
    assert await downloads.fetch(artifact.url, word, rules=HERE, digest_header="x-absent")
    assert await downloads.fetch(artifact.url, word, rules=HERE, digest_header="x-word")


async def test_an_etag_that_has_changed_since_is_noticed(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    fetch = downloads.fetch(artifact.url, '"older"', rules=HERE, digest_header="etag")
    assert "has changed" in await failure(fetch, WrongDigest)
    assert await downloads.fetch(artifact.url, artifact.etag, rules=HERE, digest_header="etag")


# ---- once, and kept


async def test_many_who_ask_share_one_download(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=Slow(pieces=3, pause_seconds=0.01))
    found = await asyncio.gather(*(downloads.fetch(artifact.url, artifact.digest, rules=HERE) for _ in range(20)))
    again = await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    assert server.count("app.tar.gz") == 1
    assert all(one is again for one in found)


async def test_who_gives_up_leaves_the_others_their_download(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=HangingDownload())
    tasks = [asyncio.create_task(downloads.fetch(artifact.url, artifact.digest, rules=HERE)) for _ in range(3)]
    await server.asked("app.tar.gz")
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert not tasks[1].done()
    for task in tasks[1:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    server.behave("app.tar.gz", Serve())
    assert await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    assert server.count("app.tar.gz") == 2


async def test_errors_are_shared_but_not_kept(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=Refuse(503))
    both = [downloads.fetch(artifact.url, artifact.digest, rules=HERE) for _ in range(2)]
    assert [type(one) for one in await asyncio.gather(*both, return_exceptions=True)] == [Unavailable, Unavailable]
    assert server.count("app.tar.gz") == 1
    server.behave("app.tar.gz", Serve())
    assert await downloads.fetch(artifact.url, artifact.digest, rules=HERE)


async def test_equal_content_of_several_urls_is_held_once(server: ArtifactServer, downloads: Downloads) -> None:
    one, other = server.publish("one", TREE), server.publish("other", TREE, form="zip")
    first = await downloads.fetch(one.url, one.digest, rules=HERE)
    assert await downloads.fetch(other.url, other.digest, rules=HERE) is first


@pytest.mark.req("R-601", "R-604")
async def test_what_was_fetched_under_other_egress_rules_is_not_served_from_memory(
    server: ArtifactServer, downloads: Downloads
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    strict = EgressRules(http=True)
    await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    assert downloads.has(artifact.url, artifact.digest, rules=HERE, tenant="any")
    assert not downloads.has(artifact.url, artifact.digest, rules=strict)
    await failure(downloads.fetch(artifact.url, artifact.digest, rules=strict), EgressRefused)
    await failure(downloads.fetch(artifact.url, artifact.digest, rules=PUBLIC), EgressRefused)
    assert server.count("app.tar.gz") == 1


@pytest.mark.req("R-604")
async def test_a_server_that_claims_an_etag_of_another_url_reaches_no_other_tenant(
    server: ArtifactServer, downloads: Downloads
) -> None:
    server.publish("app.tar.gz", TREE)
    evil = server.publish("evil", b"", behaviour=Redirect(to="/app.tar.gz", carries_headers=True))
    claimed = await downloads.head(evil.url, rules=HERE, tenant="evil")
    await downloads.fetch(claimed.url, claimed.digest, rules=HERE, tenant="evil", digest_header="etag")

    fixed = server.publish("app.tar.gz", {"a.yaml": b"kind: Fixed\n"}, headers={"ETag": claimed.digest})
    offered = await downloads.head(fixed.url, rules=HERE, tenant="victim")
    assert (offered.url, offered.digest) == (claimed.url, claimed.digest)
    assert not downloads.has(offered.url, offered.digest, rules=HERE, tenant="victim")
    files = await downloads.fetch(offered.url, offered.digest, rules=HERE, tenant="victim", digest_header="etag")
    assert dict(files) == {"a.yaml": b"kind: Fixed\n"}


@pytest.mark.req("R-604")
async def test_whether_a_redirect_carried_the_etag_is_remembered_by_tenant(
    server: ArtifactServer, downloads: Downloads
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    evil = server.publish("evil", b"", behaviour=Redirect(to="/app.tar.gz", carries_headers=True))
    claimed = await downloads.head(evil.url, rules=HERE, tenant="evil")
    assert claimed.url == artifact.url
    fetch = downloads.fetch(claimed.url, claimed.digest, rules=HERE, tenant="victim", digest_header="etag")
    assert "has changed" in await failure(fetch, WrongDigest)


@pytest.mark.req("R-604")
async def test_knowing_a_digest_is_no_right_to_its_content(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    await failure(downloads.fetch(f"{server.url}/elsewhere", artifact.digest, rules=HERE), Unavailable)
    credentials = OriginCredentials.bearer(artifact.url, "guess")
    await downloads.fetch(artifact.url, artifact.digest, rules=HERE, credentials=credentials)
    assert server.count("app.tar.gz") == 2


async def test_files_are_forgotten_an_hour_after_they_were_last_asked_for(server: ArtifactServer) -> None:
    time = [0.0]
    artifact = server.publish("app.tar.gz", TREE)
    async with Downloads(now=lambda: time[0]) as downloads:
        for time[0], asked in ((0, 1), (3500, 1), (7000, 1), (10_700, 2)):
            await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
            assert server.count("app.tar.gz") == asked


async def test_only_so_much_is_kept_and_the_longest_unused_goes_first(server: ArtifactServer) -> None:
    made = [server.publish(f"{n}", {"a": bytes([n]) * 1000}) for n in range(3)]
    async with Downloads(budget=Budget(kept_bytes=2_100)) as downloads:
        for n in (0, 1, 0, 2, 0, 1):
            await downloads.fetch(made[n].url, made[n].digest, rules=HERE, tenant=f"{n}")
    assert [server.count(f"{n}") for n in range(3)] == [1, 2, 1]


async def test_without_a_digest_nothing_is_kept(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    for _ in range(2):
        await downloads.fetch(artifact.url, rules=HERE)
    assert server.count("app.tar.gz") == 2


# ---- servers that misbehave


@pytest.mark.req("R-602")
async def test_a_server_that_hangs_is_given_up_on_and_delays_nobody_else(server: ArtifactServer) -> None:
    hanging = server.publish("hanging", TREE, behaviour=HangingDownload(after=20))
    well = server.publish("well", {"x": b"1"})
    async with Downloads(budget=Budget(total_seconds=3, calls_per_tenant=2)) as downloads:
        waiting = asyncio.create_task(downloads.fetch(hanging.url, hanging.digest, rules=HERE, tenant="a"))
        await server.asked("hanging")
        assert await downloads.fetch(well.url, well.digest, rules=HERE, tenant="a")
        assert not waiting.done()
        assert "longer than 3 s" in await failure(waiting, Unavailable)


@pytest.mark.req("R-507")
async def test_one_tenant_cannot_take_all_calls(server: ArtifactServer) -> None:
    for n in range(6):
        server.publish(f"hanging{n}", {"n": str(n)}, behaviour=HangingDownload())
    well = server.publish("well", TREE)
    async with Downloads(budget=Budget(calls=3, calls_per_tenant=2)) as downloads:
        flood = [
            asyncio.create_task(downloads.fetch(f"{server.url}/hanging{n}", rules=HERE, tenant="flooding"))
            for n in range(6)
        ]
        await eventually(lambda: sum(server.count(f"hanging{n}") for n in range(6)) == 2)
        assert await downloads.fetch(well.url, well.digest, rules=HERE, tenant="quiet")
        assert sum(server.count(f"hanging{n}") for n in range(6)) == 2
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}


@pytest.mark.req("R-511")
@pytest.mark.req("R-602")
async def test_tenants_whose_servers_hang_leave_a_call_for_every_other_tenant(server: ArtifactServer) -> None:
    hanging = [server.publish(f"hang-{number}", TREE, behaviour=HangingDownload()) for number in range(12)]
    good = server.publish("good.tar.gz", TREE)
    async with Downloads(budget=Budget(calls=4, calls_per_tenant=4)) as downloads, asyncio.TaskGroup() as others:
        tasks = [
            others.create_task(downloads.fetch(one.url, one.digest, rules=HERE, tenant=f"attacker-{number % 3}"))
            for number, one in enumerate(hanging)
        ]
        # One call that only its tenant can have for each of the three, and all of the four that they share.
        await eventually(lambda: sum(server.count(f"hang-{number}") for number in range(12)) == 7, on=server.changed)
        assert await downloads.fetch(good.url, good.digest, rules=HERE, tenant="victim")
        for task in tasks:
            task.cancel()


@pytest.mark.req("R-507", "R-511")
async def test_polls_of_servers_that_hang_delay_no_download(server: ArtifactServer) -> None:
    hanging = [server.publish(f"hang-{number}", TREE, behaviour=HangingDownload()) for number in range(58)]
    good = server.publish("good.tar.gz", TREE)
    async with Downloads() as downloads, asyncio.TaskGroup() as others:
        polls = [others.create_task(downloads.head(one.url, rules=HERE, tenant="a", is_poll=True)) for one in hanging]
        await eventually(lambda: sum(seen.method == "HEAD" for seen in server.seen) == 4, on=server.changed)
        async with asyncio.timeout(30):
            assert await downloads.fetch(good.url, good.digest, rules=HERE, tenant="a")
            await downloads.head(good.url, rules=HERE, tenant="a")
            await downloads.head(good.url, rules=HERE, tenant="b", is_poll=True)
        assert sum(server.count(f"hang-{number}", "HEAD") for number in range(58)) == 4
        for poll in polls:
            poll.cancel()


@pytest.mark.req("R-507", "R-511")
async def test_passes_that_wait_for_headers_delay_no_download(server: ArtifactServer) -> None:
    hanging = [server.publish(f"hang-{number}", TREE, behaviour=HangingDownload()) for number in range(15)]
    good = server.publish("good.tar.gz", TREE)
    async with Downloads() as downloads, asyncio.TaskGroup() as others:
        heads = [others.create_task(downloads.head(one.url, rules=HERE, tenant="a")) for one in hanging]
        await eventually(lambda: sum(seen.method == "HEAD" for seen in server.seen) == 15, on=server.changed)
        async with asyncio.timeout(30):
            await downloads.head(good.url, rules=HERE, tenant="a")
            assert await downloads.fetch(good.url, good.digest, rules=HERE, tenant="a")
        for head in heads:
            head.cancel()


@pytest.mark.req("R-507", "R-511")
async def test_a_poll_of_what_another_tenant_asks_for_takes_no_slot(server: ArtifactServer) -> None:
    hanging = server.publish("hang", TREE, behaviour=HangingDownload())
    good = server.publish("good.tar.gz", TREE)
    budget = Budget(calls=1, calls_per_tenant=1)
    async with Downloads(budget=budget) as downloads, asyncio.TaskGroup() as others:
        polls = [
            others.create_task(downloads.head(hanging.url, rules=HERE, tenant=tenant, is_poll=True)) for tenant in "ab"
        ]
        await server.asked("hang", method="HEAD")
        async with asyncio.timeout(30):
            await downloads.head(good.url, rules=HERE, tenant="b", is_poll=True)
        assert server.count("hang", "HEAD") == 1
        for poll in polls:
            poll.cancel()


@pytest.mark.req("R-507", "R-511")
async def test_a_tenant_waits_for_no_slot_of_another_that_wants_the_same(server: ArtifactServer) -> None:
    hanging = [server.publish(f"hang-{number}", TREE, behaviour=HangingDownload()) for number in range(2)]
    good = server.publish("good.tar.gz", TREE)
    async with Downloads(budget=Budget(calls_per_tenant=2)) as downloads, asyncio.TaskGroup() as others:
        waiting = [others.create_task(downloads.fetch(one.url, one.digest, rules=HERE, tenant="a")) for one in hanging]
        for one in hanging:
            await server.asked(URL(one.url).name)
        waiting.append(others.create_task(downloads.fetch(good.url, good.digest, rules=HERE, tenant="a")))
        await asyncio.sleep(0)  # it has asked for a slot, and there is none
        async with asyncio.timeout(30):
            assert await downloads.fetch(good.url, good.digest, rules=HERE, tenant="b")
        for task in waiting:
            task.cancel()


async def test_tenants_that_want_the_same_share_one_download(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=Slow(pieces=3, pause_seconds=0.01))
    fetches = [downloads.fetch(artifact.url, artifact.digest, rules=HERE, tenant=f"{n}") for n in range(20)]
    found = await asyncio.gather(*fetches)
    assert server.count("app.tar.gz") == 1
    assert all(one is found[0] for one in found)


async def test_who_waited_for_a_slot_finds_what_came_meanwhile(server: ArtifactServer) -> None:
    first, good = (server.publish(name, TREE, behaviour=HangingDownload()) for name in ("first", "good"))
    async with Downloads(budget=Budget(calls_per_tenant=1)) as downloads:
        holding = asyncio.create_task(downloads.fetch(first.url, first.digest, rules=HERE, tenant="a"))
        await server.asked("first")
        waiting = asyncio.create_task(downloads.fetch(good.url, good.digest, rules=HERE, tenant="a"))
        await asyncio.sleep(0)  # it has asked for a slot, and there is none
        server.behave("good", Serve())
        files = await downloads.fetch(good.url, good.digest, rules=HERE, tenant="b")
        holding.cancel()
        assert await waiting is files
    assert server.count("good") == 1


GARBAGE_HEADS = [
    *(
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 302 F",
        b"HTTP/1.1 \xff\xff",
        b"HTTP/9.9 200 OK",
        b"HTTP/1.1 999999 x",
        b"\x16\x03",
    ),
    *(b"HTTP/1.1 101 SP", b"HTTP/1.1 200 \xff\x00", b"HTTP/1.1 204 x", b"garbage"),
]
GARBAGE_HEADERS = [
    *(b"etag: x\xff\xfe", b"etag: ok", b"Location: https://xn--/", b"Location: http://[", b"Location: \xff\xfe"),
    *(b"Location: //xn--a", b"Location: https://127.0.0.1:99999/", b"Location: /\x00", b"Content-Length: -1"),
    *(b"Content-Length: 99999999999999999999999", b"Content-Length: 5", b"Content-Encoding: gzip"),
    *(b"Transfer-Encoding: chunked", b"Set-Cookie: a=\xff; expires=x", b"Content-Type: \xff/;charset=\xff"),
    *(b"\x00: x", b"A" * 20_000 + b": x", b"Content-Type: text/html; charset=xn--", b"Upgrade: websocket"),
]
GARBAGE_BODIES = [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"ZZ\r\n", b"FFFFFFFFFFFFFFFFFFFFF\r\nxx", b"-1\r\n"]


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
async def test_whatever_bytes_a_server_answers_with_the_failure_is_one_of_the_source() -> None:
    rolls = random.Random(4711)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            headers = rolls.sample(GARBAGE_HEADERS, rolls.randint(0, 4))
            writer.write(b"\r\n".join([rolls.choice(GARBAGE_HEADS), *headers, b"", rolls.choice(GARBAGE_BODIES)]))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/a"
    async with server, Downloads(budget=Budget(total_seconds=2.0)) as downloads:
        for _ in range(400):
            with contextlib.suppress(SourceError):
                await downloads.head(url, rules=HERE)
            with contextlib.suppress(SourceError):
                await downloads.fetch(url, rules=HERE)


@pytest.mark.req("R-602")
async def test_an_answer_without_end_is_given_up_on(server: ArtifactServer) -> None:
    server.publish("endless", b"", behaviour=Endless())
    async with Downloads(budget=Budget(bytes=2**20)) as downloads:
        assert "larger than 1 MiB" in await failure(downloads.fetch(f"{server.url}/endless", rules=HERE), BadArchive)


@pytest.mark.req("R-602")
async def test_an_answer_that_announces_too_much_is_not_read(server: ArtifactServer) -> None:
    server.publish("large", bytes(2**20 + 1), behaviour=HangingDownload(after=0))
    async with Downloads(budget=Budget(bytes=2**20)) as downloads:
        await failure(downloads.fetch(f"{server.url}/large", rules=HERE), BadArchive)


async def test_where_memory_is_short_the_largest_gives_way(server: ArtifactServer) -> None:
    server.publish("large", bytes(900_000), behaviour=HangingDownload(after=800_000))
    server.publish("small", bytes(900_000), behaviour=HangingDownload(after=300_000))
    async with Downloads(budget=Budget(bytes_under_way=1_000_000)) as downloads:
        large = asyncio.create_task(downloads.fetch(f"{server.url}/large", rules=HERE))
        small = asyncio.create_task(downloads.fetch(f"{server.url}/small", rules=HERE))
        assert "to make room" in await failure(large, Unavailable)
        assert not small.done()
    assert "ended with the process" in await failure(small, Unavailable)


@pytest.mark.parametrize(
    ("behaviour", "why", "transient"),
    [
        (TruncatedDownload(after=10), "cut off", True),
        (Refuse(503), "503", True),
        (Refuse(404), "404", False),
        (Refuse(204), "204", False),
    ],
)
async def test_a_bad_answer_is_told_and_whether_to_try_again(
    server: ArtifactServer, downloads: Downloads, behaviour: TruncatedDownload | Refuse, why: str, transient: bool
) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=behaviour)
    with pytest.raises(Unavailable, match=why) as caught:
        await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    assert caught.value.transient is transient


async def test_something_that_speaks_no_http_is_told(downloads: Downloads) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # else it may have hung up before the request is on its way
        writer.write(b"220 mail.example.com ESMTP\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        why = await failure(downloads.fetch(f"http://127.0.0.1:{port}/x", rules=HERE), Unavailable)
    assert "no HTTP" in why
    assert "no connection" in await failure(downloads.fetch(f"http://127.0.0.1:{port}/x", rules=HERE), Unavailable)


# ---- where it may go


@pytest.mark.req("R-601")
@pytest.mark.parametrize("rules", [IN_CLUSTER, EgressRules(http=True)])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f.0.0.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_this_machine_is_not_called_however_it_is_written(
    server: ArtifactServer, downloads: Downloads, rules: EgressRules, host: str
) -> None:
    server.publish("app.tar.gz", TREE)
    url = server.url.replace("127.0.0.1", host)
    assert "is not called" in await failure(downloads.fetch(f"{url}/app.tar.gz", rules=rules), EgressRefused)
    assert server.seen == []


@pytest.mark.req("R-601")
@pytest.mark.parametrize(
    "url",
    ["http://example.com/x", "ftp://example.com/x", "file:///etc/passwd", "/etc/passwd", "https://", "https://[", ""],
)
async def test_only_https_urls_are_called(downloads: Downloads, url: str) -> None:
    assert "is not called" in await failure(downloads.fetch(url, rules=PUBLIC), EgressRefused)


@pytest.mark.req("R-601")
async def test_hosts_and_ports_can_be_limited(downloads: Downloads) -> None:
    rules = EgressRules(hosts=("*.example.com",), ports=(443,))
    assert "host" in await failure(downloads.fetch("https://example.org/x", rules=rules), EgressRefused)
    assert "port" in await failure(downloads.fetch("https://a.example.com:8443/x", rules=rules), EgressRefused)


@pytest.mark.req("R-601")
async def test_redirects_are_checked_again_and_counted(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    for n in range(4):
        server.publish(f"r{n}", b"", behaviour=Redirect(to=f"/r{n - 1}" if n else "/app.tar.gz"))
    assert dict(await downloads.fetch(f"{server.url}/r2", artifact.digest, rules=HERE)) == TREE
    assert "more than 3 times" in await failure(downloads.fetch(f"{server.url}/r3", rules=HERE), Unavailable)
    server.publish("metadata", b"", behaviour=Redirect(to="http://169.254.169.254/latest/meta-data"))
    server.publish("file", b"", behaviour=Redirect(to="file:///etc/passwd"))
    for path in ("metadata", "file"):
        assert "is not called" in await failure(downloads.fetch(f"{server.url}/{path}", rules=HERE), EgressRefused)


@pytest.mark.req("R-602")
async def test_a_certificate_that_is_not_trusted_ends_the_call() -> None:
    async with ArtifactServer(tls=True) as server:
        artifact = server.publish("app.tar.gz", TREE)
        async with Downloads() as downloads:
            why = await failure(downloads.fetch(artifact.url, rules=HERE), Unavailable)
            assert "not trusted" in why
        trusting = ssl.create_default_context(cadata=server.authority)
        async with Downloads(tls=trusting) as downloads:
            assert dict(await downloads.fetch(artifact.url, artifact.digest, rules=HERE)) == TREE


# ---- credentials


@pytest.mark.req("R-603")
async def test_credentials_go_to_their_origin_and_nowhere_else(downloads: Downloads) -> None:
    async with ArtifactServer() as home, ArtifactServer() as abroad:
        artifact = abroad.publish("app.tar.gz", TREE)
        home.publish("away", b"", behaviour=Redirect(to=artifact.url))
        home.publish("inside", b"", behaviour=Redirect(to="/away"))
        credentials = OriginCredentials.basic(home.url, "user", "hunter2")
        await downloads.fetch(f"{home.url}/inside", rules=HERE, credentials=credentials)
        assert ["authorization" in seen.headers for seen in home.seen] == [True, True]
        assert ["authorization" in seen.headers for seen in abroad.seen] == [False]
        await downloads.fetch(artifact.url, rules=HERE, credentials=credentials)
        assert "authorization" not in abroad.seen[-1].headers


@pytest.mark.req("R-603")
async def test_an_authority_is_trusted_for_its_origin_and_nowhere_else(downloads: Downloads) -> None:
    async with ArtifactServer(tls=True) as home, ArtifactServer(tls=True) as abroad:
        artifact = abroad.publish("app.tar.gz", TREE)
        here = home.publish("app.tar.gz", TREE)
        home.publish("away", b"", behaviour=Redirect(to=artifact.url))
        both = f"{home.authority}{abroad.authority}".encode()
        trusting = replace(OriginCredentials.anonymous(home.url), tls=TlsMaterial(authority=both))
        assert await downloads.fetch(here.url, here.digest, rules=HERE, credentials=trusting)
        assert "certificate" in await failure(downloads.fetch(here.url, here.digest, rules=HERE), Unavailable)
        away = downloads.fetch(f"{home.url}/away", rules=HERE, credentials=trusting)
        assert "certificate" in await failure(away, Unavailable)


@pytest.mark.req("R-603")
async def test_a_client_certificate_is_shown_where_it_belongs(downloads: Downloads, tmp_path: Path) -> None:
    authority = certs.load_or_create_authority(tmp_path)
    caller = authority.client("anna")
    known = TlsMaterial(authority.pem, caller.certificate, caller.key)
    async with guarded_by(authority, tmp_path) as (url, callers):
        shown = replace(OriginCredentials.anonymous(url), tls=known)
        assert await downloads.fetch(f"{url}/app.yaml", rules=HERE, credentials=shown)
        assert callers == ["anna"]
        for other in (replace(shown, origin="https://elsewhere:443"), replace(shown, tls=TlsMaterial(authority.pem))):
            await failure(downloads.fetch(f"{url}/app.yaml", rules=HERE, credentials=other), Unavailable)
        assert callers == ["anna"]


@asynccontextmanager
async def guarded_by(authority: certs.Authority, folder: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that lets in only whom the authority knows, and writes down who came."""
    callers: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        callers.append(dict(pair for part in subject for pair in part)["commonName"])
        return web.Response(text="kind: A\n")

    identity = authority.server(["127.0.0.1"])
    write_private(folder / "server.pem", identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    context.load_cert_chain(folder / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}", callers
    finally:
        await runner.cleanup()


@pytest.mark.req("R-603")
@pytest.mark.req("R-801")
async def test_a_login_in_a_url_is_used_and_not_shown(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    url = artifact.url.replace("http://", "http://user:hunter2@")
    await downloads.fetch(url, artifact.digest, rules=HERE)
    assert server.seen[0].headers["authorization"].startswith("Basic ")
    why = await failure(downloads.fetch(f"{url}-missing?token=hunter2", rules=HERE), Unavailable)
    assert "hunter2" not in why
    assert "hunter2" not in await failure(downloads.fetch(url, rules=PUBLIC), EgressRefused)
    assert "hunter2" not in repr(OriginCredentials.basic(url, "user", "hunter2"))


# ---- what a plain server says of an artifact


async def test_etag_is_digest_and_revision_where_nothing_else_is_asked_for(
    server: ArtifactServer, downloads: Downloads
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    found = await downloads.head(artifact.url, rules=HERE)
    assert (found.url, found.digest, found.revision) == (artifact.url, artifact.etag, artifact.etag)
    named = await downloads.head(artifact.url, rules=HERE, digest_header="X-Digest", revision_header="x-revision")
    assert (named.digest, named.revision) == (artifact.digest, artifact.revision)
    assert server.count("app.tar.gz", "GET") == 0


async def test_redirects_are_followed_until_an_answer_carries_the_digest(
    server: ArtifactServer, downloads: Downloads
) -> None:
    artifact = server.publish("v1.tar.gz", TREE)
    server.publish("latest", b"", behaviour=Redirect(to="/v1.tar.gz"))
    found = await downloads.head(f"{server.url}/latest", rules=HERE)
    assert (found.url, found.digest) == (artifact.url, artifact.etag)


async def test_a_redirect_with_the_digest_leads_to_the_artifact(server: ArtifactServer, downloads: Downloads) -> None:
    latest = server.publish("latest", b"", behaviour=Redirect(to="/v2.tar.gz?signed=1", carries_headers=True))
    found = await downloads.head(f"{server.url}/latest", rules=HERE, revision_header="x-revision")
    assert (found.url, found.digest) == (f"{server.url}/v2.tar.gz?signed=1", latest.etag)
    assert server.count("v2.tar.gz", "HEAD") == 0


@pytest.mark.req("R-601")
async def test_an_artifact_that_must_not_be_called_is_not_offered(server: ArtifactServer, downloads: Downloads) -> None:
    artifact = server.publish("latest", b"", behaviour=Redirect(to="http://127.0.0.1:1/a", carries_headers=True))
    port = URL(artifact.url).port
    assert port is not None
    rules = replace(HERE, ports=(port,))
    assert "its port" in await failure(downloads.head(artifact.url, rules=rules), EgressRefused)


async def test_the_header_of_a_redirect_is_not_looked_for_at_the_artifact_that_has_its_own(
    server: ArtifactServer, downloads: Downloads
) -> None:
    latest = server.publish("latest", b"", behaviour=Redirect(to="/v2.tar.gz", carries_headers=True))
    v2 = server.publish("v2.tar.gz", TREE)
    found = await downloads.head(f"{server.url}/latest", rules=HERE)
    assert found.digest == latest.etag != v2.etag
    assert await downloads.fetch(found.url, found.digest, rules=HERE, digest_header="etag")
    other = downloads.fetch(found.url, '"older"', rules=HERE, digest_header="etag")
    assert "has changed" in await failure(other, WrongDigest)


@pytest.mark.parametrize(
    ("path", "header", "kind", "why"),
    [
        ("missing", "etag", Unavailable, "404"),
        ("well", "x-none", IncompleteAnswer, "without the header x-none"),
        ("norevision", "etag", IncompleteAnswer, "without the header x-revision"),
        ("endless", "etag", Unavailable, "more than 3 times"),
        ("hanging", "etag", Unavailable, "longer than"),
        ("nowhere", "etag", IncompleteAnswer, "without saying where"),
        ("long", "etag", IncompleteAnswer, "too long"),
    ],
)
async def test_what_a_server_does_not_say_is_an_error(
    server: ArtifactServer, path: str, header: str, kind: type[RenderError], why: str
) -> None:
    server.publish("well", TREE)
    server.publish("norevision", TREE, headers={"X-Revision": ""})
    server.publish("endless", b"", behaviour=Redirect(to="/endless"))
    server.publish("hanging", b"", behaviour=HangingDownload())
    server.publish("nowhere", b"", behaviour=Redirect(to=""))
    server.publish("long", b"", headers={"ETag": "e" * 2_000})
    async with Downloads(budget=Budget(total_seconds=0.3 if path == "hanging" else 30)) as downloads:
        head = downloads.head(f"{server.url}/{path}", rules=HERE, digest_header=header, revision_header="x-revision")
        assert why in await failure(head, kind)


async def test_closing_ends_what_is_under_way(server: ArtifactServer) -> None:
    artifact = server.publish("app.tar.gz", TREE, behaviour=HangingDownload())
    downloads = Downloads()
    waiting = asyncio.create_task(downloads.fetch(artifact.url, artifact.digest, rules=HERE))
    await server.asked("app.tar.gz")
    await downloads.close()
    assert "ended" in await failure(waiting, Unavailable)


def test_the_defaults_are_those_of_the_catalogue() -> None:
    budget = Budget()
    assert (budget.connect_seconds, budget.total_seconds, budget.life_seconds) == (5, 60, 3600)
    assert budget.bytes == 100 * 2**20
