"""BTP Manager: from a new BtpOperator to Ready, and from its deletion to gone, compared with what the API server
allows.

The operator is a process of its own with its own rights and 4096-bit keys, as in a cluster. The limit is the same set
of objects, applied by a bare client in the same waves on the same server in the same run, and the wait until the
Deployment is available; deleting them again is the limit of the deletion.

    python -m bench.btp [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from itertools import groupby

from bench.measuring import operator_process, own_cluster, resident_bytes, seconds, until

from stellwerk import assembly
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.apply.set.model import need_order
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, View, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.components import Options
from stellwerk.operators.btp import api, rights
from stellwerk.operators.btp.api import BtpOperator, State
from stellwerk.operators.btp.module import rehearsal
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.processes.operator_process import OperatorProcess

BARE_ROUNDS = 3
"""A definition that goes within a second of its arrival fails the API server's clean-up, which then waits ever longer
before it tries one of that name again: after a dozen rounds, minutes.
"""

ACCOUNT = f"system:serviceaccount:{api.STANDARD_NAMESPACE}:{rights.ACCOUNT}"
ORIGINAL = {"to Ready": "31.9 s, 69 requests", "to gone": "1.3 s, 51 requests"}
CREDENTIALS: JsonObject = {
    "clientid": "bench",
    "clientsecret": "bench",
    "sm_url": "https://service-manager.example.com",
    "tokenurl": "https://token.example.com",
    "cluster_id": "bench",
}


async def run(cluster: LocalCluster, rounds: int) -> None:
    """Measure, and print the figures."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        await install(client)
        ready, gone, memory, requests = await operator_figures(cluster, client, rounds)
        limit_ready, limit_gone = await bare_figures(client, min(rounds, BARE_ROUNDS))
    print(f"{'':10} {'operator, s':>24} {'bare client, s':>24} {'ratio':>6} {'requests':>9}   original")
    for name, ours, limit in (("to Ready", ready, limit_ready), ("to gone", gone, limit_gone)):
        ratio = statistics.median(ours) / statistics.median(limit)
        print(f"{name:10} {text(ours):>24} {text(limit):>24} {ratio:6.1f} {requests[name]:9}   {ORIGINAL[name]}")
    print(f"operator process: {memory:.0f} MB resident (original 39 MB)")


def text(seconds: Sequence[float]) -> str:
    """Minimum, median and maximum."""
    return f"{min(seconds):.2f} / {statistics.median(seconds):.2f} / {max(seconds):.2f}"


async def install(client: Client) -> None:
    """What an administrator installs, and the Secret of the environment broker."""
    for body in assembly.installation():
        await client.apply(await view_of(client, body), body)
    labels: JsonObject = {api.MANAGED_BY_LABEL: api.BROKER_NAME}
    metadata: JsonObject = {"name": api.REQUIRED_SECRET_NAME, "namespace": api.STANDARD_NAMESPACE, "labels": labels}
    secret: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": CREDENTIALS}
    await client.apply(Secret, secret)


async def view_of(client: Client, body: JsonObject) -> View[Unstructured]:
    """The view behind a manifest."""
    gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
    return unstructured(await client.mapper.resource(gvk))


# ---- the operator


def operator(cluster: LocalCluster) -> OperatorProcess:
    """The BTP Manager as a process."""
    return operator_process(
        cluster,
        "btp",
        ACCOUNT,
        *rehearsal.flags(rehearsal.copy_module(cluster.folder / "module")),
        groups=["system:serviceaccounts"],
        SAP_BTP_SERVICE_OPERATOR="example.com/operand:bench",
    )


async def operator_figures(
    cluster: LocalCluster, client: Client, rounds: int
) -> tuple[list[float], list[float], float, dict[str, int]]:
    """Seconds to Ready and to gone, megabytes, and requests of the last round."""
    ready, gone, requests, memory = [], [], {}, 0.0
    async with operator(cluster) as process:
        await process.start()
        for _ in range(rounds):
            audit = AuditLog(cluster)
            ready.append(await seconds(lambda: becomes_ready(client)))
            requests["to Ready"] = asked(audit)
            audit.mark()
            gone.append(await seconds(lambda: becomes_gone(client)))
            requests["to gone"] = asked(audit)
            memory = resident_bytes(process.pid or 0) / 1e6
    return ready, gone, memory, requests


