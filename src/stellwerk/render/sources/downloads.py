"""URLs into files, and the headers of a plain HTTP server about an artifact.

    async with Downloads() as downloads:
        await downloads.fetch(url, digest, *, rules, tenant="", credentials=None, digest_header="") -> Files
        await downloads.head(url, *, rules, digest_header="etag", revision_header="", credentials=None) -> HttpArtifact

A URL is fetched once, however many ask for it, and kept unpacked for an hour after it was last asked for, as far as
memory allows. Errors are not kept. A tenant that knows a digest has not shown that it may read the content: what was
fetched is found again under URL, digest, credentials and egress rules together, because addresses are checked when a
socket is connected and never again. Only a digest that the content was compared with is found by other tenants: any
other word (an ETag) is a claim, and a tenant's own server may claim it of another server's URL. Equal content of
several URLs is held once. With a `Shelf`, artifacts survive a restart of the process.

A server that hangs delays only requests for the same: there is no lock around a call, one tenant has only
so many of the slots, each tenant has one that no other can take, and where calls under way hold too much memory it is
the largest that is ended, not the next. A tenant joins the download of another tenant only once it has a slot itself,
so it never waits for a slot of the other. Unpacking is done in a thread, one archive at a time: two large ones at once
would only take twice the memory.

Requests for headers that passes wait for have slots of their own, so that one silent server for each of many passes
delays no download. So have polls, because they repeat for ever and no pass waits for them. A server is polled once for
all tenants that want the same: the first tenant that has a slot calls it, and the others wait for its answer without a
slot.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NamedTuple

from stellwerk.kube.memory_budget import Claim, MemoryBudget
from stellwerk.lazy_imports import lazy_imports
from stellwerk.render.blocking_calls import beside
from stellwerk.render.bounded_cache import LIFE_SECONDS, Kept
from stellwerk.render.errors import BadArchive, IncompleteAnswer, RepeatedLogin, Unavailable, WrongDigest
from stellwerk.render.files.archive import unpack
from stellwerk.render.files.digests import Verifier, is_verifiable
from stellwerk.render.files.files import Files
from stellwerk.render.files.limits import LIMITS, ArchiveLimits
from stellwerk.render.sources import http
from stellwerk.render.sources.artifact_disk_cache import Received, Shelf
from stellwerk.render.sources.egress import EgressRules, shown_url
from stellwerk.render.sources.http import HttpCall, HttpClient, OriginCredentials
from stellwerk.render.sources.single_flight import Flights

with lazy_imports(__name__):
    import aiohttp

_LONGEST_HEADER = 1_024
_MOST_NAMES = 10_000
_MOST_POINTED = 1_000
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What downloads may take."""

    connect_seconds: float = 5.0
    total_seconds: float = 60.0
    bytes: int = 100 * 2**20
    """Of one answer, as it comes."""
    bytes_under_way: int = 160 * 2**20
    """Of all answers that are being received, or wait to be unpacked: one of the largest, and some smaller ones."""
    calls: int = 64
    calls_per_tenant: int = 8
    """As `calls`: of downloads. For polls half of both comes on top."""
    heads: int = 256
    heads_per_tenant: int = 32
    """Requests for headers that passes wait for. More than downloads, because an answer takes no memory."""
    kept_bytes: int = 64 * 2**20
    """Of unpacked files that are kept."""
    life_seconds: float = LIFE_SECONDS


@dataclass(frozen=True, slots=True)
class HttpArtifact:
    """The headers of a server about an artifact. `digest` and `revision` are the headers' values as they are."""

    url: str
    digest: str
    revision: str


