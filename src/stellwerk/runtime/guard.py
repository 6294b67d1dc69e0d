"""Who may read a guarded endpoint: the API server decides.

A caller shows a bearer token. The API server says whose it is (TokenReview) and whether that user may `get` the path
(SubjectAccessReview with a non-resource URL), so access is granted by a ClusterRole as for the API server's own
/metrics. The rule is controller-runtime's filter for authenticated metrics; our process needs the right to create
both kinds of review.

Verdicts are remembered for a minute, by a digest of the token: a scrape every few seconds must not be two requests
each. A token that was withdrawn works until then.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass

from aiohttp import web

from stellwerk.kube.client import Client
from stellwerk.kube.errors import ApiError
from stellwerk.kube.model import JsonObject, JsonValue, Unstructured, View, unstructured
from stellwerk.kube.names import Resource
from stellwerk.runtime import http
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.http import Route

_TOKEN_REVIEWS = unstructured(Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False))
_ACCESS_REVIEWS = unstructured(
    Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
)
_REMEMBER_SECONDS = 60.0
_REMEMBERED = 256
_LONGEST_TOKEN = 16 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: int
    until: float


class Guard:
    """Lets callers pass whom the API server knows and permits. `client` must not be fenced: reviews are no changes."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()

    def protect(self, route: Route) -> Route:
        """The same route, for permitted callers. Others get 401 or 403; 503 while the API server cannot be asked."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            status = await self._judged(request)
            return await route.handler(request) if status == 200 else _refused(status)

        return Route(route.method, route.path, guarded)

    async def _judged(self, request: web.Request) -> int:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
            return 401
        key = hashlib.sha256(f"{request.method} {request.path} {token}".encode()).digest()
        known = self._verdicts.get(key)
        if known is not None and self._clock.monotonic() < known.until:
            return known.status
        try:
            status = await self._ask(token, request.path)
        except ApiError as error:
            _log.warning("who asks for %s cannot be checked: %s", request.path, error)
            return 503
        self._remember(key, status)
        return status

    def _remember(self, key: bytes, status: int) -> None:
        self._verdicts[key] = _Verdict(status, self._clock.monotonic() + _REMEMBER_SECONDS)
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > _REMEMBERED:
            self._verdicts.popitem(last=False)

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


def _refused(status: int) -> web.Response:
    if status == 401:
        response = http.refusal(401, "a bearer token that the API server knows is needed")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    if status == 403:
        return http.refusal(403, "this caller may not get this path: grant it by a ClusterRole with nonResourceURLs")
    return http.refusal(503, "the API server cannot be asked who this is: try again")
