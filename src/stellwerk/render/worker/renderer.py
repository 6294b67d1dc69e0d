"""Requests become objects: from what is known already, or by a worker. Claims become a yes or no.

    async with Renderer() as renderer:
        rendered = await renderer.render(request, lookup)          raises a RenderError
        holds = await renderer.holds(claim)                        raises a RenderError
        names = await renderer.texts(texts)                        raises a RenderError

One input is not rendered twice (see `render_cache`), and not twice at the same time for one tenant. A caller that
gives up ends its worker: a running Go template cannot be stopped.

A worker gets the files below the path alone, where they are all that can be read: an artifact of a hundred folders
would otherwise travel a hundred times, and each change of one folder would render all of them again. A kustomization
that includes something from outside names it in its configuration; then it gets everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from stellwerk.kube import threads
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import (
    InvalidValues,
    KustomizeFailed,
    LimitExceeded,
    RendererBroken,
    RenderError,
    Unrenderable,
)
from stellwerk.render.files.files import Files, clean_path
from stellwerk.render.request.request import Claim, Lookup, Rendered, RenderRequest, Texts
from stellwerk.render.request.values import masked
from stellwerk.render.worker import protocol
from stellwerk.render.worker.pool import Pool, Shares
from stellwerk.render.worker.render_cache import Context, Key, Results
from stellwerk.render.worker.worker import Bounds, RequestUnread, Worker

KEPT_BYTES = 24 * 2**20
MOST_VALUES_BYTES = 16 * 2**20
"""Of all values as JSON, in which a value that several keys share is written several times (R-411)."""
_CONFIG = ".component-config.yaml"
_OUTSIDE = f"which is outside of the path; add it to includedKustomizations or includedFiles in {_CONFIG}"
"""Of what a kustomization lists and a worker did not get, because it gets the files below the path alone."""


@dataclass(frozen=True, slots=True)
class RenderFacts:
    """One finished rendering, for metrics."""

    outcome: Literal["rendered", "kept", "failed"]
    generator: str
    """Empty where it failed."""
    seconds: float
    tenant: str


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A request, with what was found out about it."""

    request: RenderRequest
    files: Files
    path: str
    values: bytes
    key: Key
    context: Context


