"""Answers whose clients are slow: how much of them waits in memory, and how long they have."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import pytest
from tests.unit.frozen_clients import an_unread_answer, closed_at_the_end
from tests.unit.runtime.test_server_end import LARGE, Loop, on_both_loops, plain, run
from tests.unit.sockets import accepted_at

from stellwerk.runtime.serving.crowd import Crowd
from stellwerk.runtime.serving.http import ServerLimits
from stellwerk.runtime.serving.http_connections import HttpConnection, Service
from stellwerk.runtime.serving.http_messages import Request, Response
from stellwerk.runtime.serving.unread_answers import UnreadAnswers
from stellwerk.testing.clock import SimulatedLoop
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.req("R-701")

MEBIBYTE = 2**20


@dataclass(eq=False)
class Line:
    is_cut: bool = False

    def cut(self) -> None:
        self.is_cut = True


def test_the_oldest_answers_of_the_client_with_the_most_unread_bytes_give_way() -> None:
    unread = UnreadAnswers(10 * MEBIBYTE)
    quiet, first, second, third, newcomer = (Line() for _ in range(5))
    unread.begin(quiet, "10.0.0.1", 2 * MEBIBYTE)
    for line in (first, second, third):
        unread.begin(line, "10.0.0.2", 2 * MEBIBYTE)
    unread.begin(newcomer, "10.0.0.1", 3 * MEBIBYTE)
    assert [line.is_cut for line in (quiet, first, second, third, newcomer)] == [False, True, False, False, False]
    assert unread.bytes == 9 * MEBIBYTE


def test_an_answer_that_is_larger_than_all_may_be_is_sent_alone() -> None:
    unread = UnreadAnswers(MEBIBYTE)
    before, large = Line(), Line()
    unread.begin(before, "10.0.0.1", MEBIBYTE // 2)
    unread.begin(large, "10.0.0.2", 2 * MEBIBYTE)
    assert (before.is_cut, large.is_cut) == (True, False)
    unread.end(large)
    assert unread.bytes == 0


def test_small_answers_take_no_room_from_large_ones() -> None:
    unread = UnreadAnswers(MEBIBYTE)
    large = Line()
    unread.begin(large, "10.0.0.1", MEBIBYTE)
    for _ in range(100):
        unread.begin(Line(), "10.0.0.2", 64 << 10)
    assert (large.is_cut, unread.bytes) == (False, MEBIBYTE)


@pytest.mark.heavy
@on_both_loops
def test_unread_answers_take_bounded_memory_and_the_oldest_lose_their_connections(loop: Loop) -> None:
    async def leave_unread() -> None:
        with closed_at_the_end() as clients:
            async with plain(ServerLimits(unread_bytes=2 * len(LARGE))) as server:
                port = server.port
                for _ in range(6):
                    clients.append(await asyncio.to_thread(an_unread_answer, port, None))
                await eventually(lambda: len(accepted_at(port)) <= 2, within=20)

    run(loop, leave_unread())


class Trickle(asyncio.Transport):
    """Sends each portion that is written, and takes its time."""

    def __init__(self, connection: HttpConnection, seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.waiting: deque[int] = deque()
        self.most_bytes_waiting = 0
        self.sent_bytes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It has none."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting.append(len(data))
        self.most_bytes_waiting = max(self.most_bytes_waiting, sum(self.waiting))
        self._connection.pause_writing()
        self._loop.call_later(self._seconds, self._send)

    def _send(self) -> None:
        self.sent_bytes += self.waiting.popleft()
        if not self.waiting and not self._connection.closed.is_set():
            self._connection.resume_writing()

    def is_closing(self) -> bool:
        return self._connection.closed.is_set()

    def abort(self) -> None:
        self._connection.connection_lost(None)

    def close(self) -> None:
        self._connection.connection_lost(None)


async def sent_to(*, seconds_per_portion: float, size: int, limits: ServerLimits) -> Trickle:
    """The way of an answer of this size to a client that reads it slowly, until all is read or the connection ends."""

    async def given(_: Request, __: HttpConnection) -> Response:
        return Response(200, b"x" * size)

    unread = UnreadAnswers(limits.unread_bytes)
    tasks: set[asyncio.Task[None]] = set()
    service = Service(limits, Crowd(1), Crowd(1), unread, given, lambda response: response, tasks)
    connection = HttpConnection(service)
    way = Trickle(connection, seconds_per_portion)
    connection.connection_made(way)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    await connection.closed.wait()
    if tasks:
        await asyncio.wait([*tasks])
    assert unread.bytes == 0
    return way


def test_a_client_has_its_time_for_each_mebibyte_of_an_answer_and_no_more_for_reading_in_small_portions() -> None:
    async def read() -> None:
        size = 4 * MEBIBYTE - 1  # of 32 portions
        slow = await sent_to(seconds_per_portion=3, size=size, limits=ServerLimits(reading_seconds=30))
        assert slow.sent_bytes > size
        too_slow = await sent_to(seconds_per_portion=5, size=size, limits=ServerLimits(reading_seconds=30))
        assert too_slow.sent_bytes < size

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(read())


def test_one_portion_of_an_answer_waits_to_be_sent_at_a_time() -> None:
    async def read() -> None:
        way = await sent_to(seconds_per_portion=1, size=2 * MEBIBYTE, limits=ServerLimits())
        assert way.most_bytes_waiting < 129 << 10

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(read())
