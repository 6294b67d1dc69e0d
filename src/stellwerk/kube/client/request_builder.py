"""One call to an API server: what goes out with every request, and what every answer is read with.

A call names what it wants as a `Target`: a class we know (`Deployment`) or a `View` (free-form, or metadata only). The
result has that shape. Errors are those of `errors.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.http.transport import Headers, Request, Transport
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.depth import LEVELS, shallow
from stellwerk.kube.types.errors import (
    ApiError,
    InvalidName,
    NotFound,
    NotServed,
    Undecodable,
    Unexplained,
    UnreadableObject,
)
from stellwerk.kube.types.identifiers import Resource, segment_complaint
from stellwerk.kube.types.model import METADATA_ONLY, UNREADABLE, HasMetadata, JsonObject, Kind, View, decode_json

T = TypeVar("T", bound=HasMetadata)
Target: TypeAlias = "type[T] | View[T]"

JSON = "application/json"
CONTENT_TYPE = "Content-Type"
ACCEPT_METADATA: Headers = (("Accept", METADATA_ONLY),)


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


class Calls:
    """Requests over one transport, under one identity and one field manager."""

    def __init__(
        self, transport: Transport, *, field_manager: str, before_write: Callable[[], None] | None = None
    ) -> None:
        self._transport = transport
        self._field_manager = field_manager
        self._before_write = before_write
        self._acting: Headers = ()
        self._tenant = ""
        self._is_by_namespace = False
        self.mapper = ResourceMapper(self.raw)

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

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """Any request: discovery, /version, /readyz. `query` is encoded already, `params` are not."""
        sent = ((CONTENT_TYPE, content_type),) if body is not None else ()
        headers = (("Accept", accept), *sent, *self._acting)
        reads = method in ("GET", "HEAD")
        query = "&".join(part for part in (query, urlencode(params or {})) if part)
        request = Request(
            method, path, query, body, headers, f"{method} {path}", reads, verb=method.lower(), tenant=self._tenant
        )
        return await self._transport.call(request, before=self._fence(not reads))

    async def document(self, path: str, *, accept: str = JSON) -> JsonObject:
        """A JSON object from any path, as it is. Raises Undecodable where the answer is something else."""
        answer = await self.raw("GET", path, accept=accept)
        try:
            return decode_json(answer)
        except UNREADABLE as error:
            raise Undecodable(f"cannot GET {path}: the answer is not a JSON object: {_cause(error)}") from error

    async def _send(self, view: View[T], request: Request, *, writes: bool = False, name: str = "") -> bytes:
        """`name` is of the object whose absence the caller would conclude from NotFound."""
        try:
            return await self._transport.call(request, before=self._fence(writes))
        except (NotFound, Unexplained) as error:
            await self._refuse(view, error, name)

    async def _refuse(self, view: View[T], error: NotFound | Unexplained, name: str = "") -> NoReturn:
        """Raise what a 404 is about."""
        found = await self._absence(view, error, name)
        raise found from None if found is error else error  # no error is its own cause

    async def _absence(self, view: View[T], error: NotFound | Unexplained, name: str = "") -> ApiError:
        """What a 404 is about: an object, a kind, or nothing at all. Only discovery shows whether a kind is served."""
        if isinstance(error, NotFound) and _names(error, name):
            return error
        says_absent = isinstance(error, NotFound) and bool(name) and _names_nothing(error)
        unexplained = Unexplained(error.status, error.attempted)
        try:
            is_served = await self.mapper.serves(view.resource)
        except ApiError:
            return unexplained
        if is_served:
            return error if says_absent else unexplained
        return NotServed(f"cannot {error.attempted}: the API server serves no {view.resource.gvk}")

    def _fence(self, writes: bool) -> Callable[[], None] | None:
        return self._before_write if writes else None

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
        _check_names(verb, resource, namespace, name)
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
            tenant=self._tenant_of(verb, namespace, subresource),
        )

    def _tenant_of(self, verb: str, namespace: str, subresource: str) -> str:
        if self._tenant or not self._is_by_namespace or verb in _READS or subresource:
            return self._tenant
        return namespace


_OF_COLLECTIONS = frozenset({"list", "watch", "create", "deletecollection"})
"""Verbs that need no name. With any other, the path of an object without a name would be that of all objects."""
_READS = frozenset({"get", "list", "watch"})
_SHOWN = 60


def _check_names(verb: str, resource: Resource, namespace: str, name: str) -> None:
    """Raises InvalidName."""
    wrong = ""
    if namespace and (why := segment_complaint(namespace)):
        wrong = f"namespace {namespace[:_SHOWN]!r} {why}"
    elif (name or verb not in _OF_COLLECTIONS) and (why := segment_complaint(name)):
        wrong = f"name {name[:_SHOWN]!r} {why}"
    if wrong:
        raise InvalidName(f"cannot {verb} {resource.kind}: {wrong}")


def query_of(**parameters: str) -> str:
    """The query of a URL; a parameter without a value is left out."""
    return urlencode({name: value for name, value in parameters.items() if value})


async def decoded(view: View[T], data: bytes, request: Request) -> T:
    """The object that was answered. Raises UnreadableObject, or Undecodable where it is no object."""
    try:
        return view.decode(data)
    except RecursionError as error:
        if not view.metadata_only:
            raise await _unreadable_object(view, data, request, error) from error
    except UNREADABLE as error:
        raise await _unreadable_object(view, data, request, error) from error
    # In a deep object managedFields are as deep, and those are dropped.
    data = await asyncio.to_thread(shallow, data, LEVELS)
    try:
        return view.decode(data)
    except UNREADABLE as error:
        raise await _unreadable_object(view, data, request, error) from error


async def _unreadable_object(view: View[T], data: bytes, request: Request, error: Exception) -> Undecodable:
    found = await asyncio.to_thread(view.unreadable, data, error)
    if found is None:
        return Undecodable(unreadable(request, f"a {view.resource}", error))
    return UnreadableObject(request.about, found.why)


def _names(error: NotFound, name: str) -> bool:
    """Whether the answer names the absent object, and it is the requested one. Some API services
    name it `namespace/name`."""
    absent = error.status.details.name
    return bool(absent) and (not name or absent == name or absent.endswith(f"/{name}"))


def _names_nothing(error: NotFound) -> bool:
    """Whether the server leaves open which object it does not have, as some API services do. The code of a webhook's
    refusal is the webhook's choice, and proves nothing about the object."""
    return not error.status.details.name and not error.status.message.startswith("admission webhook")


def unreadable(request: Request, expected: str, error: Exception) -> str:
    """The message about an answer that is not what was asked for."""
    return f"cannot {request.about}: the answer is not {expected}: {_cause(error)}"


_LONGEST_CAUSE = 300


def _cause(error: Exception) -> str:
    """The decoder's words, which may quote what the server sent, at any length."""
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:_LONGEST_CAUSE]
