"""What the engine costs, compared with kopf doing the same work in the same run.

The work: 10,000 small ConfigMaps are listed, each is looked at once and found in order (no writes). Then 500 of them a
second are changed by another process, and each change is looked at. Each side runs in a process of its own on the same
API server, one after the other. kopf's part is `on.event`, its only handler that writes nothing.

Latency runs from the moment before the change is sent to the moment the reconciler is called, so it includes the API
server and etcd, which share the two cores; `inside` is our part of it, from the arrival of the event. The sides take
turns, `--rounds` times. Memory is resident memory with the objects less without them. Only ratios mean something
elsewhere.

    python -m bench.engine [--objects 10000] [--rate 500] [--seconds 10] [--rounds 2]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import uvloop
from bench.measuring import own_cluster, resident_bytes, together

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import HasMetadata, JsonObject, View, metadata_of, unstructured, view
from stellwerk.kube.types.object_meta import Record
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, SimpleReconciler
from stellwerk.testing.cluster import AuditLog

NAMESPACE = "engine"
SENT = "bench/sent-ns"
SHAPES: Mapping[str, View[HasMetadata]] = {
    "typed": cast("View[HasMetadata]", view(ConfigMap)),
    "unstructured": cast("View[HasMetadata]", unstructured(ConfigMap.resource)),
    "metadata": cast("View[HasMetadata]", metadata_of(ConfigMap)),
}
Say = Callable[..., None]


# The side under measurement: a process that reads what to do next from stdin and answers in JSON lines.


@dataclass
class Tally:
    """Counts what was looked at, and how late."""

    expected: int
    seen: set[str] = field(default_factory=set)
    passes: int = 0
    late_ms: list[float] = field(default_factory=list)
    inside_ms: list[float] = field(default_factory=list)
    arrived: dict[str, float] = field(default_factory=dict)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    _wanted: int = -1
    _there: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self, passes: int) -> None:
        """Return after so many looks."""
        self._wanted, self._there = passes, asyncio.Event()
        await self._there.wait()

    def arrive(self, delta: Delta[ConfigMap]) -> None:
        """The cache has received an object."""
        self.arrived[delta.key.name] = time.perf_counter()

    def note(self, name: str, sent_ns: str | None) -> None:
        """An object was looked at."""
        self.passes += 1
        self.seen.add(name)
        if (arrived := self.arrived.pop(name, None)) is not None:
            self.inside_ms.append((time.perf_counter() - arrived) * 1_000)
        if sent_ns is not None:
            self.late_ms.append((time.time_ns() - int(sent_ns)) / 1e6)
        if len(self.seen) == self.expected:
            self.full.set()
        if self.passes == self._wanted:
            self._there.set()


class NoOp(SimpleReconciler[ConfigMap, Record]):
    """Finds everything in order."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def reconcile(self, obj: ConfigMap) -> Next[Record]:
        self._tally.note(obj.metadata.name, obj.metadata.annotations.get(SENT))
        return Next.done()


async def our_side(config: ClusterConfig, objects: int, say: Say) -> None:
    """A manager with one controller."""
    began, tally = time.perf_counter(), Tally(objects)
    async with Client.connect(config) as client:
        manager = Manager(client)
        informer = manager.informer(ConfigMap, namespace=NAMESPACE)
        writer = StatusWriter(client=client)
        controller = Controller("config maps", informer, NoOp(tally), write_status=writer, metrics=manager.metrics)
        manager.add_controller(controller)
        informer.on_change(tally.arrive)
        running = asyncio.create_task(manager.run())
        await _measure(tally, began, say)
        keys = [obj.key for obj in informer.store.all()]
        began, before = time.perf_counter(), tally.passes
        for key in keys:
            controller.queue.add(key)
        await tally.reached(before + len(keys))
        say(again_per_second=len(keys) / (time.perf_counter() - began))
        manager.stop()
        await running


async def kopf_side(config: ClusterConfig, objects: int, say: Say) -> None:
    """A kopf operator with one event handler."""
    import kopf

    began, tally = time.perf_counter(), Tally(objects)
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(settings: kopf.OperatorSettings, **_: object) -> object:
        return kopf.login_with_kubeconfig(settings=settings)

    @kopf.on.event("configmaps", registry=registry)
    async def note(name: str, annotations: Mapping[str, str], **_: object) -> None:
        tally.note(name, annotations.get(SENT))

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    running = asyncio.create_task(
        kopf.operator(registry=registry, settings=settings, standalone=True, namespaces=[NAMESPACE])
    )
    await _measure(tally, began, say)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def cache_side(config: ClusterConfig, objects: int, say: Say, target: View[HasMetadata]) -> None:
    """One cache and nothing else: empty, then full."""
    async with Client.connect(config) as client:
        manager = Manager(client)
        manager.informer(metadata_of(Namespace))
        running = asyncio.create_task(manager.run())
        await manager.home.wait_settled()
        gc.collect()
        say(idle_mb=resident_mb())
        informer = manager.informer(target, namespace=NAMESPACE)
        await informer.wait_synced()
        assert len(informer.store) == objects, len(informer.store)
        gc.collect()
        say(full_mb=resident_mb())
        manager.stop()
        await running


async def _measure(tally: Tally, began: float, say: Say) -> None:
    await tally.full.wait()
    say(first_per_second=tally.expected / (time.perf_counter() - began), resident_mb=resident_mb())
    tally.late_ms.clear()
    tally.inside_ms.clear()
    await asyncio.to_thread(sys.stdin.readline)
    say(events=len(tally.late_ms), **percentiles("", tally.late_ms), **percentiles("inside_", tally.inside_ms))


