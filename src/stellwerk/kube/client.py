"""Typed calls to one API server.

A call names what it wants as a `Target`: a class we know (`Deployment`) or a `View` (free-form, or metadata only). The
result has that shape. Errors are those of `errors.py`. A write passes `before_write` first: there a leader without a
lease is stopped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

import msgspec

from stellwerk import __version__
from stellwerk.kube import errors
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.discovery import ResourceMapper
from stellwerk.kube.errors import ApiError, Gone, NotFound, Undecodable
from stellwerk.kube.model import (
    HasMetadata,
    JsonObject,
    Kind,
    Listing,
    View,
    encode_json,
    to_json_object,
)
from stellwerk.kube.names import ObjectKey
from stellwerk.kube.patch import Patch
from stellwerk.kube.transport import Headers, Request, RequestFacts, Transport

T = TypeVar("T", bound=HasMetadata)
Target: TypeAlias = "type[T] | View[T]"
Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
FieldValidation: TypeAlias = Literal["Strict", "Warn", "Ignore"]

USER_AGENT = f"stellwerk/{__version__}"
PAGE = 500
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_CONTENT_TYPE = "Content-Type"
_ACCEPT_METADATA: Headers = (("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),)
_ACCEPT_METADATA_LIST: Headers = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch says, before it is put to use: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: HasMetadata | errors.Status


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
    ) -> Client:
        """A client for this cluster. Nothing is sent yet.

        `field_manager`: who owns what we apply. `before_write` is called before every write that is not a dry run and
        may raise to prevent it.
        """
        transport = Transport(config, user_agent=user_agent, on_request=on_request)
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
        return _decoded(view, await self._transport.call(request), request)

    async def find(self, target: Target[T], name: str, namespace: str = "") -> T | None:
        """One object, or None where there is none."""
        try:
            return await self.get(target, name, namespace)
        except NotFound:
            return None

    async def list(
        self, target: Target[T], namespace: str = "", *, labels: str = "", fields: str = "", limit: int = PAGE
    ) -> Listing[T]:
        """All objects, all pages joined, as of one moment; begun anew once when the moment became too old."""
        items: list[T] = []
        version = ""
        try:
            async for page in self.pages(target, namespace, labels=labels, fields=fields, limit=limit):
                items += page.items
                version = page.resource_version
        except Gone:
            return await self._page(view_of(target), namespace, labels, fields, 0, "")
        return Listing(items, version)

    async def pages(
        self, target: Target[T], namespace: str = "", *, labels: str = "", fields: str = "", limit: int = PAGE
    ) -> AsyncIterator[Listing[T]]:
        """The list page by page, `limit` objects each. Raises Gone when the server forgot the moment it began at."""
        token = ""
        while True:
            page = await self._page(view_of(target), namespace, labels, fields, limit, token)
            yield page
            token = page.continue_token
            if not token:
                return

    async def _page(
        self, view: View[T], namespace: str, labels: str, fields: str, limit: int, token: str
    ) -> Listing[T]:
        query = _query(labelSelector=labels, fieldSelector=fields, limit=str(limit or ""))
        query = f"{query}&{urlencode({'continue': token})}" if token else query
        accept = _ACCEPT_METADATA_LIST if view.metadata_only else ()
        request = self._request(view, "GET", "list", namespace, query=query, headers=accept)
        data = await self._transport.call(request)
        try:
            return view.decode_list(data)
        except msgspec.DecodeError as error:
            raise Undecodable(
                f"cannot {request.about}: the answer is not a list of {view.resource}: {error}"
            ) from error

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
    ) -> AsyncIterator[WatchEvent]:
        """One watch request, from a resourceVersion on, with bookmarks. Ends when the server ends it.

        Raises Gone, NotFound and other refusals; Unreachable when cut, or silent for `silence_seconds`: a server that
        sends bookmarks speaks at least once a minute. See `watch.Watcher` for a watch that goes on for ever.
        """
        view = view_of(target)
        query = _query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
            labelSelector=labels,
            fieldSelector=fields,
        )
        accept = _ACCEPT_METADATA if view.metadata_only else ()
        request = self._request(view, "GET", "watch", namespace, query=query, headers=accept)
        async with self._transport.stream(request, silence_seconds=silence_seconds) as chunks:
            async for line in _lines(chunks):
                yield _event(view, line, request)

    # Writing

    async def create(
        self,
        target: Target[T],
        body: T | JsonObject,
        namespace: str = "",
        *,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Make a new object. Raises AlreadyExists; Unreachable when it is unknown whether it was made."""
        view, document = view_of(target), _document(body)
        key = _key(document)
        query = self._write_query(dry_run, field_validation)
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
        view, document = view_of(target), _document(body)
        key = _key(document)
        query = self._write_query(dry_run, field_validation, field_manager)
        query = f"{query}&force=true" if force else query
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
    ) -> T:
        """Put the object in the place of what is there. With `metadata.resourceVersion` a Conflict tells of others."""
        key = _key(body)
        query = self._write_query(dry_run, field_validation)
        return await self._write(view_of(target), "PUT", "update", key.namespace, key.name, body, query, subresource)

    async def patch(
        self,
        target: Target[T],
        name: str,
        namespace: str,
        patch: Patch,
        *,
        subresource: str = "",
        dry_run: bool = False,
        repeatable: bool = True,
    ) -> T:
        """Change a part of the object. `repeatable`: whether the same patch may be sent again after a lost answer."""
        return await self._write(
            view_of(target),
            "PATCH",
            "patch",
            namespace,
            name,
            patch.body,
            self._write_query(dry_run, None),
            subresource,
            content_type=patch.content_type,
            repeatable=repeatable,
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
    ) -> bool:
        """Ask for the object's end; False when there was none.

        With `uid` only that very object is meant: a new one under the same name is a Conflict.
        """
        view = view_of(target)
        conditions: JsonObject = {}
        if uid:
            conditions["uid"] = uid
        if resource_version:
            conditions["resourceVersion"] = resource_version
        options = _options(propagation, grace_period_seconds, dry_run, conditions)
        request = self._request(view, "DELETE", "delete", namespace, name, body=encode_json(options))
        self._allow(dry_run)
        try:
            await self._transport.call(replace(request, repeatable=bool(uid)))
        except NotFound:
            return False
        return True

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
        request = self._request(view_of(target), "DELETE", "delete all of", namespace, query=query, body=body)
        self._allow(dry_run)
        await self._transport.call(request)

    async def raw(
        self, method: str, path: str, *, query: str = "", body: bytes | None = None, accept: str = _JSON
    ) -> bytes:
        """Any request: discovery, /version, /readyz. A write passes no fence here."""
        content_type = ((_CONTENT_TYPE, _JSON),) if body is not None else ()
        headers = (("Accept", accept), *content_type, *self._acting)
        repeatable = method == "GET"
        return await self._transport.call(
            Request(method, path, query, body, headers, f"{method.lower()} {path}", repeatable)
        )

    # Inside

    async def _write(
        self,
        view: View[T],
        method: str,
        verb: str,
        namespace: str,
        name: str,
        body: object,
        query: str,
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
            query=query,
            body=encode_json(body),
            headers=((_CONTENT_TYPE, content_type), *(_ACCEPT_METADATA if view.metadata_only else ())),
            named=named,
        )
        self._allow("dryRun" in query)
        return _decoded(view, await self._transport.call(replace(request, repeatable=repeatable)), request)

    def _allow(self, dry_run: bool) -> None:
        if self._before_write is not None and not dry_run:
            self._before_write()

    def _write_query(
        self, dry_run: bool, field_validation: FieldValidation | None, field_manager: str | None = None
    ) -> str:
        query = f"fieldManager={field_manager or self._field_manager}"
        if field_validation:
            query += f"&fieldValidation={field_validation}"
        return f"{query}&dryRun=All" if dry_run else query

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
            hides_values=resource.plural == "secrets" and not resource.group,
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


