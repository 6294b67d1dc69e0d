"""What an operator asks of an API server: each request understood, kept in order, and awaited.

The words are RBAC's verbs, with `apply` split off from `patch` because a reader of a history cares which it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from stellwerk.testing.eventually import Signal, StillUntrue, eventually

WRITING = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
_METHODS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_THE_NAMESPACE_ITSELF = ("status", "finalize")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request as the operator sent it. `resource` is empty for paths that name none (/api, /version, /openapi).

    `name` of a create is the body's, or its generateName with a `*`. `body_digest` is the same for equal JSON,
    whatever the spelling; empty without a body. `seconds` is when it came, on the event loop's time. `headers` are the
    message's, not the connection's, and Authorization is not among them.
    """

    number: int = 0
    verb: str = "get"
    method: str = "GET"
    path_and_query: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    seconds: float = 0.0

    @property
    def is_write(self) -> bool:
        """Whether it asks for a change. Reviews are creates that change nothing, and a dry run changes nothing."""
        return self.verb in WRITING and bool(self.resource) and not self._only_asks

    @property
    def _only_asks(self) -> bool:
        return "dryRun" in self.query or self.group in ("authorization.k8s.io", "authentication.k8s.io")

    @property
    def group_resource(self) -> str:
        """`deployments.apps`, or `pods` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def agent(self) -> str:
        """The User-Agent."""
        return self.headers.get("User-Agent", "")

    @property
    def body_digest(self) -> str:
        """16 hexadecimal digits of the body's SHA-256."""
        return hashlib.sha256(_canonical(self.body)).hexdigest()[:16] if self.body else ""

    def __str__(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path_and_query}"
        what = f"{self.group_resource}/{self.subresource}" if self.subresource else self.group_resource
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {what} {where}".rstrip()


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and what became of it.

    `status` is what the operator received, None when nothing (yet). `server_status` is what the API server sent, None
    when it was not asked or has not answered. `faults` names what the proxy did to it. `arrived` are a watch's events
    as they came from the server, whatever became of them.
    """

    request: RecordedRequest
    status: int | None = None
    server_status: int | None = None
    reached_server: bool = False
    is_over: bool = False
    faults: list[str] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = "no answer" if self.status is None else str(self.status)
        if self.server_status not in (None, self.status):
            told = f"{told}, the server answered {self.server_status}"
        if not self.is_over:
            told = f"{told}, under way"
        done = f" [{', '.join(self.faults)}]" if self.faults else ""
        return f"#{self.request.number} {self.request} -> {told}{done}"


class TrafficHistory:
    """Every exchange, in the order in which the requests came. `changed` rings at all that happens to them."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self.changed = Signal()

    def begin(self, request: RecordedRequest) -> Exchange:
        """Note a request that came."""
        exchange = Exchange(request)
        self._exchanges.append(exchange)
        self.changed.ring()
        return exchange

    def all(self, keep: Callable[[RecordedRequest], bool] = lambda request: True) -> Sequence[Exchange]:
        """The exchanges whose request matches."""
        return [exchange for exchange in self._exchanges if keep(exchange.request)]

    def writes(self, keep: Callable[[RecordedRequest], bool] = lambda request: True) -> Sequence[Exchange]:
        """The writes among them, refused ones included."""
        return self.all(lambda request: request.is_write and keep(request))

    def count(self, keep: Callable[[RecordedRequest], bool] = lambda request: True) -> int:
        """How many requests match."""
        return len(self.all(keep))

    def clear(self) -> None:
        """Forget what was, for a test that has arranged its world. Request numbers go on."""
        self._exchanges.clear()

    async def seen(
        self, count: int = 1, keep: Callable[[RecordedRequest], bool] = lambda request: True, *, within: float = 30.0
    ) -> Exchange:
        """Wait until `count` matching requests have come; returns the last of these. Raises StillUntrue."""
        return await self._until(lambda: self.all(keep), count, "request", keep, within)

    async def write_seen(
        self, count: int = 1, keep: Callable[[RecordedRequest], bool] = lambda request: True, *, within: float = 30.0
    ) -> Exchange:
        """Wait until `count` matching writes have come and are answered or cut; returns the last of these."""
        over = self._over_writes(keep)
        return await self._until(over, count, "write", keep, within)

    async def settled(self, *, within: float = 30.0) -> None:
        """Wait until nothing but watches is under way."""

        def under_way() -> list[str]:
            return [str(one) for one in self._exchanges if not one.is_over and one.request.verb != "watch"]

        await eventually(lambda: not under_way(), within=within, describe="no request is under way", on=self.changed)

    def __str__(self) -> str:
        return "\n".join(str(exchange) for exchange in self._exchanges) or "no request"

    def _over_writes(self, keep: Callable[[RecordedRequest], bool]) -> Callable[[], Sequence[Exchange]]:
        return lambda: [exchange for exchange in self.writes(keep) if exchange.is_over]

    async def _until(
        self,
        found: Callable[[], Sequence[Exchange]],
        count: int,
        noun: str,
        keep: Callable[[RecordedRequest], bool],
        within: float,
    ) -> Exchange:
        try:
            await eventually(lambda: len(found()) >= count, within=within, on=self.changed)
        except StillUntrue:
            wanted = str(keep) if hasattr(keep, "text") else "that match"
            raise StillUntrue(
                f"{len(found())} of {count} {noun}s {wanted} in {within:g} s; the history:\n{self}"
            ) from None
        return found()[count - 1]


