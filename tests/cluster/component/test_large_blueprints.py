"""Blueprints as large as an API server stores them: no stall, no copy in a cache, and one read for each generation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Blueprint
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.cluster import AuditLog
from tests.cluster.component.conftest import OPERATOR
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

LARGE = {f"beside/{number:04}": "a: <b>&c " * 4 for number in range(8_000)}
"""As much as etcd takes, where each `<` takes six bytes."""
COUNT = 2


async def drawn(given: Given, name: str, files: dict[str, str]) -> None:
    """A Blueprint that holds these files."""
    metadata: JsonObject = {"name": name, "namespace": given.namespace}
    await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": {**files}}}, force=True)


def of(name: str) -> dict[str, Any]:
    return {"sourceRef": {"blueprint": {"name": name}}, "path": "app"}


@pytest.mark.req("R-411")
@pytest.mark.req("R-412")
async def test_large_blueprints_do_not_block_the_event_loop_and_are_not_held_by_its_caches(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    with measured_stalls() as stalls:
        for number in range(COUNT):
            await drawn(given, f"print-{number}", {**LARGE, "app/one.yaml": config(f"one-{number}", "1")})
            await given.component(f"comp-{number}", **of(f"print-{number}"))
        for number in range(COUNT):
            await then.ready(f"comp-{number}", revision="generation:1")
        await drawn(given, "print-0", {**LARGE, "app/one.yaml": config("one-0", "2")})
        await then.ready("comp-0", revision="generation:2")
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    held = running.operator.watches.blueprints.store.all()
    assert len(list(held)) == COUNT
    assert max(len(msgspec.json.encode(one)) for one in held) < 4_096


@pytest.mark.req("R-411")
async def test_a_blueprint_of_more_files_than_an_archive_may_hold_is_refused(
    given: Given, running: Running, then: Then
) -> None:
    await drawn(given, "print", {f"{number}": "" for number in range(10_001)})
    await given.component("comp", **of("print"))
    await running.start()
    await then.shows("Error", name="comp", saying="the blueprint has 10001 files; at most 10000 are allowed")


async def test_components_of_one_blueprint_read_each_generation_once(
    given: Given, running: Running, then: Then, component_cluster: LocalCluster
) -> None:
    names = [f"comp-{number}" for number in range(5)]
    await drawn(given, "print", {"app/one.yaml": config("one-{{ .value }}", "1")})
    for name in names:
        await given.component(name, values={"value": name}, **of("print"))
    audit = AuditLog(component_cluster)
    await running.start()
    for name in names:
        await then.ready(name, revision="generation:1")
    assert audit.count(verb="get", resource="blueprints", user=OPERATOR) == 1
    await drawn(given, "print", {"app/one.yaml": config("one-{{ .value }}", "2")})
    for name in names:
        await then.ready(name, revision="generation:2")
    await running.rests()
    assert audit.count(verb="get", resource="blueprints", user=OPERATOR) == 2
