"""Questions to Prometheus by its HTTP API (`/api/v1/query`), with bounds on time and bytes.

A server to which no connection comes about is left alone for a while. One that is slow with a question is not: any
user can write a rule that takes long, and it would keep the versions of others.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from stellwerk.kube.types.model import UNREADABLE
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap.version.monitoring import Answer
from stellwerk.render.errors import Unavailable
from stellwerk.render.sources.http import bounded_body
from stellwerk.runtime.clock import Clock

with lazy_imports(__name__):
    import aiohttp

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
MOST_BYTES = 1 << 20
LIMITS = {"timeout": f"{ANSWER_SECONDS:.0f}s", "limit": "10000"}
"""How long Prometheus works on a query, and with how many series it answers (older servers ignore `limit`)."""


class PrometheusFailed(Exception):
    """Prometheus cannot be reached, or does not answer a question."""


class PrometheusUnreachable(PrometheusFailed):
    """There is no connection to Prometheus."""


class PrometheusLeftAlone(PrometheusFailed):
    """Prometheus could not be reached a while ago, and is not asked yet."""


class _Result(msgspec.Struct):
    resultType: str = ""  # noqa: N815  # as the API spells it
    result: list[Any] = msgspec.field(default_factory=list)


class _Body(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Result = msgspec.field(default_factory=_Result)


Ask: TypeAlias = Callable[[str], Awaitable[Answer]]
"""Asks for the answer to a query at this moment. Raises PrometheusFailed, PrometheusUnreachable."""


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Ask]:
    """A server for some questions. `address` is its URL, with or without a path."""
    url = address.rstrip("/") + "/api/v1/query"
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:

        async def ask(query: str) -> Answer:
            try:
                async with session.post(url, data={"query": query, **LIMITS}, allow_redirects=False) as response:
                    return _answer(await bounded_body(response, MOST_BYTES), response.status)
            except Unavailable as error:
                raise PrometheusFailed(error.why) from None
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                no_connection = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
                failure = PrometheusUnreachable if isinstance(error, no_connection) else PrometheusFailed
                raise failure(f"Prometheus does not answer: {str(error) or type(error).__name__}") from error

        yield ask


@dataclass(slots=True)
class PrometheusAccess:
    """The access to a server over many looks."""

    address: str
    retry_delay: timedelta
    """How long a server that could not be reached is left alone."""
    clock: Clock
    connect: Callable[[str], AbstractAsyncContextManager[Ask]] = connected
    _left_alone_until: float = -math.inf

    @asynccontextmanager
    async def look(self) -> AsyncIterator[Ask]:
        """Ask within one look, by one session, which the first question opens."""
        async with AsyncExitStack() as sessions:
            opened: Ask | None = None

            async def ask(query: str) -> Answer:
                nonlocal opened
                if self.clock.monotonic() < self._left_alone_until:
                    raise PrometheusLeftAlone("Prometheus could not be reached")
                if opened is None:
                    opened = await sessions.enter_async_context(self.connect(self.address))
                try:
                    return await opened(query)
                except PrometheusUnreachable:
                    self._left_alone_until = self.clock.monotonic() + self.retry_delay.total_seconds()
                    raise

            yield ask


def _answer(content: bytes, status: int) -> Answer:
    try:
        body = msgspec.json.decode(content, type=_Body)
    except UNREADABLE:
        raise PrometheusFailed(f"the answer is not that of Prometheus (HTTP {status})") from None
    if body.status != "success":
        raise PrometheusFailed(f"Prometheus refuses the query: {body.error[:200] or f'HTTP {status}'}")
    kind, result = body.data.resultType, body.data.result
    try:
        if kind == "scalar":
            return Answer(is_scalar=True, values=(float(result[1]),))
        if kind == "vector":
            return Answer(is_scalar=False, values=tuple(float(sample["value"][1]) for sample in result))
    except (IndexError, KeyError, TypeError, ValueError):
        pass
    raise PrometheusFailed(f"the answer is of the type {kind[:63]!r}, and neither a scalar nor a vector")
