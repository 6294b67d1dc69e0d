"""A request as a handler receives it, and its answer. Refusals have one shape: JSON with `error` and `code`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from stellwerk.kube.types.model import JsonObject, encode_json

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Fields(Mapping[str, str]):
    """Names with values, as the query of a request has them. A name may have several; the first counts."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> list[str]:
        """The values of a name, in order."""
        return self._values.get(name, [])


class Headers(Fields):
    """The headers of a request, whose names are the same in any case."""

    __slots__ = ()

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        super().__init__((name.lower(), value) for name, value in pairs)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def all(self, name: str) -> list[str]:
        """The values of a name, in order."""
        return super().all(name.lower())


@dataclass(slots=True, kw_only=True)
class Request:
    """A request that has arrived whole.

    `path` is as it was sent, with its percent signs; `found` has the parts of it that the route names, without them.
    `remote` is the address of the peer, empty where the system does not report it. `certificate` is that of the client,
    as DER, which a server with TLS has verified; empty if it asks for none.
    """

    method: str
    path: str
    headers: Headers = field(repr=False)
    query: Fields = field(default_factory=lambda: Fields(()))
    body: bytes = field(default=b"", repr=False)
    remote: str = ""
    certificate: bytes = field(default=b"", repr=False)
    found: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Response:
    """What a client gets. `closes`: no further request is read from its connection."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)
    closes: bool = False

    def head(self, *, keeps_alive: bool) -> bytes:
        """Everything before the body. Raises ValueError where a header would end before its value."""
        phrase = HTTPStatus(self.status).phrase
        lines = [
            f"HTTP/1.1 {self.status} {phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            f"Connection: {'keep-alive' if keeps_alive else 'close'}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header holds a line break")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(body: JsonObject | msgspec.Struct, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(status, encode_json(body), JSON)


def text(body: str, status: int = 200) -> Response:
    """An answer for people."""
    return Response(status, body.encode())


def refusal(status: int, message: str = "") -> Response:
    """A refusal: JSON with `error` and `code`. Without a message it is that of the status."""
    return Response(status, encode_json({"error": message or HTTPStatus(status).phrase, "code": status}), JSON)


def closing(response: Response) -> Response:
    """The answer, and no further request on this connection: its bytes may be anything."""
    response.closes = True
    return response


def too_many() -> Response:
    """The refusal of a request that others keep from being served."""
    response = closing(refusal(429, "too many requests at a time: try again"))
    response.headers["Retry-After"] = "1"
    return response
