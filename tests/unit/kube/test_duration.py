"""Durations mean what they mean in Go."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types import duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("-168h", timedelta(days=-7)),
        ("0", timedelta()),
        ("-0", timedelta()),
        ("+3m", timedelta(minutes=3)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("7us", timedelta(microseconds=7)),
        ("7µs", timedelta(microseconds=7)),
        ("7μs", timedelta(microseconds=7)),
        ("1500ns", timedelta(microseconds=1)),
        ("87600h", timedelta(days=3650)),
        ("1h0m0.25s", timedelta(hours=1, milliseconds=250)),
        ("1m1h", timedelta(minutes=61)),
        ("2562047h47m16s", timedelta(hours=2562047, minutes=47, seconds=16)),
    ],
)
def test_a_go_duration_is_read(text: str, expected: timedelta) -> None:
    assert duration.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "1d",
        "s",
        "h1",
        "1 h",
        "1h-1m",
        "--1h",
        "+-1h",
        ".s",
        "1e3s",
        "\u0661h",
        "1h\n",
        "00",
        "2562048h",
        "9" * 400 + "h",
    ],
)
def test_what_go_refuses_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(duration.NotADuration, match=r"90s|292 years"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(), "0s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(days=-7), "-168h"),
        (timedelta(hours=1, seconds=1, milliseconds=50), "1h1.05s"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(microseconds=3), "3µs"),
    ],
)
def test_a_duration_is_written_without_empty_parts(value: timedelta, expected: str) -> None:
    assert duration.format(value) == expected


@given(st.timedeltas(min_value=timedelta(days=-90_000), max_value=timedelta(days=90_000)))
def test_what_is_written_reads_back_the_same(value: timedelta) -> None:
    assert duration.parse(duration.format(value)) == value


@pytest.mark.req("R-401")
@pytest.mark.req("R-412")
@pytest.mark.parametrize(
    "text", ["9" * 101, "9" * 5_000, "1" * 1_000_000 + "h", "1h" * 100_000, "." * 100_000, "1." * 5_000]
)
def test_a_long_text_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(duration.NotADuration):
        duration.parse(text)
    assert time.process_time() - began < 0.1


@pytest.mark.req("R-412")
@pytest.mark.parametrize("text", ["9" * 100, "1." * 50, "." * 100])
def test_the_longest_text_that_is_looked_at_takes_no_time(text: str) -> None:
    began = time.process_time()
    with pytest.raises(duration.NotADuration):
        duration.parse(text)
    assert time.process_time() - began < 0.1
