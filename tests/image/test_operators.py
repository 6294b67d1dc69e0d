"""The operators, run from the image as their pods run them, against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from deploy.image import config
from tests.image.container import Container, Runtime
from tests.kubectl import kubectl

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.ports import HOST, free_port
from stellwerk.operators.btp.controllers import IMAGE_VARIABLE
from stellwerk.testing.operator_process import OperatorProcess

ROOT = Path(__file__).parents[2]
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_RESIDENT_KIB = 150_000
"""Of one operator without its renderers; the limit of the container of its original is 128 Mi for some objects."""


async def test_both_operators_become_ready_and_reconcile_the_samples(
    cluster: LocalCluster, runtime: Runtime, tmp_path: Path
) -> None:
    await _both(cluster, runtime, tmp_path)


@asynccontextmanager
async def operator(
    cluster: LocalCluster,
    runtime: Runtime,
    folder: Path,
    name: str,
    account: tuple[str, str],
    environment: Mapping[str, str],
) -> AsyncIterator[OperatorProcess]:
    """An operator as a pod with this service account: token and address are where the kubelet puts them."""
    health = free_port()
    (folder / name).mkdir()
    container = Container(
        arguments=[
            *("stellwerk", "run", name, "--leader-elect"),
            f"--health-probe-bind-address={HOST}:{health}",
            f"--metrics-bind-address={HOST}:{free_port()}",
        ],
        environment={
            **config.ENVIRONMENT,
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
            **environment,
        },
        scratch=(),  # an operator writes no file
        files={_ACCOUNT: _token(cluster, account, folder / f"{name}-account")},
    )
    with runtime.command(container, folder / name) as command:
        process = OperatorProcess(command, log=folder / f"{name}.log", health_url=f"http://{HOST}:{health}/readyz")
        async with process:
            await process.start()
            yield process
        process.assert_clean_log()


async def _both(cluster: LocalCluster, runtime: Runtime, folder: Path) -> None:
    ask = cluster.kubeconfig
    for namespace in ("kyma-system", "component-operator"):
        kubectl(ask, "apply", "--server-side", "-f", "-", stdin=_namespace(namespace))
    kubectl(ask, "apply", "--server-side", "-f", str(ROOT / "deploy/crds"), "-f", str(ROOT / "deploy/rbac"))
    btp, component = ("kyma-system", "btp-manager-controller-manager"), ("component-operator", "component-operator")
    operand = {IMAGE_VARIABLE: "registry.example.com/sap-btp-service-operator:1"}
    async with (
        operator(cluster, runtime, folder, "btp", btp, operand) as btp_manager,
        operator(cluster, runtime, folder, "component", component, {}) as component_operator,
    ):
        for name in ("btp", "component"):
            for sample in sorted((ROOT / "samples" / name).glob("*.yaml")):
                kubectl(ask, "apply", "--server-side", "-f", str(sample))
        await asyncio.to_thread(_wait_ready, ask)
        for name, process in (("btp", btp_manager), ("component", component_operator)):
            resident = _resident_kib(runtime.pid(process.pid, folder / name))
            print(f"{name}: {resident} KiB resident")
            assert resident < _MOST_RESIDENT_KIB


def _wait_ready(kubeconfig: Path) -> None:
    ready = ("wait", "--for=condition=Ready", "--timeout=50s")
    kubectl(kubeconfig, *ready, "-n", "kyma-system", "btpoperator/btpoperator")
    waiting = "-l=stellwerk.local/sample!=waiting"
    kubectl(kubeconfig, *ready, "-n", "stellwerk-sample", "components", waiting)


def _namespace(name: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _token(cluster: LocalCluster, account: tuple[str, str], folder: Path) -> Path:
    """The folder that a kubelet mounts: a token of the account, the authority of the API server, the namespace."""
    namespace, name = account
    folder.mkdir()
    (folder / "token").write_text(kubectl(cluster.kubeconfig, "create", "token", "-n", namespace, name))
    (folder / "ca.crt").write_bytes(cluster.authority.read_bytes())
    (folder / "namespace").write_text(namespace)
    return folder


def _resident_kib(pid: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0])
