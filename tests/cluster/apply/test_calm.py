"""An unchanged set is left alone for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.sets import DEFINITION, INSTANCE, MODULE

from stellwerk.apply.readiness.readiness import assess
from stellwerk.apply.set.plan.actions import Update
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually

ORIGINAL = Path(__file__).parents[4] / "shared" / "fixtures" / "btp" / "module-resources" / "apply"


@pytest.mark.req("R-108")
async def test_a_set_that_was_applied_is_not_written_again(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    report = await ground.kept(desired)
    assert len(report.carried) == len(desired)
    ground.writes()
    for _ in range(3):
        report = await ground.kept(desired)
        assert report.carried == ()
    assert ground.writes() == []


@pytest.mark.req("R-108")
async def test_it_stays_calm_when_its_controllers_have_written_their_part(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    await ground.kept(desired)
    (deployment,) = (one for one in desired if one.resource.kind == "Deployment")
    clock = SystemClock()

    async def is_ready() -> bool:
        return assess(await ground.body(deployment), now=clock.now()).is_ready

    await eventually(is_ready, describe="a ready Deployment")
    assert (await ground.body(deployment)).metadata.annotations  # the revision, written by the control plane
    assert await ground.is_calm(desired)


@pytest.mark.req("R-108")
async def test_a_new_process_asks_once_for_what_it_cannot_prove_and_changes_nothing(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    await ground.calm(desired)
    before = {one.address: (await ground.body(one)).metadata.resource_version for one in desired}
    ground.forget()
    found = await ground.plan(desired)
    assert 0 < len(found.actions) < len(desired)
    assert all(isinstance(action, Update) for action in found.actions)
    await ground.calm(desired)
    deployed = {one.address: (await ground.body(one)).metadata for one in desired}
    unmoved = [address for address, metadata in deployed.items() if metadata.resource_version == before[address]]
    # Their statuses may have moved on with the pods; nothing else has a reason to.
    moved = {address.resource.kind for address in deployed.keys() - set(unmoved)}
    assert moved <= {"Deployment", "PodDisruptionBudget"}


@pytest.mark.req("R-108")
@pytest.mark.skipif(not ORIGINAL.exists(), reason="the recorded module resources are not beside this checkout")
async def test_the_originals_own_module_is_applied_and_stays_calm(ground: Ground) -> None:
    """Renamed, so that it does not meet the real one on a shared cluster."""
    files = sorted(ORIGINAL.glob("*.y*ml"))
    text = "\n---\n".join(path.read_text() for path in files)
    own = text.replace("services.cloud.sap.com", "NAMESPACE.example.org").replace("sap-btp", "NAMESPACE")
    own = own.replace("kyma-system", "NAMESPACE").replace('image: ""', "image: registry.example.org/manager:1")
    desired = await ground.wanted(own)
    assert len(desired) == 14
    await ground.calm(desired)
    ground.writes()
    await ground.kept(desired)
    assert ground.writes() == []
    ground.forget()
    await ground.kept(desired)
    assert len(ground.writes()) <= len(desired)
    assert await ground.is_calm(desired)


async def test_instances_follow_their_definition_as_soon_as_it_is_established(ground: Ground) -> None:
    desired = await ground.wanted(f"{INSTANCE}---{DEFINITION}")
    report = await ground.kept(desired)
    assert [result.address.resource.kind for result in report.carried] == ["CustomResourceDefinition"]
    await ground.calm(desired)
    thing = await ground.body(desired[0])
    assert isinstance(thing, Unstructured)
    assert thing.at("spec") == {"note": "hello", "size": 1}
