"""Subscription server of the CAP Operator: requests at a steady rate, next to a bare aiohttp server in the same run.

Every request is a PUT of a subscription that exists, with a token whose signature is verified and a callback. So the
API server is asked once, for the promise of the callback; the first request of each tenant, which creates it, is timed
apart. Requests are sent when they are due, whether earlier ones are answered or not. The bare server reads the
same body and answers with the same bytes; both are processes of their own.

    python -m bench.subscription [--seconds 60] [--rate 200]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web
from bench.measuring import own_cluster, resident_bytes, until

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.local.host.ports import free_port
from stellwerk.operators.cap import api
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import process as server
from stellwerk.operators.cap.subscription.local import LoopbackResolver
from stellwerk.operators.cap.subscription.outgoing import Outgoing
from stellwerk.operators.cap.subscription.settings import ServerSettings
from stellwerk.runtime.process import process
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.servers.registries import ISSUER, REGISTRY, UAA_DOMAIN, Registries

NAMESPACE = "bench"
TENANTS = 100
FIRST: JsonObject = {
    "capApplicationInstance": "other",
    "subDomain": "first",
    "tenantId": "first",
}
TYPE: JsonObject = {"apiVersion": CAPTenant.resource.api_version, "kind": CAPTenant.resource.kind}
ANSWER = b'{"Tenant":null,"Message":"resource exists"}'


def main() -> None:
    """Parse the options, and measure; or be one of the servers."""
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    elif sys.argv[1:2] == ["bare"]:
        bare(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--rate", type=int, default=200)
        options = parser.parse_args()
        with own_cluster("bench-subscription", Options(durable=False)) as cluster:
            asyncio.run(run(cluster, options.seconds, options.rate))  # the doubles need this loop


# ---- the servers


def serve(port: str, probes: str, doubles: str, authority: str) -> None:
    """The subscription server."""
    settings = ProcessSettings(metrics_bind_address="0", health_probe_bind_address=f"127.0.0.1:{probes}")
    process.configure_logs(settings, tty=False)
    values = ServerSettings(port=int(port), host="127.0.0.1")
    launch = server.launch(settings, values, os.environ)

    def install(parts: Parts) -> None:
        client = parts.unfenced()
        parts.manager.add_server("client of requests", Closing(client.close))
        outgoing = Outgoing(
            networks=("127.0.0.0/8",),
            authority=Path(authority).read_bytes(),
            resolver=LoopbackResolver(int(doubles)),
        )
        server.install(parts.manager, values, requests=client, outgoing=outgoing)

    uvloop.run(process.run(settings, launch.identity, install))


def bare(port: str) -> None:
    """A server that reads a body and answers."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=202, body=ANSWER, content_type="application/json")

    async def ready(_: web.Request) -> web.Response:
        return web.Response()

    async def listen() -> None:
        application = web.Application()
        application.router.add_put("/{path:.*}", answer)
        application.router.add_get("/readyz", ready)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", int(port)).start()
        await asyncio.Event().wait()

    uvloop.run(listen())


def started(cluster: LocalCluster, mode: str, *arguments: str, health: str, kubeconfig: Path) -> OperatorProcess:
    """One of them as a process."""
    return OperatorProcess(
        [sys.executable, "-m", "bench.subscription", mode, *arguments],
        log=cluster.folder / "log" / f"bench-{mode}.log",
        kubeconfig=kubeconfig,
        environment={"PYTHONPATH": os.pathsep.join(sys.path)},
        health_url=health,
    )


# ---- the measurement


@dataclass(frozen=True, slots=True)
class Figures:
    """Times of answers in seconds, sorted; how many were not 202; resident memory and processor time of the server."""

    times: Sequence[float]
    lost: int
    memory: int
    cpu: float
    """Seconds of a processor that the server used."""

    def at(self, part: float) -> float:
        """The time within which this part of the requests is answered, in milliseconds."""
        return 1000 * self.times[min(len(self.times) - 1, int(part * len(self.times)))]

    def __str__(self) -> str:
        return (
            f"{len(self.times)} requests, {self.lost} lost; p50 {self.at(0.5):.1f} ms, p99 {self.at(0.99):.1f} ms, "
            f"longest {self.at(1.0):.1f} ms; {1000 * self.cpu / len(self.times):.2f} ms of CPU each; "
            f"{self.memory / 1e6:.0f} MB"
        )


