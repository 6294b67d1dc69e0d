"""What remote clusters cost that are open and have nothing to do: memory of the process that holds them.

Each has its own kubeconfig, connections, discovery and watches; all lead to one API server, through the fault proxy,
which runs in a process of its own. Memory is resident memory of this process, less what it was before, per cluster.

    python -m bench.clusters [--clusters 200]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop
from bench.measuring import own_cluster, resident_bytes, together

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.components import Options
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig, RemoteClusters
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.supervision.tasks import Border, background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.faults import FaultProxy

NAME = "bench-clusters"
SECRET = ObjectKey("kyma", "there")
TARGET_KIB = 1_024


async def serve(kubeconfig: Path) -> None:
    """The proxy: prints where its kubeconfig is, and ends with its input."""
    async with FaultProxy(kubeconfig) as proxy:
        print(proxy.kubeconfig, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def measure(login: str, count: int) -> None:
    """Open the clusters step by step, and print what each step has added."""
    metrics, clock = Metrics(), SystemClock()
    async with Client.connect(ClusterConfig.from_kubeconfig_text(login)) as client, background() as tasks:
        remotes = RemoteClusters[Cluster](
            Cluster(client),
            connect=lambda config, bounds: Client.connect(
                config, bounds, on_request=lambda facts: metrics.requested(facts.method, facts.host, facts.code)
            ),
            build=lambda cluster, _: cluster,
            clock=clock,
            border=Border(metrics, clock),
            field_manager="bench",
        )
        tasks.start(remotes.run(), "remote clusters")
        await asyncio.sleep(0)
        before = _memory()

        def show(what: str) -> None:
            print(f"{what:44} {(_memory() - before) / count / 1024:7.0f} KiB for each cluster", flush=True)

        opened = [
            remotes.remote(ObjectKey("kyma", f"k-{number}"), Kubeconfig(SECRET, f"{login}\n# {number}".encode()))
            for number in range(count)
        ]
        show("named")
        await together(opened, lambda cluster: cluster.client.get(metadata_of(Namespace), "kube-system"))
        show("one call")
        await together(opened, lambda cluster: cluster.client.mapper.all())
        show("with discovery")
        for cluster in opened:
            cluster.informer(metadata_of(Namespace))
        await together(opened, lambda cluster: cluster.wait_settled())
        show("with one watch")
        for cluster in opened:
            cluster.informer(ConfigMap, labels="owner=nobody")
        await together(opened, lambda cluster: cluster.wait_settled())
        show("with two watches")
        for cluster in opened:
            cluster.informer(metadata_of(ConfigMap))
        await together(opened, lambda cluster: cluster.wait_settled())
        show("with three watches")
        tasks.cancel()


def _memory() -> int:
    gc.collect()
    return resident_bytes(os.getpid())


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a cluster and the proxy, measure, and take both down."""
    parser = argparse.ArgumentParser(prog="python -m bench.clusters")
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--proxy", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.proxy:
        asyncio.run(serve(chosen.proxy))
        return
    with own_cluster(NAME, Options(controllers=False, pods=False, durable=False)) as cluster:
        command = [sys.executable, "-m", "bench.clusters", "--proxy", str(cluster.kubeconfig)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            login = Path(proxy.stdout.readline().strip()).read_text()
            uvloop.run(measure(login, chosen.clusters))
            assert proxy.stdin is not None
            proxy.stdin.close()


if __name__ == "__main__":
    main()
