"""The reading half of a client: objects, lists, and one watch request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, TypedDict, Unpack, cast
from urllib.parse import urlencode

import msgspec

from stellwerk.kube import threads
from stellwerk.kube.client.request_builder import (
    ACCEPT_METADATA,
    Calls,
    T,
    Target,
    decoded,
    query_of,
    unreadable,
    view_of,
)
from stellwerk.kube.http.transport import Headers, Request
from stellwerk.kube.memory_budget import Claim, forget_variables
from stellwerk.kube.types import errors, sizes
from stellwerk.kube.types.errors import AnswerTooLarge, Gone, NotFound, Undecodable, Unexplained, UnreadableObject
from stellwerk.kube.types.model import UNREADABLE, HasMetadata, Listing, Unreadable, View

VersionMatch: TypeAlias = Literal["NotOlderThan", "Exact"]

PAGE = 500
MAX_LINE_BYTES = 16 << 20
_PAGE_BYTES = 2 << 20
"""The size that pages should have: where objects are large, fewer of them are asked for at a time."""
_LARGEST_PAGE_BYTES = 2 * _PAGE_BYTES
"""A larger page of several objects is given up and asked for with fewer. Each cache holds a page while it is filled."""
_SLICE_BYTES = 512 << 10
"""How much of a page is decoded before other tasks of the event loop have their turn."""
_ITEM_BYTES = 1 << 10
"""What an object takes in memory beyond its text."""
_MOST_ITEMS = 1_000_000
_MOST_PAGES = 10_000
_ACCEPT_LIST: Headers = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch, not decoded yet: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: HasMetadata | errors.Status


class Admission(Protocol):
    """Decides, page by page, which objects of a list are kept: a list may be larger than the memory."""

    def begin(self) -> None:
        """A list begins. What was decided about one that came to no end is void."""
        ...

    def admit(self, obj: HasMetadata) -> HasMetadata:
        """What is kept of an object: itself, an equal one, or what is `Unreadable`."""
        ...


class ListSelection(TypedDict, total=False):
    """Which objects a list has, and as of when. `limit` is how many there are on a page (0: all).

    `skip_unreadable`: objects that cannot be decoded are in `Listing.unreadable`. Without it they fail the list,
    because a caller that does not look there would take them for absent. `largest_bytes`: of memory that the list may
    take, where that is less than is read from this server. `admission` decides what is kept of each object.
    """

    labels: str
    fields: str
    limit: int
    resource_version: str | None
    resource_version_match: VersionMatch | None
    skip_unreadable: bool
    largest_bytes: int
    admission: Admission


class Reads(Calls):
    """What can be asked of an API server."""

    async def get(
        self,
        target: Target[T],
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str | None = None,
    ) -> T:
        """One object, or one side of it (`scale`), which may be of another kind. Raises NotFound."""
        view = view_of(target)
        query = urlencode({"resourceVersion": resource_version}) if resource_version is not None else ""
        accept = ACCEPT_METADATA if view.metadata_only else ()
        request = self._request(view, "GET", "get", namespace, name, subresource, query=query, headers=accept)
        return await decoded(view, await self._send(view, request, name=name), request)

    async def find(self, target: Target[T], name: str, namespace: str = "") -> T | None:
        """One object, or None where there is none."""
        try:
            return await self.get(target, name, namespace)
        except NotFound:
            return None

    async def list(self, target: Target[T], namespace: str = "", **chosen: Unpack[ListSelection]) -> Listing[T]:
        """All objects, all pages joined, as of one moment; listed again in one answer when that moment became too old.

        In pages it would become so again: a list of many pages over a slow line takes longer than etcd keeps a moment.
        Without a resourceVersion the list is the most recent one; "0" takes whatever the server has at hand.
        """
        budget = self._transport.budget
        if budget is None:
            return await self._list(target, namespace, chosen, None)
        in_budget = asyncio.timeout(None)
        with budget.claimed(lambda: in_budget.reschedule(0.0)) as claim:
            try:
                async with in_budget:
                    return await self._list(target, namespace, chosen, claim)
            except TimeoutError as error:
                forget_variables(error)
                if not claim.gave_way:
                    raise
                about = f"list {view_of(target).resource.group_resource}"
                why = f"all answers of such servers take more than {budget.most_bytes >> 20} MiB of memory at once"
                raise AnswerTooLarge(f"cannot {about}: {why}, and this list is the largest") from error

    async def _list(self, target: Target[T], namespace: str, chosen: ListSelection, claim: Claim | None) -> Listing[T]:
        try:
            return await _joined(self._pages(target, namespace, chosen, claim=claim))
        except Gone:
            return await _joined(self._pages(target, namespace, {**chosen, "limit": 0}, whole=True, claim=claim))

    def pages(
        self, target: Target[T], namespace: str = "", **chosen: Unpack[ListSelection]
    ) -> AsyncGenerator[Listing[T], None]:
        """The list page by page, with fewer objects on a page where they are large.

        Raises Gone when the server forgot the moment it began at, and AnswerTooLarge where one object, or the list of
        them all, is larger than is read from this server.
        """
        return self._pages(target, namespace, chosen)

    async def _pages(
        self,
        target: Target[T],
        namespace: str,
        chosen: ListSelection,
        *,
        whole: bool = False,
        claim: Claim | None = None,
    ) -> AsyncGenerator[Listing[T], None]:
        """`whole`: nothing but one page with all objects is of use. `claim`: of all pages in memory."""
        view = view_of(target)
        scope = {
            "labelSelector": chosen.get("labels", ""),
            "fieldSelector": chosen.get("fields", ""),
        }
        moment = {
            "resourceVersion": chosen.get("resource_version") or "",
            "resourceVersionMatch": chosen.get("resource_version_match") or "",
        }
        place: Mapping[str, str] = moment
        size = _PageSize(chosen.get("limit", PAGE), self._transport.largest_answer_bytes)
        admission = chosen.get("admission")
        if admission is not None:
            admission.begin()
        total = _Total(_smaller(self._transport.largest_list_bytes, chosen.get("largest_bytes")), claim)
        while True:
            request = self._list_request(view, namespace, {**scope, **place, "limit": size.parameter})
            if size.limit > 1:
                request = replace(request, largest_answer_bytes=_LARGEST_PAGE_BYTES)
            try:
                data = await self._send(view, request)
            except AnswerTooLarge as error:
                if whole:
                    why = "in pages, the API server forgets the list before the last one is read"
                    raise AnswerTooLarge(f"{error}; {why}") from error
                if not size.shrink():
                    raise
                continue
            total.add_page(data, request.about)
            page = await self._decoded_page(view, data, request, size.limit)
            if page.unreadable and not chosen.get("skip_unreadable", False):
                raise UnreadableObject(request.about, str(page.unreadable[0]))
            total.add_items(len(page.items) + len(page.unreadable), request.about)
            size.note(len(data))
            del data
            yield page if admission is None else _admitted(page, admission)
            if not page.continue_token:
                return
            # The token holds the moment; naming it again is refused.
            place = {"continue": page.continue_token}

    def _list_request(self, view: View[T], namespace: str, parameters: Mapping[str, str]) -> Request:
        accept = _ACCEPT_LIST if view.metadata_only else ()
        return self._request(view, "GET", "list", namespace, query=query_of(**parameters), headers=accept)

    async def _decoded_page(self, view: View[T], data: bytes, request: Request, limit: int) -> Listing[T]:
        with contextlib.suppress(*UNREADABLE):
            page = view.undecoded_list(data)
            items = page.items or []
            if limit and len(items) > 2 * limit:
                raise AnswerTooLarge(
                    f"cannot {request.about}: it has more objects on a page than the {limit} asked for"
                )
            return page.listing(await _decoded_items(view, items))
        try:
            return await threads.run(lambda: view.decode_each(data))
        except UNREADABLE as error:
            raise Undecodable(unreadable(request, f"a list of {view.resource}", error)) from error

    async def watch(
        self,
        target: Target[T],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: int = 300,
        silence_seconds: float = 70.0,
        bookmarks: bool = True,
    ) -> AsyncGenerator[WatchEvent, None]:
        """One watch request, from a resourceVersion on. Ends when the server ends it.

        Raises Gone, NotFound and other refusals; Unreachable when cut, or silent for `silence_seconds`: a server that
        sends bookmarks speaks at least once a minute. See `watch.Watcher` for a watch that goes on for ever.
        """
        view = view_of(target)
        query = query_of(
            watch="1",
            allowWatchBookmarks="true" if bookmarks else "",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
            labelSelector=labels,
            fieldSelector=fields,
        )
        accept = ACCEPT_METADATA if view.metadata_only else ()
        request = self._request(view, "GET", "watch", namespace, query=query, headers=accept)
        try:
            async with self._transport.stream(request, silence_seconds=silence_seconds) as chunks:
                budget = self._transport.budget
                with contextlib.nullcontext() if budget is None else budget.claimed(chunks.give_up) as claim:
                    async with aclosing(_lines(chunks, claim)) as lines:
                        async for line in lines:
                            yield await _event(view, line, request)
        except (NotFound, Unexplained) as error:
            forget_variables(error)
            await self._refuse(view, error)
        except Exception as error:
            forget_variables(error)  # the one who waits for another try remembers it
            raise


def _admitted(page: Listing[T], admission: Admission) -> Listing[T]:
    kept = [admission.admit(item) for item in page.items]
    refused = tuple(item for item in kept if isinstance(item, Unreadable))
    items = [cast(T, item) for item in kept if not isinstance(item, Unreadable)]
    return Listing(items, page.resource_version, page.continue_token, (*page.unreadable, *refused))


async def _decoded_items(view: View[T], undecoded: Sequence[msgspec.Raw]) -> list[T]:
    """The items, decoded in slices between which other tasks have their turn. Raises one of `UNREADABLE`."""
    items: list[T] = []
    since = 0
    for item in undecoded:
        items.append(view.decode_item(item))
        since += memoryview(item).nbytes
        if since >= _SLICE_BYTES:
            since = 0
            await asyncio.sleep(0)
    return items


class _PageSize:
    """How many objects the next page is asked for: fewer where they are large, so that no page is."""

    def __init__(self, wanted: int, largest_answer_bytes: int) -> None:
        """`wanted`: 0 for all of them."""
        self._wanted = self.limit = wanted
        self._bytes = min(_PAGE_BYTES, largest_answer_bytes // 2)

    @property
    def parameter(self) -> str:
        """As the query has it."""
        return str(self.limit or "")

    def shrink(self) -> bool:
        """Ask for fewer, because a page was too large. False where one object is."""
        if self.limit == 1:
            return False
        self.limit = max(1, (self.limit or PAGE) // 8)
        return True

    def note(self, size: int) -> None:
        """Ask for as many as make a page of the size that it should have, after the last one had this size.

        At most twice as many as before: the objects that follow may be larger.
        """
        if self.limit:
            fitting = self.limit * self._bytes // max(size, 1)
            self.limit = max(1, min(self._wanted or PAGE, 2 * self.limit, fitting))


def _smaller(limit: int | None, other: int | None) -> int | None:
    """The smaller of two limits, each of which may be absent."""
    return min((one for one in (limit, other) if one is not None), default=None)


class _Total:
    """What the pages of one list come to. A hostile server has always another one."""

    def __init__(self, limit: int | None, claim: Claim | None) -> None:
        """`limit`: how many bytes of memory the list may take; None: any. `claim`: of the same bytes."""
        self._limit, self._claim = limit, claim
        self._weight = self._items = self._pages = 0

    def add_page(self, data: bytes, about: str) -> None:
        """Count a page before it is decoded. Raises AnswerTooLarge."""
        self._pages += 1
        if self._pages > _MOST_PAGES:
            raise AnswerTooLarge(f"cannot {about}: the list has more than {_MOST_PAGES} pages")
        if self._limit is not None:
            self._add_weight(sizes.weight(data), self._limit, about)

    def add_items(self, count: int, about: str) -> None:
        """Count the objects of a page. Raises AnswerTooLarge."""
        self._items += count
        if self._items > _MOST_ITEMS:
            raise AnswerTooLarge(f"cannot {about}: the list has more than {_MOST_ITEMS} objects")
        if self._limit is not None:
            self._add_weight(count * _ITEM_BYTES, self._limit, about)

    def _add_weight(self, weight: int, limit: int, about: str) -> None:
        if self._claim is not None:
            self._claim.add(weight)
        self._weight += weight
        if self._weight > limit:
            raise AnswerTooLarge(f"cannot {about}: the list takes more than {limit >> 20} MiB of memory")


async def _joined(pages: AsyncIterator[Listing[T]]) -> Listing[T]:
    items: list[T] = []
    unreadable: list[Unreadable] = []
    version = ""
    async for page in pages:
        items += page.items
        unreadable += page.unreadable
        version = page.resource_version
    return Listing(items, version, unreadable=tuple(unreadable))


async def _event(view: View[T], line: bytes, request: Request) -> WatchEvent:
    with contextlib.suppress(*UNREADABLE):
        return WatchEvent(*view.decode_event(line))
    try:
        return WatchEvent(*await threads.run(lambda: view.decode_odd_event(line)))
    except UNREADABLE as error:
        raise Undecodable(unreadable(request, "an event", error)) from error


async def _lines(chunks: AsyncIterator[bytes], claim: Claim | None = None) -> AsyncGenerator[bytes, None]:
    """Chunks cut at newlines. One object may span many chunks; each byte is looked at once. `claim`: of what waits for
    its end.

    Raises AnswerTooLarge where a line is longer than any object can be.
    """
    pending = bytearray()  # not a list: chunks of a byte or two would cost fifty times their size there
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            whole = bytes(pending + line) if pending else line
            pending.clear()
            if whole:
                yield whole
        pending += rest
        if claim is not None:
            claim.hold(len(pending))
        if len(pending) > MAX_LINE_BYTES:
            raise AnswerTooLarge(f"the watch sent a line of more than {MAX_LINE_BYTES >> 20} MiB")
    # What is left was cut in the middle of a frame: it is not an event, and the watch is resumed before it.
