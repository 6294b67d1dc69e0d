"""What goes back to the operator, and how a connection ends before its time."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from multidict import CIMultiDict

from stellwerk.kube.types.model import JsonObject

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ConnectionCut(Exception):
    """Ends the operator's connection. What was sent before arrives; an answer that was begun stays without its end."""


@dataclass(slots=True)
class Reply:
    """An answer on its way to the operator. `body` is a stream for a watch and whole otherwise.

    `of_server`: whether the API server sent it.
    """

    status: int
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes | AsyncGenerator[bytes, None] = b""
    of_server: bool = False

    def json(self) -> JsonObject:
        """The whole body as an object. Raises ValueError when it is a stream, or no JSON object."""
        if not isinstance(self.body, bytes):
            raise ValueError("the body is a stream")
        content = json.loads(self.body)
        if not isinstance(content, dict):
            raise ValueError("the body is no JSON object")
        return content


def refusal(
    status: int,
    *,
    reason: str = "",
    message: str = "the fault proxy refuses it",
    retry_after_seconds: int | None = None,
    cause: str = "",
) -> Reply:
    """An answer as the API server gives it: a metav1.Status, and Retry-After where one is asked for."""
    headers = CIMultiDict({"Content-Type": "application/json"})
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
    return Reply(
        status, headers, json.dumps(status_object(status, reason, message, retry_after_seconds, cause)).encode()
    )


def status_object(
    code: int, reason: str = "", message: str = "", retry_after_seconds: int | None = None, cause: str = ""
) -> dict[str, object]:
    """A metav1.Status of a failure; `reason` defaults to the one that Kubernetes gives with this code."""
    details: dict[str, object] = {}
    if retry_after_seconds is not None:
        details["retryAfterSeconds"] = retry_after_seconds
    if cause:
        details["causes"] = [{"reason": cause, "message": message}]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason or _REASONS.get(code, "Unknown"),
        "message": message,
        "details": details,
    }
