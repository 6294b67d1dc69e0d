"""What others do to our objects is taken back."""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import LABELS, Ground
from tests.cluster.apply.sets import CONFIG, DEPLOYMENT, MODULE, SECRET

from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.apply.set.plan.actions import Update
from stellwerk.kube.types.model import JsonValue


@pytest.mark.req("R-110")
@pytest.mark.parametrize(
    "meddling",
    [
        ["label", "deployment", "manager", "reconciler.kyma-project.io/managed-by=reconciler"],
        ["label", "deployment", "manager", "app-"],
        ["label", "--overwrite", "deployment", "manager", "app=other"],
        ["annotate", "deployment", "manager", "note=hello"],
        ["set", "env", "deployment", "manager", "SECOND=2"],
        ["set", "env", "deployment", "manager", "FIRST-"],
        ["set", "image", "deployment", "manager", "manager=registry.example.org/manager:2"],
        ["scale", "deployment", "manager", "--replicas=3"],
        ["patch", "deployment", "manager", "--type=merge", "-p", '{"spec":{"paused":true}}'],
        [
            *("patch", "deployment", "manager", "--type=json", "-p"),
            '[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"extra","image":"extra"}}]',
        ],
        ["rollout", "restart", "deployment", "manager"],
    ],
    ids=" ".join,
)
async def test_a_change_of_a_deployment_is_taken_back(ground: Ground, meddling: list[str]) -> None:
    desired = await ground.wanted(DEPLOYMENT)
    await ground.kept(desired)
    before = await ground.body(desired[0])
    ground.kubectl(*meddling)
    assert not await ground.is_calm(desired)
    await ground.kept(desired)
    after = await ground.body(desired[0])
    assert after.at("spec") == before.at("spec")
    assert after.metadata.labels == before.metadata.labels
    assert after.metadata.annotations.keys() - before.metadata.annotations.keys() <= {
        "deployment.kubernetes.io/revision"
    }
    assert await ground.is_calm(desired)


async def test_what_others_hold_an_object_for_stays(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    await ground.kept(desired)
    held = '{"metadata":{"finalizers":["example.org/hold"]}}'
    for one in desired:
        ground.kubectl("patch", one.resource.group_resource, one.key.name, "--type=merge", "-p", held)
    found = [str(action) for action in (await ground.plan(desired)).actions]
    assert found == [f"update Secret {ground.namespace}/secret: it was changed"], "of a Secret nothing else is known"
    ground.kubectl("label", "deployment", "manager", "managed-by=others")
    await ground.kept(desired)
    for one in desired:
        assert (await ground.body(one)).metadata.finalizers == ("example.org/hold",)
    for one in desired:
        free = '{"metadata":{"finalizers":null}}'
        ground.kubectl("patch", one.resource.group_resource, one.key.name, "--type=merge", "-p", free)


@pytest.mark.req("R-110")
async def test_foreign_labels_are_removed_from_every_object_of_a_set(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    await ground.kept(desired)
    for one in desired:
        ground.kubectl("label", one.resource.group_resource, one.key.name, "managed-by=others")
    found = await ground.plan(desired)
    assert {action.claimed for action in found.actions if isinstance(action, Update)} == {("kubectl-label",)}
    assert len(found.actions) == len(desired)
    await ground.kept(desired)
    for one in desired:
        assert "managed-by" not in (await ground.body(one)).metadata.labels
    assert await ground.is_calm(desired)


@pytest.mark.req("R-110")
@pytest.mark.parametrize(
    "patch", ['{"data":{"password":"eA=="}}', '{"data":{"more":"eA=="}}', '{"data":{"password":null}}']
)
async def test_a_secret_is_restored_though_its_content_is_never_read(ground: Ground, patch: str) -> None:
    desired = await ground.wanted(SECRET)
    await ground.kept(desired)
    ground.kubectl("patch", "secret", "secret", "--type=merge", "-p", patch)
    await ground.kept(desired)
    expected: JsonValue = {"password": "aHVudGVyMg=="}
    assert (await ground.body(desired[0])).at("data") == expected
    assert await ground.is_calm(desired)


@pytest.mark.req("R-110")
async def test_a_deleted_object_comes_back(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    ground.kubectl("delete", "configmap", "config")
    await ground.kept(desired)
    assert (await ground.body(desired[0])).at("data", "A") == "1"


@pytest.mark.req("R-110")
async def test_a_fight_is_held_and_named(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    ground.writes()
    for _ in range(5):
        ground.kubectl("label", "--overwrite", "configmap", "config", "app=theirs")
        await ground.kept(desired)
        ground.now += 1
    stage = await ground.plan(desired)
    assert [throttled.managers for throttled in stage.throttled] == [("kubectl-label",)]
    assert stage.actions == ()
    assert [entry.verb for entry in ground.writes()] == ["patch", "patch"]  # one takeover: managers, then fields
    ground.now = FIGHT_SECONDS
    await ground.kept(desired)
    assert (await ground.body(desired[0])).metadata.labels == {"app": "x", **LABELS}


async def test_a_field_that_leaves_the_manifest_leaves_the_object(ground: Ground) -> None:
    await ground.kept(await ground.wanted(CONFIG))
    shorter = await ground.wanted(CONFIG.replace(', B: "2"', ""))
    await ground.kept(shorter)
    assert (await ground.body(shorter[0])).at("data") == {"A": "1"}


async def test_a_field_that_leaves_the_manifest_between_two_processes_leaves_the_object(ground: Ground) -> None:
    await ground.kept(await ground.wanted(CONFIG))
    ground.forget()
    shorter = await ground.wanted(CONFIG.replace(', B: "2"', ""))
    await ground.kept(shorter)
    assert (await ground.body(shorter[0])).at("data") == {"A": "1"}


async def test_managed_fields_that_were_wiped_do_not_hide_what_others_add(ground: Ground) -> None:
    desired = await ground.wanted(CONFIG)
    await ground.kept(desired)
    ground.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"THEIRS":"1"}}')
    ground.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"metadata":{"managedFields":[{}]}}')
    await ground.kept(desired)
    assert (await ground.body(desired[0])).at("data") == {"A": "1", "B": "2"}
    assert await ground.is_calm(desired)