async def run(cluster: LocalCluster, seconds: float, rate: int) -> None:
    """Measure both servers, and print the figures."""
    config = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, field_manager="bench") as client, Registries() as registries:
        await install(client)
        with tempfile.TemporaryDirectory() as folder:
            authority = Path(folder) / "authority.pem"
            authority.write_bytes(registries.authority)
            port, probes = free_port(), free_port()
            arguments = (str(port), str(probes), str(registries.port), str(authority))
            health = f"http://127.0.0.1:{probes}/readyz"
            async with started(cluster, "serve", *arguments, health=health, kubeconfig=cluster.kubeconfig) as ours:
                await ours.start()
                token = registries.token(aud=["sb-shop"], scope=["shop.Callback"])
                send = sender(f"http://127.0.0.1:{port}", token)
                began = time.perf_counter()
                created = await steady(send, TENANTS / 10, 10, ours)
                print(f"new tenants, 10 in a second: {created} ({time.perf_counter() - began:.1f} s)")
                figures = await steady(send, seconds, rate, ours)
                print(f"subscription server, {rate} in a second: {figures}   target p99 200 ms, 80 MB, none lost")
            port = free_port()
            health = f"http://127.0.0.1:{port}/readyz"
            async with started(cluster, "bare", str(port), health=health, kubeconfig=cluster.kubeconfig) as other:
                await other.start()
                send = sender(f"http://127.0.0.1:{port}", token)
                limit = await steady(send, min(seconds, 20.0), rate, other)
                print(f"bare aiohttp server:                 {limit}")
                print(f"p99 {figures.at(0.99) / limit.at(0.99):.1f} x that of the bare server", flush=True)


def sender(url: str, token: str) -> Callable[[aiohttp.ClientSession, int], Awaitable[bool]]:
    """Sends the n-th request; whether it was answered 202."""
    headers = {"Authorization": f"Bearer {token}", "STATUS_CALLBACK": "/callback"}
    bodies = [
        json.dumps(
            {
                "subscriptionGUID": f"guid-{number}",
                "subscribedTenantId": f"tenant-{number}",
                "subscribedSubdomain": f"tenant-{number}",
                "providerSubaccountId": "provider",
                "subscriptionAppName": "shop",
            }
        ).encode()
        for number in range(TENANTS)
    ]

    async def send(session: aiohttp.ClientSession, number: int) -> bool:
        path = f"{url}/provision/tenants/tenant-{number % TENANTS}"
        async with session.put(path, data=bodies[number % TENANTS], headers=headers) as response:
            await response.read()
            return response.status == 202

    return send


async def steady(
    send: Callable[[aiohttp.ClientSession, int], Awaitable[bool]], seconds: float, rate: int, process: OperatorProcess
) -> Figures:
    """Send each request when it is due. Its time counts from then on."""
    times: list[float] = []
    lost, before = 0, cpu_seconds(process.pid)

    async def one(number: int, due: float) -> None:
        nonlocal lost
        try:
            lost += not await send(session, number)
        except aiohttp.ClientError:
            lost += 1
        times.append(time.perf_counter() - due)

    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as session,
        asyncio.TaskGroup() as tasks,
    ):
        began = time.perf_counter()
        for number in range(int(seconds * rate)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(number, due))
    return Figures(sorted(times), lost, resident_bytes(process.pid), cpu_seconds(process.pid) - before)


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def install(client: Client) -> None:
    """The kinds, and an application with its registry."""
    target = unstructured(CustomResourceDefinition.resource)
    for definition in api.DEFINITIONS:
        await client.apply(target, definition.body())
    count = len(api.DEFINITIONS)
    await until(
        client, CustomResourceDefinition, lambda seen: len(seen) >= count and all(each.is_established for each in seen)
    )
    await client.apply(Namespace, {"metadata": {"name": NAMESPACE}})
    registry = {"clientid": "sb-shop", "uaadomain": UAA_DOMAIN, "saas_registry_url": f"https://{REGISTRY}"}
    registry |= {"clientsecret": "bench", "url": f"https://{ISSUER}"}
    for name, credentials in (("registry", registry), ("uaa", {"xsappname": "shop"})):
        content = base64.b64encode(json.dumps(credentials).encode()).decode()
        await client.apply(Secret, {"metadata": meta(name), "data": {"credentials": content}})
    domain: JsonObject = {"domain": "example.com", "ingressSelector": {"istio": "gateway"}}
    await client.apply(Domain, {"metadata": meta("primary"), "spec": domain})
    spec: JsonObject = {
        "btpAppName": "shop",
        "providerSubaccountId": "provider",
        "btp": {
            "services": [
                {"name": "uaa", "class": "xsuaa", "secret": "uaa"},
                {"name": "registry", "class": "saas-registry", "secret": "registry"},
            ]
        },
        "domainRefs": [{"kind": "Domain", "name": "primary"}],
    }
    await client.apply(CAPApplication, {"metadata": meta("shop"), "spec": spec})
    # An API server answers a POST of a kind that was defined within the last two seconds two seconds later, so that all
    # servers of a cluster know the kind by then (a PATCH has no such delay). That is not what is measured here.
    await client.create(CAPTenant, {**TYPE, "metadata": meta("first"), "spec": FIRST})
    await client.delete(CAPTenant, "first", NAMESPACE)


def meta(name: str) -> JsonObject:
    """Name and namespace."""
    return {"name": name, "namespace": NAMESPACE}


if __name__ == "__main__":
    main()
