"""Servers that answer without end take a bounded part of the memory of a process, however many there are.

What a failed answer leaves behind counts, too: the callers try again at once, and remember their last failure.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from stellwerk.testing import sweeps

pytestmark = [pytest.mark.heavy, pytest.mark.req("R-942"), pytest.mark.timeout(120)]

MEBIBYTE = 1 << 20
MOST_MEBIBYTES = 350
"""Of the 512 MiB that a container may have; the rest is for caches and renderers."""
SECONDS = 2.5
PIECE = b"x" * (64 << 10)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def pages() -> Iterator[bytes]:
    """Whole pages, one answer each, with a token for the next one."""
    item = json.dumps({"metadata": {"name": "a", "namespace": "b"}, "data": {"a": "x" * (256 << 10)}}).encode()
    body = b'{"metadata": {"continue": "more"}, "items": [%b]}' % b",".join([item] * 12)
    while True:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def unending(head: bytes, piece: bytes, *, first: bytes = b"") -> Iterator[bytes]:
    yield b"HTTP/1.1 %b\r\n\r\n%b" % (head, first)
    while True:
        yield piece


def packed() -> Iterator[bytes]:
    maker = zlib.compressobj(1, wbits=31)
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield chunk(maker.compress(b" " * MEBIBYTE) + maker.flush(zlib.Z_SYNC_FLUSH))


ANSWERS = {
    "artifact": lambda: unending(b"200 OK", PIECE),
    "artifact in chunks": lambda: unending(b"200 OK\r\nTransfer-Encoding: chunked", chunk(PIECE)),
    "list": lambda: unending(b"200 OK\r\nContent-Length: 16777216", PIECE),
    "pages": pages,
    "watch": lambda: unending(b"200 OK\r\nTransfer-Encoding: chunked", chunk(PIECE), first=chunk(b'{"type": "ADDED')),
    "refusal": lambda: unending(b"500 Oh\r\nTransfer-Encoding: chunked", chunk(PIECE)),
    "chunks": lambda: unending(b"200 OK\r\nTransfer-Encoding: chunked", chunk(PIECE)),
    "gzip": packed,
}


@asynccontextmanager
async def server(kind: str) -> AsyncIterator[int]:
    """Its port. Each request of a connection is answered by the next part where answers end, else by all of it."""
    under_way: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.current_task())
        try:
            answer = ANSWERS[kind]()
            while await reader.readuntil(b"\r\n\r\n"):
                for part in answer:
                    writer.write(part)
                    await writer.drain()
                    if kind == "pages":
                        break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]
        for task in under_way:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in under_way if task is not None), return_exceptions=True)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", sweeps.part([*ANSWERS], 8))
async def test_endless_servers_leave_most_of_the_memory_to_others(kind: str) -> None:
    async with server(kind) as port:
        one, many = await asyncio.gather(called(kind, 1, port), called(kind, 30, port))
    for mebibytes, failures in (one, many):
        assert failures > 0
        assert mebibytes < MOST_MEBIBYTES


async def called(kind: str, count: int, port: int) -> tuple[int, int]:
    """What a process with so many callers needs at most, in MiB, and how many calls have failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.unit.endless_calls", kind, str(count), str(SECONDS), str(port)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    mebibytes, failures = map(int, output.split())
    return mebibytes, failures
