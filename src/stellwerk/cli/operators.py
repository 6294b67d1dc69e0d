"""The operators on the local control plane: what `stellwerk up` installs, starts and shows."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from stellwerk.cli.errors import Failure
from stellwerk.cli.system import Done, Step

if TYPE_CHECKING:
    from stellwerk.kube.client import Client
    from stellwerk.kube.model import JsonObject
    from stellwerk.local.cluster import LocalCluster
    from stellwerk.local.processes import Process

BTP_PROCESS = "operator-btp"
COMPONENT_PROCESS = "operator-component"
DEMO_IMAGE = "stellwerk.local/sap-btp-service-operator:demo"
"""Pods are played here, so nobody ever pulls it."""
START_SECONDS = 30.0
SAMPLES_SECONDS = 60.0
SAMPLE_LABEL, WAITING = "stellwerk.local/sample", "waiting"
"""On a sample that shows how a missing dependency is explained, and so never becomes Ready."""
_POLL_SECONDS = 0.05


def definitions(name: str) -> Step:
    """The step that installs the kinds of our operators, and the rights that these run with."""

    def run(say: Callable[[str], None]) -> Done:
        from stellwerk import assembly

        objects = assembly.installation()
        _on(_cluster(name), lambda client: _apply_all(client, objects))
        kinds = sum(body["kind"] == "CustomResourceDefinition" for body in objects)
        return Done(f"CRDs installed ({kinds})")

    return Step("CRDs", run)


def operators(name: str) -> Step:
    """The step that starts the operators, each with the rights of its own service account, or finds them running."""

    def run(say: Callable[[str], None]) -> Done:
        from stellwerk.local import renderer

        renderer.ensure(say)  # the Component operator starts it; a checkout may not have built it yet
        cluster = _cluster(name)
        starting = [_start_btp(cluster), _start_component(cluster)]
        for one in starting:
            one.wait_ready()
        return Done(f"operators running ({len(starting)})", ", ".join(one.title for one in starting))

    return Step("operators", run)


def samples(name: str) -> Step:
    """The step that applies the samples and waits until all of them are Ready."""

    def run(say: Callable[[str], None]) -> Done:
        ready = _on(_cluster(name), _apply_samples)
        return Done(f"samples ready ({len(ready)})", ", ".join(ready))

    return Step("samples", run)


def _cluster(name: str) -> LocalCluster:
    from stellwerk.local.cluster import named

    return named(name)


@dataclass(frozen=True, slots=True)
class _Starting:
    """An operator's process on its way to being ready; `process` None: it was running already."""

    title: str
    process: Process | None = None
    port: int = 0

    def wait_ready(self) -> None:
        """Return when it is ready. Raises Failure with what it said last."""
        deadline = time.monotonic() + START_SECONDS
        while self.process is not None and not _answers(f"http://127.0.0.1:{self.port}/readyz"):
            if self.process.exited_within(_POLL_SECONDS) or time.monotonic() > deadline:
                raise Failure(
                    f"the {self.title} did not start",
                    cause=self.process.log_tail(3) or "it said nothing",
                    fix=f"see {self.process.log}",
                )


def _start_btp(cluster: LocalCluster) -> _Starting:
    from stellwerk.operators.btp import rehearsal, rights

    account = f"system:serviceaccount:kyma-system:{rights.ACCOUNT}"
    groups = ("system:serviceaccounts", "system:serviceaccounts:kyma-system")
    environment = {"SAP_BTP_SERVICE_OPERATOR": DEMO_IMAGE}
    return _started(
        cluster,
        "BTP Manager",
        BTP_PROCESS,
        ["btp", f"--kubeconfig={cluster.kubeconfig_for(account, groups)}"],
        lambda: rehearsal.flags(rehearsal.copy_module(cluster.folder / "module")),
        environment,
    )


def _start_component(cluster: LocalCluster) -> _Starting:
    from stellwerk.operators.component import rights

    account = f"system:serviceaccount:{rights.NAMESPACE}:{rights.ACCOUNT}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{rights.NAMESPACE}")
    kubeconfig = cluster.kubeconfig_for(account, groups)
    return _started(
        cluster,
        "Component operator",
        COMPONENT_PROCESS,
        ["component", f"--kubeconfig={kubeconfig}"],
        lambda: ["--egress-allow-networks=127.0.0.0/8"],
        {},
    )