class _CacheKey(NamedTuple):
    """Under what content is found again."""

    url: str
    digest: str
    credentials: str
    rules: EgressRules
    tenant: str
    """Empty where the digest was compared with the content: then all tenants find it."""

    @classmethod
    def of(
        cls, url: str, digest: str, rules: EgressRules, tenant: str, credentials: OriginCredentials | None
    ) -> _CacheKey:
        return cls(url, digest, _fingerprint(credentials), rules, "" if is_verifiable(digest) else tenant)

    @property
    def place(self) -> str:
        """The name of the artifact on the shelf, less its digest: the URL, and who may read it.

        Under the default rules it is the URL alone, as before rules were part of it, so that an upgrade finds what is
        there. The rules come first, because no URL begins like them.
        """
        return f"{self.rules.differences} {self.url}".removeprefix(" ")


class _PollKey(NamedTuple):
    """What a poll asks for."""

    url: str
    digest_header: str
    revision_header: str
    credentials: str
    rules: EgressRules


class Downloads:
    """Fetches and keeps files. Open it by `async with`, or call `close`."""

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        limits: ArchiveLimits = LIMITS,
        tls: ssl.SSLContext | None = None,
        shelf: Shelf | None = None,
        user_agent: str = "stellwerk",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tls`: the trusted authorities, by default the system's. `shelf`: the disk cache of artifacts, if any.
        `now`: seconds for the life of what is kept."""
        self._budget = budget = budget or Budget()
        self._limits = limits
        self._shelf = shelf
        self._client = HttpClient(
            tls=tls,
            user_agent=user_agent,
            connect_seconds=budget.connect_seconds,
            silence_seconds=budget.total_seconds,
        )
        self._fetches: Flights[tuple[_CacheKey, str], Files] = Flights(_ended)
        """What each tenant asks for: first a slot of the tenant, then the download."""
        self._polled: Flights[_PollKey, HttpArtifact] = Flights(_ended)
        """Polls that have a slot."""
        self._downloads: Flights[_CacheKey, Files] = Flights(_ended)
        """What is downloaded, for all tenants that have a slot and ask for it."""
        self._kept: Kept[str, Files] = Kept(
            budget.kept_bytes,
            now=now,
            life_seconds=budget.life_seconds,
            largest=budget.kept_bytes,
            tenant_capacity=budget.kept_bytes * 3 // 4,
        )
        self._names: OrderedDict[_CacheKey, str] = OrderedDict()
        self._pointed: OrderedDict[_CacheKey, None] = OrderedDict()
        """Artifacts whose digest came from the headers of a redirect to them."""
        self._calls = _Shares(budget.calls, budget.calls_per_tenant)
        self._heads = _Shares(budget.heads, budget.heads_per_tenant)
        self._polls = _Shares(max(1, budget.calls // 2), max(1, budget.calls_per_tenant // 2))
        self._under_way = MemoryBudget(budget.bytes_under_way)
        self._unpacking = asyncio.Semaphore(1)

    async def __aenter__(self) -> Downloads:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End everything under way and forget everything kept."""
        await self._fetches.close()
        await self._downloads.close()
        await self._polled.close()
        await self._client.close()
        self._kept.clear()
        self._names.clear()
        self._pointed.clear()

    async def fetch(
        self,
        url: str,
        digest: str = "",
        *,
        rules: EgressRules,
        tenant: str = "",
        credentials: OriginCredentials | None = None,
        digest_header: str = "",
    ) -> Files:
        """The files behind a URL. Raises a `SourceError`.

        `digest`: what the content must have (`sha256:<hex>`). With `digest_header` it may also be a word such as an
        ETag, which changes with the content; the header must still carry it, if it is there at all, unless a redirect
        to the artifact carried it (`head`): the artifact's own header is another one. A digest that cannot be checked
        is refused. Without a digest nothing is kept. `tenant`: on whose behalf, for a fair share.
        """
        call = HttpCall.of("GET", url, rules, credentials)
        rules.check_url(call.url)  # before memory and shelf: what must not be called is not served from there either
        name = _CacheKey.of(url, digest, rules, tenant, credentials)
        if (found := self._find(name)) is not None:
            return found
        Verifier(digest, strict=not digest_header)  # refuses what cannot be checked before anything is called
        header = "" if name in self._pointed else digest_header
        return await self._fetches.join(
            (name, tenant), lambda: self._fetch(name, call, tenant, header), name=f"fetch {shown_url(url)}"
        )

    def has(
        self,
        url: str,
        digest: str,
        *,
        rules: EgressRules,
        tenant: str = "",
        credentials: OriginCredentials | None = None,
    ) -> bool:
        """Whether `fetch` would find the files without a call."""
        return self._find(_CacheKey.of(url, digest, rules, tenant, credentials)) is not None

    async def head(
        self,
        url: str,
        *,
        rules: EgressRules,
        digest_header: str = "etag",
        revision_header: str = "",
        tenant: str = "",
        credentials: OriginCredentials | None = None,
        is_poll: bool = False,
    ) -> HttpArtifact:
        """Digest and revision that the headers of a URL carry. Raises a `SourceError`.

        `is_poll`: no pass waits for the answer, so the call takes no slot that a pass may need.

        Redirects are followed until an answer carries the digest. If that is a redirect itself, it leads to the
        artifact: this is how a server points from a moving name to a fixed one. An answer that repeats the login is
        refused: digest, revision and address are shown in statuses, Events and logs.
        """
        call = HttpCall.of("HEAD", url, rules, credentials)

        def work() -> Coroutine[object, object, HttpArtifact]:
            return self._head(call, digest_header, revision_header, tenant)

        shares = self._polls if is_poll else self._heads
        polled = _PollKey(str(call.url), digest_header, revision_header, _fingerprint(credentials), rules)
        name = f"poll {shown_url(call.url)}"
        async with shares.slot(tenant):
            if not is_poll:
                return await work()
            if polled not in self._polled:
                return await self._polled.join(polled, work, name=name)
        return await self._polled.join(polled, work, name=name)  # another tenant's slot is enough

    async def _head(self, call: HttpCall, digest_header: str, revision_header: str, tenant: str) -> HttpArtifact:
        rules, credentials, asked_for = call.rules, call.credentials, str(call.url)
        async with self._in_time(call):
            for _ in range(http.MOST_REDIRECTS + 1):
                async with self._client.hop(call) as response:
                    target = http.target_of(response)
                    if target is not None:
                        rules.check_url(target)  # nothing is offered that could not be fetched
                    if response.status >= 400 or response.status < 200:
                        raise http.refused(response, "HEAD")
                    if found := _header(response, digest_header):
                        revision = _header(response, revision_header or digest_header)
                        if not revision:
                            raise _missing(response, revision_header)
                        artifact = HttpArtifact(str(target or call.url), found, revision)
                        _check_discretion(call, artifact, asked_for)
                        name = _CacheKey.of(artifact.url, artifact.digest, rules, tenant, credentials)
                        self._note_pointed(name, is_pointed=target is not None)
                        return artifact
                    if target is None:
                        raise _missing(response, digest_header)
                call = replace(call, url=target)
        raise http.too_many_redirects(call)

    def _note_pointed(self, name: _CacheKey, *, is_pointed: bool) -> None:
        """Remember whether the headers were those of a redirect to the artifact, for the download that follows."""
        self._pointed.pop(name, None)
        if is_pointed:
            self._pointed[name] = None
            while len(self._pointed) > _MOST_POINTED:
                self._pointed.popitem(last=False)

    # ---- one download

    async def _fetch(self, name: _CacheKey, call: HttpCall, tenant: str, digest_header: str) -> Files:
        async with self._calls.slot(tenant) as slots:
            if (found := self._find(name)) is not None:  # another tenant's download ended during the wait
                return found
            return await self._downloads.join(
                name,
                lambda: self._download(name, call, tenant, slots, digest_header),
                name=f"download {shown_url(call.url)}",
            )

    async def _download(self, name: _CacheKey, call: HttpCall, tenant: str, slots: _Slots, digest_header: str) -> Files:
        shelf = self._shelf if call.credentials is None and is_verifiable(name.digest) else None
        if shelf is not None and (files := await self._from(shelf, name, slots, tenant)) is not None:
            return self._keep(name, files, tenant)
        async with self._in_room(call) as claim:
            async with self._in_time(call):
                got = await self._get(call, name.digest, digest_header, claim)
            files = self._keep(name, await self._unpack(got, slots, claim), tenant)
            if shelf is not None:  # what cannot be unpacked never comes here
                await shelf.put(name.place, name.digest, got, tenant)
        return files

    async def _from(self, shelf: Shelf, name: _CacheKey, slots: _Slots, tenant: str) -> Files | None:
        """The artifact on disk. One archive at a time is in memory, as with all that is unpacked."""
        async with slots.unpacking, self._unpacking:
            got = await shelf.take(name.place, name.digest, tenant)
            return None if got is None else await beside(lambda: _unpacked(got, self._limits), name="unpack")

    async def _get(self, call: HttpCall, digest: str, digest_header: str, claim: Claim) -> Received:
        first = call
        for _ in range(http.MOST_REDIRECTS + 1):
            async with self._client.hop(call) as response:
                _expect_header(response, digest_header, digest)
                target = http.target_of(response)
                if target is None:
                    if response.status != 200:
                        raise http.refused(response, "GET")
                    return await self._body(response, Verifier(digest), claim)
            call = replace(call, url=target)
        raise http.too_many_redirects(first)

    async def _body(self, response: aiohttp.ClientResponse, verifier: Verifier, claim: Claim) -> Received:
        if (response.content_length or 0) > self._budget.bytes:
            raise self._too_large(response)
        with io.BytesIO() as content:  # emptied at once if it fails: the exception keeps this frame
            async for chunk in response.content.iter_chunked(_CHUNK):
                content.write(chunk)
                verifier.update(chunk)
                claim.add(len(chunk))
                if claim.bytes > self._budget.bytes:
                    raise self._too_large(response)
            verifier.finish()
            return Received(content.getvalue(), response.url.name, response.headers.get("Content-Type", ""))

    def _too_large(self, response: aiohttp.ClientResponse) -> BadArchive:
        return BadArchive(f"{shown_url(response.url)} is larger than {self._budget.bytes >> 20} MiB")

    @asynccontextmanager
    async def _in_time(self, call: HttpCall) -> AsyncIterator[None]:
        where = f"{call.method} {shown_url(call.url)}"
        try:
            async with asyncio.timeout(self._budget.total_seconds):
                yield
        except TimeoutError as error:
            raise Unavailable(f"{where}: took longer than {self._budget.total_seconds:g} s") from error

    @asynccontextmanager
    async def _in_room(self, call: HttpCall) -> AsyncIterator[Claim]:
        """The claim of one download, from its first byte until it is unpacked and stored."""
        ending = asyncio.timeout(None)
        with self._under_way.claimed(lambda: ending.reschedule(0.0)) as claim:
            try:
                async with ending:
                    yield claim
            except TimeoutError as error:
                if not claim.gave_way:
                    raise
                where = f"{call.method} {shown_url(call.url)}"
                raise Unavailable(f"{where}: ended to make room, because it was the largest of too many") from error

    async def _unpack(self, got: Received, slots: _Slots, claim: Claim) -> Files:
        """In turn, and each tenant with one archive at a time of the downloads that it began.

        No tenant waits for more than one archive of each other tenant. Only a tenant that joined a download waits for
        the archives of the tenant that began it, too. Those are fewer than its slots.
        """
        async with slots.unpacking, self._unpacking:
            claim.may_give_way = False
            return await beside(lambda: _unpacked(got, self._limits), name="unpack")

    # ---- what is kept

    def _find(self, name: _CacheKey) -> Files | None:
        content = self._names.get(name)
        if content is None:
            return None
        self._names.move_to_end(name)
        found = self._kept.get(content)
        if found is None:
            del self._names[name]
        return found

    def _keep(self, name: _CacheKey, files: Files, tenant: str) -> Files:
        if not name.digest:
            return files
        known = self._kept.get(files.digest)
        if known is None:
            self._kept.put(files.digest, files, files.size, tenant)
        self._names[name] = files.digest
        while len(self._names) > _MOST_NAMES:
            self._names.popitem(last=False)
        return known or files


def _ended() -> Unavailable:
    return Unavailable("downloads have ended with the process")


def _unpacked(got: Received, limits: ArchiveLimits) -> Files:
    files = unpack(got.data, name=got.name, content_type=got.content_type, limits=limits)
    _ = files.digest  # computed here, because of a large artifact it takes a while
    return files


@dataclass(slots=True)
class _Reserved:
    """A place for one call at a time."""

    is_taken: bool = False

    async def __aenter__(self) -> None:
        self.is_taken = True

    async def __aexit__(self, *_: object) -> None:
        self.is_taken = False


@dataclass(slots=True)
class _Slots:
    free: asyncio.Semaphore
    reserved: _Reserved = field(default_factory=_Reserved)
    unpacking: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class _Shares:
    """Slots for calls: so many for each tenant, and so many for all."""

    def __init__(self, calls: int, calls_per_tenant: int) -> None:
        self._calls_per_tenant = calls_per_tenant
        self._slots = asyncio.Semaphore(calls)
        self._tenants: dict[str, _Slots] = {}

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[_Slots]:
        """The right to one call: first among one's own, then among all."""
        own = self._tenants.setdefault(tenant, _Slots(asyncio.Semaphore(self._calls_per_tenant)))
        own.users += 1
        try:
            async with own.free, self._reserved(own) or self._slots:
                yield own
        finally:
            own.users -= 1
            if not own.users:
                self._tenants.pop(tenant, None)

    def _reserved(self, own: _Slots) -> _Reserved | None:
        """The one call of a tenant that needs no slot of all, because others may keep those for a minute each."""
        return None if own.reserved.is_taken else own.reserved


def _header(response: aiohttp.ClientResponse, name: str) -> str:
    value = response.headers.get(name, "")
    if len(value) > _LONGEST_HEADER or not value.isprintable():
        raise IncompleteAnswer(
            f"{shown_url(response.url)}: the header {name} is too long or not printable", header=name
        )
    return value


def _check_discretion(call: HttpCall, artifact: HttpArtifact, asked_for: str) -> None:
    """Raises `RepeatedLogin` where a server's headers repeat what it was sent."""
    answers = {
        "digest": artifact.digest,
        "revision": artifact.revision,
        "address": "" if artifact.url == asked_for else artifact.url,
    }
    if call.credentials is None:
        return
    for what, text in answers.items():
        if call.credentials.is_repeated_in(text):
            raise RepeatedLogin(
                f"HEAD {shown_url(asked_for)}: the answer repeats the login as the {what} of the artifact"
            )


def _missing(response: aiohttp.ClientResponse, name: str) -> IncompleteAnswer:
    return IncompleteAnswer(f"{shown_url(response.url)} was answered without the header {name}", header=name)


def _expect_header(response: aiohttp.ClientResponse, name: str, expected: str) -> None:
    if name and (found := _header(response, name)) and found != expected:
        raise WrongDigest(f"{shown_url(response.url)} has changed: its header {name} is {found}, not {expected}")


def _fingerprint(credentials: OriginCredentials | None) -> str:
    if credentials is None:
        return ""
    tls = credentials.tls
    parts = (
        credentials.origin.encode(),
        credentials.header.encode(),
        *((tls.authority, tls.certificate, tls.key) if tls is not None else ()),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
