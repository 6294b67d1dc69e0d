"""Lists and objects of a JSON text are counted before it is decoded, a part at a time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types import sizes

VALUES = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\,: ab', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('[{"\\', max_size=4), inner, max_size=5),
    max_leaves=40,
)


def counted(value: Any) -> int:
    """The lists and objects of a value."""
    if isinstance(value, dict):
        return 1 + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 0


@given(VALUES, st.integers(0, 10))
def test_brackets_in_strings_do_not_count(value: Any, most: int) -> None:
    text = json.dumps(value).encode()
    assert sizes.containers(text) == counted(value)
    assert sizes.has_more_containers(text, most) == (counted(value) > most)


@pytest.mark.req("R-931")
@pytest.mark.parametrize(
    ("item", "containers"), [('{"name":"x","mountPath":"x"}', 1), ('"[{"', 0), ('"\\"["', 0), ("{}", 1)]
)
def test_a_part_of_a_large_text_keeps_other_threads_waiting_for_moments_only(item: str, containers: int) -> None:
    """One call about the whole text keeps the interpreter to itself for a tenth of a second."""
    count = (3 << 20) // (len(item) + 1)
    text = f"[{','.join([item] * count)}]".encode()
    longest, before = 0.0, time.thread_time()
    for part in sizes._parts(text):
        sizes._STRING.sub(b"", part)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
    assert longest < 0.03
    assert b"".join(sizes._parts(text)) == text
    assert sizes.containers(text) == containers * count + 1
