"""CAP Operator: many tenants of one application, compared with what the control plane allows.

Three stories, each timed from the first request of the user until the last tenant shows its end: all tenants are
created and provisioned; a new version is released and all follow to it; all are deleted. Then the application is left
alone. Each operation of a tenant is one Job whose pod ends by itself. The limit is as many bare Jobs of the same pods,
from the first creation until the last one is complete, on the same control plane in the same run, before the stories
and after them. The operator is a process of its own.

The targets hold for 50 tenants; the original's figures were measured with Jobs of one second on a machine of the same
size: compare ratios.

    python -m bench.cap [--sizes 50,500]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import uvloop
from bench.measuring import operator_process, own_cluster, resident_bytes, seconds, together, until

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.batch import Job
from stellwerk.api.core import Namespace, Pod, Secret
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.cap import api, names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.processes.operator_process import OperatorProcess

NAMESPACE, INGRESS = "bench", "istio-system"
USER = "cap-operator"
PUBLISHED = (
    "gateways.networking.istio.io",
    "virtualservices.networking.istio.io",
    "destinationrules.networking.istio.io",
    "certificates.cert.gardener.cloud",
    "dnsentries.dns.gardener.cloud",
)
TARGETS = {"provisioned": "4 s, 12 each", "upgraded": "5 s, 12 each", "deleted": "4 s, 10 each"}
ORIGINAL = {"provisioned": "33.7 s, 28.4 each", "upgraded": "41.6 s, 27.8 each", "deleted": "27.5 s, 21.8 each"}
REST_SECONDS = 30.0
OF_ITSELF = ("leases", "selfsubjectaccessreviews")
"""What the operator asks for itself: who leads, and once at its start which rights it has."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One story."""

    seconds: float
    requests: Counter[str]


async def run(cluster: LocalCluster, sizes: Sequence[int]) -> None:
    """Measure every size, and print the figures."""
    config = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, field_manager="bench") as client:
        await install(client)
        for size in sizes:
            before = await bare(client, size)
            async with operator(cluster) as process:
                await process.start()
                await application(client)
                figures = await stories(cluster, client, size)
                memory = resident_bytes(process.pid) / 1e6
            after = await bare(client, size)
            limit = (before + after) / 2
            print(
                f"{size} tenants; limit: {limit:.2f} s for as many bare Jobs ({before:.2f} before, {after:.2f} after)"
            )
            for name, figure in figures.items():
                total = figure.requests.total()
                events = figure.requests["create events"] + figure.requests["patch events"]
                print(
                    f"  {name:12} {figure.seconds:6.2f} s  {figure.seconds / limit:4.1f} x limit  "
                    f"{total / size:5.1f} requests each, {events / size:.1f} of them Events"
                    + (f"   target {TARGETS[name]}; original {ORIGINAL[name]}" if name in TARGETS else "")
                )
                print("   ", ", ".join(f"{key} {count}" for key, count in figure.requests.most_common(12)))
            print(f"  memory       {memory:6.0f} MB resident after work (target 120)", flush=True)


async def install(client: Client) -> None:
    """What an administrator installs: kinds, and an ingress gateway."""
    target = unstructured(CustomResourceDefinition.resource)
    bodies = [definition.body() for definition in api.DEFINITIONS] + published_definitions.definitions(PUBLISHED)
    for body in bodies:
        await client.apply(target, body)
    await until(
        client, CustomResourceDefinition, lambda seen: len(seen) >= len(bodies) and all(e.is_established for e in seen)
    )
    for namespace in (NAMESPACE, INGRESS, "cap-operator-system"):
        await client.apply(Namespace, {"metadata": {"name": namespace}})
    metadata: JsonObject = {"name": "gateway", "namespace": INGRESS, "labels": {"istio": "gateway"}}
    await client.apply(
        unstructured(Pod.resource), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod()}
    )


def pod() -> JsonObject:
    return {"containers": [{"name": "main", "image": "example.com/main:1"}], "restartPolicy": "Never"}


async def application(client: Client) -> None:
    """The application with its domain and its first version, Ready."""
    domain: JsonObject = {
        "domain": "example.com",
        "ingressSelector": {"istio": "gateway"},
        "dnsTarget": "lb.example.com",
    }
    await client.apply(Domain, {"metadata": meta("primary"), "spec": domain})
    await until(client, GardenerCertificate, lambda seen: bool(seen))
    (certificate,) = (await client.list(GardenerCertificate)).items
    ready = MergePatch({"status": {"state": "Ready", "observedGeneration": certificate.metadata.generation}})
    key = certificate.key
    await client.patch(metadata_of(GardenerCertificate), key.name, key.namespace, ready, subresource="status")
    content = base64.b64encode(b'{"clientid": "id"}').decode()
    await client.apply(Secret, {"metadata": meta("uaa"), "data": {"credentials": content}})
    spec: JsonObject = {
        "btpAppName": "shop",
        "providerSubaccountId": "subaccount",
        "btp": {"services": [{"name": "uaa", "class": "xsuaa", "secret": "uaa"}]},
        "domainRefs": [{"kind": "Domain", "name": "primary"}],
    }
    await client.apply(CAPApplication, {"metadata": meta("shop"), "spec": spec})
    await release(client, 1)
    await until(client, CAPApplication, lambda seen: all(each.status.state == "Consistent" for each in seen))


