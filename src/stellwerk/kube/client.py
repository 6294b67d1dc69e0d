"""Typed calls to one API server.

A call names what it wants as a `Target`: a class we know (`Deployment`) or a `View` (free-form, or metadata only). The
result has that shape. Errors are those of `errors.py`. A write passes `before_write` first: there a leader without a
lease is stopped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Literal, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from stellwerk import __version__
from stellwerk.kube import errors
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.discovery import ResourceMapper
from stellwerk.kube.errors import Gone, NotFound, NotServed, Undecodable
from stellwerk.kube.model import (
    METADATA_ONLY,
    UNREADABLE,
    HasMetadata,
    JsonObject,
    Kind,
    Listing,
    View,
    decode_json,
    dig,
    encode_json,
    to_json_object,
)
from stellwerk.kube.names import ObjectKey
from stellwerk.kube.patch import Patch
from stellwerk.kube.transport import LARGEST_ANSWER_BYTES, Headers, Request, RequestFacts, Transport

T = TypeVar("T", bound=HasMetadata)
Target: TypeAlias = "type[T] | View[T]"
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]
VersionMatch: TypeAlias = Literal["NotOlderThan", "Exact"]

USER_AGENT = f"stellwerk/{__version__}"
PAGE = 500
MAX_LINE_BYTES = 64 << 20
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_CONTENT_TYPE = "Content-Type"
_JSON_BODY: Headers = ((_CONTENT_TYPE, _JSON),)
_ACCEPT_METADATA: Headers = (("Accept", METADATA_ONLY),)
_ACCEPT_METADATA_LIST: Headers = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch says, before it is put to use: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: HasMetadata | errors.Status


class Deletion(Enum):
    """What came of asking for an object's end. False is: there was none."""

    ABSENT = "absent"
    TERMINATING = "terminating"
    """The object is still there: finalizers, dependants or a grace period hold it."""
    GONE = "gone"

    def __bool__(self) -> bool:
        return self is not Deletion.ABSENT


def view_of(target: Target[T]) -> View[T]:
    """The view behind a target: itself, or the typed view of a class."""
    if isinstance(target, View):
        return target
    cached = _views.get(target)
    if cached is None:
        kind = cast("type[Kind]", target)
        cached = _views[target] = View(kind.resource, kind)
    return cast("View[T]", cached)


_views: dict[type, View[Kind]] = {}


