"""The few requests that the start of a cluster needs, over the standard library.

The product's client (`stellwerk.kube`) is asynchronous and typed; starting it here would cost `up` and every test
session its imports for four requests.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """The answer of the API server: `status` is the HTTP status, `body` the raw answer."""

    status: int
    body: bytes

    def json(self) -> dict[str, object]:
        """The body as an object; empty when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class Wire:
    """Requests to one API server as one user. Certificate and key are in one PEM file."""

    def __init__(self, port: int, *, authority: Path, identity: Path) -> None:
        self._port = port
        self._trust = ssl.create_default_context(cafile=str(authority))
        self._trust.load_cert_chain(str(identity))

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, timeout_seconds: float = 10.0
    ) -> WireAnswer | None:
        """One request and its answer, or None without an answer. The body of a PATCH is a merge patch."""
        try:
            with closing(self._connect(timeout_seconds)) as connection:
                response = _send(connection, method, path, body)
                return WireAnswer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            return None

    def follow(self, path: str, *, timeout_seconds: float = 60.0) -> Iterator[bytes]:
        """The lines of a watch as they come, until the server ends it or the caller stops reading."""
        with closing(self._connect(timeout_seconds)) as connection:
            yield from _send(connection, "GET", path, None)

    def _connect(self, timeout_seconds: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout_seconds, context=self._trust)


def _send(
    connection: http.client.HTTPSConnection, method: str, path: str, body: Mapping[str, object] | None
) -> http.client.HTTPResponse:
    content = None if body is None else json.dumps(body).encode()
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    connection.request(method, path, content, {"Content-Type": kind})
    return connection.getresponse()
