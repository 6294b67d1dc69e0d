"""What a recorder remembers, merges and drops before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.control import events
from stellwerk.runtime.control.events import EventRecorder, shortened
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.clock import FakeClock


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def recorder(metrics: Metrics) -> AsyncIterator[EventRecorder]:
    """A recorder that does not run: nothing is sent, everything waits."""
    async with Client.connect(ClusterConfig(server="https://127.0.0.1:1")) as client:
        yield EventRecorder(client, component="test", instance="pod", clock=FakeClock(), metrics=metrics)


def subject(name: str = "a", uid: str = "1") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="here", uid=uid))


def dropped(metrics: Metrics, why: str) -> float:
    return metrics.registry.get_sample_value("stellwerk_events_total", {"outcome": why}) or 0.0


async def test_the_same_thing_a_thousand_times_is_one_write(recorder: EventRecorder, metrics: Metrics) -> None:
    for _ in range(1_000):
        recorder.send(subject(), Notice("Same", "again"))
    assert recorder.waiting == 1
    assert dropped(metrics, "rate") == 0


async def test_an_object_made_again_under_its_name_is_another(recorder: EventRecorder) -> None:
    recorder.send(subject(uid="1"), Notice("Same", "again"))
    recorder.send(subject(uid="2"), Notice("Same", "again"))
    assert recorder.waiting == 2


async def test_a_full_queue_keeps_the_first_and_drops_the_newest(recorder: EventRecorder, metrics: Metrics) -> None:
    for number in range(events.QUEUE_LIMIT + 7):
        recorder.send(subject(f"object-{number}", str(number)), Notice("Flood", "much"))
    assert recorder.waiting == events.QUEUE_LIMIT
    assert dropped(metrics, "full") == 7


async def test_a_full_queue_is_logged_once_when_it_begins_and_counted_when_it_ends(
    recorder: EventRecorder, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(events.QUEUE_LIMIT + 7):
        recorder.send(subject(f"object-{number}", str(number)), Notice("Flood", "much"))
    assert len(caplog.records) == 1
    assert "More than 5000 Events wait" in caplog.text


async def test_an_event_that_was_dropped_is_sent_when_it_happens_again(recorder: EventRecorder) -> None:
    for number in range(events.QUEUE_LIMIT + 1):
        recorder.send(subject(f"object-{number}", str(number)), Notice("Flood", "much"))
    recorder.send(subject(uid="other"), Notice("Failed", "the disk is full", Severity.WARNING))
    recorder.send(subject(f"object-{number}", str(number)), Notice("Flood", "much", Severity.WARNING))
    assert recorder.waiting == events.QUEUE_LIMIT


async def test_one_noisy_object_does_not_silence_another(recorder: EventRecorder, metrics: Metrics) -> None:
    for number in range(100):
        recorder.send(subject("noisy"), Notice("Noise", str(number)))
    recorder.send(subject("quiet", "2"), Notice("Calm", "once"))
    assert recorder.waiting == events.BURST + 1
    assert dropped(metrics, "rate") == 100 - events.BURST


async def test_an_object_that_has_reported_much_may_still_warn(recorder: EventRecorder) -> None:
    for number in range(100):
        recorder.send(subject("busy"), Notice("Progress", str(number)))
    before = recorder.waiting
    for number in range(100):
        recorder.send(subject("busy"), Notice("Failed", str(number), Severity.WARNING))
    assert recorder.waiting - before == events.FOR_WARNINGS


async def test_an_object_of_unknown_kind_is_refused_at_once(recorder: EventRecorder) -> None:
    with pytest.raises(TypeError, match="knows its kind"):
        recorder.send(PartialObjectMetadata(metadata=ObjectMeta(name="a")), Notice("A", "b"))


@given(st.text(max_size=3_000))
def test_a_note_fits_its_limit_in_bytes_and_loses_no_half_character(text: str) -> None:
    short = shortened(text.encode("utf-8", "ignore").decode())
    assert len(short.encode()) <= events.NOTE_LIMIT
    assert "\ufffd" not in short or "\ufffd" in text


@pytest.mark.req("R-413")
@pytest.mark.req("R-512")
async def test_what_no_encoding_can_write_is_sent_with_a_replacement(recorder: EventRecorder) -> None:
    recorder.send(subject(), Notice("Odd", "a lone \udcff surrogate"))
    assert recorder.waiting == 1
    assert shortened("a \udcff b") == "a ? b"


@pytest.mark.req("R-512")
async def test_an_event_that_cannot_be_made_costs_only_itself(
    recorder: EventRecorder, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(str):
        def encode(self, *_: str, **__: str) -> bytes:
            raise RecursionError

    recorder.send(subject(), Notice("Odd", Odd("text")))
    assert dropped(metrics, "failed") == 1
    assert "RecursionError" in caplog.text
    recorder.send(subject(), Notice("Plain", "text"))
    assert recorder.waiting == 1


@pytest.mark.req("R-412")
async def test_a_flood_of_events_does_not_stall_the_loop(recorder: EventRecorder) -> None:
    with measured_stalls() as stalls:
        for number in range(20_000):
            recorder.send(subject(f"object-{number}", str(number)), Notice("Flood", "much " * 400))
            if number % 100 == 0:
                await asyncio.sleep(0)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
