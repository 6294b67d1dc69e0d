"""What our HTTP servers answer: JSON, and one shape of refusal for all of them."""

from __future__ import annotations

import msgspec
from aiohttp import web

from stellwerk.kube.types.model import JsonObject, encode_json

JSON = "application/json"


def refusal(status: int, message: str) -> web.Response:
    """A refusal: JSON with `error` and `code`."""
    return web.Response(status=status, body=refusal_body(status, message), content_type=JSON)


def refusal_body(status: int, message: str) -> bytes:
    """The body of a refusal."""
    return encode_json({"error": message, "code": status})


def answer(body: JsonObject | msgspec.Struct, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(status=status, body=encode_json(body), content_type=JSON)


def too_many() -> web.Response:
    """The refusal of a request that others keep from being served."""
    return closing(refusal(429, "too many requests at a time: try again"), retry_after=1)


def closing(response: web.Response, retry_after: int | None = None) -> web.Response:
    """The answer, and no further request on this connection: its bytes may be anything."""
    response.force_close()
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def as_json(error: web.HTTPException) -> web.Response:
    """A refusal of aiohttp's (no such path, wrong method) in our shape, with the headers that it needs."""
    response = refusal(error.status, error.text if error.content_type == JSON and error.text else error.reason)
    for name in ("Allow", "Location", "Retry-After", "WWW-Authenticate"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response
