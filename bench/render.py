"""What rendering costs: the worker's start, its rate for each core, its memory, and what an answer already known costs.

Nothing is measured against a cluster. Each request has values of its own, so that every one is rendered; rates are by
CPU seconds of the worker, because other work on the machine would make wall time mean nothing, and by wall time next to
them. Last comes an operator's worst case in memory: 500 Components with ten objects each, all results held.

    python -m bench.render [--renderings 300]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measuring import resident_bytes

from stellwerk.kube.types.model import JsonObject
from stellwerk.render.binary import renderer_path
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, Rendered, RenderRequest
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer

COMPONENTS = 500
PROGRAM = renderer_path()
_TICKS = os.sysconf("SC_CLK_TCK")

RESOURCES: list[JsonObject] = [
    {
        "GroupVersion": f"group{n}.example.com/v1",
        "APIResources": [
            {"Name": f"things{m}", "Kind": f"Thing{m}", "Namespaced": True, "Verbs": ["get", "list", "watch"]}
            for m in range(5)
        ],
    }
    for n in range(30)
]
"""As many kinds as a cluster with a few operators serves."""
CLUSTER = ClusterApis(
    {"gitVersion": "v1.36.3", "major": "1", "minor": "36"}, ("v1", "apps/v1", "apps/v1/Deployment"), RESOURCES
)


@dataclass(frozen=True, slots=True)
class Rate:
    """One series of renderings."""

    per_core_second: float
    per_second: float
    own_milliseconds: float
    """CPU of this process for one."""
    resident_mebibytes: float


def config_map(number: int, name: str) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}-{number}\n  labels: {{part-of: x}}\n"
        f"data:\n  number: '{number}'\n  value: '{{{{ .Values.value }}}}'\n  text: |\n    {'a line of text ' * 8}\n"
    )


def kustomization(objects: int) -> Files:
    """A templated kustomization: what the operator's users write most."""
    text = "---\n".join(config_map(n, "map").replace(".Values.value", ".value") for n in range(objects))
    return Files.of({"kustomization.yaml": "namespace: {{ namespace }}\nresources: [all.yaml]\n", "all.yaml": text})


def chart(objects: int) -> Files:
    """A chart with a template for each object and a helper in each of them."""
    helper = '{{ define "name" }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}'
    files = {f"templates/{n}.yaml": config_map(n, '{{ include "name" . }}') for n in range(objects)}
    return Files.of(
        {
            **files,
            "templates/_helpers.tpl": helper,
            "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
            "values.yaml": "value: 0\n",
        }
    )


def request(files: Files, number: int) -> RenderRequest:
    return RenderRequest(
        files=files,
        prefix="example.com",
        release=ReleaseInfo("app", "default"),
        values={"value": number},
        cluster=CLUSTER,
    )


def cpu_seconds(process: int) -> float:
    """User and system time of another process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mebibytes(process: int) -> float:
    return resident_bytes(process) / 2**20


def renderer(**options: Any) -> Renderer:
    """One whose program was found before the clock runs."""
    return Renderer(lambda: PROGRAM, **options)


async def start_milliseconds() -> tuple[float, float]:
    """From nothing to the first answer, and the worker's CPU of that; medians of seven."""
    wall, cpu = [], []
    for _ in range(7):
        async with renderer(shares=Shares(workers=1)) as it:
            began = time.perf_counter()
            await it.render(request(Files.of({}), 0))
            wall.append((time.perf_counter() - began) * 1_000)
            cpu += [cpu_seconds(process) * 1_000 for process in it.processes]
    return statistics.median(wall), statistics.median(cpu)


async def rate(files: Files, count: int) -> Rate:
    """One worker, one rendering after the other."""
    async with renderer(shares=Shares(workers=1), kept_bytes=0) as it:
        for number in range(20):
            await it.render(request(files, -number))
        (process,) = it.processes
        began, own, cpu = time.perf_counter(), time.process_time(), cpu_seconds(process)
        for number in range(count):
            await it.render(request(files, number))
        worker_seconds = cpu_seconds(process) - cpu
        wall, own = time.perf_counter() - began, time.process_time() - own
        return Rate(count / worker_seconds, count / wall, own / count * 1_000, resident_mebibytes(process))


async def known_milliseconds(count: int) -> float:
    """CPU of an answer that is known already, while no caller holds its objects."""
    async with renderer(shares=Shares(workers=1)) as it:
        await it.render(request(kustomization(10), 0))
        files = kustomization(10)
        began = time.process_time()
        for _ in range(count):
            await it.render(request(files, 0))
        return (time.process_time() - began) / count * 1_000


async def memory(hold: Callable[[Rendered], object]) -> tuple[float, float]:
    """Mebibytes of this process and of all workers after 500 Components with ten objects each."""
    async with renderer() as it:
        await it.render(request(kustomization(1), 0))
        before = resident_mebibytes(os.getpid())
        files = kustomization(10)
        held = [hold(await it.render(request(files, number))) for number in range(COMPONENTS)]
        grown = resident_mebibytes(os.getpid()) - before
        assert len(held) == COMPONENTS
        return grown, sum(resident_mebibytes(process) for process in it.processes)


def line(what: str, found: str, target: str = "") -> None:
    print(f"{what:<58} {found:>22}   {target}")


async def main(count: int) -> None:
    """Print all figures next to their targets."""
    started, of_cpu = await start_milliseconds()
    line("start to first answer", f"{started:.0f} ms, {of_cpu:.0f} of CPU", "target 100 ms")
    for what, files, target in (
        ("kustomization of 10 objects", kustomization(10), "target 150/s for each core"),
        ("chart of 30 objects", chart(30), ""),
    ):
        found = await rate(files, count)
        line(what, f"{found.per_core_second:.0f}/s for each core", target)
        line("  one after the other, by wall time", f"{found.per_second:.0f}/s")
        line("  CPU of the operator for each", f"{found.own_milliseconds:.2f} ms")
        line("  resident memory of the worker", f"{found.resident_mebibytes:.0f} MiB", "target 60 MiB")
    line("an answer that is known already", f"{await known_milliseconds(count):.2f} ms CPU")
    packed, workers = await memory(lambda rendered: rendered.digest)
    line(f"{COMPONENTS} Components x 10 objects, results packed", f"{packed:.0f} MiB")
    line("  workers together", f"{workers:.0f} MiB")
    whole, _ = await memory(lambda rendered: rendered)
    line("  the same, objects held", f"{whole:.0f} MiB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--renderings", type=int, default=300)
    asyncio.run(main(parser.parse_args().renderings))
