"""Component operator: many Components of ten ConfigMaps each, compared with what the API server allows.

Three stories, each timed from the first request of the user until the last Component shows its end: all Components are
created and become Ready; their common source gets a new revision with the same content; all are deleted. The limit
is a bare aiohttp loop that creates as many ConfigMaps with the same data, by server-side apply, on the same server in
the same run: once before the stories and once after them, because the speed of a machine changes within minutes. How
long it takes to delete them again is printed, too. The operator is a process of its own, the renderer a child of it
that ends when it is idle: both are in the figure for memory after work.

Seconds depend on the machine, the multiples of the limit hardly. The targets in seconds were set where the limit for
500 Components is 2.6 s; the multiples next to them apply to that limit.

    python -m bench.component [--sizes 100,500,2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp
import uvloop
from bench.measuring import family, operator_process, own_cluster, resident_bytes_together, seconds, together, until

from stellwerk.api import flux
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, encode_json, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.component.api import DEFINITIONS, Component
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.servers.artifacts import ArtifactServer, Published

NAMESPACE = "bench"
OBJECTS = 10
USER = "component-operator"
TARGETS = {"to Ready": "4.0 x", "new revision": "3 s = 1.2 x", "to gone": "6 s = 2.3 x"}
ORIGINAL = {"to Ready": "40.0 s, 87 each", "new revision": "14.6 s, 20 each", "to gone": "25.0 s, 43 each"}
"""For 500 Components, on a machine of the same size; compare ratios."""
FILES = {
    f"{number}.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    f"  name: {{{{ name }}}}-{number}\ndata:\n  number: '{number}'\n"
    for number in range(OBJECTS)
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One story."""

    seconds: float
    requests: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes, resident."""

    at_work: float
    at_rest: float


@dataclass(frozen=True, slots=True)
class Limit:
    """Seconds of a bare client."""

    applies: float
    deletes: float


async def run(cluster: LocalCluster, sizes: Sequence[int]) -> None:
    """Measure every size, and print the figures."""
    config = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, field_manager="bench") as client, ArtifactServer() as server:
        await install(client)
        for size in sizes:
            before = await bare(config, client, size * OBJECTS)
            async with operator(cluster) as process:
                await process.start()
                figures, memory = await stories(cluster, client, server, size, process.pid)
            after = await bare(config, client, size * OBJECTS)
            limit = (before.applies + after.applies) / 2
            deletes = (before.deletes + after.deletes) / 2
            print(
                f"{size} Components x {OBJECTS} ConfigMaps; limit: {limit:.2f} s for {size * OBJECTS} applies "
                f"({before.applies:.2f} s before, {after.applies:.2f} s after), {deletes:.2f} s for as many deletes"
            )
            for name, figure in figures.items():
                print(
                    f"  {name:13} {figure.seconds:6.2f} s  {figure.seconds / limit:4.1f} x limit  "
                    f"{figure.requests / size:5.1f} requests each  {figure.seconds / size * 1e3:5.1f} ms each"
                    + (f"   target {TARGETS[name]}; original {ORIGINAL[name]}" if size == 500 else "")
                )
            print(
                f"  memory        {memory.at_work:6.0f} MB resident after work, renderer included; "
                f"{memory.at_rest:.0f} MB at rest, with all Components Ready (target 120)"
            )


async def install(client: Client) -> None:
    """What an administrator installs."""
    target = unstructured(CustomResourceDefinition.resource)
    for body in (*(one.body() for one in DEFINITIONS), git_repositories()):
        await client.apply(target, body)
    await until(
        client,
        CustomResourceDefinition,
        lambda seen: len(seen) > len(DEFINITIONS) and all(one.is_established for one in seen),
    )
    await client.apply(Namespace, {"metadata": {"name": NAMESPACE}})


def git_repositories() -> JsonObject:
    """The kind, without its schema."""
    resource = flux.GitRepository.resource
    free: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: JsonObject = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    names: JsonObject = {"kind": resource.kind, "plural": resource.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


# ---- the stories


async def stories(
    cluster: LocalCluster, client: Client, server: ArtifactServer, size: int, operator: int
) -> tuple[dict[str, Figure], Memory]:
    """All three, one after the other. The operator is left alone before the last one until its renderer has ended."""
    names = [f"comp-{number}" for number in range(size)]
    await offer(client, server.publish("files.tar.gz", FILES, revision="r1"))

    async def created() -> None:
        await together(names, lambda name: client.apply(Component, component(name)))
        await until(client, Component, lambda seen: len(seen) == size and all(at(one, "r1") for one in seen))

    async def moved_on() -> None:
        await offer(client, server.publish("files.tar.gz", FILES, revision="r2"))
        await until(client, Component, lambda seen: all(at(one, "r2") for one in seen))

    async def gone() -> None:
        await together(names, lambda name: client.delete(metadata_of(Component), name, NAMESPACE))
        await until(client, Component, lambda seen: not seen)

    await warm(client)
    figures = {
        name: await measured(cluster, story) for name, story in {"to Ready": created, "new revision": moved_on}.items()
    }
    at_work = resident_bytes_together(family(operator)) / 1e6
    await eventually(lambda: [*family(operator)] == [operator], within=120)
    memory = Memory(at_work, resident_bytes_together([operator]) / 1e6)
    return {**figures, "to gone": await measured(cluster, gone)}, memory


async def warm(client: Client) -> None:
    """One Component through its whole life: the operator's watches are open and its renderer is started."""
    await client.apply(Component, component("warm"))
    await until(client, Component, lambda seen: any(at(one, "r1") for one in seen))
    await client.delete(metadata_of(Component), "warm", NAMESPACE)
    await until(client, Component, lambda seen: not seen)


