"""Every operator, run from the image as its pod runs it, against a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import yaml
from deploy.image import config
from tests.image.container import Container, Runtime
from tests.kubectl import kubectl

from stellwerk import assembly
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.testing.processes.operator_process import OperatorProcess

SAMPLES = Path(__file__).parents[2] / "samples"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_RESIDENT_KIB = 120_000
"""Of an operator with its samples, without its renderers: 74 and 62 MB were measured."""
_FLAGS = {"kyma": ("--disable-watcher", "--without-registry")}
"""What a process of its own needs besides what all have."""
_WITH_OTHER_CLUSTERS = ("kyma",)


async def test_all_operators_become_ready_and_reconcile_the_samples(
    cluster: LocalCluster, runtime: Runtime, tmp_path: Path
) -> None:
    install = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(assembly.installation())})
    kubectl(cluster.kubeconfig, "apply", "--server-side", "-f", "-", stdin=install)
    async with AsyncExitStack() as stack:
        running = {
            spec.name: await stack.enter_async_context(_operator(cluster, runtime, tmp_path, spec))
            for spec in assembly.OPERATORS.values()
        }
        await asyncio.to_thread(_reconcile_samples, cluster.kubeconfig)
        for name, process in running.items():
            resident = _resident_kib(runtime.pid(process.pid, tmp_path / name))
            print(f"{name}: {resident} KiB resident")
            assert resident < _MOST_RESIDENT_KIB


@asynccontextmanager
async def _operator(
    cluster: LocalCluster, runtime: Runtime, folder: Path, spec: OperatorSpec
) -> AsyncIterator[OperatorProcess]:
    """An operator as a pod with its service account: token and address are where the kubelet puts them."""
    installation, health = spec.installation(), free_port()
    (folder / spec.name).mkdir()
    account = _mounted_account(cluster, installation.namespace, installation.account, folder / f"{spec.name}-account")
    container = Container(
        arguments=[
            *("stellwerk", "run", spec.name, "--leader-elect"),
            f"--health-probe-bind-address={HOST}:{health}",
            f"--metrics-bind-address={HOST}:{free_port()}",
            *_FLAGS.get(spec.name, ()),
        ],
        environment={
            **config.ENVIRONMENT,
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
            **installation.local_environment,
        },
        files={_ACCOUNT: account},
        scratch=(),  # an operator writes no file
    )
    with runtime.command(container, folder / spec.name) as command:
        log, url = folder / f"{spec.name}.log", f"http://{HOST}:{health}/readyz"
        async with OperatorProcess(command, log=log, health_url=url) as process:
            await process.start()
            yield process
        process.assert_clean_log()


def _reconcile_samples(kubeconfig: Path) -> None:
    """Apply the samples that are about this cluster alone, and wait until those of our kinds are Ready.

    Those that show what is missing are not awaited.
    """
    kinds = {kind.resource.kind for spec in assembly.OPERATORS.values() for kind in spec.kinds}
    samples = list(_samples())
    for body in samples:
        kubectl(kubeconfig, "apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    waited = 0
    for body in samples:
        sample = Unstructured.of(body)
        if body["kind"] in kinds and sample.metadata.labels.get("stellwerk.local/sample") != "waiting":
            name = f"{body['kind']}/{sample.metadata.name}"
            ready = ("wait", "--for=condition=Ready", "--timeout=50s")
            kubectl(kubeconfig, *ready, "-n", sample.metadata.namespace, name)
            waited += 1
    assert waited >= len(assembly.OPERATORS)


def _samples() -> Iterator[JsonObject]:
    for file in sorted(SAMPLES.glob("*/*.yaml")):
        if file.parent.name not in _WITH_OTHER_CLUSTERS:
            yield from filter(None, yaml.safe_load_all(file.read_text()))


def _mounted_account(cluster: LocalCluster, namespace: str, name: str, folder: Path) -> Path:
    """The folder that a kubelet mounts: a token of the account, the authority of the API server, the namespace."""
    folder.mkdir()
    (folder / "token").write_text(kubectl(cluster.kubeconfig, "create", "token", "-n", namespace, name))
    (folder / "ca.crt").write_bytes(cluster.authority.read_bytes())
    (folder / "namespace").write_text(namespace)
    return folder


def _resident_kib(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0])
