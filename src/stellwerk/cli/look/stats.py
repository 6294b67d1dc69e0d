"""`stellwerk stats`: how many objects there are by state, and how much the operators do for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stellwerk.cli.look import logs, object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects import health, served_addresses
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.text import TableColumn, table
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.local import cluster as local_clusters

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class KindCount:
    """The objects of a kind."""

    kind: str
    objects: int
    ready: int
    attention: int
    states: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ControllerWork:
    """What a controller of a process has done since the process began."""

    process: str
    controller: str
    passes: int
    errors: int
    mean_seconds: float
    queued: int
    busy: int


@with_cluster
async def stats(cluster: ClusterSession) -> None:
    """Print both. What cannot be asked is reported, and the rest is printed."""
    wanted = await object_list.resources(cluster, ObjectQuery())
    counts = counted(await object_list.read(cluster, wanted))
    work: list[ControllerWork] = []
    try:
        async for process, text in metrics_of_processes(cluster):
            work += measured(process, text)
    except (ApiError, Failure) as error:
        settings.say(f"Processes are left out: {error}")
    output.print_result(lambda _: shown(counts, work), lambda: as_json(counts, work))


async def metrics_of_processes(cluster: ClusterSession) -> AsyncIterator[tuple[str, str]]:
    """The metrics of each process of the local system, or of the pods whose logs are read, through the API server."""
    system = local_clusters.at_address(cluster.client.config.server)
    for component in system.status().components if system is not None else ():
        served = served_addresses.served(component.arguments)
        if served is not None:
            with suppress(OSError):
                yield component.name, served.metrics()
    for source in await logs.sources(cluster) if system is None else ():
        if isinstance(source, logs.LoggedPod):
            yield source.name, await source.metrics()


# ---- pure


def counted(objects: Iterable[Unstructured]) -> list[KindCount]:
    """The objects by kind, in the order in which the kinds come."""
    kinds: dict[str, list[health.ObjectHealth]] = {}
    for obj in objects:
        kinds.setdefault(obj.gvk.kind, []).append(health.of(obj))
    return [
        KindCount(
            kind,
            objects=len(found),
            ready=sum(each.is_ready for each in found),
            attention=sum(each.needs_attention for each in found),
            states=dict(Counter(each.state or "-" for each in found).most_common()),
        )
        for kind, found in kinds.items()
    ]


def measured(process: str, metrics: str) -> list[ControllerWork]:
    """The controllers of a process, by name, from its metrics in the text format of Prometheus."""
    found: dict[str, dict[str, float]] = {}
    for name, labels, value in _samples(metrics):
        if (controller := labels.get("controller")) and name in _COUNTED:
            sums = found.setdefault(controller, dict.fromkeys(_COUNTED.values(), 0.0))
            sums[_COUNTED[name]] += value
    return [
        ControllerWork(
            process,
            controller,
            passes=int(sums["passes"]),
            errors=int(sums["errors"]),
            mean_seconds=sums["seconds"] / sums["timed"] if sums["timed"] else 0.0,
            queued=int(sums["queued"]),
            busy=int(sums["busy"]),
        )
        for controller, sums in sorted(found.items())
    ]


_COUNTED = {
    "controller_runtime_reconcile_total": "passes",
    "controller_runtime_reconcile_errors_total": "errors",
    "controller_runtime_reconcile_time_seconds_sum": "seconds",
    "controller_runtime_reconcile_time_seconds_count": "timed",
    "controller_runtime_active_workers": "busy",
    "workqueue_depth": "queued",
}


def _samples(metrics: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for name, labels, value in _SAMPLE.findall(metrics):
        with suppress(ValueError):
            yield name, dict(_LABEL.findall(labels)), float(value)


def shown(counts: Sequence[KindCount], work: Sequence[ControllerWork]) -> list[str]:
    """The lines for people."""
    kinds = [
        [
            each.kind,
            str(each.objects),
            str(each.ready),
            str(each.attention),
            ", ".join(f"{state} {number}" for state, number in each.states.items()),
        ]
        for each in counts
    ]
    lines = table([*map(TableColumn, ("KIND", "OBJECTS", "READY", "ATTENTION", "STATES"))], kinds) if kinds else []
    rows = [
        [
            each.process,
            each.controller,
            str(each.passes),
            str(each.errors),
            f"{1000 * each.mean_seconds:.1f} ms",
            str(each.queued),
            str(each.busy),
        ]
        for each in work
    ]
    titles = ("PROCESS", "CONTROLLER", "PASSES", "ERRORS", "MEAN", "QUEUED", "BUSY")
    below = table([*map(TableColumn, titles)], rows) if rows else []
    return [*lines, *([""] if lines and below else []), *below]


def as_json(counts: Sequence[KindCount], work: Sequence[ControllerWork]) -> JsonObject:
    """The same for programs."""
    return {
        "kinds": [
            {
                "kind": each.kind,
                "objects": each.objects,
                "ready": each.ready,
                "attention": each.attention,
                "states": {**each.states},
            }
            for each in counts
        ],
        "controllers": [
            {
                "process": each.process,
                "controller": each.controller,
                "passes": each.passes,
                "errors": each.errors,
                "meanSeconds": each.mean_seconds,
                "queued": each.queued,
                "busy": each.busy,
            }
            for each in work
        ],
    }
