"""Calls to a server that tears, delays, doubles and breaks off whatever it says, wherever chance has it.

Each call asks for a path and is answered with that path, so that every answer shows whose it is. Whatever the server
does: each call ends once, with its own answer or an error that has a name; a request that may not be sent twice
arrives once at most; a connection on which something was wrong is asked nothing any more; and nothing stays open.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohappyeyeballs
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.unit.sockets import all_closed

from stellwerk.kube.http.connection_pool import Connections, Wish
from stellwerk.kube.http.dialer import Dialer
from stellwerk.kube.http.messages import Answer, BodyTooLarge, NoAnswer, RequestMessage, head
from stellwerk.kube.http.sockets import OwnSocket

pytestmark = pytest.mark.heavy

LARGEST = 100_000
LIMIT = 2
PADDING = b" " * 70_000
"""Makes a body that does not come in one piece."""
RESET = struct.pack("ii", 1, 0)


# ---- what a server does to one request


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def in_chunks(body: bytes) -> bytes:
    first, rest = body[:1], body[1:]
    chunks = b"1\r\n%b\r\n%x;x=y\r\n%b\r\n0\r\nTrailer: 1\r\n\r\n" % (first, len(rest), rest)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


def packed(body: bytes) -> bytes:
    small = gzip.compress(body, mtime=0)
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(small), small)


def the_last_one(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


INTERIM = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Conduct:
    """How one request is treated."""

    form: Callable[[bytes], bytes] = with_length
    padded: bool = False
    interim: bytes = b""
    behind: bytes = b""
    """Comes together with the last byte of an answer that is whole."""
    cut: float | None = None
    """Where the answer ends; None: where it should."""
    pieces: tuple[float, ...] = ()
    """Where it is torn; the event loop turns in between."""
    end: str = "keep"
    """Keep the connection, close it, or reset it."""
    hasty: bool = False
    """Whether it answers before it has read the body."""

    @property
    def is_proper(self) -> bool:
        return self.cut is None and not self.behind and self.end == "keep" and not self.hasty

    @property
    def is_last(self) -> bool:
        """Whether nothing may be asked over this connection again."""
        return self.cut is not None or bool(self.behind) or self.form is the_last_one

    def pieces_of(self, path: bytes) -> list[bytes]:
        whole = self.interim + self.form(path + (PADDING if self.padded else b""))
        whole = whole if self.cut is None else whole[: int(self.cut * len(whole))]
        places = {0, *(int(place * len(whole)) for place in self.pieces), len(whole)}
        pieces = [whole[begin:end] for begin, end in itertools.pairwise(sorted(places))]
        if self.behind and self.cut is None:  # together with the last byte: later it would be the next answer
            pieces[-1:] = [pieces[-1][:-1], pieces[-1][-1:] + self.behind]
        return pieces


fractions = some.floats(0, 0.999)
conducts = some.builds(
    Conduct,
    form=some.sampled_from([with_length, in_chunks, packed, the_last_one]),
    padded=some.booleans(),
    interim=some.sampled_from([b"", b"", INTERIM, INTERIM * 2]),
    behind=some.sampled_from([b"", b"", b"", b"x", b"\x00\xff", with_length(b"/another's"), INTERIM, b"HTTP/1.1 2"]),
    cut=some.none() | some.none() | some.just(0.0) | fractions,
    pieces=some.lists(fractions, max_size=4).map(tuple),
    end=some.sampled_from(["keep", "keep", "close", "reset"]),
    hasty=some.booleans(),
)


@dataclass
class Tearing:
    """Treats each request that comes as its turn has it."""

    conducts: list[Conduct]
    arrived: Counter[bytes] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    under_way: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.under_way.add(task)
        try:
            while await self._treat(reader, writer):
                pass
        except (asyncio.IncompleteReadError, OSError, RuntimeError):
            pass  # the client is gone; uvloop says so by a RuntimeError
        finally:
            writer.close()

    async def _treat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        start = await reader.readuntil(b"\r\n\r\n")
        path = start.split()[1]
        conduct = self.conducts[self.arrived.total() % len(self.conducts)]
        self.arrived[path] += 1
        size = next((int(line[15:]) for line in start.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        if not conduct.hasty:
            await reader.readexactly(size)
        for piece in conduct.pieces_of(path):
            writer.write(piece)
            await writer.drain()
            for _ in range(3):
                await asyncio.sleep(0)
        if writer.is_closing():
            return False  # the client has hung up already
        if conduct.end == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if conduct.end != "keep":
            return False
        if conduct.hasty:
            await reader.readexactly(size)
        if conduct.is_last:
            if more := await reader.read(100):
                self.faults.append(f"asked again after {conduct}: {more!r}")
            return False
        return True


# ---- what a client does


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `given_up_after` so many turns of the event loop."""

    body: int | None
    repeatable: bool
    given_up_after: int | None = None


