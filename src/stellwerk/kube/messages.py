"""A request as it goes out over HTTP/1.1, the answer as it comes in, and the ways in which none comes.

NoAnswer                  the root; its message is a few steady words
├── Cut                   the request was sent, or a part of it: what became of it is unknown
└── NotConnected          nothing of it was sent
    ├── Unproved          the server does not prove its identity
    └── Distrusted        the server does not accept ours
TooLarge                  there is an answer, and more of it than there may be
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_PORTION_BYTES = 256 << 10
_UNFIT = re.compile(r"[^\t\x20-\x7e\x80-\U0010ffff]")
"""What no field of a head may hold: it would end the line, and begin another one."""


class NoAnswer(Exception):
    """No answer came; the message says why in a few steady words."""


class Cut(NoAnswer):
    """The connection broke after the request had been sent, or in the middle of it."""


class NotConnected(NoAnswer):
    """No connection came about, so nothing was sent."""


class Unproved(NotConnected):
    """The server does not prove its identity."""


class Distrusted(NotConnected):
    """The server does not accept our certificate. Since TLS 1.3 it says so only when we have begun to send."""


class TooLarge(Exception):
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


@dataclass(frozen=True, slots=True)
class Message:
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


def fits(value: str) -> bool:
    """Whether a header may have this value."""
    return not _UNFIT.search(value)


def head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request, without its end. Raises ValueError for what does not fit into one line of it."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if " " in target or any(_UNFIT.search(line) for line in lines):
        raise ValueError("a request holds a character that no header may have")
    return "\r\n".join(lines).encode()