def component(name: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"sourceRef": {"fluxGitRepository": {"name": "files"}}},
    }


def at(component: Component, revision: str) -> bool:
    return component.is_ready and component.status.last_applied_revision == revision


async def offer(client: Client, artifact: Published) -> None:
    """The source with its artifact, as a source-controller would show it."""
    body: JsonObject = {"metadata": {"name": "files", "namespace": NAMESPACE}, "spec": {"url": artifact.url}}
    written = await client.apply(flux.GitRepository, body)
    ready: JsonObject = {"type": "Ready", "status": "True", "observedGeneration": written.metadata.generation}
    found: JsonObject = {"url": artifact.url, "digest": artifact.digest, "revision": artifact.revision}
    patch = MergePatch({"status": {"conditions": [ready], "artifact": found}})
    await client.patch(metadata_of(flux.GitRepository), "files", NAMESPACE, patch, subresource="status")


async def measured(cluster: LocalCluster, story: Callable[[], Awaitable[None]]) -> Figure:
    audit = AuditLog(cluster)
    taken = await seconds(story)
    return Figure(taken, len(audit.entries(lambda entry: entry.user == USER and entry.verb != "watch")))


# ---- the limit


async def bare(config: ClusterConfig, client: Client, count: int) -> Limit:
    """As many ConfigMaps as the Components have, made and deleted."""
    await client.apply(Namespace, {"metadata": {"name": "bare"}})
    root = f"{config.server}/api/v1/namespaces/bare/configmaps"
    headers = {"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or False, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def apply(number: int) -> None:
            body: JsonObject = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"small-{number}"},
                "data": {"number": str(number % OBJECTS)},
            }
            url = f"{root}/small-{number}?fieldManager=bench&force=true"
            async with session.patch(url, data=encode_json(body), headers=headers) as response:
                await response.read()
                assert response.status < 300, response.status

        async def delete(number: int) -> None:
            async with session.delete(f"{root}/small-{number}", headers={"Accept": "application/json"}) as response:
                await response.read()
                assert response.status < 300, response.status

        applies = await seconds(lambda: together(range(count), apply))
        return Limit(applies, await seconds(lambda: together(range(count), delete)))


# ---- the operator


def operator(cluster: LocalCluster) -> OperatorProcess:
    """The Component operator as a process, as it comes."""
    return operator_process(cluster, "component", USER, "--egress-allow-networks=127.0.0.0/8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a cluster for the benchmark, measure, and take it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.component")
    parser.add_argument("--sizes", default="100,500,2000")
    chosen = parser.parse_args(arguments)
    with own_cluster("bench-component", Options(controllers=False, pods=False, durable=False)) as cluster:
        uvloop.run(run(cluster, [int(size) for size in chosen.sizes.split(",")]))


if __name__ == "__main__":
    main()
