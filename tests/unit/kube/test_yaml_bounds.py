"""YAML of any shape costs what its size allows: depth, bytes after unfolding, time, and time on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.promptly import promptly

from stellwerk.kube import threads
from stellwerk.kube.yaml import (
    UnreadableYaml,
    YamlLimits,
    read_documents,
    read_value,
)
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

MEBIBYTE = 2**20
NESTED = {
    "flow lists": b"[" * 100_000,
    "flow lists on lines": b"[\n" * 100_000,
    "flow mappings": b"{a: " * 60_000,
    "both kinds of brackets": b"[{a: " * 50_000,
    "block lists on one line": b"- " * 60_000,
    "block lists on lines": b"".join(b" " * (2 * level) + b"-\n" for level in range(240)),
    "block mappings": b"".join(b" " * level + b"a:\n" for level in range(340)),
    "block lists in mappings": b"a:\n" + b"".join(b" " * (2 * level) + b"- a:\n" for level in range(240)),
    "brackets in block lists": b"- " * 90 + b"[" * 60_000,
    "behind a byte order mark": b"\xef\xbb\xbf" + b"- " * 60_000,
    "as UTF-16": ("- " * 60_000).encode("utf-16"),
    "in the second document": b"--- a\n--- " + b"[" * 60_000,
}


@pytest.mark.req("R-410")
@pytest.mark.req("R-402")
@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
@promptly
def test_deep_text_is_refused_with_the_depth_that_is_allowed(text: bytes) -> None:
    with pytest.raises(UnreadableYaml, match="nested deeper than 100 levels"):
        list(read_documents(text))


@pytest.mark.req("R-410")
def test_keys_that_are_lists_in_lists_are_refused() -> None:
    for text in (b"? " * 60_000, b"{? " * 60_000, b"? - ? - " * 60_000):
        with pytest.raises(UnreadableYaml, match="a key must be a single value"):
            read_value(text)


def unfolding(size: int, times: int) -> bytes:
    return b"a: &a " + b"x" * size + b"\nb:\n" + b"- *a\n" * times


@pytest.mark.req("R-402")
@pytest.mark.req("R-411")
def test_aliases_of_one_large_scalar_are_counted_in_bytes() -> None:
    assert read_value(unfolding(100_000, 8)) is not None
    with pytest.raises(UnreadableYaml, match="aliases and tags unfold to more than"):
        read_value(unfolding(400_000, 8_000))


@pytest.mark.req("R-411")
@pytest.mark.parametrize(
    "text",
    [
        b"a: &a " + b"x" * 64_000 + b"\n" + b"".join(b"k%d: *a\n" % number for number in range(8_000)),
        b"a: &a [" + b"x" * 64_000 + b"]\nb: [" + b"*a, " * 8_000 + b"]",
        b"a: &a {k: " + b"x" * 64_000 + b"}\nb: [" + b"{<<: *a}, " * 8_000 + b"]",
        b"a: &a {k: " + b"x" * 64_000 + b"}\nb: {<<: [" + b"*a, " * 8_000 + b"]}",
        b"? &a " + b"x" * 64_000 + b"\n: 1\nb: [" + b"*a, " * 8_000 + b"]",
        b"a: &a {? " + b"x" * 64_000 + b" : 1}\nb: [" + b"*a, " * 8_000 + b"]",
        ('a: &a "' + "\u20ac" * 30_000 + '"\nb: [' + "*a, " * 8_000 + "]").encode(),
        b'a: &a "' + b"\\L" * 30_000 + b'"\nb: [' + b"*a, " * 8_000 + b"]",
        b"%TAG !e! tag:" + b"x" * 64_000 + b"\n--- [" + b"!e!x a, " * 8_000 + b"]",
        b"%TAG !e! tag:" + b"x" * 64_000 + b"\n--- [" + b"!e!x {}, " * 8_000 + b"]",
    ],
    ids=["values", "lists", "merged", "merged lists", "key", "inner key", "wide", "escaped", "tags", "collection tags"],
)
@promptly
def test_nothing_unfolds_to_more_than_ten_times_its_text(text: bytes) -> None:
    with pytest.raises(UnreadableYaml, match="unfold to more than"):
        read_value(text)


@pytest.mark.req("R-411")
def test_a_text_near_its_limit_unfolds_no_further_than_the_limit() -> None:
    limits = YamlLimits(bytes=MEBIBYTE)
    assert read_value(unfolding(400_000, 1), limits=limits) is not None
    with pytest.raises(UnreadableYaml, match="unfold to more than 1 MiB"):
        read_value(unfolding(400_000, 2), limits=limits)


@pytest.mark.req("R-411")
def test_a_text_that_unfolds_is_refused_before_memory_is_used() -> None:
    program = (
        "import resource; from stellwerk.kube.yaml import read_value, UnreadableYaml;"
        "import contextlib, msgspec;"
        "memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "text = b'a: &a ' + b'x' * 500_000 + b'\\nb:\\n' + b'- *a\\n' * 8_000;"
        "before = memory();\n"
        "with contextlib.suppress(UnreadableYaml): msgspec.json.encode(read_value(text))\n"
        "print(memory() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16 * 2**10, "kibibytes"


def test_small_texts_may_unfold_freely() -> None:
    assert read_value("a: &a " + "x" * 100 + "\nb: [" + "*a, " * 500 + "]") is not None


@pytest.mark.req("R-412")
@promptly
def test_tag_handles_that_libyaml_would_compare_with_each_other_are_refused() -> None:
    for end in (b"\n", b"\r", b"\r\n", b"\xc2\x85", b"\xe2\x80\xa8"):
        handles = b"".join(b"%%TAG !a%d! x" % number + end for number in range(20_000))
        with pytest.raises(UnreadableYaml, match="more than 100 tag handles"):
            read_value(handles + b"--- a")
    few = b"".join(b"%%TAG !a%d! x\n" % number for number in range(100))
    assert read_value(few + b"--- a") == "a"
    assert read_value(b"a: |\n" + b"  %TAG\n" * 200) == {"a": "%TAG\n" * 200}


SLOWEST = {
    "values of a list": b"[" + b"0," * 240_000 + b"]",
    "keys and values": b"".join(b"k%d: v\n" % number for number in range(100_000)),
    "anchors": b"".join(b"- &a%d x\n" % number for number in range(80_000)),
    "one scalar": b"a: " + b"x" * 15 * MEBIBYTE,
    "one quoted scalar": b'a: "' + b"\\n" * 5 * MEBIBYTE + b'"',
    "digits": b"a: " + b"1" * 15 * MEBIBYTE,
    "a comment": b"#" + b"x" * 15 * MEBIBYTE,
    "blank lines": b"\n" * 15 * MEBIBYTE,
    "comments": b"#\n" * 7 * MEBIBYTE,
    "ends of documents": b"a\n" + b"...\n" * 3 * MEBIBYTE,
    "deep text": b"[" * MEBIBYTE,
}


@pytest.mark.req("R-412")
@pytest.mark.parametrize("text", SLOWEST.values(), ids=SLOWEST)
async def test_reading_large_text_does_not_block_the_event_loop(text: bytes) -> None:
    with measured_stalls() as stalls, contextlib.suppress(UnreadableYaml):
        await threads.run(lambda: list(read_documents(text)))
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-412")
async def test_text_of_16_kib_may_be_read_on_the_event_loop() -> None:
    text = b"[" + b"0," * (8 * 2**10 - 2) + b"]"
    with measured_stalls() as stalls:
        assert read_value(text) == [0] * (8 * 2**10 - 2)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


async def test_at_most_two_texts_are_read_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()
    release = threading.Event()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(10)
        with lock:
            running -= 1

    pending = [asyncio.ensure_future(threads.run(work)) for _ in range(6)]
    await eventually(lambda: most == 2)
    release.set()
    await asyncio.gather(*pending)
    assert most == 2


@pytest.mark.req("R-401")
@pytest.mark.req("R-410")
@given(
    some.lists(
        some.sampled_from(
            ["- ", "? ", ": ", "[", "]", "{", "}", "a", "&a ", "*a ", "<<: *a", "!t ", "|\n", ">-\n", "\n", "\n  ",
             "\n    ", "---\n", "...\n", "%TAG !e! tag:x\n", "%YAML 1.1\n", "'", '"', "\\", "#", ",", "\r", "\x85",
             "\u2028", "0x", "1e9", "9" * 70, "!!int ", "!!binary ", "=", "\ufeff"]
        ),
        max_size=60,
    ).map("".join)
    | some.binary(max_size=200),
    some.integers(1, 2_000),
)  # fmt: skip
@promptly
def test_any_text_however_often_repeated_is_read_or_refused(text: str | bytes, times: int) -> None:
    with contextlib.suppress(UnreadableYaml):  # any other exception fails the test
        list(read_documents(text * times))


@pytest.mark.req("R-412")
def test_the_time_to_read_grows_with_the_text_and_not_with_its_square() -> None:
    def seconds(text: Callable[[int], bytes], size: int) -> float:
        began = time.process_time()
        list(read_documents(text(size)))
        return time.process_time() - began

    for shape in (
        lambda size: b"k: [" + b"[], " * size + b"]",
        lambda size: b"".join(b"k%d: [&a%d x, *a%d]\n" % (number, number, number) for number in range(size)),
        lambda size: b"[" * 90 + b"x, " * size + b"]" * 90,
        lambda size: b"'" + b"a \n" * 10 * size + b"'",
    ):
        seconds(shape, 1_000)
        assert seconds(shape, 40_000) < 40 * max(seconds(shape, 4_000), 0.002)


def test_keys_that_a_text_repeats_are_in_memory_once() -> None:
    """A third of the memory of a set of CustomResourceDefinitions is the same few keys."""
    items = read_value(b"- description: a\n- {description: b, x: {description: c}}\n")
    assert isinstance(items, list)
    keys = [key for item in items if isinstance(item, dict) for key in item if key != "x"]
    assert keys == ["description"] * 2
    assert keys[0] is keys[1]