def _started(
    cluster: LocalCluster,
    title: str,
    process_name: str,
    operator: Sequence[str],
    flags: Callable[[], Sequence[str]],
    environment: Mapping[str, str],
) -> _Starting:
    from stellwerk.local.ports import free_port

    if cluster.process(process_name).is_running():
        return _Starting(title)
    port = free_port()
    arguments = [
        *(sys.executable, "-m", "stellwerk.cli.main", "run", *operator),
        f"--health-probe-bind-address=127.0.0.1:{port}",
        "--metrics-bind-address=127.0.0.1:0",
        "--zap-encoder=console",
        *flags(),
    ]
    return _Starting(title, cluster.start_companion(process_name, arguments, {**os.environ, **environment}), port)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310  # loopback, and the scheme is ours
            return bool(answer.status == 200)
    except OSError:
        return False


def _on(cluster: LocalCluster, work: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Do something as the cluster's administrator."""
    from stellwerk.kube.client import Client
    from stellwerk.kube.config import ClusterConfig

    async def connected() -> list[str]:
        async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="stellwerk-up") as client:
            return await work(client)

    return asyncio.run(connected())


async def _apply_all(client: Client, objects: Sequence[JsonObject]) -> list[str]:
    from stellwerk.kube.model import unstructured
    from stellwerk.kube.names import GroupVersionKind

    for body in objects:
        gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
        await client.apply(unstructured(await client.mapper.resource(gvk)), body)
    return []


async def _apply_samples(client: Client) -> list[str]:
    """Apply every sample, and return the names of the objects of ours among them once they are Ready."""
    from stellwerk.apply.manifests import read_text
    from stellwerk.cli import kinds
    from stellwerk.kube.model import Unstructured
    from stellwerk.kube.names import GroupVersionKind

    files = sorted(samples_folder().glob("*/*.yaml"))
    bodies = [document.body for file in files for document in read_text(file.read_bytes(), file=file.name)]
    await _apply_all(client, bodies)
    ours = [body for body in bodies if kinds.by_gvk(GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"])))]
    ready = [body for body in ours if Unstructured.of(body).metadata.labels.get(SAMPLE_LABEL) != WAITING]
    return [await _until_ready(client, body) for body in ready]


async def _until_ready(client: Client, body: JsonObject) -> str:
    """Follow one object until it is Ready. Raises Failure with what it shows instead."""
    from stellwerk.kube.model import Unstructured, unstructured
    from stellwerk.kube.names import GroupVersionKind
    from stellwerk.kube.watch import Changed, Synced, Watcher

    wanted = Unstructured.of(body)
    resource = await client.mapper.resource(GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"])))
    field = f"metadata.name={wanted.metadata.name}"
    shown = ""
    try:
        async with asyncio.timeout(SAMPLES_SECONDS):
            async for change in Watcher(
                client, unstructured(resource), wanted.metadata.namespace, fields=field
            ).changes():
                seen = (
                    change.objects
                    if isinstance(change, Synced)
                    else (change.obj,)
                    if isinstance(change, Changed)
                    else ()
                )
                for obj in seen:
                    shown = str(obj.at("status", "state") or "")
                    if shown == "Ready":
                        return str(wanted.ref)
    except TimeoutError:
        pass
    raise Failure(
        f"{wanted.ref} is not Ready after {SAMPLES_SECONDS:.0f} s",
        cause=f"it shows {shown or 'no state'}",
        fix=f"stellwerk why {wanted.gvk.kind}/{wanted.metadata.name} -n {wanted.metadata.namespace}",
    )


def samples_folder() -> Path:
    """The samples: beside the package in a checkout, inside it when installed."""
    import stellwerk

    package = Path(stellwerk.__file__).parent
    inside = package / "samples"
    return inside if inside.is_dir() else package.parent.parent / "samples"