def percentiles(prefix: str, milliseconds: Sequence[float]) -> dict[str, float]:
    """The middle and the worst hundredth; nothing where nothing was measured."""
    if not milliseconds:
        return {}
    ordered = sorted(milliseconds)
    return {f"{prefix}p50_ms": ordered[len(ordered) // 2], f"{prefix}p99_ms": ordered[len(ordered) * 99 // 100]}


def resident_mb() -> float:
    """Resident memory of this process in MiB."""
    return resident_bytes(os.getpid()) / 2**20


def side(name: str, kubeconfig: Path, objects: int) -> None:
    """Be one of the processes under measurement."""
    logging.getLogger("kopf").setLevel(logging.ERROR)

    def say(**figures: float) -> None:
        print(json.dumps(figures), flush=True)

    config = ClusterConfig.load(kubeconfig)
    sides: dict[str, Callable[[], Awaitable[None]]] = {
        "ours": lambda: our_side(config, objects, say),
        "kopf": lambda: kopf_side(config, objects, say),
        **{shape: _cache(config, objects, say, target) for shape, target in SHAPES.items()},
    }
    uvloop.run(_awaited(sides[name]))


def _cache(config: ClusterConfig, objects: int, say: Say, target: View[HasMetadata]) -> Callable[[], Awaitable[None]]:
    return lambda: cache_side(config, objects, say, target)


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


# The measuring side


@dataclass
class Side:
    """A process under measurement, seen from outside."""

    process: asyncio.subprocess.Process

    @classmethod
    async def start(cls, name: str, cluster: LocalCluster, objects: int) -> Side:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.engine", "--side", name, "--objects", str(objects)),
            *("--kubeconfig", str(cluster.kubeconfig)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"KUBECONFIG": str(cluster.kubeconfig), "PATH": ""},
        )
        return cls(process)

    async def says(self) -> dict[str, float]:
        """Its next figures."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        assert line, "the process under measurement has ended"
        figures: dict[str, float] = json.loads(line)
        return figures

    async def go_on(self) -> dict[str, float]:
        """Let it sum up what it saw."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        return await self.says()

    async def end(self) -> None:
        """It has printed all; the rest of its work is not measured."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


def config_map(number: int) -> JsonObject:
    """A small object as people have them: some labels, some data."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"small-{number:05}",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": f"instance-{number}"},
            "annotations": {"bench/number": str(number)},
        },
        "data": {"number": str(number), "text": "x" * 200},
    }


async def fill(client: Client, objects: int) -> None:
    """Make the objects, unless an earlier run has."""
    await client.apply(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    present = len((await client.list(metadata_of(ConfigMap), NAMESPACE)).items)
    missing = range(objects if present != objects else 0)
    await together(missing, lambda number: client.apply(ConfigMap, config_map(number)))


async def change(client: Client, objects: int, rate: int, seconds: float) -> float:
    """Change `rate` objects a second, at most 32 at a time. Returns the rate that was reached."""
    began, total = time.perf_counter(), int(rate * seconds)

    async def touch(number: int) -> None:
        await asyncio.sleep(began + number / rate - time.perf_counter())
        await _touch(client, number % objects)

    await together(range(total), touch)
    return total / (time.perf_counter() - began)


async def _touch(client: Client, number: int) -> None:
    patch = MergePatch({"metadata": {"annotations": {SENT: str(time.time_ns())}}})
    await client.patch(ConfigMap, f"small-{number:05}", NAMESPACE, patch)


async def work_of(name: str, cluster: LocalCluster, client: Client, options: Extent) -> dict[str, float]:
    """All figures of one side."""
    audit = AuditLog(cluster)
    measured = await Side.start(name, cluster, options.objects)
    try:
        return await _figures(measured, name, audit, client, options)
    finally:
        await measured.end()


async def _figures(measured: Side, name: str, audit: AuditLog, client: Client, options: Extent) -> dict[str, float]:
    figures = await measured.says()
    writes = len(audit.entries(lambda entry: entry.is_write and entry.namespace == NAMESPACE))
    reached = await change(client, options.objects, options.rate, options.seconds)
    await asyncio.sleep(1)
    figures |= {"writes": writes, "reached_rate": reached} | await measured.go_on()
    if name == "ours":
        figures |= await measured.says()
    return figures


async def memory_of(shape: str, cluster: LocalCluster, objects: int) -> dict[str, float]:
    """What a cache of this shape takes."""
    measured = await Side.start(shape, cluster, objects)
    try:
        return await measured.says() | await measured.says()
    finally:
        await measured.end()


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to measure."""

    objects: int
    rate: int
    seconds: float
    rounds: int


async def compare(cluster: LocalCluster, options: Extent) -> None:
    """Everything, printed."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        await fill(client, options.objects)
        for name in ("ours", "kopf") * options.rounds:
            print(f"{name:>5}: {_text(await work_of(name, cluster, client, options))}", flush=True)
    for shape in SHAPES:
        figures = await memory_of(shape, cluster, options.objects)
        per_ten_thousand = (figures["full_mb"] - figures["idle_mb"]) / options.objects * 10_000
        print(f"cache {shape:>12}: {per_ten_thousand:5.1f} MiB per 10,000 objects; idle {figures['idle_mb']:.1f} MiB")


def _text(figures: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:,.1f}" for name, value in figures.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=500, help="changes a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.side:
        side(given.side, given.kubeconfig, given.objects)
        return
    with own_cluster("engine-bench", Options(controllers=False, pods=False, durable=False)) as cluster:
        uvloop.run(compare(cluster, Extent(given.objects, given.rate, given.seconds, given.rounds)))


if __name__ == "__main__":
    main()
