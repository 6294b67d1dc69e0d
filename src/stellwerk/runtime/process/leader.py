"""One writer at a time: a Lease, and a fence before every write.

The Lease is client-go's (coordination.k8s.io, the same fields, the same numbers), so ours and an original operator
that shares its name exclude each other. The process that renews it leads; a process that sees no renewal for the whole
lease duration may take it. Three decisions make "at a time" true:

- No process reads the time in the Lease. A candidate counts with its own steady clock from the moment at which it saw
  the Lease change; a clock set wrong by an hour, here or there, changes nothing.
- A leader stops itself, and earlier than a candidate may start. `Fence.check` runs before every write and compares the
  steady clock, which goes on while a process or a machine is frozen, with the last renewal. A process that thaws after
  an hour thus refuses its own first write, before any task of ours has had a chance to notice.
- The fence closes after half the lease duration if the renew deadline is later than that. client-go's 10 s of 15 s bear
  a candidate whose clock runs half as fast again; half bears one that runs twice as fast.

One renewal that is not answered must not close the fence: it is given up early enough for another one, which a leader
sends after a quarter of the usual pause.

A renewal counts from when it was sent, not from when it was answered: candidates may have seen it at any time
between. The elector's own client must be one without the fence, for a candidate has to write in order to lead.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from stellwerk.api.coordination import Lease, LeaseSpec, micro_time
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError, Forbidden, NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.controller import (
    LeadershipLost as LeadershipLost,  # offered here too: it is ours by meaning
)
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.supervision.tasks import Border, surprise
from stellwerk.runtime.telemetry.metrics import Metrics

_WORK_ENDS_SECONDS = 8.0
_RELEASE_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a lease lasts, in seconds. The defaults are client-go's. Raises ValueError where they contradict."""

    lease_duration_seconds: float = 15.0
    """How long candidates wait after the last change they saw."""
    renew_deadline_seconds: float = 10.0
    """How long a leader tries to renew before it gives up."""
    retry_seconds: float = 2.0
    """The pause between two renewals, and between two looks of a candidate."""

    def __post_init__(self) -> None:
        if not self.lease_duration_seconds > self.renew_deadline_seconds > self.retry_seconds > 0:
            raise ValueError("leader election: lease duration > renew deadline > retry period > 0 must hold")
        if self.lease_duration_seconds < 1:
            raise ValueError("leader election: a lease lasts at least one second")

    @property
    def writing_seconds(self) -> float:
        """For how long after a renewal was sent writes are allowed."""
        return min(self.renew_deadline_seconds, self.lease_duration_seconds / 2)

    @property
    def attempt_seconds(self) -> float:
        """How long an attempt to acquire may take."""
        return self.renew_deadline_seconds / 2

    @property
    def renewal_seconds(self) -> float:
        """How long a renewal may take: so long that another one can be answered before the fence closes.

        Where the pause takes up more than half of that time, there is none for another one.
        """
        pause, limit = self.retry_seconds, self.writing_seconds
        return min(self.attempt_seconds, (limit - pause) / 2) if pause <= limit / 2 else self.attempt_seconds

    @property
    def hurry_seconds(self) -> float:
        """The pause of a leader after a renewal that failed."""
        return self.retry_seconds / 4