def understand(
    method: str,
    path_and_query: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    number: int = 0,
    seconds: float = 0.0,
) -> RecordedRequest:
    """Read a request line as the API server does itself (Kubernetes documentation, "API Concepts", resource URIs)."""
    headers = headers or {}
    parts = urlsplit(path_and_query)
    query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    group, version, words = _rooted([unquote(word) for word in parts.path.split("/") if word])
    namespace, resource, name, subresource = _target(words)
    return RecordedRequest(
        number=number,
        verb=_verb(method, query, headers.get("Content-Type", ""), bool(name), bool(resource)),
        method=method,
        path_and_query=path_and_query,
        query=query,
        group=group,
        version=version,
        resource=resource,
        namespace=namespace,
        name=name or _name_in(body),
        subresource=subresource,
        headers=headers,
        body=body,
        seconds=seconds,
    )


def _rooted(words: list[str]) -> tuple[str, str, list[str]]:
    match words:
        case ["api", version, *rest] if rest:
            return "", version, rest
        case ["apis", group, version, *rest] if rest:
            return group, version, rest
        case _:
            return "", "", []


def _target(words: list[str]) -> tuple[str, str, str, str]:
    """Namespace, resource, name, subresource of what follows the version."""
    namespace = ""
    match words:
        case ["namespaces", name, sub] if sub in _OF_THE_NAMESPACE_ITSELF:
            return name, "namespaces", name, sub
        case ["namespaces", namespace, _, *_]:
            words = words[2:]
        case ["namespaces", name]:
            return name, "namespaces", name, ""
    resource, name, *sub_words = [*words, "", ""]
    return namespace, resource, name, "/".join(word for word in sub_words if word)


def _verb(method: str, query: Mapping[str, str], content_type: str, named: bool, of_resource: bool) -> str:
    verb = _METHODS.get(method, method.lower())
    if not of_resource:
        return verb
    if verb == "get" and query.get("watch") in ("1", "true"):
        return "watch"
    if verb == "get" and not named:
        return "list"
    if verb == "delete" and not named:
        return "deletecollection"
    return "apply" if verb == "patch" and content_type.startswith("application/apply-patch") else verb


def _name_in(body: bytes) -> str:
    try:
        metadata = json.loads(body)["metadata"]
        return str(metadata.get("name") or (f"{metadata['generateName']}*"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _canonical(body: bytes) -> bytes:
    try:
        return json.dumps(json.loads(body), sort_keys=True).encode()
    except ValueError:
        return body