def asked(audit: AuditLog) -> int:
    """The operator's requests for the object: not for its Lease, its own rights and its open watches."""
    of_itself = ("leases", "selfsubjectaccessreviews")
    return len(
        audit.entries(lambda entry: entry.user == ACCOUNT and entry.verb != "watch" and entry.resource not in of_itself)
    )


async def becomes_ready(client: Client) -> None:
    metadata: JsonObject = {"name": api.STANDARD_NAME, "namespace": api.STANDARD_NAMESPACE}
    body: JsonObject = {"apiVersion": f"{api.GROUP}/v1alpha1", "kind": "BtpOperator", "metadata": metadata}
    await client.create(BtpOperator, body)
    await until(client, BtpOperator, lambda seen: any(one.status and one.status.state is State.Ready for one in seen))


async def becomes_gone(client: Client) -> None:
    await client.delete(BtpOperator, api.STANDARD_NAME, api.STANDARD_NAMESPACE)
    await until(client, BtpOperator, lambda seen: not seen)


# ---- the limit


async def bare_figures(client: Client, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds for the same objects, applied and deleted as fast as the API server takes them."""
    module = await recorded(client)
    up, down = [], []
    for _ in range(rounds):
        up.append(await seconds(lambda: applied(client, module)))
        down.append(await seconds(lambda: deleted(client, module)))
    return up, down


async def recorded(client: Client) -> list[JsonObject]:
    """The module's manifests, as the release has them, in the operator's own order."""
    from stellwerk.operators.btp.module.release import Places, load
    from stellwerk.operators.btp.settings import Settings

    folder = rehearsal.copy_module(named("bench").folder / "module")
    release = load(Places.of(Settings(), folder))
    bodies = [document.body for document in (*release.documents, *release.network_policies)]
    for body in bodies:
        if body["kind"] == "Deployment":
            with_image(body)
    views = {id(body): (await view_of(client, body)).resource for body in bodies}
    return sorted(bodies, key=lambda body: need_order.apply_wave(views[id(body)]))


def with_image(deployment: JsonObject) -> None:
    """The API server refuses a container without one."""
    containers = deployment["spec"]["template"]["spec"]["containers"]  # type: ignore[index, call-overload]  # our file
    containers[0]["image"] = "example.com/operand:bench"  # type: ignore[index, call-overload]


async def applied(client: Client, module: Sequence[JsonObject]) -> None:
    targets = [(body, await view_of(client, body)) for body in module]
    for _, wave in groupby(targets, key=lambda pair: need_order.apply_wave(pair[1].resource)):
        await asyncio.gather(*(client.apply(view, in_place(body, view.resource)) for body, view in wave))
    await until(client, Deployment, available)


def in_place(body: JsonObject, resource: Resource) -> JsonObject:
    """The manifest in the module's namespace, where it has one."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    return {**body, "metadata": {**metadata, "namespace": api.STANDARD_NAMESPACE}} if resource.namespaced else body


def available(seen: Sequence[Deployment]) -> bool:
    return any(
        condition.type == "Available" and condition.status == "True"
        for deployment in seen
        for condition in deployment.status.conditions or ()
    )


async def deleted(client: Client, module: Sequence[JsonObject]) -> None:
    definitions = []
    for body in reversed(module):
        view = await view_of(client, body)
        key = Unstructured.of(in_place(body, view.resource)).key
        await client.delete(metadata_of(view.resource), key.name, key.namespace)
        if need_order.is_definition(view.resource):
            definitions.append(key.name)
    for name in definitions:
        await until(client, metadata_of(view_of_definitions()), lambda seen: not seen, f"metadata.name={name}")


def view_of_definitions() -> Resource:
    return Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a cluster for the benchmark, measure, and take it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.btp")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with own_cluster("bench", Options()) as cluster:
        asyncio.run(run(cluster, chosen.rounds))


if __name__ == "__main__":
    main()
