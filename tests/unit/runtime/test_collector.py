"""The cycle collector pauses the event loop for moments only, however much the process holds."""

from __future__ import annotations

import gc
import weakref

import pytest

from stellwerk.runtime.supervision import collector


class Node:
    """Part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.req("R-412")
def test_what_survives_a_long_collection_is_looked_at_once() -> None:
    with collector.short_pauses():
        before = gc.get_freeze_count()
        kept = [{"a": [number]} for number in range(1_000_000)]
        looked_at = len(gc.get_objects())
        assert gc.get_freeze_count() - before + looked_at >= 2 * len(kept)
        assert looked_at < len(kept)


def test_a_cycle_is_still_found_and_all_is_as_before_at_the_end() -> None:
    settings = gc.get_threshold(), list(gc.callbacks)
    with collector.short_pauses():
        gone = weakref.ref(Node())
        kept = [[number] for number in range(200_000)]
        assert gone() is None
    assert len(kept) == 200_000
    assert (gc.get_threshold(), list(gc.callbacks)) == settings
    assert gc.get_freeze_count() == 0
