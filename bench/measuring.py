"""What several benchmarks do: load the API server, wait for an end by watching, and read clocks and memory."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.components import Options
from stellwerk.local.host.ports import free_port
from stellwerk.testing.processes.operator_process import OperatorProcess

X = TypeVar("X")
T = TypeVar("T", bound=HasMetadata)

CONCURRENCY = 32


@contextmanager
def own_cluster(name: str, options: Options) -> Iterator[LocalCluster]:
    """A cluster of this benchmark alone, taken down at the end. What a killed run has left of it is removed first."""
    cluster = named(name, options)
    cluster.down()
    cluster.up(lambda line: print(line, file=sys.stderr))
    try:
        yield cluster
    finally:
        cluster.down()


async def together(things: Iterable[X], act: Callable[[X], Awaitable[object]]) -> None:
    """Do something with each, 32 at a time."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await act(thing)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(worker())


async def until(client: Client, target: Target[T], holds: Callable[[Sequence[T]], bool], fields: str = "") -> None:
    """Follow objects until a condition holds of them."""
    seen: dict[ObjectKey, T] = {}
    async for change in Watcher(client, target, fields=fields).changes():
        match change:
            case Synced(objects=objects):
                seen = {obj.key: obj for obj in objects}
            case Changed(obj=obj):
                seen[obj.key] = obj
            case Removed(obj=obj):
                seen.pop(obj.key, None)
        if holds([*seen.values()]):
            return


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """How long some work takes."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def resident_bytes(process: int) -> int:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def resident_bytes_together(processes: Iterable[int]) -> int:
    """Resident memory of several processes. A page of a file that more than one of them has mapped (the program of two
    workers) is in memory once, and is counted once."""
    files: Counter[str] = Counter()
    own = 0
    for process in processes:
        mapped: Counter[str] = Counter()
        for path, resident, anonymous in _mappings(Path(f"/proc/{process}/smaps").read_text()):
            own += anonymous if path else resident
            mapped[path] += resident - anonymous if path else 0
        files |= mapped  # the larger of the two, for each file
    return own + files.total()


def _mappings(text: str) -> Iterator[tuple[str, int, int]]:
    """The file, resident bytes and private anonymous bytes of each mapping; no file for memory of its own."""
    path, resident = "", 0
    for line in text.splitlines():
        word, *rest = line.split()
        match word:
            case "Rss:":
                resident = int(rest[0]) << 10
            case "Anonymous:":
                yield path, resident, int(rest[0]) << 10
            case _ if "-" in word and not word.endswith(":"):
                path = rest[4] if len(rest) > 4 and rest[4].startswith("/") else ""


def family(process: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield process
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def operator_process(
    cluster: LocalCluster,
    name: str,
    user: str,
    *flags: str,
    groups: Sequence[str] = ("system:masters",),
    **variables: str,
) -> OperatorProcess:
    """`stellwerk run NAME` as it comes, as a user of the cluster."""
    port = free_port()
    arguments = [
        *(sys.executable, "-m", "stellwerk.cli.main", "run", name),
        f"--kubeconfig={cluster.kubeconfig_for(user, [*groups])}",
        f"--health-probe-bind-address=127.0.0.1:{port}",
        "--metrics-bind-address=0",
        *flags,
    ]
    return OperatorProcess(
        arguments,
        log=cluster.folder / "log" / "bench-operator.log",
        environment={**os.environ, **variables},
        health_url=f"http://127.0.0.1:{port}/readyz",
    )
