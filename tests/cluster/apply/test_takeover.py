"""Objects that the original operator wrote are taken over without a restart.

It wrote with POST and, on every later pass, with PUT, under the field manager `btp-manager`; others had added fields.
"""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import LABELS, Ground
from tests.cluster.apply.sets import MODULE

from stellwerk.apply.objects import json_edit
from stellwerk.apply.readiness.readiness import assess
from stellwerk.apply.set.plan.actions import Update
from stellwerk.kube.types.errors import Conflict
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, dig, encode_json, unstructured
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import eventually

PODS = unstructured(Resource("", "v1", "Pod", "pods", True))


async def written_by_the_original(ground: Ground, body: JsonObject, resource: Resource) -> None:
    """POST, then PUT of the same object."""
    target = unstructured(resource)
    made = await ground.client.create(target, body)

    async def put() -> bool:
        live = await ground.client.get(target, made.key.name, made.key.namespace)
        again = json_edit.with_value(body, live.metadata.resource_version, "metadata", "resourceVersion")
        try:
            await ground.client.update(target, again)
        except Conflict:
            return False  # its controller wrote a status in between
        return True

    await eventually(put, describe="the original's PUT")


async def test_what_the_original_wrote_is_taken_over_without_a_restart(ground: Ground) -> None:
    desired = await ground.wanted(MODULE)
    for one in desired:
        await written_by_the_original(ground, one.body, one.resource)
        ground.made[one.address] = await ground.body(one)
    (deployment,) = (one for one in desired if one.resource.kind == "Deployment")
    clock = SystemClock()

    async def is_ready() -> bool:
        return assess(await ground.body(deployment), now=clock.now()).is_ready

    await eventually(is_ready, describe="the original's Deployment to be ready")
    before = await ground.body(deployment)
    pods = [pod.metadata.uid for pod in (await ground.client.list(PODS, ground.namespace)).items]
    ground.kubectl("label", "deployment", "manager", "old=label")

    found = await ground.plan(desired)
    (takeover,) = (action for action in found.actions if action.address == deployment.address)
    assert isinstance(takeover, Update)
    assert takeover.claimed == ("btp-manager (Update)", "kubectl-label")
    await ground.kept(desired)

    after = await ground.body(deployment)
    assert after.metadata.uid == before.metadata.uid
    assert after.metadata.generation == before.metadata.generation
    assert "old" not in after.metadata.labels
    assert [pod.metadata.uid for pod in (await ground.client.list(PODS, ground.namespace)).items] == pods
    assert await ground.is_calm(desired)


@pytest.mark.parametrize("manager", ["btp-manager", "helm"])
async def test_a_field_that_only_the_original_wanted_goes_with_the_takeover(ground: Ground, manager: str) -> None:
    desired = await ground.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {A: x}}")
    (one,) = desired
    more: JsonObject = {**one.body, "data": {"A": "x", "OLD": "1"}}
    await ground.client.with_field_manager(manager).create(unstructured(one.resource), more)
    await ground.kept(desired)
    assert (await ground.body(one)).at("data") == {"A": "x"}


async def test_a_crash_in_the_middle_of_a_takeover_is_made_good(ground: Ground) -> None:
    desired = await ground.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {A: x}}")
    (one,) = desired
    more: JsonObject = {**one.body, "data": {"A": "x", "OLD": "1"}}
    await ground.client.create(unstructured(one.resource), more)
    ours = {"manager": "btp-manager", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    entry = {**ours, "fieldsV1": {"f:data": {"f:A": {}, "f:OLD": {}}}}
    patch = encode_json({"metadata": {"managedFields": [entry]}}).decode()
    ground.kubectl("patch", "configmap", "c", "--type=merge", "-p", patch)
    ground.forget()
    await ground.kept(desired)
    assert dig((await ground.body(one)).body, "data") == {"A": "x"}


async def test_somebody_who_writes_during_a_takeover_is_not_lost_but_met_again(ground: Ground) -> None:
    """The takeover insists on the resourceVersion it read, so nobody's entry can be dropped unseen."""
    desired = await ground.wanted("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {A: x}}")
    await ground.kept(desired)
    ground.kubectl("label", "configmap", "c", "one=1")
    stale = await ground.plan(desired)
    ground.kubectl("annotate", "configmap", "c", "two=2")
    assert str(stale) != str(await ground.plan(desired))
    await ground.kept(desired)
    after = await ground.body(desired[0])
    assert (after.metadata.labels, after.metadata.annotations) == (LABELS, {})
