"""A control plane of one test process, for a folder or a module of tests: it ends when they have ended.

A control plane that waits takes half a gigabyte of memory and a fiftieth of a core, and a process passes a dozen of
them in a whole run. So fixtures that start one have the scope of their folder (`package`), not of the session.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.testing import cluster as clusters


@contextmanager
def own_cluster(
    name: str, prepare: Callable[[LocalCluster], Coroutine[None, None, None]] | None, options: Options | None = None
) -> Iterator[LocalCluster]:
    """A control plane of this test process alone, with what `prepare` installs. It ends with the block."""
    cluster = clusters.started(f"{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}", options)
    try:
        if prepare is not None:
            asyncio.run(prepare(cluster))
        yield cluster
    finally:
        cluster.down()
