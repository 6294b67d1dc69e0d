"""Fields of others go with two writes: the first makes them ours, the second removes them. None stays in between."""

from __future__ import annotations

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.object_sets import CONFIG_MAPS, Place
from tests.cluster.apply.sets import CONFIG, DEPLOYMENT

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import unstructured
from stellwerk.testing.faults import AnswerInstead, FaultProxy, nth, requests

INTERRUPTIONS = pytest.mark.parametrize("status", [409, 403], ids=["another client is faster", "the server refuses"])


@pytest.mark.req("R-101", "R-110")
@INTERRUPTIONS
@pytest.mark.parametrize("restarts", [False, True], ids=["the process lives", "the process dies"])
async def test_a_set_without_inventory_restores_what_an_interrupted_pass_has_taken_over(
    ground: Ground, proxy: FaultProxy, behind: Client, status: int, restarts: bool
) -> None:
    desired = await ground.wanted(DEPLOYMENT)
    await ground.calm(desired)
    before = await ground.body(desired[0])
    ground.kubectl("set", "env", "deployment", "manager", "SECOND=2")
    proxy.on_requests(requests("apply", "deployments.apps"), AnswerInstead(status), nth(1))
    await ground.keep(desired, behind)
    if restarts:
        ground.forget()
    await ground.calm(desired)
    assert (await ground.body(desired[0])).at("spec") == before.at("spec")


@pytest.mark.req("R-101", "R-110")
@INTERRUPTIONS
@pytest.mark.parametrize("restarts", [False, True], ids=["the process lives", "the process dies"])
async def test_a_set_with_an_inventory_restores_what_an_interrupted_pass_has_taken_over(
    place: Place, proxy: FaultProxy, behind: Client, status: int, restarts: bool
) -> None:
    kept = place.new_set(client=behind)
    await kept.rolled_out(CONFIG)
    patch = MergePatch({"data": {"C": "3"}})
    await place.others.with_field_manager("kubectl-edit").patch(
        unstructured(CONFIG_MAPS), "config", place.namespace, patch
    )
    kept.passes(3_700)
    proxy.on_requests(requests("apply", "configmaps"), AnswerInstead(status), nth(1))
    await kept.apply(CONFIG)
    if restarts:
        kept.restarts()
    await kept.rolled_out(CONFIG)
    assert (await place.body("ConfigMap", "config")).at("data") == {"A": "1", "B": "2"}
