"""One native process that renders: started without environment, bounded, and killed when in doubt.

Both directions go over one pair of sockets. When a worker ends, the kernel shows by it whether the request was read to
its end: if not, our next read is a reset and no end of file. Only then is it safe to hand the request to another; one
that was read and killed its reader would kill the next one too.

A worker has nothing to lose. Whatever is unclear (an answer that is late, a caller that gave up, a frame that is none)
ends it, and a new one is started in its place when it is needed. Its limits are set from here, on the process that
runs already: a function between fork and exec is unsafe in a process with threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from stellwerk.kube import threads
from stellwerk.render.errors import (
    LimitExceeded,
    LookupFailed,
    RendererBroken,
    RendererGone,
    RendererMissing,
    RenderError,
    RendererTimeout,
)
from stellwerk.render.request.request import Lookup, Missing, TemplateQuery, Texts
from stellwerk.render.worker import protocol

T_ = TypeVar("T_")

_log = logging.getLogger(__name__)

_STDERR_BYTES = 4_096
_MEMORY_EXCEEDED = "rendering needs more than 256 MiB of memory"
"""The words of the renderer's own watch, for the case that the kernel's bound ends it first."""
_SLOW_LOOKUPS = "rendering took longer than {:g} s, {:.1f} s of it for look-ups: the cluster answers slowly"
"""The words of the renderer's own watch, for the case that it ends while a look-up is under way."""
_OUT_OF_MEMORY = (b"out of memory", b"cannot allocate memory", b"stack overflow", b"stack exceeds")
"""How the Go runtime reports that the kernel refused it memory."""
_BUFFER = 1 << 20
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one worker may take."""

    seconds: float = 10.0
    """For one request, questions included. The worker ends itself then, and reports why."""
    grace_seconds: float = 1.0
    """After which it is killed."""
    bytes_per_second: int = 16 << 20
    """How fast a request must be read, besides its time."""
    lookup_seconds: float = 8.0
    """For one question to the cluster."""
    memory_bytes: int = 1 << 30
    """Writable memory of the process; it refuses requests that need more than a part of this by itself."""
    resident_bytes: int = 96 << 20
    """Above this, a worker that has nothing to do is replaced: Go gives memory back late."""


class RequestUnread(RendererGone):
    """The worker ended before it had read the request. Another one may have it."""


class Worker:
    """A process. One request at a time; after an exception, `is_usable` shows whether it can serve another."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        on_unconfined: Callable[[], None],
    ) -> None:
        self._process = process
        self._on_unconfined = on_unconfined
        self._reader, self._writer = streams
        self._numbers = 0
        self._asked_seconds = 0.0
        self._answers: set[bytes] = set()
        self._dead = False
        self._stderr = b""
        self._handle = _handle(process.pid)
        self._listening = asyncio.create_task(self._listen(), name=f"stderr of renderer {process.pid}")

    @classmethod
    async def start(cls, program: Path, bounds: Bounds, on_unconfined: Callable[[], None] = lambda: None) -> Worker:
        """Start a process. Raises `RendererMissing`. `on_unconfined`: it runs without a filter of system calls."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await _spawn(program, theirs.fileno())
            try:
                _confine(process.pid, bounds)
                return cls(process, await asyncio.open_unix_connection(sock=ours, limit=_BUFFER), on_unconfined)
            except BaseException:
                process.kill()
                raise
        except BaseException:
            ours.close()
            raise

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it can be given a request, as far as known."""
        return not self._dead and self._process.returncode is None and not self._reader.at_eof()

    def resident_bytes(self) -> int:
        """Memory that the process holds; 0 where the system does not show it."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return 0

    async def render(
        self, body: protocol.RequestBody, bounds: Bounds, most: int, lookup: Lookup | None
    ) -> protocol.Result:
        """The result, undecoded. Raises what the worker answers, `RequestUnread`, or another `WorkerError`."""
        result = await self._asked(body, bounds, most, lookup, protocol.read_uses)
        return replace(result, answers=hashlib.sha256(b"".join(sorted(self._answers))).digest())

    async def judge(self, body: protocol.RequestBody, bounds: Bounds) -> bool:
        """Whether a claim holds. Raises as `render` does."""
        return await self._asked(body, bounds, protocol.MAX_CALL, None, protocol.read_verdict)

    async def execute(self, texts: Texts, body: protocol.RequestBody, bounds: Bounds) -> list[dict[str, str]]:
        """The texts of templates. Raises as `render` does."""
        return await self._asked(
            body, bounds, protocol.MAX_FRAME, None, lambda message: protocol.read_texts(message, texts)
        )

    async def _asked(
        self,
        body: protocol.RequestBody,
        bounds: Bounds,
        most: int,
        lookup: Lookup | None,
        read: Callable[[protocol.RendererMessage], T_],
    ) -> T_:
        self._numbers += 1
        self._asked_seconds = 0.0
        self._answers.clear()
        try:
            async with asyncio.timeout(bounds.seconds + bounds.grace_seconds + body.size / bounds.bytes_per_second):
                message, size = await self._exchange(self._numbers, body, bounds, most, lookup)
                return await threads.run_if_large(size, lambda: read(message))
        except TimeoutError as error:
            self.kill()
            if self._asked_seconds > bounds.seconds / 2:
                raise LookupFailed(_SLOW_LOOKUPS.format(bounds.seconds, self._asked_seconds)) from error
            raise RendererTimeout(bounds.seconds) from error
        except BaseException as error:
            if not isinstance(error, RenderError) or isinstance(error, RendererGone | RendererBroken | LimitExceeded):
                self.kill()  # where a limit was exceeded it is about to end by itself
            raise

    def kill(self) -> None:
        """End the process now. Safe to repeat."""
        self._dead = True
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._kill()

    def _kill(self) -> None:
        """By the handle where there is one: asyncio's way takes a dead child's status from its waiter."""
        if self._handle is None:
            self._process.kill()
        else:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        await self._process.wait()
        await self._listening
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    # ---- one request

    async def _exchange(
        self, number: int, body: protocol.RequestBody, bounds: Bounds, most: int, lookup: Lookup | None
    ) -> tuple[protocol.RendererMessage, int]:
        """What ends the request, and the size of that message."""
        await self._send(body.frame(number), most)
        asked: Exception | None = None
        content = b""
        while True:
            content = await self._receive(most, was_read=bool(content))
            message = await threads.run_if_large(len(content), partial(protocol.read_message, content))
            if message.id != number and not (message.error is not None and message.id == 0):
                raise RequestUnread("the renderer answered an earlier request late")
            if message.call is not None:
                answer, asked = await self._answer(number, message.call.query, bounds, lookup)
                self._writer.write(answer)
                await self._flush()
            elif message.error is not None:
                error = message.error.error
                if not isinstance(error, LookupFailed):
                    raise error
                kind = LimitExceeded if isinstance(asked, LimitExceeded) else LookupFailed
                raise kind(error.why, file=error.file, line=error.line, column=error.column) from asked
            else:
                return message, len(content)

    async def _answer(
        self, number: int, query: TemplateQuery, bounds: Bounds, lookup: Lookup | None
    ) -> tuple[bytes, Exception | None]:
        """The frame that answers a question, and why it is no answer. Its time is counted, and its answer recorded."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            frame, failure = await _answered(number, query, bounds, lookup)
            if failure is None:
                digest = await threads.run_if_large(len(frame), lambda: protocol.answer_digest(query, frame))
                self._answers.add(digest)
            return frame, failure
        finally:
            self._asked_seconds += loop.time() - began

    async def _send(self, frame: Iterator[bytes], most: int) -> None:
        try:
            for piece in frame:
                self._writer.write(piece)
                await self._writer.drain()
        except OSError as error:
            raise await self._refusal(most) from error

    async def _refusal(self, most: int) -> RenderError:
        """Why a worker did not read the whole request: its own error, if it sent one."""
        with contextlib.suppress(OSError, EOFError, RendererBroken):
            message = protocol.read_message(await protocol.read_frame(self._reader, most))
            if message.error is not None:
                return message.error.error
        return await self._unread()

    async def _receive(self, most: int, *, was_read: bool) -> bytes:
        """`was_read`: whether the worker has read the request for sure, so that a reset is about an answer."""
        try:
            return await protocol.read_frame(self._reader, most)
        except OSError as error:
            raise await (self._gone() if was_read else self._unread()) from error
        except EOFError as error:
            raise await self._gone() from error

    async def _flush(self) -> None:
        with contextlib.suppress(OSError):  # reported by the next read
            await self._writer.drain()

    async def _unread(self) -> RequestUnread:
        await self._end()
        return RequestUnread("the renderer ended before it read the request")

    async def _gone(self) -> RenderError:
        """Why the process ended: from the messages of the Go runtime, of which nothing is quoted."""
        await self._end()
        if any(message in self._stderr for message in _OUT_OF_MEMORY):
            return LimitExceeded(_MEMORY_EXCEEDED)
        return RendererGone("the renderer ended while it rendered")

    async def _end(self) -> None:
        """Kill the process and read its stderr to the end."""
        self.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Read stderr to its end. Only its beginning is kept: the cause precedes the stacks."""
        assert self._process.stderr is not None
        warned = False
        while chunk := await self._process.stderr.read(_STDERR_BYTES):
            self._stderr = (self._stderr + chunk)[:_STDERR_BYTES]
            if not warned and b"not confined" in self._stderr:
                warned = True
                self._on_unconfined()
                _log.warning("The renderer runs without a filter of system calls: the kernel does not offer it.")


async def _spawn(program: Path, both_ways: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            str(program),
            stdin=both_ways,
            stdout=both_ways,
            stderr=asyncio.subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise RendererMissing(f"the renderer {program.name} cannot be started: {error.strerror}") from error


async def _answered(
    number: int, query: TemplateQuery, bounds: Bounds, lookup: Lookup | None
) -> tuple[bytes, Exception | None]:
    """The frame that answers a question, and why it is no answer."""
    try:
        async with asyncio.timeout(bounds.lookup_seconds):
            value = await lookup(query) if lookup is not None else Missing.OBJECT
        frame = protocol.answer(number, value)
        if len(frame) > protocol.MAX_ANSWER:
            raise LimitExceeded(_too_long(query, len(frame)))
        return frame, None
    except TimeoutError:
        return _without_answer(number, LookupFailed(f"the cluster did not answer within {bounds.lookup_seconds:g} s"))
    except Exception as error:  # whatever a lookup raises is the answer; the caller sees it as the cause
        return _without_answer(number, error)


def _too_long(query: TemplateQuery, size: int) -> str:
    asked = (
        f"{query.kind} {query.namespace}/{query.name}" if query.name else f"{query.kind} in {query.namespace or 'all'}"
    )
    return f"the look-up of {asked} has an answer of {size >> 20} MiB; at most {protocol.MAX_ANSWER >> 20} MiB are read"


def _without_answer(number: int, error: Exception) -> tuple[bytes, Exception]:
    return protocol.answer(number, None, str(error) or type(error).__name__), error


def _handle(pid: int) -> int | None:
    """A handle on the process that never means another one; None where the system has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _confine(pid: int, bounds: Bounds) -> None:
    """Bound a process that runs already; it has not been given anything yet."""
    if sys.platform != "linux":
        return
    limits = {
        resource.RLIMIT_DATA: bounds.memory_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    with contextlib.suppress(ProcessLookupError, PermissionError):
        for limit, value in limits.items():
            resource.prlimit(pid, limit, (value, value))
    # Where memory runs out, the kernel is to take the worker and not its parent.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write("1000")
