"""What a soak runs on: a cluster with what an administrator installs, and both operators behind fault proxies."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from bench.measuring import family, resident_bytes
from bench.soak_users import NAMESPACE, Weather, give_credentials

from stellwerk import assembly
from stellwerk.api import flux
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, Unstructured, View, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.btp import api, rights
from stellwerk.operators.btp.module import rehearsal
from stellwerk.operators.btp.settings import Settings
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.recorder import LASTING_WRITES

# ---- the operators


@dataclass(frozen=True, slots=True)
class Sample:
    """An operator at rest."""

    minutes: float
    resident_mib: float
    descriptors: int
    tasks: int


@dataclass(slots=True)
class Operator:
    """A process behind a proxy, and its figures."""

    name: str
    process: OperatorProcess
    proxy: FaultProxy
    metrics_url: str
    samples: list[Sample] = field(default_factory=list)
    requests: int = 0

    async def measure(self, minutes: float) -> None:
        """Take the figures."""
        pid = self.process.pid
        self.samples.append(Sample(minutes, resident_mib(pid), descriptors(pid), await self._tasks()))

    async def _tasks(self) -> int:
        async with aiohttp.ClientSession() as session, session.get(self.metrics_url) as answer:
            lines = (await answer.text()).splitlines()
        return int(float(next(line.split()[1] for line in lines if line.startswith("stellwerk_tasks "))))

    def forget(self) -> None:
        """Forget the history, which would be the only thing here that grows."""
        self.requests += self.proxy.history.count()
        self.proxy.history.clear()

    def writes(self) -> list[str]:
        """What it has written since, Events and leases left out."""
        return [str(one) for one in self.proxy.history.writes(LASTING_WRITES)]


def resident_mib(pid: int) -> float:
    """Resident memory of a process and of all that descend from it."""
    return sum(resident_bytes(one) for one in family(pid)) / 2**20


def descriptors(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len([*Path(f"/proc/{pid}/fd").iterdir()])


@asynccontextmanager
async def operators(cluster: LocalCluster, weather: Weather, folder: Path) -> AsyncIterator[tuple[Operator, ...]]:
    """Both, as processes that run."""
    account = f"system:serviceaccount:{api.STANDARD_NAMESPACE}:{rights.ACCOUNT}"
    module = rehearsal.copy_module(folder / "module")
    asked = {
        "component": (
            cluster.kubeconfig_for("component-operator", ["system:masters"]),
            ["--egress-allow-networks=127.0.0.0/8", "--drift-policy=repair"],
        ),
        "btp": (cluster.kubeconfig_for(account, ["system:serviceaccounts"]), rehearsal.flags(module)),
    }
    async with AsyncExitStack() as stack:
        running = []
        for name, (kubeconfig, flags) in asked.items():
            proxy = await stack.enter_async_context(FaultProxy(kubeconfig))
            weather.over(proxy)
            health, metrics = free_port(), free_port()
            process = OperatorProcess(
                [
                    *(sys.executable, "-m", "stellwerk.cli.main", "run", name),
                    f"--health-probe-bind-address=127.0.0.1:{health}",
                    f"--metrics-bind-address=127.0.0.1:{metrics}",
                    *flags,
                ],
                log=folder / f"{name}.log",
                kubeconfig=proxy.kubeconfig,
                environment={**os.environ, "SAP_BTP_SERVICE_OPERATOR": "example.com/operand:soak"},
                health_url=f"http://127.0.0.1:{health}/readyz",
            )
            await stack.enter_async_context(process)
            await process.start()
            running.append(Operator(name, process, proxy, f"http://127.0.0.1:{metrics}/metrics"))
        yield tuple(running)


# ---- the world


async def install(client: Client) -> None:
    """What an administrator installs."""
    for body in (*assembly.installation(), _git_repositories()):
        gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
        view: View[Unstructured] = unstructured(await client.mapper.resource(gvk))
        await client.apply(view, body)
    await client.apply(Namespace, {"metadata": {"name": NAMESPACE}})
    tunables: JsonObject = {"ProcessingStateRequeueInterval": "1s", "RsaKeyBits": "2048"}
    metadata: JsonObject = {"name": Settings().config_name, "namespace": api.STANDARD_NAMESPACE}
    await client.apply(ConfigMap, {"metadata": metadata, "data": tunables})
    await give_credentials(client)

    async def established() -> bool:
        return all(one.is_established for one in (await client.list(CustomResourceDefinition)).items)

    await eventually(established, describe="kinds are served")


def _git_repositories() -> JsonObject:
    """The kind, without its schema."""
    resource = flux.GitRepository.resource
    free: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema: JsonObject = {"type": "object", "properties": {"spec": free, "status": free}}
    version: JsonObject = {"name": resource.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