class Renderer:
    """Renders. Open it by `async with`, or call `close`; workers are started when they are first needed."""

    def __init__(
        self,
        program: Callable[[], Path] = renderer_path,
        *,
        bounds: Bounds | None = None,
        shares: Shares | None = None,
        kept_bytes: int = KEPT_BYTES,
        now: Callable[[], float] = time.monotonic,
        on_render: Callable[[RenderFacts], None] | None = None,
    ) -> None:
        """`program` finds the native renderer, once, and may raise `RendererMissing`."""
        self._program = program
        self._found: Path | None = None
        self._bounds = bounds or Bounds()
        self._pool = Pool(self._start, shares or Shares(), self._bounds.resident_bytes)
        self._results = Results(kept_bytes, now=now)
        self._under_way: dict[tuple[Key, bytes, str], asyncio.Event] = {}
        self._on_render = on_render
        self.is_confined = True
        """Whether every worker so far could give up the system calls that it does not need, as far as known."""

    async def __aenter__(self) -> Renderer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all workers and forget all results."""
        await self._pool.close()
        self._results.clear()

    @property
    def workers_started(self) -> int:
        """How many processes were started so far."""
        return self._pool.started

    @property
    def processes(self) -> frozenset[int]:
        """The ids of the workers that run now."""
        return self._pool.processes

    def resident_bytes(self) -> int:
        """Memory that all workers hold, and the results that are kept."""
        return self._pool.resident_bytes() + self._results.weight

    async def render(self, request: RenderRequest, lookup: Lookup | None = None) -> Rendered:
        """The objects that files come to. Raises a `RenderError` without words of `request.secrets`.

        `lookup` answers questions of templates; without one nothing exists.
        """
        began = time.perf_counter()
        outcome: Literal["rendered", "kept", "failed"] = "failed"
        generator = ""
        try:
            rendered, outcome = await self._rendered(await _narrowed(request), lookup)
            generator = rendered.generator
            return rendered
        except (Unrenderable, RendererBroken) as error:
            if isinstance(error, KustomizeFailed) and _has(request.files, error.missing):
                error.why = error.why.replace("which does not exist", _OUTSIDE)
            raise await _discreet(error, request) from error.__cause__
        finally:
            if self._on_render is not None:
                self._on_render(RenderFacts(outcome, generator, time.perf_counter() - began, request.tenant))

    async def holds(self, claim: Claim) -> bool:
        """Whether an expression is true of its objects. Raises `ExpressionError` and `WorkerError`.

        Nothing is kept: objects change more often than the same is asked twice.
        """
        body = protocol.claim_body(claim)
        try:
            return await self._judged(claim.tenant, body)
        except RequestUnread:
            return await self._judged(claim.tenant, body)

    async def _judged(self, tenant: str, body: protocol.RequestBody) -> bool:
        return await self._pool.run(tenant, lambda worker: worker.judge(body, self._bounds))

    async def texts(self, texts: Texts) -> list[dict[str, str]]:
        """For each row, the text of each template by its name. Raises `Unrenderable` and `WorkerError`.

        Nothing is kept: callers remember the few texts that they need.
        """
        body = protocol.texts_body(texts)
        try:
            return await self._executed(texts, body)
        except RequestUnread:
            return await self._executed(texts, body)

    async def _executed(self, texts: Texts, body: protocol.RequestBody) -> list[dict[str, str]]:
        return await self._pool.run(texts.tenant, lambda worker: worker.execute(texts, body, self._bounds))

    # ---- once

    async def _rendered(self, task: _Task, lookup: Lookup | None) -> tuple[Rendered, Literal["rendered", "kept"]]:
        for _ in range(2):  # the first may have to wait for what distinguishes it, then for its equal
            if (found := await self._results.find(task.key, task.context)) is not None:
                return found, "kept"
            if not await self._waited(task):
                break
        if (found := await self._results.find(task.key, task.context)) is not None:
            return found, "kept"
        async with self._announced(task):
            result = await self._result(task, lookup)
            return await self._results.put(task.key, task.context, result, task.request.tenant), "rendered"

    async def _waited(self, task: _Task) -> bool:
        """Wait for a rendering under way that may come to the same; whether there was one."""
        gate = self._results.gate(task.key, task.context)
        event = self._under_way.get((task.key, gate, task.request.tenant)) if gate is not None else None
        if event is not None:
            await event.wait()
        return event is not None

    @asynccontextmanager
    async def _announced(self, task: _Task) -> AsyncIterator[None]:
        gate = self._results.gate(task.key, task.context)
        name = (task.key, gate or b"", task.request.tenant)
        if gate is None or name in self._under_way:
            yield
            return
        event = self._under_way[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[name]
            event.set()

    # ---- by a worker

    async def _result(self, task: _Task, lookup: Lookup | None) -> protocol.Result:
        try:
            return await self._once(task, lookup)
        except RequestUnread:
            return await self._once(task, lookup)

    async def _once(self, task: _Task, lookup: Lookup | None) -> protocol.Result:
        async def render(worker: Worker) -> protocol.Result:
            # Made when its turn has come: what a thousand requests hold while they wait should be their values alone.
            body = await threads.run_if_large(
                len(task.values), lambda: protocol.body(task.request, task.files, task.path, task.values)
            )
            if body.size > protocol.MAX_FRAME:
                raise _too_large(body.size)
            return await worker.render(body, self._bounds, protocol.most_answered(task.request), lookup)

        return await self._pool.run(task.request.tenant, render)

    async def _start(self) -> Worker:
        if self._found is None:
            self._found = self._program()
        return await Worker.start(self._found, self._bounds, self._note_unconfined)

    def _note_unconfined(self) -> None:
        self.is_confined = False


def readable(files: Files, path: str) -> Files:
    """What a rendering can read of an artifact: the files below its path, unless a configuration there includes others.

    Raises `PathNotFound` and `NotADirectory`.
    """
    folder, below = clean_path(path.lstrip("/")) or "", files.below(path)
    return files if _includes(below.get(f"{folder}/{_CONFIG}".lstrip("/"))) else below


async def _narrowed(request: RenderRequest) -> _Task:
    """A request with the files that it needs. Raises `PathNotFound` and `InvalidValues`."""
    path = clean_path(request.path.lstrip("/")) or ""
    files = readable(request.files, request.path)
    if not files:
        path = ""  # an empty folder is like an empty root: without files a worker does not know that the folder exists
    return await threads.run_if_large(request.weight + files.unhashed_bytes, lambda: _task(request, files, path))


def _task(request: RenderRequest, files: Files, path: str) -> _Task:
    values = protocol.encoded(request.values, "the request")
    if len(values) > MOST_VALUES_BYTES:
        size, most = -(-len(values) // 1024), MOST_VALUES_BYTES // 1024
        raise InvalidValues("all sources together", f"they come to {size} KiB of JSON; at most {most} KiB are allowed")
    return _Task(request, files, path, values, Key.of(request, files, path, values), Context(request))


def _includes(config: bytes | None) -> bool:
    """Whether a configuration may name files outside of its folder: in doubt, as where it is encrypted, yes."""
    return config is not None and any(mark in config.lower() for mark in (b"included", b"\\", b"enc["))


def _has(files: Files, path: str) -> bool:
    """Whether there is such a file or folder; never for an empty path."""
    return path in files or any(name.startswith(f"{path}/") for name in files if path)


async def _discreet(error: Unrenderable | RendererBroken, request: RenderRequest) -> RenderError:
    """An error that quotes nothing secret: templates and libraries show what they fail at.

    The words are collected and compared in a thread: a Secret may have a hundred thousand of them.
    """
    if isinstance(error, RendererBroken):
        return type(error)(await threads.run(lambda: masked(str(error), request.secrets())))
    why = await threads.run(lambda: masked(error.why, request.secrets()))
    return type(error)(why, file=error.file, line=error.line, column=error.column)


def _too_large(size: int) -> RenderError:
    return LimitExceeded(
        f"the files weigh {size >> 20} MiB, more than the renderer takes; set a path to a part of them"
    )
