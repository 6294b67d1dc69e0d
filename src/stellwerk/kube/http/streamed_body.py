"""The body of an answer that lasts, read piece by piece while it comes: the events of a watch."""

from __future__ import annotations

import asyncio
from collections import deque

from stellwerk.kube.http.messages import GivenUp

_MOST_WAITING_BYTES = 256 << 10
_PIECE_BYTES = 64
"""What a piece takes besides its bytes: many may hold one byte each."""


class StreamedBody:
    """An asynchronous iterator of pieces, with one reader. A reader that is slow makes its server wait.

    It ends with the body. Raises what broke the connection, and TimeoutError where nothing comes for so long.
    """

    def __init__(self, transport: asyncio.ReadTransport, silence_seconds: float) -> None:
        self._transport = transport
        self._silence_seconds = silence_seconds
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._rests = False
        """Whether the server has to wait."""
        self._news: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self.is_over = False
        """Whether nothing more can come."""

    @property
    def is_complete(self) -> bool:
        """Whether the body has come to its end and was read to it, so that its connection is of use again."""
        return self.is_over and self._error is None and not self._pieces

    def add(self, piece: bytes) -> None:
        """A piece has come."""
        self._pieces.append(piece)
        self._waiting_bytes += len(piece) + _PIECE_BYTES
        if self._waiting_bytes > _MOST_WAITING_BYTES and not self._rests:
            self._rests = True
            self._transport.pause_reading()
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """No further piece comes, for want of a body or of a connection. The first call counts."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._wake()

    def give_up(self) -> None:
        """End it, because its reader holds too much of it."""
        self.end(GivenUp())

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def __aiter__(self) -> StreamedBody:
        return self

    async def __anext__(self) -> bytes:
        """All that has come since the last call, or else what comes next."""
        if not self._pieces and not self.is_over:
            self._news = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(self._silence_seconds):
                await self._news
        if not self._pieces:
            raise self._error or StopAsyncIteration
        pieces = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._rests:
            self._rests = False
            if not self._transport.is_closing():  # a body that is over gives a connection back that is read again
                self._transport.resume_reading()
        return pieces