def _document(body: HasMetadata | JsonObject) -> JsonObject:
    return to_json_object(body) if isinstance(body, Kind) else cast(JsonObject, body)


def _key(document: JsonObject) -> ObjectKey:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError("an object without metadata cannot be written")
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _decoded(view: View[T], data: bytes, request: Request) -> T:
    try:
        return view.decode(data)
    except msgspec.DecodeError as error:
        raise Undecodable(f"cannot {request.about}: the answer is not a {view.resource}: {error}") from error


def _event(view: View[T], line: bytes, request: Request) -> WatchEvent:
    try:
        return WatchEvent(*view.decode_event(line))
    except msgspec.DecodeError as error:
        raise Undecodable(f"cannot {request.about}: the watch sent something that is no event: {error}") from error


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Chunks cut at newlines. One object may span many chunks; each byte is looked at once."""
    pending: list[bytes] = []
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            pending.append(line)
            whole = pending[0] if len(pending) == 1 else b"".join(pending)
            pending.clear()
            if whole:
                yield whole
        if rest:
            pending.append(rest)
    # What is left was cut in the middle of a frame: it is not an event, and the watch is resumed before it.


def is_unknown_outcome(error: ApiError) -> bool:
    """Whether a write that failed like this may have taken place."""
    return isinstance(error, errors.Unreachable | errors.ServerTimeout)
