"""The status of an object is written once, to that very object, and only when it differs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.cluster.runtime.example_kind import Lamp, LampStatus, lamp

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Invalid, Outdated, ServerFault, Status
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime.control.status_writer import StatusWriter, differs, is_failure, transition
from stellwerk.runtime.reconciler import ReconcileError, Severity
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.cluster import AuditLog

NOON = datetime(2030, 1, 1, tzinfo=UTC)


def ready(status: str = "True", reason: str = "Switched", message: str = "it shines") -> LampStatus:
    condition = Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=NOON)
    return LampStatus(shines=status == "True", conditions=(condition,))


async def test_the_answer_to_a_write_is_its_version(client: Client, namespace: str) -> None:
    made = await client.create(Lamp, lamp("hall", namespace))
    version = await StatusWriter(client=client).write(made, ready())
    live = await client.get(Lamp, "hall", namespace)
    assert live.status == ready()
    assert live.metadata.resource_version == version


@pytest.mark.req("R-108")
async def test_an_equal_status_is_not_sent(client: Client, namespace: str, audit: AuditLog) -> None:
    await client.create(Lamp, lamp("hall", namespace))
    writer = StatusWriter(client=client)
    await writer.write(await client.get(Lamp, "hall", namespace), ready())
    current = await client.get(Lamp, "hall", namespace)
    audit.mark()
    assert await writer.write(current, ready()) is None
    assert audit.entries(lambda entry: entry.namespace == namespace) == []


async def test_what_the_new_status_does_not_have_goes_away(client: Client, namespace: str) -> None:
    made = await client.create(Lamp, lamp("hall", namespace))
    writer = StatusWriter(client=client)
    await writer.write(made, ready())
    await writer.write(await client.get(Lamp, "hall", namespace), LampStatus(conditions=ready().conditions))
    assert (await client.get(Lamp, "hall", namespace)).status == LampStatus(conditions=ready().conditions)


async def test_a_change_by_others_during_the_pass_does_not_stand_in_the_way(client: Client, namespace: str) -> None:
    writer = StatusWriter(client=client)
    made = await client.create(Lamp, lamp("hall", namespace))
    await writer.write(made, ready())
    seen = await client.get(Lamp, "hall", namespace)
    await client.patch(Lamp, "hall", namespace, MergePatch({"metadata": {"labels": {"room": "hall"}}}))
    assert await writer.write(seen, ready("False")) is not None
    assert (await client.get(Lamp, "hall", namespace)).status == ready("False")


@pytest.mark.req("R-104")
async def test_a_new_process_puts_nothing_in_the_place_of_what_it_has_not_seen(client: Client, namespace: str) -> None:
    older = await client.create(Lamp, lamp("hall", namespace))
    await StatusWriter(client=client).write(older, ready())
    with pytest.raises(Outdated):
        await StatusWriter(client=client).write(older, ready("False"))
    assert (await client.get(Lamp, "hall", namespace)).status == ready()


async def test_a_write_of_the_pass_itself_is_no_change_by_others(
    client: Client, namespace: str, audit: AuditLog
) -> None:
    made = await client.create(Lamp, lamp("hall", namespace))
    held = await client.patch(Lamp, "hall", namespace, MergePatch({"metadata": {"finalizers": ["example.org/hold"]}}))
    audit.mark()
    assert await StatusWriter(client=client).write(made, ready(), held.metadata.resource_version) is not None
    assert len(audit.entries(lambda entry: entry.namespace == namespace)) == 1


@pytest.mark.req("R-105")
async def test_a_new_object_of_the_same_name_does_not_get_the_old_ones_status(client: Client, namespace: str) -> None:
    old = await client.create(Lamp, lamp("hall", namespace))
    await client.delete(Lamp, "hall", namespace)
    await client.create(Lamp, lamp("hall", namespace))
    assert await StatusWriter(client=client).write(old, ready()) is None
    assert (await client.get(Lamp, "hall", namespace)).status is None


async def test_the_status_of_an_object_that_is_gone_is_nobodys_business(client: Client, namespace: str) -> None:
    old = await client.create(Lamp, lamp("hall", namespace))
    await client.delete(Lamp, "hall", namespace)
    assert await StatusWriter(client=client).write(old, ready()) is None


async def test_a_status_that_breaks_the_schema_is_a_failure(client: Client, namespace: str) -> None:
    made = await client.create(Lamp, lamp("hall", namespace))
    with pytest.raises(Invalid, match="shines"):
        await StatusWriter(client=client).write(made, LampStatus(shines="perhaps"))  # type: ignore[arg-type]


async def test_passing_failures_are_tried_again_until_patience_ends(client: Client, namespace: str) -> None:
    """The fence stands in for a server that fails: it is asked before each write."""
    failures = 3
    asked = 0

    def failing() -> None:
        nonlocal asked
        asked += 1
        if asked <= failures:
            raise ServerFault(Status(code=500, message="etcd is away"))

    made = await client.create(Lamp, lamp("hall", namespace))
    async with Client.connect(client.config, before_write=failing) as weak:
        clock = FakeClock()
        write = asyncio.create_task(StatusWriter(client=weak, clock=clock).write(made, ready()))
        while not write.done():
            await clock.advance(1)
        assert await write is not None
        assert asked == failures + 1
        failures, asked = 1_000, 0
        again = await client.get(Lamp, "hall", namespace)
        write = asyncio.create_task(StatusWriter(client=weak, clock=clock).write(again, ready("False")))
        while not write.done():
            await clock.advance(1)
        with pytest.raises(ServerFault, match="etcd is away"):
            await write
        assert 4 <= asked <= 12


FAILURE = ReconcileError("it does not shine")


class BulbMissing(ReconcileError):
    """A failure whose Event does not have the reason of the condition."""

    event_reason = "BulbMissing"
    action = "Look"


def test_an_event_is_due_when_readiness_or_its_reason_changes() -> None:
    new, shown = Lamp(), Lamp(status=ready())
    notice = transition(new, ready(), Severity.NORMAL)
    assert notice is not None
    assert (notice.reason, notice.message, notice.severity) == ("Switched", "it shines", Severity.NORMAL)
    assert transition(shown, ready(message="it still shines"), Severity.NORMAL) is None
    assert transition(shown, ready("True", "Dimmed"), Severity.NORMAL) is not None
    assert transition(shown, ready("False"), Severity.WARNING) is not None
    assert transition(new, LampStatus(), Severity.NORMAL) is None
    assert differs(new, LampStatus()), "an object without status gets an empty one"


def test_an_event_is_due_when_what_waits_does_so_for_another_cause() -> None:
    def waiting(cause: str, message: str = "it waits") -> LampStatus:
        ready = Condition(type="Ready", status="Unknown", reason="Waiting", message=message)
        return LampStatus(conditions=(ready, Condition(type="Reconciling", status="True", reason=cause)))

    lamp = Lamp(status=waiting("NoBulb"))
    assert transition(lamp, waiting("NoPower"), Severity.NORMAL, failure=FAILURE) is not None
    assert transition(lamp, waiting("NoBulb", "2 bulbs are missing"), Severity.NORMAL, failure=FAILURE) is None
    assert transition(lamp, waiting("NoPower"), Severity.NORMAL) is None, "a step on the way is no obstacle"


def test_the_event_about_a_failure_has_its_action_and_may_have_its_own_reason() -> None:
    lamp, failure = Lamp(status=ready("True", message="it shines")), BulbMissing()
    used = ready("True", message="it shines, but there is no bulb")
    notice = transition(lamp, used, Severity.WARNING, failure=failure)
    assert notice is not None
    assert (notice.reason, notice.action) == ("BulbMissing", "Look")
    assert transition(lamp, used, Severity.WARNING, failure=FAILURE) is None
    assert transition(Lamp(status=used), used, Severity.WARNING, failure=failure) is None


def test_an_event_is_due_when_another_failure_has_the_reason_of_the_former() -> None:
    failed = Lamp(status=ready("False", message="there is no bulb"))
    again = ready("False", message="there is no bulb")
    assert transition(failed, again, Severity.WARNING, failure=FAILURE) is None
    assert (
        transition(failed, ready("False", message="there is no power"), Severity.WARNING, failure=FAILURE) is not None
    )
    assert transition(failed, ready("False", message="2 of 3 bulbs are left"), Severity.WARNING) is None
    assert transition(failed, ready("False", message="it goes out"), Severity.NORMAL) is None
    assert is_failure(again)
    assert not is_failure(ready("Unknown", message="waits for lamp 2"))
