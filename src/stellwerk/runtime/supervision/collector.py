"""Keeps the pauses of the cycle collector short (R-412).

A full collection looks at every list, mapping and object of the process, with the event loop stopped: a second for six
million of them, and a cache of 20,000 objects has a million. What caches hold is freed by reference counts and is never
part of a cycle worth the search. So the collector looks at young objects often and at few of them, and what has
survived a collection that took long is not looked at again (`gc.freeze`).

The price: an object that was frozen and becomes part of an unreachable cycle later is not freed. Only what was alive at
that moment can be, and of that almost nothing is in cycles. To disable the collector was refused: exceptions with
their frames are cycles, and each failed pass makes some.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (10_000, 4, 3)
"""New objects before a first look, first looks before a second one, second looks before a full collection."""
_LONG_SECONDS = 0.01
"""A tenth of what may block the event loop. The next collection is longer by what comes meanwhile: 120,000 objects."""


@contextmanager
def short_pauses() -> Iterator[None]:
    """Spare what is there from collections, and later whatever makes them long; as before at the end of the block."""
    before, began = gc.get_threshold(), 0.0

    def watch(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif info["generation"] > 0 and time.thread_time() - began > _LONG_SECONDS:
            gc.freeze()

    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(watch)
    try:
        yield
    finally:
        gc.callbacks.remove(watch)
        gc.set_threshold(*before)
        gc.unfreeze()