async def release(client: Client, number: int) -> None:
    """A version with a router and a job for tenants."""
    router: JsonObject = {"type": "Router", "image": f"router:{number}"}
    job: JsonObject = {"type": "TenantOperation", "image": f"job:{number}"}
    spec: JsonObject = {
        "capApplicationInstance": "shop",
        "version": f"{number}.0.0",
        "workloads": [
            {"name": "app", "consumedBTPServices": ["uaa"], "deploymentDefinition": router},
            {"name": "mtxs", "consumedBTPServices": ["uaa"], "jobDefinition": job},
        ],
    }
    await client.apply(CAPApplicationVersion, {"metadata": meta(f"shop-v{number}"), "spec": spec})


async def stories(cluster: LocalCluster, client: Client, size: int) -> dict[str, Figure]:
    """All, one after the other."""
    tenants = [f"tenant-{number}" for number in range(size)]

    async def provisioned() -> None:
        await together(tenants, lambda name: subscribe(client, name))
        await until(client, CAPTenant, lambda seen: len(seen) == size and all(at(each, 1) for each in seen))

    async def upgraded() -> None:
        await release(client, 2)
        await until(client, CAPTenant, lambda seen: all(at(each, 2) for each in seen))

    async def left_alone() -> None:
        await asyncio.sleep(REST_SECONDS)  # what is measured is that nothing happens

    async def deleted() -> None:
        await together(tenants, lambda name: client.delete(metadata_of(CAPTenant), name, NAMESPACE))
        await until(client, CAPTenant, lambda seen: not seen)

    figures = {
        "provisioned": await measured(cluster, provisioned),
        "upgraded": await measured(cluster, upgraded),
    }
    await asyncio.sleep(5)  # the last Events
    figures["left alone"] = await measured(cluster, left_alone)
    figures["deleted"] = await measured(cluster, deleted)
    for version in ("shop-v1", "shop-v2"):
        await client.delete(metadata_of(CAPApplicationVersion), version, NAMESPACE)
    await until(client, CAPApplicationVersion, lambda seen: not seen)
    return figures


async def subscribe(client: Client, name: str) -> None:
    """A tenant with its payload, as the subscription server makes them."""
    payload = base64.b64encode(b"{}").decode()
    await client.apply(Secret, {"metadata": meta(f"{name}-context"), "data": {names.CONTEXT_KEY: payload}})
    labels: JsonObject = {names.TENANT_TYPE_LABEL: names.CONSUMER, names.TENANT_ID_LABEL: name}
    metadata = meta(name, labels=labels, annotations={names.CONTEXT_SECRET_ANNOTATION: f"{name}-context"})
    spec: JsonObject = {"capApplicationInstance": "shop", "subDomain": name, "tenantId": name}
    await client.apply(CAPTenant, {"metadata": metadata, "spec": spec})


def at(tenant: CAPTenant, number: int) -> bool:
    return tenant.status.state == "Ready" and tenant.status.current_version == f"shop-v{number}"


def meta(name: str, **fields: JsonObject) -> JsonObject:
    return {"name": name, "namespace": NAMESPACE, **fields}


async def measured(cluster: LocalCluster, story: Callable[[], Awaitable[None]]) -> Figure:
    audit = AuditLog(cluster)
    taken = await seconds(story)
    entries = audit.entries(
        lambda entry: entry.user == USER and entry.verb != "watch" and entry.resource not in OF_ITSELF
    )
    return Figure(taken, Counter(f"{entry.verb} {entry.resource}" for entry in entries))


async def bare(client: Client, count: int) -> float:
    """Seconds for as many bare Jobs as there are tenants, from the first creation until the last one is complete."""
    await client.apply(Namespace, {"metadata": {"name": "bare"}})

    async def complete() -> None:
        def body(number: int) -> JsonObject:
            return {
                "metadata": {"name": f"job-{number}", "namespace": "bare"},
                "spec": {"template": {"spec": pod()}, "backoffLimit": 0},
            }

        await together(range(count), lambda number: client.create(Job, body(number)))
        await until(
            client,
            Job,
            lambda seen: sum(each.is_complete for each in seen if each.metadata.namespace == "bare") == count,
        )

    taken = await seconds(complete)
    await together(
        range(count),
        lambda number: client.delete(metadata_of(Job), f"job-{number}", "bare", propagation="Background"),
    )
    await until(client, Job, lambda seen: not [each for each in seen if each.metadata.namespace == "bare"])
    return taken


def operator(cluster: LocalCluster) -> OperatorProcess:
    """The CAP Operator as a process, as it comes."""
    return operator_process(cluster, "cap", USER, POD_NAMESPACE="cap-operator-system", DNS_MANAGER="kubernetes")


def main(arguments: Sequence[str] | None = None) -> None:
    """Start a cluster for the benchmark, measure, and take it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.cap")
    parser.add_argument("--sizes", default="50,500")
    chosen = parser.parse_args(arguments)
    with own_cluster("bench-cap", Options(durable=False)) as cluster:
        uvloop.run(run(cluster, [int(size) for size in chosen.sizes.split(",")]))


if __name__ == "__main__":
    main()
