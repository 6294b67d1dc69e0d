"""Leaves a server alone for a while that has not answered several calls in a row.

    closed --(calls in a row without an answer)--> open --(a pause)--> one call tries --> closed, or open twice as long

A call to a silent server takes up to a minute, with its connection, its pass, and its place among the calls of others.
Refused here, it costs nothing. It fails with the cause of the last failure, so that conditions do not change while the
server is left alone. While one call tries, others wait for its outcome: a server that is back serves all of them at
once, and not each after the back-off of its own object.

Any answer counts as an answer, also a refusal or a fault: an admission webhook or one API service may be broken while
the server works. Answers that are no API server's, or have no end, cost bytes, which `memory_budget` bounds.

A call fails after a minute, which is long for a user who has just made a mistake in a login. So a server that has never
answered is in trouble after ten seconds already. Its calls go on, and the first answer ends that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stellwerk.kube.http.messages import NotConnected
from stellwerk.kube.types.errors import AddressForbidden, ApiError, LoginFailed, Unauthorized, Unreachable

FAILURES = 3
"""Calls in a row. Each has been repeated already, where that was safe."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
TRIAL_SECONDS = 10.0
"""How long others wait for the call that tries. The beginning of a watch may take a minute and a half to fail."""
FIRST_ANSWER_SECONDS = 10.0
"""How long a server that has never answered may let calls wait until that is trouble."""
_WITHOUT_A_CALL = (AddressForbidden, LoginFailed)
"""Failures that do not show whether the server answers."""


class CircuitBreaker:
    """The calls to one server."""

    def __init__(
        self, monotonic: Callable[[], float], *, on_change: Callable[[CircuitBreaker], None] = lambda breaker: None
    ) -> None:
        """`on_change` is called when `trouble` begins and ends."""
        self._monotonic = monotonic
        self._on_change = on_change
        self._failures = 0
        self._again_at = 0.0
        self._trial: asyncio.Event | None = None
        """Set when the call that tries has ended."""
        self._trial_ends = 0.0
        """Until when, on the loop's clock, others wait for it."""
        self._under_way = 0
        self._last_at = monotonic()
        self.cause = ""
        """Why the last call failed that was not answered."""
        self._refused_login = ""
        self._has_answered = False
        self._first_answer: asyncio.TimerHandle | None = None
        """Ends when the first answer is late; runs while calls wait for it."""
        self._silence = ""

    @property
    def trouble(self) -> str:
        """Why no call has an effect now: the server is left alone, refuses the login or does not prove its identity, or
        has never answered. Empty: there is no trouble."""
        return self.cause if self.is_open else self._refused_login or self._silence

    @property
    def is_open(self) -> bool:
        """Whether the server is left alone, or only tried."""
        return self._failures >= FAILURES

    @property
    def idle_seconds(self) -> float:
        """For how long no call has been under way."""
        return 0.0 if self._under_way else self._monotonic() - self._last_at

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """A block with one call in it. Raises NotConnected where the server is left alone."""
        trial = await self._admitted()
        self._under_way += 1
        if self._first_answer is None and not self._has_answered:
            self._first_answer = asyncio.get_running_loop().call_later(FIRST_ANSWER_SECONDS, self._note_silence)
        try:
            yield
        except _WITHOUT_A_CALL as error:
            self._note_no_login(str(error))
            raise
        except Unreachable as error:
            self._note_failure(error.cause, is_trial=trial is not None)
            raise
        except ApiError as error:
            self._note_answer(str(error) if isinstance(error, Unauthorized) else "")
            raise
        else:
            self._note_answer()
        finally:
            self._under_way -= 1
            self._last_at = self._monotonic()
            if not self._under_way:
                self._await_no_answer()
            if trial is not None:
                self._trial = None
                trial.set()

    async def _admitted(self) -> asyncio.Event | None:
        """The event of a call that tries whether the server answers again; None: the server answers."""
        while self.is_open:
            if self._trial is not None:
                await self._outcome(self._trial)
            elif self._monotonic() < self._again_at:
                raise NotConnected(self.cause)
            else:
                self._trial, self._trial_ends = asyncio.Event(), asyncio.get_running_loop().time() + TRIAL_SECONDS
                return self._trial
        return None

    async def _outcome(self, trial: asyncio.Event) -> None:
        try:
            async with asyncio.timeout_at(self._trial_ends):
                await trial.wait()
        except TimeoutError:
            raise NotConnected(self.cause) from None

    def _await_no_answer(self) -> None:
        if self._first_answer is not None:
            self._first_answer.cancel()
            self._first_answer = None

    def _note_silence(self) -> None:
        was_troubled = bool(self.trouble)
        self._silence = f"it has not answered within {FIRST_ANSWER_SECONDS:g} s"
        if not was_troubled:
            self._on_change(self)

    def _note_no_login(self, why: str) -> None:
        """The server was not asked: it does not prove its identity, or may not be called, or there is no login."""
        was_troubled, self._refused_login = bool(self.trouble), self._refused_login or why
        if not was_troubled:
            self._on_change(self)

    def _note_failure(self, cause: str, *, is_trial: bool) -> None:
        was_open, self.cause = self.is_open, cause
        if was_open and not is_trial:
            return  # it began before
        self._failures += 1
        if self.is_open:
            pause = FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - FAILURES, 10)
            self._again_at = self._monotonic() + min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.0)
        if self.is_open and not was_open and not self._refused_login:
            self._on_change(self)

    def _note_answer(self, refused_login: str = "") -> None:
        was_troubled, self._failures = bool(self.trouble), 0
        self._has_answered, self._silence = True, ""
        self._await_no_answer()
        self._refused_login = self._refused_login if self._refused_login and refused_login else refused_login
        if was_troubled is not bool(self.trouble):
            self._on_change(self)
