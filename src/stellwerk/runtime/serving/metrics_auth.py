"""Who may read a guarded endpoint: the API server decides.

A caller shows a bearer token. The API server returns its user (TokenReview) and whether that user may `get` the path
(SubjectAccessReview with a non-resource URL), so access is granted by a ClusterRole as for the API server's own
/metrics. The rule is controller-runtime's filter for authenticated metrics; our process needs the right to create
both kinds of review.

Verdicts are remembered for a minute, by a digest of the token: a scrape every few seconds must not be two requests
each. A token that was withdrawn works until then. Refusals are remembered apart from permissions, so that a stranger
with many tokens causes no further questions.

What strangers cost the API server, and the clients of this process, is bounded: a few reviews at a time, of which one
peer gets a part, and for each peer a few at once and then one a second. More are answered 429 without a question. The
guard's client must be its own: a lease that waits for a connection behind strangers' reviews would be lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, View, unstructured
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.serving.crowd import peer_of
from stellwerk.runtime.serving.http_messages import Request, Response, refusal
from stellwerk.runtime.serving.routes import Route

_TOKEN_REVIEWS = unstructured(Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False))
_ACCESS_REVIEWS = unstructured(
    Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
)
_REMEMBER_SECONDS = 60.0
_REMEMBERED = 256
_PEERS_REMEMBERED = 1024
REVIEWS = 4
"""How many tokens are looked at at the same time."""
PEER_REVIEWS = 2
"""How many of one peer are looked at, or wait for that."""
PEER_BURST = 10
PEER_REFILL_SECONDS = 1.0
_LONGEST_TOKEN = 16 * 1024

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Allowance:
    """What one peer may still ask."""

    since: float
    under_way: int = 0
    tokens: float = float(PEER_BURST)

    def may_ask(self, now: float) -> bool:
        """Use up one of its questions, if it has one."""
        self.tokens = min(float(PEER_BURST), self.tokens + (now - self.since) / PEER_REFILL_SECONDS)
        self.since = now
        if self.under_way >= PEER_REVIEWS or self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Verdicts:
    """The answers of the API server, by a digest of the question. Refusals displace no permission."""

    def __init__(self) -> None:
        self._permitted: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[int, float]] = OrderedDict()

    def at(self, key: bytes, now: float) -> int | None:
        """The status that was remembered and still holds."""
        status, until = self._permitted.get(key) or self._refused.get(key) or (None, 0.0)
        return status if now < until else None

    def add(self, key: bytes, status: int, until: float) -> None:
        """Remember a status in the place of an older one."""
        verdicts, others = self._permitted, self._refused
        if status != 200:
            verdicts, others = others, verdicts
        others.pop(key, None)
        verdicts[key] = (status, until)
        verdicts.move_to_end(key)
        while len(verdicts) > _REMEMBERED:
            verdicts.popitem(last=False)


class Guard:
    """Permits callers that the API server knows and authorizes.

    `client` has connections of its own, and is not fenced: reviews are no changes.
    """

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._verdicts = Verdicts()
        self._peers: OrderedDict[str, Allowance] = OrderedDict()
        self._reviews = asyncio.Semaphore(REVIEWS)
        self._questions: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    def protect(self, route: Route) -> Route:
        """The same route, for permitted callers. Others get 401 or 403; 503 while the API server cannot be asked."""

        async def guarded(request: Request) -> Response:
            status = await self._judged(request)
            return await route.handler(request) if status == 200 else _refused(status)

        return Route(route.method, route.path, guarded)

    async def _judged(self, request: Request) -> int:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
            return 401
        if not _is_printable(token):
            return 401
        key = hashlib.sha256(f"{request.method} {request.path} {token}".encode(errors="replace")).digest()
        known = self._verdicts.at(key, self._clock.monotonic())
        if known is not None:
            return known
        peer = self._peer(peer_of((request.remote,)))
        if not peer.may_ask(self._clock.monotonic()):
            return 429
        peer.under_way += 1
        try:
            async with self._questions.setdefault(key, asyncio.Lock()), self._reviews:
                known = self._verdicts.at(
                    key, self._clock.monotonic()
                )  # several requests with one token are one question
                return known if known is not None else await self._asked(key, token, request.path)
        finally:
            peer.under_way -= 1

    async def _asked(self, key: bytes, token: str, path: str) -> int:
        try:
            status = await self._ask(token, path)
        except ApiError as error:
            _log.warning("who asks for %s cannot be checked: %s", path, error)
            return 503
        self._verdicts.add(key, status, self._clock.monotonic() + _REMEMBER_SECONDS)
        return status

    def _peer(self, name: str) -> Allowance:
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = Allowance(self._clock.monotonic())
        self._peers.move_to_end(name)
        while len(self._peers) > _PEERS_REMEMBERED:
            self._peers.popitem(last=False)
        return peer

    async def _ask(self, token: str, path: str) -> int:
        review = await self._create(_TOKEN_REVIEWS, {"token": token})
        if review.at("status", "authenticated") is not True:
            return 401
        user = review.at("status", "user")
        who = user if isinstance(user, dict) else {}
        asked: JsonObject = {
            "user": who.get("username"),
            "uid": who.get("uid"),
            "groups": who.get("groups"),
            "extra": who.get("extra"),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        access = await self._create(_ACCESS_REVIEWS, {name: value for name, value in asked.items() if value})
        return 200 if access.at("status", "allowed") is True else 403

    async def _create(self, view: View[Unstructured], spec: dict[str, JsonValue]) -> Unstructured:
        resource = view.resource
        body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
        return await self._client.create(view, body)


def _is_printable(token: str) -> bool:
    """Whether it may be a token: other text reaches a header only by mistake, and some of it cannot be sent on."""
    return token.isascii() and token.isprintable()


def _refused(status: int) -> Response:
    if status == 401:
        response = refusal(401, "a bearer token that the API server knows is needed")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    if status == 403:
        return refusal(403, "this caller may not get this path: grant it by a ClusterRole with nonResourceURLs")
    if status == 429:
        response = refusal(429, "too many tokens to look at: try again")
        response.headers["Retry-After"] = "1"
        return response
    return refusal(503, "the API server cannot be asked who this is: try again")
