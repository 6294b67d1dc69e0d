"""What operators hold in memory in a cluster that is full of other people's things: Secrets, and definitions of kinds.

The local system with its samples, then the foreign objects, then a fresh start of all operators: a Component of the
samples takes values from a Secret, so the metadata of all Secrets is watched. Memory is resident memory at rest, of the
operator's process with and without what it has started (the renderer).

    python -m bench.foreign [--secrets 20000] [--definitions 500]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence

import uvloop
from bench.measuring import family, resident_bytes, resident_bytes_together, seconds, together

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.assembly import OPERATORS
from stellwerk.cli.objects.served_addresses import process_name
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster, named

NAME = "bench-foreign"
NAMESPACE = "foreign"
AT_REST_SECONDS = 15.0
TARGET_MIB = 120


def up() -> None:
    """The local system with its samples, started or found."""
    command = [sys.executable, "-m", "stellwerk.cli.main", "up", "--name", NAME, "--samples", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


async def fill(cluster: LocalCluster, secrets: int, definitions: int) -> None:
    """Make the cluster one that is used by others."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="bench") as client:
        await client.apply(Namespace, {"metadata": {"name": NAMESPACE}})

        async def secret(number: int) -> None:
            metadata: JsonObject = {"name": f"secret-{number}", "namespace": NAMESPACE, "labels": {"owner": "others"}}
            await client.apply(Secret, {"metadata": metadata, "stringData": {"key": "x" * 500}})

        async def definition(number: int) -> None:
            await client.apply(CustomResourceDefinition, foreign_definition(number))

        print(f"{secrets} Secrets in {await seconds(lambda: together(range(secrets), secret)):.0f} s", flush=True)
        taken = await seconds(lambda: together(range(definitions), definition))
        print(f"{definitions} definitions in {taken:.0f} s", flush=True)


def foreign_definition(number: int) -> JsonObject:
    """A kind of another product, with a schema of a common size."""
    texts: JsonObject = {f"field{field}": {"type": "string", "description": "x" * 200} for field in range(20)}
    spec: JsonObject = {"type": "object", "properties": texts}
    schema: JsonObject = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    plural = f"things{number}"
    return {
        "metadata": {"name": f"{plural}.foreign.example.com"},
        "spec": {
            "group": "foreign.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": f"Thing{number}"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def show(cluster: LocalCluster, when: str) -> None:
    """Print what the operators hold, once they are at rest."""
    await asyncio.sleep(AT_REST_SECONDS)
    for name in map(process_name, OPERATORS):
        pid = cluster.process(name).pid
        assert pid is not None, f"{name} does not run"
        own, whole = resident_bytes(pid) >> 20, resident_bytes_together(family(pid)) >> 20
        print(f"{name:20} {when:28} {own:4} MiB, {whole:4} with its children (target {TARGET_MIB})", flush=True)


def start_afresh(cluster: LocalCluster) -> None:
    """End the operators and start them again on what is there."""
    for name in map(process_name, OPERATORS):
        cluster.process(name).stop()
    up()


async def run(cluster: LocalCluster, secrets: int, definitions: int) -> None:
    """Measure, and print the figures."""
    await show(cluster, "before")
    await fill(cluster, secrets, definitions)
    await show(cluster, "among foreign objects")
    await asyncio.to_thread(start_afresh, cluster)
    await show(cluster, "started among them")


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a system for the benchmark, measure, and take it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.foreign")
    parser.add_argument("--secrets", type=int, default=20_000)
    parser.add_argument("--definitions", type=int, default=500)
    chosen = parser.parse_args(arguments)
    cluster = named(NAME)
    try:
        up()
        uvloop.run(run(cluster, chosen.secrets, chosen.definitions))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
