"""A set goes in order, and only the very objects that were seen."""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.sets import CONFIG, DEFINITION, DEPLOYMENT, INSTANCE, MODULE

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.testing.eventually import eventually


@pytest.mark.req("R-105")
async def test_an_object_that_was_made_anew_under_the_same_name_is_not_deleted(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    seen = await ground.live(desired)
    ground.kubectl("delete", "configmap", "config")
    ground.kubectl("create", "configmap", "config", "--from-literal=mine=1")
    report = await ground.delete(seen)
    assert (report.carried, report.failures) == ((), ())
    assert (await ground.body(desired[0])).at("data") == {"mine": "1"}


@pytest.mark.req("R-104")
async def test_an_object_that_lost_its_label_since_is_not_deleted(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    seen = await ground.live(desired)
    ground.kubectl("label", "configmap", "config", "set-")
    report = await ground.delete(seen)
    assert (report.carried, report.failures) == ((), ())
    assert (await ground.body(desired[0])).metadata.uid == seen[desired[0].address].metadata.uid


@pytest.mark.req("R-104")
async def test_an_object_that_changed_since_is_deleted_as_it_is_now(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    seen = await ground.live(desired)
    ground.kubectl("label", "configmap", "config", "still=used")
    report = await ground.delete(seen)
    assert report.failures == ()
    assert await ground.live(desired) == {}


async def test_what_is_gone_already_is_deleted(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    seen = await ground.live(desired)
    ground.kubectl("delete", "configmap", "config")
    assert (await ground.delete(seen)).failures == ()


@pytest.mark.req("R-112")
async def test_a_blocked_deletion_names_the_finalizer(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    ground.kubectl(
        "patch", "configmap", "config", "--type=merge", "-p", '{"metadata":{"finalizers":["example.org/x"]}}'
    )
    await ground.delete(await ground.live(desired))
    live = await ground.live(desired)
    found = ground.set_of(live).plan_delete(live)
    assert found.actions == ()
    assert "is being deleted and waits for finalizers example.org/x" in str(found)
    ground.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert await ground.live(desired) == {}


async def test_a_whole_set_goes_wave_by_wave(ground: Ground) -> None:
    desired = await ground.wanted("---".join([MODULE, DEFINITION, INSTANCE]))
    await ground.calm(desired)
    left: list[set[str]] = []

    async def is_gone() -> bool:
        live: dict[Address, Live] = await ground.live(desired)
        left.append({address.resource.kind for address in live})
        assert not (await ground.delete(live)).failures
        return not live

    await eventually(is_gone, describe="the set to be gone")
    for kinds in left:
        assert "Thing" not in kinds or "CustomResourceDefinition" in kinds
        assert "CustomResourceDefinition" not in kinds or "Deployment" in kinds
        assert "Deployment" not in kinds or {"Service", "ConfigMap", "ServiceAccount"} <= kinds
    assert left[0] > {"MutatingWebhookConfiguration"}


async def test_a_deleted_set_can_be_applied_again(ground: Ground) -> None:
    desired = await ground.wanted(DEPLOYMENT)
    await ground.kept(desired)
    await ground.delete(await ground.live(desired))
    await ground.calm(desired)
