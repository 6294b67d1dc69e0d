"""The manager may die, or lose the answer to a write, at any of its writes: the end is the same as without.

A CAPOperator is installed, gets another gateway and another size, and is deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret, ServiceAccount
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap_manager.api import OWNER_ID, CAPOperator
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.proxied_operator import proxied_operator
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_odd,
    conflicts,
    killed_after,
    killed_before,
)
from stellwerk.testing.scenarios.recorder import Run
from tests.cluster.cap_manager import charts
from tests.cluster.cap_manager.conftest import OPERATOR
from tests.cluster.cap_manager.scene import Scene

KINDS = (Deployment, Secret, ServiceAccount, ClusterRole, ClusterRoleBinding, CustomResourceDefinition)


def life(scene: Scene) -> tuple[SweepStep, ...]:
    """What is asked for, one after the other."""

    async def create() -> None:
        await scene.load_balancer("*.ingress.example.com")
        await scene.asks()

    async def update() -> None:
        await scene.load_balancer("*.elsewhere.example.com")
        await scene.asks(controller={"replicas": 2})

    async def ready() -> None:
        await scene.shows("Ready")

    async def updated() -> None:
        async def is_updated() -> bool:
            await scene.shows("Ready", within=1.0)
            shown = (await scene.variables("controller"))["DNS_TARGET"]
            replicas = (await scene.deployment("controller")).at("spec", "replicas")
            return (shown, replicas) == ("x.elsewhere.example.com", 2)

        await eventually(is_updated, within=60, describe="the update is applied")

    return (
        SweepStep("the installation", create, ready, least_points=12),
        SweepStep("the update", update, updated, least_points=3),
        SweepStep("the deletion", scene.deletes, scene.is_gone, least_points=10),
    )


async def end_state(scene: Scene) -> Run:
    """The objects of the installation, and how the CAPOperator is, without what differs from life to life."""
    found: dict[str, JsonObject] = {}
    for kind in KINDS:
        for obj in (await scene.client.list(metadata_of(kind), labels=OWNER_ID)).items:
            if f"/{scene.namespace}/" in obj.metadata.annotations.get(OWNER_ID, ""):
                found[f"{kind.resource.kind} {obj.metadata.name}"] = {"finalizers": [*obj.metadata.finalizers]}
    for owner in (await scene.client.list(CAPOperator, scene.namespace)).items:
        status = owner.status
        phases = {f"{item.kind} {item.name}": item.phase for item in status.inventory}
        found["CAPOperator"] = {"state": str(status.state), "finalizers": [*owner.metadata.finalizers], **phases}
        found["variables"] = {**await scene.variables("controller")}
    return Run((), found)


@pytest.fixture(scope="module")
def nursery() -> Iterator[ForkServer]:
    """Where the managers of a sweep start in a moment."""
    with ForkServer(["stellwerk.assembly", "stellwerk.operators.cap_manager.controllers", "uvloop"]) as nursery:
        yield nursery


@pytest.fixture
async def sweep(
    manager_cluster: LocalCluster, scene: Scene, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    flags = ("--metrics-bind-address=0", f"--manifest-directory={charts.write(tmp_path / 'chart')}")
    login = manager_cluster.kubeconfig_for(OPERATOR)
    async with proxied_operator("cap-manager", *flags, login=login, folder=tmp_path, nursery=nursery) as manager:
        await manager.process.start()
        yield Sweep(process=manager.process, proxy=manager.proxy, parts=life(scene), end_state=lambda: end_state(scene))


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_any_write_it_ends_as_if_nothing_had_happened(
    sweep: Sweep, scene: Scene
) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), *conflicts(scene.client))
