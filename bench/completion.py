"""What a shell waits for when TAB is pressed: the whole program, from its start to its last line.

A cluster with 1,000 ConfigMaps in one namespace is asked for names. Printed are median, minimum and processor time in
milliseconds for each kind of completion, next to its limit and the start of a bare interpreter. The processor
time is what other work on the machine changes least.

    python -m bench.completion [--rounds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.measuring import own_cluster, together

from stellwerk.api.core import ConfigMap
from stellwerk.cli.completion.completers import BUDGET_SECONDS
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options

OBJECTS = 1_000
LINES = {
    "verbs": "stellwerk ",
    "kinds": "stellwerk get ",
    "output formats": "stellwerk get -o ",
    "clusters": "stellwerk down --name ",
    "contexts": "stellwerk get --context ",
    "namespaces": "stellwerk get -n ",
    "names": "stellwerk get cm ",
}


def timed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float, str]:
    """Seconds on the clock, seconds of processor time, and what was printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def report(title: str, rounds: Sequence[tuple[float, float, str]]) -> str:
    """A line with the figures, in milliseconds."""
    taken = [1_000 * one[0] for one in rounds]
    processor = statistics.median(1_000 * one[1] for one in rounds)
    answers = len(rounds[0][2].split())
    return f"{title:<16}{statistics.median(taken):6.0f}{min(taken):6.0f}{processor:6.0f}{answers:8}"


async def fill(cluster: LocalCluster) -> None:
    """Create the objects whose names are completed."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="bench") as client:
        await together(
            range(OBJECTS),
            lambda number: client.apply(
                ConfigMap, {"metadata": {"name": f"bench-{number}", "namespace": "default"}, "data": {"a": "b"}}
            ),
        )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args()
    with own_cluster("bench-completion", Options(durable=False, pods=False)) as cluster:
        asyncio.run(fill(cluster))
        bare = [timed([sys.executable, "-c", ""], os.environ) for _ in range(asked.rounds)]
        print(f"{'':<16}{'median':>6}{'least':>6}{'cpu':>6}{'answers':>8}   limit {1_000 * BUDGET_SECONDS:g} ms")
        print(report("bare interpreter", bare))
        for title, line in LINES.items():
            shell = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split())), "_STELLWERK_COMPLETE": "bash_complete"}
            environment = {**os.environ, **shell, "KUBECONFIG": str(cluster.kubeconfig)}
            program = [sys.executable, "-m", "stellwerk.cli.main"]
            print(report(title, [timed(program, environment) for _ in range(asked.rounds)]), flush=True)


if __name__ == "__main__":
    main()
