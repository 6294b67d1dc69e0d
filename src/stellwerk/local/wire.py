"""The few requests that the start of a cluster needs, over the standard library.

The product's client (`stellwerk.kube`) is asynchronous and typed; starting it here would cost `up` and every test
session its imports for four requests.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
            with self.connected(timeout_seconds=timeout_seconds) as connection:
                return connection.ask(method, path, body)
        except (OSError, http.client.HTTPException):
            return None

    def follow(self, path: str, *, timeout_seconds: float = 60.0) -> Iterator[bytes]:
        """The lines of a watch as they come, until the server ends it or the caller stops reading."""
        with self.connected(timeout_seconds=timeout_seconds) as connection:
            yield from connection.follow(path)

    @contextmanager
    def connected(self, *, timeout_seconds: float = 10.0) -> Iterator[WireConnection]:
        """One connection for several requests: to open one costs more than to answer most of them."""
        made = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout_seconds, context=self._trust)
        with closing(made) as connection:
            yield WireConnection(connection)


class WireConnection:
    """Requests over one connection, one after the other. They raise OSError or HTTPException without an answer."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> WireAnswer:
        """One request and its answer. The body of a PATCH is a merge patch."""
        response = self._send(method, path, body)
        return WireAnswer(response.status, response.read())

    def follow(self, path: str) -> Iterator[bytes]:
        """The lines of a watch as they come. The connection is of no use for anything else afterwards."""
        yield from self._send("GET", path, None)

    def _send(self, method: str, path: str, body: Mapping[str, object] | None) -> http.client.HTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        self._connection.request(method, path, content, {"Content-Type": kind})
        return self._connection.getresponse()