class Client:
    """One API server, one identity. Use as an async context manager, or `close()` it."""

    def __init__(
        self, transport: Transport, *, field_manager: str, before_write: Callable[[], None] | None = None
    ) -> None:
        self._transport = transport
        self._field_manager = field_manager
        self._before_write = before_write
        self._acting: Headers = ()
        self.mapper = ResourceMapper(self.raw)

    @classmethod
    def connect(
        cls,
        config: ClusterConfig,
        *,
        field_manager: str = "stellwerk",
        user_agent: str = USER_AGENT,
        on_request: Callable[[RequestFacts], None] | None = None,
        before_write: Callable[[], None] | None = None,
        largest_answer_bytes: int = LARGEST_ANSWER_BYTES,
    ) -> Client:
        """A client for this cluster. Nothing is sent yet.

        `field_manager`: who owns what we apply. `before_write` is called before every write that is not a dry run and
        may raise to prevent it.
        """
        transport = Transport(
            config, user_agent=user_agent, on_request=on_request, largest_answer_bytes=largest_answer_bytes
        )
        client = cls(transport, field_manager=field_manager, before_write=before_write)
        return client.acting_as(*config.impersonate) if config.impersonate else client

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, those of derived clients too."""
        await self._transport.close()

    @property
    def config(self) -> ClusterConfig:
        """Where the API server is."""
        return self._transport.config

    @property
    def field_manager(self) -> str:
        """Who owns what we apply."""
        return self._field_manager

    def acting_as(self, user: str, groups: Sequence[str] = ()) -> Client:
        """The same connections under another identity (impersonation; the API server checks the right to do so)."""
        other = self._derived()
        other._acting = (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))
        return other

    def with_field_manager(self, name: str) -> Client:
        """The same connections and identity under another field manager."""
        other = self._derived()
        other._field_manager = name
        return other

    def _derived(self) -> Client:
        other = Client(self._transport, field_manager=self._field_manager, before_write=self._before_write)
        other._acting, other.mapper = self._acting, self.mapper
        return other

    # Reading

    async def get(self, target: Target[T], name: str, namespace: str = "", *, resource_version: str | None = None) -> T:
        """One object. Raises NotFound."""
        view = view_of(target)
        query = urlencode({"resourceVersion": resource_version}) if resource_version is not None else ""
        accept = _ACCEPT_METADATA if view.metadata_only else ()
        request = self._request(view, "GET", "get", namespace, name, query=query, headers=accept)
        return _decoded(view, await self._send(view, request), request)

    async def find(self, target: Target[T], name: str, namespace: str = "") -> T | None:
        """One object, or None where there is none."""
        try:
            return await self.get(target, name, namespace)
        except NotFound:
            return None

    async def list(
        self,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        resource_version: str | None = None,
        resource_version_match: VersionMatch | None = None,
    ) -> Listing[T]:
        """All objects, all pages joined, as of one moment; begun anew once when that moment became too old.

        Without a resourceVersion the list is the most recent one; "0" takes whatever the server has at hand.
        """
        for last in (False, True):
            pages = self.pages(
                target,
                namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                resource_version=resource_version,
                resource_version_match=resource_version_match,
            )
            try:
                return await _joined(pages)
            except Gone:
                if last:
                    raise
        raise AssertionError("the loop above returns")

    async def pages(
        self,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        resource_version: str | None = None,
        resource_version_match: VersionMatch | None = None,
    ) -> AsyncGenerator[Listing[T], None]:
        """The list page by page, `limit` objects each. Raises Gone when the server forgot the moment it began at."""
        view = view_of(target)
        scope = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit or "")}
        moment = {"resourceVersion": resource_version or "", "resourceVersionMatch": resource_version_match or ""}
        query = _query(**scope, **moment)
        while True:
            page = await self._page(view, namespace, query)
            yield page
            if not page.continue_token:
                return
            # The token holds the moment; naming it again is refused.
            query = _query(**scope, **{"continue": page.continue_token})

    async def _page(self, view: View[T], namespace: str, query: str) -> Listing[T]:
        accept = _ACCEPT_METADATA_LIST if view.metadata_only else ()
        request = self._request(view, "GET", "list", namespace, query=query, headers=accept)
        data = await self._send(view, request)
        try:
            return view.decode_list(data)
        except UNREADABLE as error:
            raise Undecodable(_unreadable(request, f"a list of {view.resource}", error)) from error

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
        query = _query(
            watch="1",
            allowWatchBookmarks="true" if bookmarks else "",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
            labelSelector=labels,
            fieldSelector=fields,
        )
        accept = _ACCEPT_METADATA if view.metadata_only else ()
        request = self._request(view, "GET", "watch", namespace, query=query, headers=accept)
        try:
            async with self._transport.stream(request, silence_seconds=silence_seconds) as chunks:
                async for line in _lines(chunks):
                    yield _event(view, line, request)
        except NotFound as error:
            raise _not_served(view, error) from error

    # Writing

    async def create(
        self,
        target: Target[T],
        body: T | JsonObject,
        namespace: str = "",
        *,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
    ) -> T:
        """Make a new object. Raises AlreadyExists; Unreachable when it is unknown whether it was made."""
        view, document = view_of(target), _document(body)
        # A review (SelfSubjectAccessReview) has no name and needs no metadata.
        key = _key(document) if "metadata" in document else ObjectKey("", "")
        query = self._write_query(dry_run, field_validation, field_manager)
        return await self._write(
            view, "POST", "create", namespace or key.namespace, key.name, document, query, repeatable=False, named=False
        )

    async def apply(
        self,
        target: Target[T],
        body: JsonObject | Kind,
        *,
        force: bool = True,
        field_manager: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Server-side apply (KEP-555): make the object have these fields, and own them.

        With `force` fields are taken from other managers; without it a Conflict names them.
        """
        view = view_of(target)
        document = _stamped(_document(body), view)
        key = _key(document)
        query = self._write_query(dry_run, field_validation, field_manager)
        query = _WriteQuery(f"{query.text}&force=true", dry_run) if force else query
        return await self._write(
            view, "PATCH", "apply", key.namespace, key.name, document, query, subresource, content_type=_APPLY
        )

    async def update(
        self,
        target: Target[T],
        body: JsonObject,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
    ) -> T:
        """Put the object in the place of what is there. With `metadata.resourceVersion` a Conflict tells of others."""
        key = _key(body)
        return await self._write(
            view_of(target),
            "PUT",
            "update",
            key.namespace,
            key.name,
            body,
            self._write_query(dry_run, field_validation, field_manager),
            subresource,
            # Without a version it could undo what somebody else did between the two times.
            repeatable=bool(dig(body, "metadata", "resourceVersion")),
        )

    async def patch(
        self,
        target: Target[T],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        field_manager: str | None = None,
        repeatable: bool | None = None,
    ) -> T:
        """Change a part of the object.

        `repeatable`: whether the same patch may be sent again after a lost answer; by default the patch itself tells.
        """
        return await self._write(
            view_of(target),
            "PATCH",
            "patch",
            namespace,
            name,
            patch.body,
            self._write_query(dry_run, field_validation, field_manager),
            subresource,
            content_type=patch.content_type,
            repeatable=patch.repeatable if repeatable is None else repeatable,
        )

    async def delete(
        self,
        target: Target[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Deletion:
        """Ask for the object's end. The answer is false when there was no object.

        With `uid` only that very object is meant: a new one under the same name is a Conflict.
        """
        view = view_of(target)
        conditions: JsonObject = {}
        if uid:
            conditions["uid"] = uid
        if resource_version:
            conditions["resourceVersion"] = resource_version
        options = _options(propagation, grace_period_seconds, dry_run, conditions)
        request = self._request(
            view,
            "DELETE",
            "delete",
            namespace,
            name,
            body=encode_json(options),
            headers=_JSON_BODY,
            repeatable=bool(uid),
        )
        try:
            answer = await self._send(view, request, writes=not dry_run)
        except NotFound:
            return Deletion.ABSENT
        return Deletion.GONE if _is_status(answer) else Deletion.TERMINATING

    async def delete_collection(
        self,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the end of all objects that match."""
        query = _query(labelSelector=labels, fieldSelector=fields)
        body = encode_json(_options(propagation, None, dry_run, {}))
        view = view_of(target)
        request = self._request(
            view, "DELETE", "deletecollection", namespace, query=query, body=body, headers=_JSON_BODY, repeatable=False
        )
        await self._send(view, request, writes=not dry_run)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> bytes:
        """Any request: discovery, /version, /readyz. `query` is encoded already, `params` are not."""
        sent = ((_CONTENT_TYPE, content_type),) if body is not None else ()
        headers = (("Accept", accept), *sent, *self._acting)
        reads = method in ("GET", "HEAD")
        query = "&".join(part for part in (query, urlencode(params or {})) if part)
        request = Request(method, path, query, body, headers, f"{method} {path}", reads, verb=method.lower())
        return await self._transport.call(request, before=self._fence(not reads))

    async def document(self, path: str, *, accept: str = _JSON) -> JsonObject:
        """A JSON object from any path, as it is. Raises Undecodable where the answer is something else."""
        answer = await self.raw("GET", path, accept=accept)
        try:
            return decode_json(answer)
        except UNREADABLE as error:
            raise Undecodable(f"cannot GET {path}: the answer is not a JSON object: {error}") from error

    # Inside

    async def _write(
        self,
        view: View[T],
        method: str,
        verb: str,
        namespace: str,
        name: str,
        body: object,
        query: _WriteQuery,
        subresource: str = "",
        *,
        content_type: str = _JSON,
        repeatable: bool = True,
        named: bool = True,
    ) -> T:
        request = self._request(
            view,
            method,
            verb,
            namespace,
            name,
            subresource,
            query=query.text,
            body=encode_json(body),
            headers=((_CONTENT_TYPE, content_type), *(_ACCEPT_METADATA if view.metadata_only else ())),
            named=named,
            repeatable=repeatable,
        )
        return _decoded(view, await self._send(view, request, writes=not query.dry_run), request)

    async def _send(self, view: View[T], request: Request, *, writes: bool = False) -> bytes:
        try:
            return await self._transport.call(request, before=self._fence(writes))
        except NotFound as error:
            if error.status.details.name:
                raise
            raise _not_served(view, error) from error

    def _fence(self, writes: bool) -> Callable[[], None] | None:
        return self._before_write if writes else None

    def _write_query(
        self, dry_run: bool, field_validation: FieldValidation | None, field_manager: str | None
    ) -> _WriteQuery:
        text = f"fieldManager={quote(field_manager or self._field_manager, safe='')}"
        if field_validation:
            text += f"&fieldValidation={field_validation}"
        return _WriteQuery(f"{text}&dryRun=All" if dry_run else text, dry_run)

    def _request(
        self,
        view: View[T],
        method: str,
        verb: str,
        namespace: str,
        name: str = "",
        subresource: str = "",
        *,
        query: str = "",
        body: bytes | None = None,
        headers: Headers = (),
        named: bool = True,
        repeatable: bool = True,
    ) -> Request:
        resource = view.resource
        place = str(resource.key(namespace, name)) if name else (f"in {namespace}" if namespace else "everywhere")
        return Request(
            method,
            resource.path(namespace, name if named else "", subresource),
            query,
            body,
            (*headers, *self._acting),
            f"{verb} {resource.kind if name else resource.plural}{f' {subresource} of' if subresource else ''} {place}",
            repeatable,
            hides_values=resource.plural == "secrets" and not resource.group,
            verb=verb,
            resource=resource.plural,
        )


def _query(**parameters: str) -> str:
    return urlencode({name: value for name, value in parameters.items() if value})


def _options(
    propagation: Propagation | None, grace_period_seconds: int | None, dry_run: bool, conditions: JsonObject
) -> JsonObject:
    options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    if conditions:
        options["preconditions"] = conditions
    return options


class _Named(msgspec.Struct):
    kind: str = ""


def _is_status(answer: bytes) -> bool:
    """Whether a deletion was answered with a Status: the object is gone. One that stays is sent as it is."""
    try:
        return _named.decode(answer).kind == "Status"
    except UNREADABLE:
        return False


_named = msgspec.json.Decoder(_Named)


def _document(body: HasMetadata | JsonObject) -> JsonObject:
    return to_json_object(body) if isinstance(body, Kind) else cast(JsonObject, body)


def _key(document: JsonObject) -> ObjectKey:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError("an object without metadata cannot be written")
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _stamped(document: JsonObject, view: View[T]) -> JsonObject:
    """With the apiVersion and kind that an apply must name."""
    if "apiVersion" in document and "kind" in document:
        return document
    return {"apiVersion": view.resource.api_version, "kind": view.resource.kind, **document}


async def _joined(pages: AsyncIterator[Listing[T]]) -> Listing[T]:
    items: list[T] = []
    version = ""
    async for page in pages:
        items += page.items
        version = page.resource_version
    return Listing(items, version)


def _not_served(view: View[T], error: NotFound) -> NotServed | NotFound:
    """An unknown resource and an unknown object are both 404; only about the latter the server can name what lacks."""
    if error.status.details.name:
        return error
    return NotServed(f"cannot {error.attempted}: the API server serves no {view.resource.gvk}")


def _decoded(view: View[T], data: bytes, request: Request) -> T:
    try:
        return view.decode(data)
    except UNREADABLE as error:
        raise Undecodable(_unreadable(request, f"a {view.resource}", error)) from error


def _event(view: View[T], line: bytes, request: Request) -> WatchEvent:
    try:
        return WatchEvent(*view.decode_event(line))
    except UNREADABLE as error:
        raise Undecodable(_unreadable(request, "an event", error)) from error


def _unreadable(request: Request, expected: str, error: Exception) -> str:
    return f"cannot {request.about}: the answer is not {expected}: {error}"


@dataclass(frozen=True, slots=True)
class _WriteQuery:
    text: str
    dry_run: bool


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
