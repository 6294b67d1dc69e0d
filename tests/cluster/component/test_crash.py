"""The operator may die, or lose the answer to a write, at any of its writes: the end is the same as without.

The Component brings a kind with an instance, a Deployment and a Job that is purged. It is brought up, takes a new
revision over, which no longer has one of the objects, and is taken away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.kube.types.identifiers import Resource
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_every,
    at_odd,
    killed_after,
    killed_before,
    reply_cut,
)
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.process import end_state, operator
from tests.cluster.component.then import Then

CONVERGED_SECONDS = 30.0

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAMESPACE.example.org}
spec:
  group: NAMESPACE.example.org
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
"""
INSTANCE = """
apiVersion: NAMESPACE.example.org/v1
kind: Thing
metadata: {name: one}
spec: {note: hello}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web:1}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: prepare
  annotations:
    component-operator.cs.sap.com/apply-order: "-1"
    component-operator.cs.sap.com/purge-order: "-1"
    component-operator.cs.sap.com/reconcile-policy: once
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: prepare, image: example.com/prepare:1}]}
"""


def files(namespace: str) -> dict[str, str]:
    """The first revision."""
    named = {"crd.yaml": DEFINITION, "thing.yaml": INSTANCE, "web.yaml": DEPLOYMENT, "job.yaml": JOB}
    return {"kept.yaml": config_map("kept"), "dropped.yaml": config_map("dropped")} | {
        name: text.replace("NAMESPACE", namespace) for name, text in named.items()
    }


def revised(namespace: str) -> dict[str, str]:
    """The second revision."""
    changed = files(namespace) | {"kept.yaml": config_map("kept", a="c"), "new.yaml": config_map("new")}
    del changed["dropped.yaml"]
    return changed


def life(given: Given, then: Then) -> tuple[SweepStep, ...]:
    """What is asked for, one after the other."""

    async def create() -> None:
        await given.source(files(given.namespace), revision="r1")
        await given.component(revision="r1")  # the operator's view may still show the source of the life before

    async def update() -> None:
        await given.source(revised(given.namespace), revision="r2")
        await given.component(revision="r2")

    async def ready(revision: str) -> None:
        await then.ready(revision=revision, within=CONVERGED_SECONDS)

    return (
        SweepStep("the creation", create, lambda: ready("r1"), least_points=12),
        SweepStep("the update", update, lambda: ready("r2"), least_points=5),
        # The status in between is not written where the API server is done with the definition before we ask it.
        SweepStep("the deletion", given.deleted, lambda: then.gone(within=CONVERGED_SECONDS), least_points=7),
    )


@pytest.fixture
async def sweep(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    things = Resource(f"{given.namespace}.example.org", "v1", "Thing", "things", namespaced=True)
    async with operator(component_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Sweep(
            process=running.process,
            proxy=running.proxy,
            parts=life(given, then),
            end_state=lambda: end_state(component_cluster, given.namespace, things),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_any_write_it_ends_as_if_nothing_had_happened(sweep: Sweep) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), at_every(reply_cut))
