"""The operators on the local control plane: what `stellwerk up` installs, starts and shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from stellwerk import assembly
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.objects.desired import defined_by
from stellwerk.apply.objects.manifests import Document
from stellwerk.cli import kinds
from stellwerk.cli.local import operator_processes, run_local, sample_files
from stellwerk.cli.local.operator_processes import Companion
from stellwerk.cli.local.system import StartStep, StepResult
from stellwerk.cli.objects import health, served_addresses, wait_for
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery.operator_spec import ProcessSpec, ShownBy
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured
from stellwerk.local.build import renderer
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.folder import CONTEXT
from stellwerk.local.host.ports import HOST

SERVED_SECONDS = 30.0
"""How long the API server may take to list kinds that it has accepted."""
_LOOK_SECONDS = 0.05
_FIRST = (Namespace.resource.kind, CustomResourceDefinition.resource.kind)
SAMPLES_SECONDS = 60.0
SAMPLE_LABEL, WAITING = "stellwerk.local/sample", "waiting"
"""On a sample that shows how a missing dependency is explained, and so never becomes Ready."""


def definitions(name: str) -> StartStep:
    """The step that installs the kinds of our operators, and the rights that these run with."""

    def run(say: Callable[[str], None]) -> StepResult:
        served = _on(named(name), lambda client: installed(client, assembly.installation()))
        return StepResult(f"CRDs installed ({len(served)})")

    return StartStep("CRDs", run)


def operators(name: str) -> StartStep:
    """The step that starts the operators and their servers, or finds them running.

    Each has the rights of its own service account. Webhooks are registered when all are ready: API servers refuse what
    a registered webhook does not answer.
    """

    def run(say: Callable[[str], None]) -> StepResult:

        program = renderer.ensure(say)  # the Component operator starts it; a checkout may not have built it yet
        cluster = named(name)
        companions = [_companion(cluster, process) for process in assembly.PROCESSES.values()]
        starting = [operator_processes.started(cluster, companion, program) for companion in companions]
        for one in starting:
            one.wait_ready()
        for process in assembly.PROCESSES.values():
            _register_webhooks(cluster, process)
        return StepResult(f"operators running ({len(starting)})", ", ".join(one.title for one in starting))

    return StartStep("operators", run)


def other_clusters(name: str) -> StartStep:
    """The step that starts the clusters next to the local system that samples are about."""

    def run(say: Callable[[str], None]) -> StepResult:
        started = sample_files.clusters(name)
        for each in started:
            each.up(say)
        where = ", ".join(f"{each.folder.name} on {each.status().address}" for each in started)
        return StepResult(f"other clusters ready ({len(started)})", where)

    return StartStep("other clusters", run)


def samples(name: str) -> StartStep:
    """The step that applies the samples and waits until all of them are Ready."""

    def run(say: Callable[[str], None]) -> StepResult:
        ready = _on(named(name), partial(_apply_samples, name))
        return StepResult(f"samples ready ({len(ready)})", ", ".join(ready))

    return StartStep("samples", run)


def _companion(cluster: LocalCluster, spec: ProcessSpec) -> Companion:
    installation = spec.installation()
    return Companion(
        title=spec.title,
        process=served_addresses.process_name(spec.name),
        program=spec.name,
        module=run_local.__name__ if spec.local is not None else "",
        account=(installation.namespace, installation.account),
        flags=lambda: installation.local_flags(cluster.folder),
        ports=[port.flag for port in installation.ports],
        environment=installation.local_environment,
    )


def _register_webhooks(cluster: LocalCluster, spec: ProcessSpec) -> None:
    """Register the webhooks of a ready process at its address on this machine."""
    installation = spec.installation()
    webhooks, namespace = installation.webhooks, installation.namespace
    if webhooks is None:
        return
    (flag,) = (port.flag for port in installation.ports if port.name == webhooks.port)
    port = operator_processes.port(cluster.process(served_addresses.process_name(spec.name)), flag)

    async def register(client: Client) -> list[str]:
        secret = await client.get(Secret, webhooks.secret, namespace)
        bundle = secret.data.get("ca.crt", "")
        bodies = webhooks.configurations(
            lambda path: {"url": f"https://{HOST}:{port}{path}", "caBundle": bundle}, namespace
        )
        await _apply_all(client, bodies)
        return [str(Unstructured.of(body).ref) for body in bodies]

    _on(cluster, register)


def _on(cluster: LocalCluster, work: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Do something as the cluster's administrator."""
    config = ClusterConfig.load(cluster.kubeconfig, CONTEXT)

    async def connected() -> list[str]:
        async with Client.connect(config, field_manager="stellwerk-up") as client:
            return await work(client)

    return asyncio.run(connected())


async def installed(client: Client, objects: Sequence[JsonObject], within: float = SERVED_SECONDS) -> list[str]:
    """Apply all, and return the names of the kinds among them once the API server lists these. Raises Failure."""
    await _apply_all(client, objects)
    return await served(client, objects, within)


async def served(client: Client, objects: Sequence[JsonObject], within: float = SERVED_SECONDS) -> list[str]:
    """The names of the kinds that `objects` define, once the API server lists them.

    It does so some time after it has accepted them; a request that comes sooner fails as if there were no such kind.
    Raises Failure when that takes longer than `within` seconds.
    """
    wanted = {*defined_by(Document(body) for body in objects).values()}
    try:
        async with asyncio.timeout(within):
            while not wanted <= {*await client.mapper.all()}:
                client.mapper.invalidate()
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise Failure(
            f"the API server does not serve the new kinds after {within:g} s",
            cause="it has accepted their definitions and does not list them",
            fix="kubectl get crds -o yaml shows its conditions; a local system starts again with: "
            "stellwerk down --keep-data && stellwerk up",
        ) from None
    return sorted({resource.group_resource for resource in wanted})


async def _apply_all(client: Client, objects: Sequence[JsonObject]) -> None:
    """Apply objects at the same time, but first those without which others are refused."""
    by_wave = {
        is_first: [body for body in objects if (body["kind"] in _FIRST) is is_first] for is_first in (True, False)
    }
    for wave in by_wave.values():
        await together(wave, lambda body: _apply(client, body))


async def _apply(client: Client, body: JsonObject) -> None:
    gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
    await client.apply(unstructured(await client.mapper.resource(gvk)), body)


async def _apply_samples(name: str, client: Client) -> list[str]:
    """Apply every sample, and return the names of the objects of ours among them once they are Ready."""
    bodies = sample_files.bodies()
    for body in sample_files.with_logins(
        bodies, name
    ):  # webhooks refuse an object that refers to one which does not exist yet
        await _apply(client, body)
    ready = [body for body in bodies if _becomes_ready(Unstructured.of(body))]
    return [await _until_ready(client, body) for body in ready]


def _becomes_ready(sample: Unstructured) -> bool:
    """Whether a sample is one of ours, of a kind that becomes Ready, and is not meant to wait."""
    row = kinds.by_gvk(sample.gvk)
    return row is not None and row.readiness is not ShownBy.NONE and sample.metadata.labels.get(SAMPLE_LABEL) != WAITING


async def _until_ready(client: Client, body: JsonObject) -> str:
    """Follow one object until it is Ready. Raises Failure with what it shows instead."""
    wanted = Unstructured.of(body)
    resource = await client.mapper.resource(wanted.gvk)
    await wait_for.until(
        ClusterSession(client, settings.current()),
        resource,
        wanted,
        lambda seen: seen is not None and health.of(seen).is_ready,
        wanted="Ready",
        patience=wait_for.WaitLimit(SAMPLES_SECONDS),
    )
    return str(wanted.ref)
