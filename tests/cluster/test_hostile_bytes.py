"""Hundreds of MiB of objects in one namespace take no process over the memory limit of its container.

The processes are those of the product, with the limits of the chart, on one control plane. They run while the objects
come, and start again when all are there. Objects of another namespace are served both times. One day has the processes
of the CAP Operator, the next one the others; `make sweep` has all.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.local.host.ports import free_port
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap_manager.api import CAPOperator
from stellwerk.operators.component.api import Component
from stellwerk.runtime.cache.cache_budget import SHARE
from stellwerk.testing import sweeps
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.operator_process import OperatorProcess
from tests.cluster.component.kinds import established
from tests.cluster.own_cluster import own_cluster

pytestmark = [pytest.mark.heavy, pytest.mark.sweep, pytest.mark.req("R-941"), pytest.mark.timeout(600)]

DEPLOY = Path(__file__).parents[2] / "deploy"
HOSTILE, VICTIM = "hostile", "victim"
TEXT = "x" * (250 << 10)
"""The annotations of an object may have 256 KiB."""
CONTENT = base64.b64encode(b"x" * (800 << 10)).decode()

SPECS: dict[Resource, tuple[int, JsonObject]] = {
    CAPTenant.resource: (
        130,
        {"capApplicationInstance": "none", "subDomain": "sub", "tenantId": "id", "version": "1.0.0"},
    ),
    Domain.resource: (130, {"domain": "hostile.example.com", "tlsMode": "Simple", "ingressSelector": {"a": "b"}}),
    CAPApplication.resource: (
        130,
        {"btpAppName": "hostile", "btp": {"services": []}, "globalAccountId": "g", "providerSubaccountId": "p"},
    ),
    Component.resource: (130, {"sourceRef": {"fluxGitRepository": {"name": "none"}}}),
    BtpOperator.resource: (130, {}),
    CAPOperator.resource: (130, {"dnsTarget": "public.example.com", "subscriptionServer": {"subDomain": "cop"}}),
}
"""How many objects of a kind the attacker makes, and what is in the one of the victim."""
OF_CAP = {CAPTenant.resource, Domain.resource, CAPApplication.resource}
SECRETS = 105


@dataclass(frozen=True, slots=True)
class Program:
    """A process of the product, and the kind of which it has to serve the victim's object."""

    name: str
    limit: str
    serves: Resource | None = None
    flags: tuple[str, ...] = ()


CAP_OPERATOR = (
    Program("cap", "capOperator.controller.resources", CAPApplication.resource),
    Program("cap-server", "capOperator.subscriptionServer.resources", flags=("--host=127.0.0.1",)),
    Program("cap-webhooks", "capOperator.webhook.resources", flags=("--webhook-host=127.0.0.1",)),
)
OTHERS = (
    Program("component", "resources", Component.resource),
    Program("btp", "resources", BtpOperator.resource),
    Program("cap-manager", "resources", CAPOperator.resource),
)
_TODAY = sweeps.part([(CAP_OPERATOR, OF_CAP), (OTHERS, SPECS.keys() - OF_CAP)], 2)
PROGRAMS = [program for programs, _ in _TODAY for program in programs]
KINDS = {kind: SPECS[kind] for kind in SPECS if any(kind in kinds for _, kinds in _TODAY)}
"""Those of which these processes have objects in memory."""


def limit_mebibytes(program: Program) -> int:
    """The memory limit that the chart gives to the process."""
    found = yaml.safe_load((DEPLOY / "chart" / "stellwerk" / "values.yaml").read_text("utf-8"))
    for key in program.limit.split("."):
        found = found[key]
    return int(found["limits"]["memory"].removesuffix("Mi"))


@pytest.fixture(scope="module")
def hostile_cluster() -> Iterator[LocalCluster]:
    options = Options(durable=False, controllers=False, pods=False)
    with own_cluster("hostile-bytes", _prepare, options) as cluster:
        yield cluster


