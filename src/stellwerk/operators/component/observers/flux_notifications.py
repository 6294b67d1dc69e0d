"""Reports changes of Components to Flux's notification-controller, or a compatible receiver.

Sending never holds up a pass: a notification is put into a bounded queue, and a task of its own posts one after the
other. A receiver that does not answer within five seconds, or fails, is tried again a few times; `429` means that it
has the notification already. What does not fit into the queue is dropped and counted: the first ones name the cause.

The same word about the same Component is repeated after five minutes at the earliest, and only while it is an error:
no user wants to read every ten minutes that all is well. While objects are waited for, the message names other objects
from pass to pass; that alone is no news either.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from prometheus_client import Counter

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, encode_json
from stellwerk.kube.types.object_meta import kubernetes_time
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.observers.observers import PassObserver, about
from stellwerk.operators.component.reasons import Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.conditions import READY
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics

with lazy_imports(__name__):
    import aiohttp

_log = logging.getLogger(__name__)

QUEUE_LIMIT = 1_000
SEND_SECONDS = 5.0
TRIES = 5
FIRST_PAUSE_SECONDS = 1.0
SILENCE_SECONDS = 300.0
_DRAIN_SECONDS = 2.0
_ON_THE_WAY = frozenset({Reason.Processing, Reason.DeletionProcessing})
_FLUX_PREFIX = "event.toolkit.fluxcd.io/"
"""What flux's users put on objects to have it in every notification about them."""
_TOO_MANY = 429
"""How the receiver reports that it has the same notification already."""


@dataclass(frozen=True, slots=True)
class _LastNotice:
    """The last notification about a Component."""

    reason: str
    state: str
    message: str
    revision: str


class Receiver(PassObserver):
    """Posts notifications about Components; a server of the manager: `run` must be running."""

    def __init__(self, address: str, *, instance: str, clock: Clock, metrics: Metrics) -> None:
        self._address = address
        self._instance = instance
        self._clock = clock
        self._border = Border(metrics, clock)
        self._pending: deque[JsonObject] = deque()
        self._arrived = asyncio.Event()
        self._said: dict[ObjectKey, tuple[_LastNotice, float]] = {}
        self._outcomes = Counter(
            "component_operator_notifications_total",
            "Notifications to --events-address by what became of them",
            ("outcome",),
            registry=None,
        )
        metrics.register(self._outcomes)

    # ---- what is worth a notification

    def told(self, component: Component, status: ComponentStatus) -> None:
        """A pass has ended with this status. Never blocks."""
        word = _word(status)
        if word is None or not self._is_news(component.key, word, is_error=status.state is State.Error):
            return
        self._said[component.key] = (word, self._clock.monotonic())
        if len(self._pending) >= QUEUE_LIMIT:
            self._outcomes.labels("dropped").inc()
            return
        self._pending.append(notification(component, status, self._instance, self._clock.now()))
        self._arrived.set()

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._said.pop(key, None)

    @property
    def waiting(self) -> int:
        """How many notifications wait to be sent."""
        return len(self._pending)

    def _is_news(self, key: ObjectKey, word: _LastNotice, *, is_error: bool) -> bool:
        known = self._said.get(key)
        if known is None or known[0] != word:
            return True
        return is_error and self._clock.monotonic() - known[1] >= SILENCE_SECONDS

    # ---- sending

    async def run(self) -> None:
        """Send until cancelled; then what is left, for at most two seconds."""
        timeout = aiohttp.ClientTimeout(total=SEND_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            try:
                while True:
                    await self._arrived.wait()
                    await self._send_all(session)
            except asyncio.CancelledError:
                await self._drain(session)
                raise

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        while self._pending:
            # Taken out only when sent: what a cancellation interrupts is sent by the drain.
            if not await self._border.once("notification", "a notification", partial(self._send_first, session)):
                self._outcomes.labels("failed").inc()
            self._pending.popleft()
        self._arrived.clear()

    async def _send_first(self, session: aiohttp.ClientSession) -> None:
        await self._send(session, encode_json(self._pending[0]))

    async def _drain(self, session: aiohttp.ClientSession) -> None:
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._send_all(session)
        except TimeoutError:
            self._outcomes.labels("dropped").inc(len(self._pending))

    async def _send(self, session: aiohttp.ClientSession, body: bytes) -> None:
        why = ""
        for number in range(TRIES):
            if number:
                await self._clock.sleep(FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
            status, why = await self._post(session, body)
            if 200 <= status < 300 or status == _TOO_MANY:
                self._outcomes.labels("sent" if status != _TOO_MANY else "duplicate").inc()
                return
            if 300 <= status < 500:
                break  # the same body will not be liked better the second time
        self._outcomes.labels("failed").inc()
        _log.warning("a notification was not delivered to --events-address: %s", why)

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> tuple[int, str]:
        """The HTTP status, 0 for no answer, and the message about it."""
        headers = {"Content-Type": "application/json", "User-Agent": RECONCILER}
        try:
            async with session.post(self._address, data=body, headers=headers, allow_redirects=False) as answer:
                return answer.status, f"it answered {answer.status}"
        except Exception as error:  # whatever a library raises on a strange answer, the next notification goes on
            return 0, str(error) or type(error).__name__


# ---- its words (pure)


def _word(status: ComponentStatus) -> _LastNotice | None:
    ready = conditions.find(status.conditions, READY)
    if ready is None or status.state is None or ready.reason == Reason.FirstSeen:
        return None
    message = "" if ready.reason in _ON_THE_WAY else ready.message
    return _LastNotice(ready.reason, status.state, message, status.last_attempted_revision)


def notification(component: Component, status: ComponentStatus, instance: str, now: datetime) -> JsonObject:
    """The body that flux's notification-controller reads."""
    ready = conditions.find(status.conditions, READY)
    assert ready is not None  # there is nothing to notify about without it
    metadata: JsonObject = {
        **{key: value for key, value in component.metadata.annotations.items() if key.startswith(_FLUX_PREFIX)},
        **about(component, status),
    }
    return {
        "involvedObject": {
            "apiVersion": Component.resource.api_version,
            "kind": Component.resource.kind,
            "namespace": component.metadata.namespace,
            "name": component.metadata.name,
            "uid": component.metadata.uid,
            "resourceVersion": component.metadata.resource_version,
        },
        "severity": "error" if status.state is State.Error else "info",
        "timestamp": kubernetes_time(now).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "message": ready.message,
        "reason": ready.reason,
        "metadata": metadata,
        "reportingController": RECONCILER,
        "reportingInstance": instance,
    }
