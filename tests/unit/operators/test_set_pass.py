"""What all kinds with an inventory do alike in a pass: when they look again, and what holds a deletion back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.delivery.sets.set_pass import SetEngine, SetMemory, SetPass, SetWork
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap_manager.api import FINALIZER, CAPOperator, CAPOperatorStatus
from stellwerk.operators.cap_manager.reasons import Cause, PassReport
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Next, Severity
from stellwerk.testing.clock import FakeClock


@dataclass(slots=True)
class PlainPass(SetPass[CAPOperator, CAPOperatorStatus]):
    """A pass of a kind that adds nothing of its own."""

    words = PassReport

    @property
    def status(self) -> CAPOperatorStatus:
        return self.subject.status

    @property
    def timeout(self) -> timedelta:
        return timedelta(minutes=10)

    @property
    def requeue_seconds(self) -> float:
        return 900.0

    def refused(self, progress: SetProgress) -> Exception:
        return ValueError(progress.failures)

    async def leaving(self) -> SetWork | Next[CAPOperatorStatus]:
        return self.blocked("blocked", Cause.ForeignFinalizers)


def a_pass(clock: FakeClock, *finalizers: str) -> PlainPass:
    client = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
    checkpoints: Checkpoints[CAPOperator, CAPOperatorStatus] = Checkpoints(
        Informer(client, CAPOperator, clock=clock), StatusWriter(client=client)
    )
    engine = SetEngine(client=client, checkpoints=checkpoints, finalizer=FINALIZER, clock=clock)
    metadata = ObjectMeta(name="one", namespace="here", finalizers=finalizers)
    return PlainPass(engine, SetMemory(), CAPOperator(metadata=metadata))


@pytest.mark.parametrize(
    ("due_in", "waiting_minutes", "seconds"),
    [
        (None, None, 900.0),
        (5.0, None, 5.0),
        (None, 9, 60.0),
        (5.0, 9, 5.0),
        (90.0, 9, 60.0),
        (None, 11, 900.0),
        (-5.0, None, 0.05),
    ],
    ids=["at rest", "due", "timeout", "due before the timeout", "timeout before it is due", "late", "overdue"],
)
async def test_an_object_is_looked_at_at_the_first_of_all_moments(
    due_in: float | None, waiting_minutes: int | None, seconds: float
) -> None:
    clock = FakeClock()
    one = a_pass(clock)
    if waiting_minutes is not None:
        since = clock.now() - timedelta(minutes=waiting_minutes)
        one.draft = msgspec.structs.replace(one.draft, processing_since=since)
    again_at = clock.monotonic() + due_in if due_in is not None else None
    assert one.until(SetProgress(Inventory(), again_at=again_at), clock.now()) == pytest.approx(seconds)


async def test_a_deletion_that_is_blocked_is_looked_at_again_after_growing_pauses() -> None:
    clock, pauses = FakeClock(), []
    one = a_pass(clock, FINALIZER)
    for seconds in (0, 1, 9, 90):
        await clock.advance(seconds)
        answer = await one.delete()
        pauses.append(answer.delay_seconds)
        assert answer.status is not None
        assert (answer.status.state, answer.severity) == ("DeletionPending", Severity.WARNING)
    assert pauses == [1.0, 1.0, 5.0, 10.0]


async def test_an_object_without_our_finalizer_is_left_alone() -> None:
    assert await a_pass(FakeClock(), "another/finalizer").delete() == Next.done()


async def test_only_finalizers_of_others_are_foreign() -> None:
    assert a_pass(FakeClock(), "b/b", FINALIZER, "a/a").foreign_finalizers() == "b/b, a/a"
    assert a_pass(FakeClock(), FINALIZER).foreign_finalizers() == ""