class Fence:
    """Lets writes pass while the lease is surely ours; `check` goes to `Client.connect(before_write=...)`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._open_until = -math.inf
        self._was_given_back = True

    @property
    def is_open(self) -> bool:
        """Whether a write would pass now."""
        return self._clock.monotonic() < self._open_until

    def check(self) -> None:
        """Raise LeadershipLost unless the lease is surely ours."""
        if self._clock.monotonic() >= self._open_until:
            raise LeadershipLost("this process may not write: its lease is not held, or was not renewed in time")

    def check_not_lost(self) -> None:
        """Raise LeadershipLost only where the lease was ours and has been lost; for writes that need no leader.

        Events are such: a candidate may send them, and so may a process that has given its lease back in order.
        """
        if not self._was_given_back:
            self.check()

    def open_until(self, moment: float) -> None:
        """Let writes pass until then, on the steady clock."""
        self._open_until, self._was_given_back = moment, False

    def close(self, *, given_back: bool) -> None:
        """Permit no write. `given_back`: no other process can have acquired the lease meanwhile."""
        self._open_until, self._was_given_back = -math.inf, given_back


class Observation:
    """What was seen of a Lease, and since when it has not changed (pure, on the steady clock of the observer)."""

    def __init__(self) -> None:
        self.spec: LeaseSpec | None = None
        self._since = -math.inf

    def see(self, spec: LeaseSpec, now: float) -> None:
        """Look at the Lease. Any change means that its holder lives."""
        if spec != self.spec:
            self.spec, self._since = spec, now

    def is_free(self, now: float, *, for_identity: str, patience_seconds: float) -> bool:
        """Whether the Lease may be taken: given back, held by this very identity, or not renewed for its duration.

        The longer one of the Lease's own duration and our patience counts.
        """
        if self.holder in ("", for_identity):
            return True
        asked = self.spec.lease_duration_seconds if self.spec else None
        return now - self._since >= max(patience_seconds, float(asked or 0))

    @property
    def holder(self) -> str:
        """The holder of the Lease; empty without one."""
        return (self.spec.holder_identity if self.spec else None) or ""


def new_identity() -> str:
    """A name for this process that no other process has, not even its successor in the same pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Acquires and keeps one Lease. `run` is all that a manager needs."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        identity: str = "",
        terms: Terms | None = None,
        clock: Clock | None = None,
        fence: Fence | None = None,
        metrics: Metrics | None = None,
        recorder: EventSink | None = None,
    ) -> None:
        """`fence`: one that was made before, for a recorder; it must have the same clock."""
        self.key = ObjectKey(namespace, name)
        self.identity = identity or new_identity()
        self.terms = terms or Terms()
        self._clock = clock or SystemClock()
        self.fence = fence or Fence(self._clock)
        self._client = client
        self._metrics = metrics
        self._border = Border(metrics or Metrics(), self._clock)
        self._recorder = recorder
        self._seen = Observation()
        self._lease: Lease | None = None
        self._renewed = -math.inf
        self._leads = False
        self._refusal = ""
        self._report(False)

    def refusal(self) -> str | None:
        """Why this process cannot lead though the API server answers: a right or the namespace is missing.

        For `health.Health`.
        """
        return self._refusal or None

    @property
    def is_leader(self) -> bool:
        """Whether this process leads: it has acquired the lease and its renew deadline has not passed."""
        return self._leads and self._clock.monotonic() < self._renewed + self.terms.renew_deadline_seconds

    @property
    def holder(self) -> str:
        """The holder of the lease at the last look; empty without one."""
        return self._seen.holder

    async def run(self, on_started: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `on_started` while renewing, and give the lease back when that has ended.

        Cancelling stops in that order too: the work ends while the lease is still ours. Raises LeadershipLost, after
        cancelling the work; the process must then end, with a code that is not 0.
        """
        await self.acquire()
        renewal = asyncio.create_task(self._keep(), name=f"renew lease {self.key}")
        work = asyncio.create_task(_call(on_started), name=f"lead {self.key}")
        try:
            await asyncio.wait({renewal, work}, return_when=asyncio.FIRST_COMPLETED)
            ended = renewal.cancelled() or work.cancelled()
        finally:
            await self._end(renewal, work)
        if ended:  # only this object may cancel them, and without one of them there is no leader
            raise LeadershipLost(f"lost lease {self.key}: its task was cancelled")
        for task in (renewal, work):  # a lost lease explains whatever the work reports about it
            if not task.cancelled():
                task.result()

    async def acquire(self) -> None:
        """Return when the lease is ours. Failures of the API server are waited out."""
        _log.info("waiting for lease %s as %s", self.key, self.identity)
        while not await self._attempt():
            await self._pause(self.terms.retry_seconds)
        self._leads = True
        self._report(True)
        self._send_event("became leader")

    async def release(self) -> None:
        """Give the lease back, so that the next one need not wait. A failure is logged: the lease ends by itself."""
        if not self.is_leader or self._lease is None:
            return
        self._step_down(given_back=True)
        self._send_event("stopped leading")
        freed = self._spec(holder="", duration_seconds=1, acquired=None, transitions=_transitions(self._lease))
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._write(self._lease, freed)
        except BaseException as raised:
            error = surprise(raised)
            _log.warning("lease %s was not given back: %s", self.key, str(error) or "no answer in time")

    async def _end(self, renewal: asyncio.Task[None], work: asyncio.Task[None]) -> None:
        """End the work, then the renewals, then the lease."""
        work.cancel()
        _, running = await asyncio.wait({work}, timeout=_WORK_ENDS_SECONDS)
        lost = renewal.done()
        renewal.cancel()
        await asyncio.wait({renewal})
        if lost or running:
            self._step_down(
                given_back=False
            )  # the lease is not ours, or a write may still be under way under it: let it run out
        else:
            await self.release()

    async def _keep(self) -> None:
        """Renew until that fails for too long. Raises LeadershipLost."""
        renewed = True
        while True:
            await self._pause(self.terms.retry_seconds if renewed else self.terms.hurry_seconds)
            # Looked at before the attempt: a process that was frozen must not renew what it has long lost.
            renewed = self.is_leader and await self._attempt()
            if not renewed:
                self._lose_if_due()

    async def _pause(self, seconds: float) -> None:
        try:
            await self._clock.sleep(seconds)
        except BaseException as raised:
            self._report_unexpected(raised)
            await asyncio.sleep(seconds)

    def _report_unexpected(self, raised: BaseException) -> None:
        self._border.report("lease", f"lease {self.key}", surprise(raised))

    def _lose_if_due(self) -> None:
        if self.holder not in ("", self.identity):
            raise self._lost(f"{self.holder} holds it now")
        if not self.is_leader:
            raise self._lost(f"it was not renewed for {self.terms.renew_deadline_seconds:g} s")

    def _lost(self, why: str) -> LeadershipLost:
        self._step_down(given_back=False)
        _log.error("lost lease %s: %s", self.key, why)
        return LeadershipLost(f"lost lease {self.key}: {why}")

    def _step_down(self, *, given_back: bool) -> None:
        self._leads = False
        self.fence.close(given_back=given_back)
        self._report(False)

    async def _attempt(self) -> bool:
        """One try to acquire or renew, bounded in time. Returns whether the lease is ours."""
        renews = self._leads and self._lease is not None
        try:
            async with asyncio.timeout(self.terms.renewal_seconds if renews else self.terms.attempt_seconds):
                leads = await self._renew() or await self._take()
            self._refusal = ""
            return leads
        except (ApiError, TimeoutError) as error:
            if isinstance(error, Forbidden | NotFound):
                self._refusal = f"lease {self.key} cannot be taken: {error}"
            _log.warning("lease %s: %s", self.key, str(error) or "the API server does not answer in time")
        except BaseException as raised:  # a failed try like any other: the deadline decides, not a bug
            self._report_unexpected(raised)
        self._lease = None  # it is unknown what became of the write: look again
        return False

    async def _renew(self) -> bool:
        """Write again what we have, without reading it first: one request. False when it has to be looked at."""
        lease = self._lease
        if not self._leads or lease is None:
            return False
        spec = self._spec(holder=self.identity, acquired=lease.spec.acquire_time, transitions=_transitions(lease))
        return await self._claim(lease, spec)

    async def _take(self) -> bool:
        """Look, and take the lease if it is free."""
        lease = await self._client.find(Lease, self.key.name, self.key.namespace)
        now = self._clock.monotonic()
        if lease is not None:
            self._seen.see(lease.spec, now)
        # Also for a Lease that is gone: its last known holder still believes to have it, until its fence closes.
        if not self._seen.is_free(now, for_identity=self.identity, patience_seconds=self.terms.lease_duration_seconds):
            return False
        if lease is None:
            return await self._claim(None, self._spec(holder=self.identity, acquired=None, transitions=0))
        if lease.spec.holder_identity == self.identity:
            transitions, acquired = _transitions(lease), lease.spec.acquire_time
        else:
            transitions, acquired = _transitions(lease) + 1, None
        return await self._claim(lease, self._spec(holder=self.identity, acquired=acquired, transitions=transitions))

    async def _claim(self, lease: Lease | None, spec: JsonObject) -> bool:
        """Write the lease as ours, unless it is no longer as we saw it. Returns whether it is ours now."""
        sent = self._clock.monotonic()
        try:
            written = await self._write(lease, spec)
        except NotFound:
            if lease is None:
                raise  # what is missing is the namespace
            self._lease = None
            return False
        if isinstance(written, NotAsSeen):  # looked at before the next claim
            self._lease = None
            return False
        self._lease, self._renewed = written, sent
        self._seen.see(written.spec, sent)
        self.fence.open_until(sent + self.terms.writing_seconds)
        return True

    async def _write(self, lease: Lease | None, spec: JsonObject) -> Lease | NotAsSeen:
        """Create the Lease, or change this very version of it."""
        if lease is None:
            metadata: JsonObject = {"name": self.key.name, "namespace": self.key.namespace}
            body: JsonObject = {
                "apiVersion": Lease.resource.api_version,
                "kind": "Lease",
                "metadata": metadata,
                "spec": spec,
            }
            return await conditional.create_if_absent(self._client, Lease, body)
        patch = MergePatch({"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec})
        name, namespace = self.key.name, self.key.namespace
        return await conditional.patch_if_unchanged(self._client, Lease, name, namespace, patch)

    def _spec(
        self, *, holder: str, acquired: datetime | None, transitions: int, duration_seconds: int = 0
    ) -> JsonObject:
        now = micro_time(self._clock.now())
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_seconds or math.ceil(self.terms.lease_duration_seconds),
            "acquireTime": micro_time(acquired) if acquired else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _report(self, is_leader: bool) -> None:
        if self._metrics is not None:
            self._metrics.leading(self.key.name, is_leader)

    def _send_event(self, what: str) -> None:
        message = f"{self.identity} {what}"
        _log.info("lease %s: %s", self.key, message)
        if self._recorder is not None and self._lease is not None:
            self._recorder.send(self._lease, Notice("LeaderElection", message, action="LeaderElection"))


async def _call(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _transitions(lease: Lease) -> int:
    return lease.spec.lease_transitions or 0
