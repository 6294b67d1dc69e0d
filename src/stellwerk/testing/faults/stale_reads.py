"""An API server that serves an older view: reads answer as of one resourceVersion, writes go to the present.

It is what a stale API server (kubernetes/kubernetes#59848) or a lagging etcd member does. Nothing is recorded for it:
the server itself keeps old versions until etcd is compacted (five minutes by default) and lists them exactly when asked
(`resourceVersionMatch=Exact`). Where a server would answer that it does not know a newer version yet, so does this.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import cast
from urllib.parse import urlencode

from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply, refusal
from stellwerk.testing.faults.traffic import RecordedRequest


class OlderView:
    """A fault for gets, lists and watches (`READS | WATCHES`): they see nothing newer than `resource_version`.

    Watches begin and stay silent. `heal` makes everything present: silent watches then deliver what they kept back.
    """

    def __init__(self, resource_version: str) -> None:
        self._version = int(resource_version)
        self._healed = asyncio.Event()

    def heal(self) -> None:
        """Let the server catch up."""
        self._healed.set()

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if self._healed.is_set() or not request.resource or request.subresource:
            return await proceed(request)
        if int(request.query.get("resourceVersion") or 0) > self._version:
            return self._too_new(request)
        if request.verb == "watch":
            return await self._silent(request, proceed)
        if request.verb == "list":
            return await self._listed(request, proceed)
        return await self._got(request, proceed)

    def __str__(self) -> str:
        return f"view as of {self._version}"

    def _too_new(self, request: RecordedRequest) -> Reply:
        message = f"Too large resource version: {request.query['resourceVersion']}, current: {self._version}"
        return refusal(504, message=message, retry_after_seconds=1, cause="ResourceVersionTooLarge")

    async def _silent(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if "sendInitialEvents" in request.query:
            # A server without streaming lists refuses, and clients then list (KEP-3157).
            return refusal(422, message="sendInitialEvents is forbidden for watch")
        if request.query.get("resourceVersion", "0") in ("", "0"):
            await self._healed.wait()
            return await proceed(request)
        reply = await proceed(request)
        if not isinstance(reply.body, bytes):
            reply.body = self._kept_back(reply.body)
        return reply

    async def _kept_back(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._healed.wait()
                yield chunk

    async def _listed(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if "continue" in request.query:  # The token names the version of the first page.
            return await proceed(request)
        return await proceed(self._as_of(request, dict(request.query)))

    async def _got(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        path, _, _ = request.path_and_query.partition("?")
        collection, _, _ = path.rpartition("/")
        listing = replace(request, path_and_query=collection, headers=_accepting_a_list(request))
        reply = await proceed(self._as_of(listing, {"fieldSelector": f"metadata.name={request.name}"}))
        if reply.status != 200:
            return reply
        items = cast(list[JsonObject], reply.json().get("items") or [])
        if not items:
            return _missing(request)
        reply.body = json.dumps(_as_single(items[0], reply.json())).encode()
        return reply

    def _as_of(self, request: RecordedRequest, query: dict[str, str]) -> RecordedRequest:
        query |= {"resourceVersion": str(self._version), "resourceVersionMatch": "Exact"}
        path, _, _ = request.path_and_query.partition("?")
        return replace(request, path_and_query=f"{path}?{urlencode(query)}")


def _missing(request: RecordedRequest) -> Reply:
    """No such object. Without the details a client would read: no such kind."""
    reply = refusal(404, message=f'{request.group_resource} "{request.name}" not found')
    reply.body = json.dumps({**reply.json(), "details": {"name": request.name, "kind": request.resource}}).encode()
    return reply


def _accepting_a_list(request: RecordedRequest) -> dict[str, str]:
    headers = {key: value for key, value in request.headers.items() if key.lower() != "accept-encoding"}
    accept = headers.get("Accept", "application/json")
    return {**headers, "Accept": accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")}


def _as_single(item: JsonObject, listing: JsonObject) -> JsonObject:
    """The item of a list as a get answers it: lists of built-in kinds leave out what the list itself has."""
    kind = str(listing.get("kind", "")).removesuffix("List")
    return {"kind": kind, "apiVersion": listing.get("apiVersion"), **item}