async def _prepare(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        bodies = [yaml.safe_load(file.read_text("utf-8")) for file in sorted((DEPLOY / "crds").glob("*.yaml"))]
        made = await asyncio.gather(*(client.apply(target, body) for body in bodies))
        for definition in made:
            await eventually(partial(established, client, definition.metadata.name))
        for name in (HOSTILE, VICTIM, "cap-operator-system", "kyma-system"):
            await client.apply(Namespace, {"metadata": {"name": name}})


@asynccontextmanager
async def running(program: Program, cluster: LocalCluster, folder: Path) -> AsyncIterator[OperatorProcess]:
    health = free_port()
    port = {"cap-server": "--port", "cap-webhooks": "--webhook-port"}.get(program.name)
    arguments = [
        *(sys.executable, "-m", "stellwerk.cli.main", "run", program.name),
        *(f"--health-probe-bind-address=127.0.0.1:{health}", "--metrics-bind-address=0"),
        f"--cache-memory-mib={int(limit_mebibytes(program) * SHARE)}",
        *((f"{port}={free_port()}",) if port else ()),
        *program.flags,
    ]
    async with OperatorProcess(
        arguments,
        log=folder / f"{program.name}.log",
        kubeconfig=cluster.kubeconfig_for("operators", ["system:masters"]),
        health_url=f"http://127.0.0.1:{health}/readyz",
        environment={"SAP_BTP_SERVICE_OPERATOR": "example.com/operand:1"},
    ) as process:
        yield process


def peak_mebibytes(pid: int) -> int:
    """The most memory that a process and its children have had."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    return (int(peak[1]) >> 10 if peak else 0) + sum(peak_mebibytes(int(child)) for child in children)


async def attack(client: Client) -> None:
    """What the attacker stores, in one namespace: 300 MiB as JSON of all kinds and Secrets."""
    places = asyncio.Semaphore(8)

    async def make(resource: Resource, body: JsonObject) -> None:
        async with places:
            await client.create(unstructured(resource), _named(resource, body))

    async with asyncio.TaskGroup() as tasks:
        for resource, (count, spec) in KINDS.items():
            for number in range(count):
                metadata: JsonObject = {"name": f"hostile-{number}", "namespace": HOSTILE, "annotations": {"a": TEXT}}
                tasks.create_task(make(resource, {"metadata": metadata, "spec": spec}))
        for number in range(SECRETS):
            labels: JsonObject = {names.CALLBACK_LABEL: "pending", names.TENANT_ID_LABEL: "id"}
            metadata = {"name": f"promise-{number}", "namespace": HOSTILE, "labels": labels}
            tasks.create_task(make(Secret.resource, {"metadata": metadata, "data": {"promise": CONTENT}}))


def _named(resource: Resource, body: JsonObject) -> JsonObject:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


async def has_status(client: Client, resource: Resource, name: str) -> bool:
    return bool((await client.get(unstructured(resource), name, VICTIM)).body.get("status"))


async def serve_victims(client: Client, name: str) -> None:
    """New objects of the victim get a status."""
    for resource in (program.serves for program in PROGRAMS if program.serves is not None):
        target, spec = unstructured(resource), SPECS[resource][1]
        await client.create(target, _named(resource, {"metadata": {"name": name, "namespace": VICTIM}, "spec": spec}))

        await eventually(
            partial(has_status, client, resource, name), within=90, describe=f"the status of {resource.kind} {name}"
        )


async def test_hostile_objects_of_one_namespace_take_no_process_over_its_limit(
    hostile_cluster: LocalCluster, tmp_path: Path
) -> None:
    config = ClusterConfig.load(hostile_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests") as client, AsyncExitStack() as opened:
        processes = {
            program: await opened.enter_async_context(running(program, hostile_cluster, tmp_path))
            for program in PROGRAMS
        }
        await asyncio.gather(*(process.start() for process in processes.values()))
        await attack(client)
        await serve_victims(client, "first")
        peaks = {program.name: [peak_mebibytes(process.pid)] for program, process in processes.items()}
        for process in processes.values():
            await process.kill()
        await asyncio.gather(*(process.start(ready_within=120) for process in processes.values()))
        await serve_victims(client, "second")
        for program, process in processes.items():
            peaks[program.name].append(peak_mebibytes(process.pid))
        limits = {program.name: limit_mebibytes(program) for program in PROGRAMS}
        assert {name: max(found) for name, found in peaks.items() if max(found) >= limits[name]} == {}
