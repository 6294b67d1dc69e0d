"""What can go wrong with a request: each fault wraps the forwarding like a layer of middleware.

`proceed` carries the request on, to the next fault and at last to the API server. A fault that does not call it keeps
the request from the server; one that calls it and then does something else loses the reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound, NotServed, Unexplained
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.testing.faults.reply import ConnectionCut, Reply, refusal
from stellwerk.testing.faults.traffic import RecordedRequest

Proceed = Callable[[RecordedRequest], Awaitable[Reply]]


class RequestFault(Protocol):
    """One kind of misfortune. `str()` names it in the history."""

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        """Let it happen to this request. Raises ConnectionCut to end the connection without (the rest of) an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Delay:
    """The request arrives late at the server, or with `reply=True` the answer late at the operator."""

    seconds: float
    reply: bool = False
    clock: Clock = field(default_factory=SystemClock)

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if not self.reply:
            await self.clock.sleep(self.seconds)
            return await proceed(request)
        answer = await proceed(request)
        await self.clock.sleep(self.seconds)
        return answer

    def __str__(self) -> str:
        return f"{'reply' if self.reply else 'request'} delayed by {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Drop:
    """No answer ever comes, and the connection stays open. With `after_forwarding` the server has done the work."""

    after_forwarding: bool = False

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if self.after_forwarding:
            await proceed(request)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("no caller resolves this future")

    def __str__(self) -> str:
        return "reply dropped" if self.after_forwarding else "request dropped"


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The connection ends without an answer; with `after_forwarding` the server did the work and the reply is lost."""

    after_forwarding: bool = False

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if self.after_forwarding:
            await proceed(request)
        raise ConnectionCut

    def __str__(self) -> str:
        return "cut after forwarding" if self.after_forwarding else "cut before forwarding"


@dataclass(frozen=True, slots=True)
class CutBody:
    """The connection ends after this many bytes of the server's answer; of a watch, wherever that is in a frame."""

    after_bytes: int

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        reply = await proceed(request)
        if isinstance(reply.body, bytes):
            # The length is promised in full, so that the operator can notice that it did not get all.
            reply.headers["Content-Length"] = str(len(reply.body))
            reply.body = _first_bytes(_once(reply.body), self.after_bytes)
        else:
            reply.body = _first_bytes(reply.body, self.after_bytes)
        return reply

    def __str__(self) -> str:
        return f"body cut after {self.after_bytes} bytes"


@dataclass(frozen=True, slots=True)
class AnswerInstead:
    """The proxy answers instead of the server; with `after_forwarding` the server has done the work, and its answer is
    lost.

    `reason` defaults to the one that Kubernetes gives with the status. `raw` replaces the Status object as the body.
    """

    status: int
    after_forwarding: bool = False
    reason: str = ""
    message: str = "the fault proxy refuses it"
    retry_after_seconds: int | None = None
    raw: bytes | None = None

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if self.after_forwarding:
            await proceed(request)
        reply = refusal(
            self.status, reason=self.reason, message=self.message, retry_after_seconds=self.retry_after_seconds
        )
        if self.raw is not None:
            reply.body = self.raw
        return reply

    def __str__(self) -> str:
        return f"answered {self.status} {'after' if self.after_forwarding else 'instead of'} forwarding"


@dataclass(frozen=True, slots=True)
class ChangedBefore:
    """Another client has changed the object when the request reaches the server: its resourceVersion is another one.

    The content is as before, because an annotation comes and goes. What does not exist yet cannot be changed.
    """

    client: Client
    others: Sequence[Client] = ()
    """Of an operator of several clusters: those of the others, in which an object of this name is changed as well."""

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        resource = Resource(request.group, request.version, "", request.resource, namespaced=bool(request.namespace))
        for client in (self.client, *self.others):
            for value in ("yes", None):
                touched: JsonObject = {"metadata": {"annotations": {"fault-proxy": value}}}
                # For a kind whose definition has just gone, an API server answers as for a path that it does not know.
                with contextlib.suppress(NotFound, NotServed, Unexplained):
                    target = metadata_of(resource)
                    await client.patch(target, request.name, request.namespace, MergePatch(touched))
        return await proceed(request)

    def __str__(self) -> str:
        return "changed by another client before forwarding"


@dataclass(frozen=True, slots=True)
class EndWatchAfter:
    """A watch ends so many seconds after it began: in order, as at a timeout, or with `cut` as by a broken line."""

    seconds: float
    cut: bool = False
    clock: Clock = field(default_factory=SystemClock)

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        reply = await proceed(request)
        if not isinstance(reply.body, bytes):
            reply.body = self._shortened(reply.body)
        return reply

    async def _shortened(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        bell = asyncio.create_task(self.clock.sleep(self.seconds), name="end of watch")
        chunk: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                chunk = asyncio.create_task(_next(chunks), name="next chunk of watch")
                await asyncio.wait({bell, chunk}, return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    break
                if (content := chunk.result()) is None:
                    return
                yield content
        finally:
            await _cancelled(bell, chunk)
            await chunks.aclose()
        if self.cut:
            raise ConnectionCut

    def __str__(self) -> str:
        return f"watch {'cut' if self.cut else 'ended'} after {self.seconds:g} s"


class HasPid(Protocol):
    """Something with a process: an `OperatorProcess` names the process of its present run."""

    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Kill:
    """The operator dies by SIGKILL before its request reaches the server, or with `after_forwarding` after the server
    has done the work and before the operator gets the answer. The request goes no further until the process is dead.
    """

    victim: HasPid | int
    after_forwarding: bool = False

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        if self.after_forwarding:
            await proceed(request)
        await kill(self.victim if isinstance(self.victim, int) else self.victim.pid)
        raise ConnectionCut

    def __str__(self) -> str:
        return f"operator killed {'after' if self.after_forwarding else 'before'} forwarding"


async def kill(pid: int) -> None:
    """End a process as a power cut would, and return when it has ended. Nothing happens when it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    try:
        loop.add_reader(descriptor, gone.set)
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        await gone.wait()
    except ProcessLookupError:
        return
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _first_bytes(chunks: AsyncGenerator[bytes, None], count: int) -> AsyncGenerator[bytes, None]:
    left = count
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                break
    raise ConnectionCut


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


async def _cancelled(*tasks: asyncio.Task[bytes | None] | asyncio.Task[None] | None) -> None:
    for task in tasks:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
