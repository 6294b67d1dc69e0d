"""When pods are read for the message of a Component that waits, and what the message shows of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.unit.component.test_causes import without_image

from stellwerk.apply.readiness.deployment_diagnosis import Surroundings
from stellwerk.apply.set.plan.stage import Unready
from stellwerk.delivery import workloads
from stellwerk.delivery.sets.workload_causes import (
    FIRST_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST,
    WorkloadCauses,
)
from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.testing.clock import FakeClock

CAUSE = "Pod shop/db-1: image db:99 cannot be pulled"


def wait(name: str = "db", kind: str = "Deployment") -> Unready:
    group = "" if kind == "Service" else "apps"
    return Unready(ObjectRef(GroupVersionKind(group, "v1", kind), ObjectKey("shop", name)), "0 of 1 replicas available")


@dataclass(slots=True)
class Waiting:
    """A Component that waits, and what is read for it."""

    clock: FakeClock = field(default_factory=FakeClock)
    read: list[ObjectRef] = field(default_factory=list)
    cause: str = CAUSE
    causes: WorkloadCauses = field(default_factory=WorkloadCauses)

    async def passes(
        self, *waits: Unready, after: float, digest: str = "d", late: bool = False
    ) -> tuple[list[str], float | None]:
        shown, pause = await self.causes.explained(
            digest, waits, self._read, now=self.clock.monotonic(), waited_seconds=after, is_late=late
        )
        return [one.why for one in shown], pause

    async def _read(self, ref: ObjectRef, /) -> str:
        self.read.append(ref)
        if not self.cause:
            raise Unreachable("refused")
        return self.cause


async def test_pods_are_read_once_half_a_minute_is_over_and_the_message_shows_their_cause() -> None:
    waiting = Waiting()

    assert await waiting.passes(wait(), after=5) == ([wait().why], FIRST_SECONDS - 5)
    assert waiting.read == []
    shown, pause = await waiting.passes(wait(), after=FIRST_SECONDS)
    assert (shown, pause) == ([f"{wait().why}; {CAUSE}"], FIRST_SECONDS)
    assert waiting.read == [wait().ref]


async def test_between_two_looks_the_message_stays_without_a_request() -> None:
    waiting = Waiting()
    shown, _ = await waiting.passes(wait(), after=FIRST_SECONDS)
    await waiting.clock.advance(10)
    assert await waiting.passes(wait(), after=FIRST_SECONDS + 10) == (shown, FIRST_SECONDS - 10)
    assert len(waiting.read) == 1


@pytest.mark.parametrize(("waited", "pause"), [(40, FIRST_SECONDS), (400, 200), (10_000, LONGEST_PAUSE_SECONDS)])
async def test_looks_become_rarer_the_longer_a_component_waits(waited: float, pause: float) -> None:
    waiting = Waiting()
    assert (await waiting.passes(wait(), after=waited))[1] == pause
    await waiting.clock.advance(pause)
    await waiting.passes(wait(), after=waited + pause)
    assert len(waiting.read) == 2


async def test_where_the_time_is_over_sooner_pods_are_read_then() -> None:
    waiting = Waiting()
    shown, _ = await waiting.passes(wait(), after=1, late=True)
    assert shown == [f"{wait().why}; {CAUSE}"]


async def test_a_new_content_begins_without_the_causes_of_the_former_one() -> None:
    waiting = Waiting()
    await waiting.passes(wait(), after=FIRST_SECONDS)
    assert await waiting.passes(wait(), after=0, digest="e") == ([wait().why], FIRST_SECONDS)


async def test_at_most_three_workloads_are_read_and_nothing_for_other_kinds() -> None:
    waiting = Waiting()
    await waiting.passes(*(wait(f"w{number}") for number in range(5)), after=FIRST_SECONDS)
    assert [ref.key.name for ref in waiting.read] == [f"w{number}" for number in range(MOST)]

    other = Waiting()
    assert await other.passes(wait("web", "Service"), after=FIRST_SECONDS) == ([wait().why], None)
    assert other.read == []


async def test_pods_that_cannot_be_read_leave_the_message_as_it_is_and_are_not_asked_for_at_once_again() -> None:
    waiting = Waiting(cause="")
    for _ in range(2):
        assert (await waiting.passes(wait(), after=FIRST_SECONDS))[0] == [wait().why]
    assert len(waiting.read) == 1


def test_a_cause_in_one_line_names_the_pod_and_ends_with_the_next_step() -> None:
    workload = without_image().workload
    assert workload is not None
    assert workloads.in_one_line(workload) == (
        "Pod shop/app-1-a: image app:99 cannot be pulled; "
        "check the image's name, and the pull secret if the registry asks for one"
    )


def test_a_long_cause_is_shortened_and_not_the_command_behind_it() -> None:
    workload = without_image().workload
    assert workload is not None
    (pod,) = workload.around.pods
    ended: JsonValue = {"name": "x" * 500, "state": {"terminated": {"exitCode": 3}}}
    body: JsonObject = {**pod.body, "status": {"containerStatuses": [ended]}}
    around = Surroundings(workload.around.replica_sets, (Unstructured.of(body),))
    line = workloads.in_one_line(workloads.Workload(workload.deployment, around))
    assert "xxx..." in line
    assert line.endswith("; see its log: kubectl logs app-1-a -n shop")
