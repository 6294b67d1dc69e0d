"""A request as it goes out over HTTP/1.1, the answer as it comes in, and the ways in which none comes.

NoAnswer                            the root; its message is a few steady words
├── ConnectionBroken                the request was sent, or a part of it: what became of it is unknown
│   └── GivenUp                     too much was received from all servers together
└── NotConnected                    nothing of it was sent
    ├── AddressRefused              the server's address may not be called from here
    ├── ServerCertificateInvalid    the server does not prove its identity
    └── ClientCertificateRejected   the server does not accept ours
BodyTooLarge                        there is an answer, and more of it than there may be
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stellwerk.kube.memory_budget import Claim
from stellwerk.kube.types.header_values import fits

_PORTION_BYTES = 256 << 10
LARGEST_STATUS_BYTES = 1 << 20
"""A larger body of a refusal is no Status. Decoding one of millions of empty causes would take a gigabyte."""
_GZIP = 16 + zlib.MAX_WBITS


class NoAnswer(Exception):
    """No answer came; the message is the cause, and the same for the same cause."""


class ConnectionBroken(NoAnswer):
    """The connection broke after the request had been sent, or in the middle of it."""


class GivenUp(ConnectionBroken):
    """The answer was the largest of those that were received at once, and they took too much memory together."""

    def __init__(self) -> None:
        super().__init__("the answer was given up, because it was the largest of too many at once")


class NotConnected(NoAnswer):
    """No connection came about, so nothing was sent."""


class AddressRefused(NotConnected):
    """The server's address may not be called from here."""


class ServerCertificateInvalid(NotConnected):
    """The server does not prove its identity."""


class ClientCertificateRejected(NotConnected):
    """The server does not accept our certificate. Since TLS 1.3 it reports that only after the request has started."""


class BodyTooLarge(Exception):
    """The answer is larger than it may be."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer to a request. `headers`: lower-case names, in order."""

    code: int
    reason: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)  # may be a Secret

    def all(self, name: str) -> Iterator[str]:
        """The values of a header."""
        wanted = name.lower().encode()
        return (value.decode("latin-1") for known, value in self.headers if known == wanted)

    def first(self, name: str) -> str:
        """The first value of a header; empty where it has none."""
        return next(self.all(name), "")


class AnswerBody:
    """The body of an answer, gathered and unpacked piece by piece, up to `largest` bytes once unpacked."""

    def __init__(self, largest: int, encoding: str, *, kept: int, claim: Claim | None = None) -> None:
        """`kept`: how many bytes are of use; of a larger body none are. `claim` has its bytes, and ends with it.

        Raises ConnectionBroken for an encoding that we did not ask for.
        """
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip"):
            raise ConnectionBroken("an unknown encoding")
        self._largest, self._kept = largest, kept
        self._claim = claim
        self._unpacking = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        self._size = 0
        self._first = b""
        self._rest: bytearray | None = None
        """Not a list: pieces of a byte or two would cost fifty times their size there."""

    def add(self, piece: bytes) -> None:
        """Add what has come. Raises BodyTooLarge, and ConnectionBroken where it is no proper gzip."""
        if self._unpacking is not None:
            piece = self._unpacked(piece)
        self._size += len(piece)
        if self._size > self._largest:
            raise BodyTooLarge
        if self._size > self._kept:
            self.drop()
            return
        if self._rest is not None:
            self._rest += piece
        elif self._first:
            self._rest = bytearray(self._first + piece)
        else:
            self._first = piece  # most come in one piece
        if self._claim is not None:
            self._claim.add(len(piece))

    def drop(self) -> None:
        """Drop what has come."""
        self._first, self._rest = b"", None
        if self._claim is not None:
            self._claim.release()

    def _unpacked(self, piece: bytes) -> bytes:
        assert self._unpacking is not None
        if self._unpacking.eof:
            raise ConnectionBroken("something follows the end")  # zlib would keep all of it
        try:
            return self._unpacking.decompress(piece, self._largest - self._size + 1)
        except zlib.error as error:
            raise ConnectionBroken("the answer was cut") from error

    def whole(self) -> bytes:
        """All of it. Raises ConnectionBroken where the end of a gzip lacks."""
        if self._unpacking is not None and (not self._unpacking.eof or self._unpacking.unused_data):
            raise ConnectionBroken("the answer was cut")
        return self._first if self._rest is None else bytes(self._rest)


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """A request as bytes."""

    head: bytes = field(repr=False)  # has credentials
    body: bytes | None = field(default=None, repr=False)

    def portions(self) -> Iterator[bytes]:
        """One for most requests; a large body would hold up the event loop if it were encrypted whole."""
        if self.body is None:
            yield self.head + b"\r\n\r\n"
            return
        start = b"%b\r\nContent-Length: %d\r\n\r\n" % (self.head, len(self.body))
        if len(self.body) <= _PORTION_BYTES:
            yield start + self.body
            return
        yield start
        for begin in range(0, len(self.body), _PORTION_BYTES):
            yield self.body[begin : begin + _PORTION_BYTES]


def head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request, without its end. Raises ValueError for what does not fit into one line of it."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if " " in target or not all(map(fits, lines)):
        raise ValueError("a request holds a character that no header may have")
    return "\r\n".join(lines).encode()