calls = some.builds(
    Call,
    body=some.sampled_from([None, 0, 10, 300_000]),
    repeatable=some.booleans(),
    given_up_after=some.none() | some.none() | some.integers(0, 60),
)


async def outcome_of(call: Call, path: str, connections: Connections, seconds: float) -> BaseException | Answer:
    message = RequestMessage(head("PATCH", path, [("Host", "here")]), None if call.body is None else b"x" * call.body)
    wish = Wish(tls=None, name="here", largest=LARGEST, repeatable=call.repeatable)
    task = asyncio.create_task(connections.exchange(message, wish, seconds=seconds))
    if call.given_up_after is not None:
        for _ in range(call.given_up_after):
            await asyncio.sleep(0)
        task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    return outcome


async def tell(conducts: list[Conduct], calls: list[Call], together: int) -> None:
    """Make the calls, so many at a time, and hold everything against its promise."""
    server, sockets = Tearing(conducts), list[OwnSocket]()

    def make(address: aiohappyeyeballs.AddrInfoType) -> OwnSocket:
        sockets.append(OwnSocket(*address[:3]))
        return sockets[-1]

    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connections = Connections(Dialer("127.0.0.1", port, 5, make), limit=LIMIT)
    proper = all(conduct.is_proper for conduct in conducts)
    async with listening, asyncio.timeout(90):
        for begin in range(0, len(calls), together):
            some_calls = list(enumerate(calls[begin : begin + together], begin))
            outcomes = await asyncio.gather(
                *(outcome_of(call, f"/{number}", connections, 20 if proper else 0.1) for number, call in some_calls)
            )
            for (number, call), outcome in zip(some_calls, outcomes, strict=True):
                judge(call, f"/{number}".encode(), outcome, proper)
        for _ in range(10):
            await asyncio.sleep(0)
        assert sum(one.fileno() >= 0 for one in sockets) <= LIMIT, "a call that is over left its connection open"
        connections.close()
        await asyncio.gather(*server.under_way)
        await all_closed(port)
    assert server.faults == []
    for number, call in enumerate(calls):
        assert server.arrived[f"/{number}".encode()] <= (2 if call.repeatable else 1)
    assert [one for one in sockets if one.fileno() >= 0] == []


def judge(call: Call, path: bytes, outcome: BaseException | Answer, proper: bool) -> None:
    if isinstance(outcome, Answer):
        assert (outcome.code, outcome.body.rstrip(b" ")) == (200, path)
    elif isinstance(outcome, asyncio.CancelledError):
        assert call.given_up_after is not None
    else:
        assert isinstance(outcome, NoAnswer | BodyTooLarge | TimeoutError), outcome
        assert not proper, outcome


@pytest.mark.req("R-203")
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@given(
    conducts=some.lists(conducts, min_size=1, max_size=4),
    calls=some.lists(calls, min_size=1, max_size=8),
    together=some.integers(1, 4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_server_tears_every_call_ends_with_its_own_answer_or_a_named_error(
    new_loop: Callable[[], asyncio.AbstractEventLoop], conducts: list[Conduct], calls: list[Call], together: int
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(tell(conducts, calls, together))
