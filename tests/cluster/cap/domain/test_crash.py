"""The controllers may die at any of their writes: the end is the same as without.

A domain is created, gets another host, and is deleted.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.cap.domain.running import OPERATOR
from tests.cluster.cap.domain.scenario import Given, Then

from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Unstructured, decode_json, encode_json, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain, DomainSpec
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.crash_sweep import Sweep, SweepStep, at_odd, killed_after, killed_before
from stellwerk.testing.scenarios.recorder import Run

GARBAGE_SECONDS = 60.0
"""The garbage collector looks for new kinds every half minute."""
KINDS = (GardenerCertificate, Secret, Gateway, NetworkPolicy, DnsEntry)


def life(given: Given, then: Then) -> tuple[SweepStep, ...]:
    """What is asked for, one after the other."""
    metadata = ObjectMeta(name="primary", namespace=given.namespace)
    domain = Domain(metadata=metadata, spec=DomainSpec(domain="", ingress_selector={}))

    async def create() -> None:
        made = await given.a_domain(
            "first.example.com", dnsMode="Wildcard", certConfig={"additionalCACertificate": "ca"}
        )
        await given.an_application(made)

    async def ready() -> None:
        await given.is_ready(domain)
        for kind in KINDS:
            await then.count(domain, kind.resource, 1)

    async def delete() -> None:
        await given.client.delete(metadata_of(CAPApplication), "app", given.namespace)
        await given.deleted(domain)

    async def gone() -> None:
        await then.gone(domain)
        for kind in KINDS:
            await then.count(domain, kind.resource, 0, within=GARBAGE_SECONDS)

    return (
        SweepStep("the creation", create, ready, least_points=8),
        SweepStep(
            "the change of the host", lambda: given.changed(domain, domain="second.example.com"), ready, least_points=4
        ),
        SweepStep("the deletion", delete, gone, least_points=4),
    )


async def end_state(admin: Client, then: Then, namespace: str) -> Run:
    """The domain and its objects, without what differs from life to life: generated names and moments."""
    found: dict[str, JsonObject] = {}
    for domain in (await admin.list(Domain, namespace)).items:
        status = domain.status
        shown: JsonObject = {"state": status.state, "host": status.observed_domain, "target": status.dns_target}
        found[f"domain {domain.metadata.name}"] = {**shown, "finalizers": [*domain.metadata.finalizers]}
        for kind in KINDS:
            objects = sorted(map(_content, await then.objects(domain, kind.resource)))
            found |= {f"{kind.resource.plural} {number}": decode_json(obj) for number, obj in enumerate(objects)}
    return Run((), found)


def _content(obj: Unstructured) -> bytes:
    annotation = obj.metadata.annotations.get(names.RESOURCE_HASH_ANNOTATION, "")
    content: JsonObject = {
        "namespace": obj.metadata.namespace,
        "hash": annotation,
        "finalizers": [*obj.metadata.finalizers],
        "spec": obj.at("spec"),
        "data": obj.at("data"),
    }
    return encode_json(content)


@pytest.fixture
async def sweep(
    domain_cluster: LocalCluster, admin: Client, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    port = free_port()
    environment = {name: os.environ[name] for name in ("HOME", "STELLWERK_CACHE") if name in os.environ}
    async with (
        FaultProxy(domain_cluster.kubeconfig_for(OPERATOR)) as proxy,
        OperatorProcess(
            ["-m", "tests.cluster.cap.domain.program", str(port), given.namespace],
            log=tmp_path / "operator.log",
            kubeconfig=proxy.kubeconfig,
            environment=environment,
            health_url=f"http://127.0.0.1:{port}/readyz",
            nursery=nursery,
        ) as process,
    ):
        await process.start()
        yield Sweep(
            process=process,
            proxy=proxy,
            parts=life(given, then),
            end_state=lambda: end_state(admin, then, given.namespace),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101")
@pytest.mark.timeout(600)
async def test_killed_at_any_write_it_ends_as_if_nothing_had_happened(sweep: Sweep) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), alone=True)
