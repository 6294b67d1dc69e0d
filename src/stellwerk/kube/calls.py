"""One call to an API server: what goes out with every request, and what every answer is read with.

A call names what it wants as a `Target`: a class we know (`Deployment`) or a `View` (free-form, or metadata only). The
result has that shape. Errors are those of `errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.errors import NotFound, NotServed, Undecodable
from stellwerk.kube.model import METADATA_ONLY, UNREADABLE, HasMetadata, JsonObject, Kind, View, decode_json
from stellwerk.kube.transport import Headers, Request, Transport

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
        request = Request(method, path, query, body, headers, f"{method} {path}", reads, verb=method.lower())
        return await self._transport.call(request, before=self._fence(not reads))

    async def document(self, path: str, *, accept: str = JSON) -> JsonObject:
        """A JSON object from any path, as it is. Raises Undecodable where the answer is something else."""
        answer = await self.raw("GET", path, accept=accept)
        try:
            return decode_json(answer)
        except UNREADABLE as error:
            raise Undecodable(f"cannot GET {path}: the answer is not a JSON object: {error}") from error

    async def _send(self, view: View[T], request: Request, *, writes: bool = False) -> bytes:
        try:
            return await self._transport.call(request, before=self._fence(writes))
        except NotFound as error:
            if error.status.details.name:
                raise
            raise not_served(view, error) from error

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


def query_of(**parameters: str) -> str:
    """The query of a URL; a parameter without a value is left out."""
    return urlencode({name: value for name, value in parameters.items() if value})


def decoded(view: View[T], data: bytes, request: Request) -> T:
    """The object that was answered. Raises Undecodable."""
    try:
        return view.decode(data)
    except UNREADABLE as error:
        raise Undecodable(unreadable(request, f"a {view.resource}", error)) from error


def not_served(view: View[T], error: NotFound) -> NotServed | NotFound:
    """An unknown resource and an unknown object are both 404; only about the latter the server can name what lacks."""
    if error.status.details.name:
        return error
    return NotServed(f"cannot {error.attempted}: the API server serves no {view.resource.gvk}")


def unreadable(request: Request, expected: str, error: Exception) -> str:
    """The message about an answer that is not what was asked for."""
    return f"cannot {request.about}: the answer is not {expected}: {error}"
