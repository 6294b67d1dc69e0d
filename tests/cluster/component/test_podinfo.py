"""What others have published is deployed as it is: podinfo, as a kustomization and as a chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Service
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PODINFO = Path(__file__).parents[4] / "shared" / "fixtures" / "podinfo"

pytestmark = pytest.mark.skipif(not PODINFO.is_dir(), reason="podinfo's manifests are not on this machine")


def files(folder: str) -> dict[str, bytes]:
    """A folder of podinfo."""
    found = (path for path in (PODINFO / folder).rglob("*") if path.is_file())
    return {path.relative_to(PODINFO / folder).as_posix(): path.read_bytes() for path in found}


async def available(then: Then, name: str) -> int:
    """How many pods of a Deployment are available; AssertionError while its controller is at work on a change."""
    found = await then.client.get(Deployment, name, then.namespace)
    assert found.status.observed_generation == found.metadata.generation
    return found.status.available_replicas


async def test_its_kustomization_becomes_ready_and_goes_again(given: Given, running: Running, then: Then) -> None:
    await given.source(files("kustomize"), revision="6.x")
    image = {"name": "ghcr.io/stefanprodan/podinfo", "newTag": "9.9.9"}
    await given.component(postBuild={"images": [image]})
    await running.start()
    ready = await then.ready(revision="6.x")
    assert {item.kind for item in ready.status.inventory} == {"Deployment", "Service", "HorizontalPodAutoscaler"}
    # Its autoscaler may be changing it right now.
    await eventually(lambda: available(then, "podinfo"), describe="a pod is available")
    await given.deleted()
    await then.gone()
    await then.absent(Deployment, "podinfo")
    await then.absent(Service, "podinfo")


async def test_its_chart_becomes_ready_is_upgraded_and_goes_again(given: Given, running: Running, then: Then) -> None:
    await given.source(files("charts"))
    hook: dict[str, Any] = {"enabled": True, "hookDeletePolicy": "hook-succeeded"}
    values: dict[str, Any] = {"replicaCount": 2, "redis": {"enabled": True}, "hooks": {"preInstall": {"job": hook}}}
    await given.component("web", path="podinfo", values=values)
    await running.start()
    ready = await then.ready("web")
    names = {(item.kind, item.name) for item in ready.status.inventory}
    assert {("Deployment", "web-podinfo"), ("Deployment", "web-podinfo-redis"), ("Service", "web-podinfo")} <= names
    assert {item.phase for item in ready.status.inventory if item.kind == "Job"} == {"Completed"}
    assert await available(then, "web-podinfo") == 2

    await given.component("web", path="podinfo", values={"replicaCount": 3, "ui": {"message": "new"}})
    ready = await then.ready("web")
    assert ready.status.revision == 2
    assert await available(then, "web-podinfo") == 3
    await then.absent(Deployment, "web-podinfo-redis")
    await given.deleted("web")
    await then.gone("web")
    await then.absent(Deployment, "web-podinfo")
