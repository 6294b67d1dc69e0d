"""Warnings of an API server in the `Warning` headers of its answers: a deprecated version, a field that it drops.

A caller listens around a call, and receives the warnings of calls of its own task only:

    with warnings.Listening() as received:
        await client.apply(...)

A callback through every verb of the client was refused: few callers listen, and all would have to hand it on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

HEADER = "Warning"
MOST = 20
"""How many warnings of one answer are read; a webhook may send any number."""

_SAID = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
"""RFC 7234, section 5.5. Kubernetes uses the one code, and several remarks may share a line."""
_ESCAPED = re.compile(r"\\(.)")

_heard: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


class Listening:
    """Gathers what is remarked meanwhile, each remark once, in order.

    A class and no generator, because every write uses it.
    """

    __slots__ = ("_before", "_heard")

    def __enter__(self) -> list[str]:
        self._heard: list[str] = []
        self._before = _heard.set(self._heard)
        return self._heard

    def __exit__(self, *error: object) -> None:
        _heard.reset(self._before)


def anybody_listens() -> bool:
    """Whether it is worth looking for remarks."""
    return _heard.get() is not None


def note(lines: Iterable[str]) -> None:
    """Report these lines of the header to the listener."""
    heard = _heard.get()
    if heard is None:
        return
    for remark in _read(lines):
        if remark not in heard and len(heard) < MOST:
            heard.append(remark)


def _read(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        for said in _SAID.findall(line):
            yield _ESCAPED.sub(r"\1", said)
