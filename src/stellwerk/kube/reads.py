"""The reading half of a client: objects, lists, and one watch request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import urlencode

from stellwerk.kube import errors
from stellwerk.kube.calls import ACCEPT_METADATA, Calls, T, Target, decoded, not_served, query_of, unreadable, view_of
from stellwerk.kube.errors import Gone, NotFound, Undecodable
from stellwerk.kube.model import UNREADABLE, HasMetadata, Listing, View
from stellwerk.kube.transport import Headers, Request

VersionMatch: TypeAlias = Literal["NotOlderThan", "Exact"]

PAGE = 500
MAX_LINE_BYTES = 64 << 20
_ACCEPT_LIST: Headers = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch says, before it is put to use: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: HasMetadata | errors.Status


class Choice(TypedDict, total=False):
    """Which objects a list has, and as of when. `limit` is how many there are on a page (0: all)."""

    labels: str
    fields: str
    limit: int
    resource_version: str | None
    resource_version_match: VersionMatch | None


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
        return decoded(view, await self._send(view, request), request)

    async def find(self, target: Target[T], name: str, namespace: str = "") -> T | None:
        """One object, or None where there is none."""
        try:
            return await self.get(target, name, namespace)
        except NotFound:
            return None

    async def list(self, target: Target[T], namespace: str = "", **chosen: Unpack[Choice]) -> Listing[T]:
        """All objects, all pages joined, as of one moment; begun anew once when that moment became too old.

        Without a resourceVersion the list is the most recent one; "0" takes whatever the server has at hand.
        """
        for last in (False, True):
            try:
                return await _joined(self.pages(target, namespace, **chosen))
            except Gone:
                if last:
                    raise
        raise AssertionError("the loop above returns")

    async def pages(
        self, target: Target[T], namespace: str = "", **chosen: Unpack[Choice]
    ) -> AsyncGenerator[Listing[T], None]:
        """The list page by page. Raises Gone when the server forgot the moment it began at."""
        view = view_of(target)
        scope = {
            "labelSelector": chosen.get("labels", ""),
            "fieldSelector": chosen.get("fields", ""),
            "limit": str(chosen.get("limit", PAGE) or ""),
        }
        moment = {
            "resourceVersion": chosen.get("resource_version") or "",
            "resourceVersionMatch": chosen.get("resource_version_match") or "",
        }
        query = query_of(**scope, **moment)
        while True:
            page = await self._page(view, namespace, query)
            yield page
            if not page.continue_token:
                return
            # The token holds the moment; naming it again is refused.
            query = query_of(**scope, **{"continue": page.continue_token})

    async def _page(self, view: View[T], namespace: str, query: str) -> Listing[T]:
        accept = _ACCEPT_LIST if view.metadata_only else ()
        request = self._request(view, "GET", "list", namespace, query=query, headers=accept)
        data = await self._send(view, request)
        try:
            return view.decode_list(data)
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
                async for line in _lines(chunks):
                    yield _event(view, line, request)
        except NotFound as error:
            raise not_served(view, error) from error


async def _joined(pages: AsyncIterator[Listing[T]]) -> Listing[T]:
    items: list[T] = []
    version = ""
    async for page in pages:
        items += page.items
        version = page.resource_version
    return Listing(items, version)


def _event(view: View[T], line: bytes, request: Request) -> WatchEvent:
    try:
        return WatchEvent(*view.decode_event(line))
    except UNREADABLE as error:
        raise Undecodable(unreadable(request, "an event", error)) from error


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Chunks cut at newlines. One object may span many chunks; each byte is looked at once.

    Raises Undecodable where a line is longer than any object can be.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            whole = b"".join([*pending, line]) if pending else line
            pending, size = [], 0
            if whole:
                yield whole
        if rest:
            pending.append(rest)
            size += len(rest)
        if size > MAX_LINE_BYTES:
            raise Undecodable(f"the watch sent a line of more than {MAX_LINE_BYTES >> 20} MiB")
    # What is left was cut in the middle of a frame: it is not an event, and the watch is resumed before it.
