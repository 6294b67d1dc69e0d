"""Caches that are late, answers that are lost, processes that die: nothing is lost, doubled or taken back."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.cluster.apply.object_sets import CONFIG_MAPS, Place, annotated, joined
from tests.cluster.apply.sets import CONFIG, DEFINITION, INSTANCE, SECRET

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.set.model.inventory import Phase
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import unstructured
from stellwerk.testing.faults import READS, WRITES, AnswerInstead, CutConnection, FaultProxy, OlderView, nth, requests

TWO = joined(CONFIG, "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")


@pytest.mark.parametrize("policy", ["ssa-override", "ssa-merge", "replace", "recreate"])
@pytest.mark.req("R-104", "R-106")
async def test_a_cache_that_lacks_an_object_makes_it_neither_twice_nor_anew(place: Place, policy: str) -> None:
    kept = place.new_set()
    text = annotated(CONFIG, update_policy=policy)
    await kept.rolled_out(text)
    before = (await place.body("ConfigMap", "config")).metadata
    kept.hidden = {"config"}
    place.audit.mark()
    assert (await kept.passing(text)).done
    assert sorted(each.status for each in place.requests()) == [200, 409]
    after = (await place.body("ConfigMap", "config")).metadata
    assert (after.uid, after.resource_version) == (before.uid, before.resource_version)
    assert kept.phases() == {"config": "Ready"}


@pytest.mark.req("R-104")
async def test_a_cache_that_lacks_an_object_does_not_lose_it_when_the_set_goes(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(TWO)
    kept.hidden = {"config"}
    await kept.deleted()
    assert await place.find("ConfigMap", "config") is None


@pytest.mark.req("R-104")
async def test_a_cache_that_lacks_an_object_does_not_lose_it_when_the_manifest_does(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(TWO)
    kept.hidden = {"config"}
    await kept.rolled_out(TWO.split("---")[1])
    assert await place.find("ConfigMap", "config") is None


@pytest.mark.req("R-106")
async def test_a_cache_that_still_shows_what_we_deleted_makes_nothing_deleted_twice(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(TWO, annotated(SECRET, delete_order=1)))
    stale = await kept.seen(await kept.resources(()))
    hold = MergePatch({"metadata": {"finalizers": ["example.org/hold"]}})
    await place.others.patch(unstructured(CONFIG_MAPS), "other", place.namespace, hold)
    stale |= await kept.seen(await kept.resources(()))
    place.audit.mark()
    for _ in range(2):
        resources = await kept.resources(())
        kept.inventory = (await (await kept.object_set()).delete(kept.inventory, stale, resources)).inventory
    assert place.asked() == ["delete configmaps config", "delete configmaps other"]
    free = MergePatch({"metadata": {"finalizers": None}})
    await place.others.patch(unstructured(CONFIG_MAPS), "other", place.namespace, free)
    await kept.deleted()


@pytest.mark.req("R-104")
async def test_behind_an_older_view_nothing_is_forgotten_and_all_goes_when_it_heals(
    place: Place, proxy: FaultProxy, behind: Client
) -> None:
    marker = await place.body("Namespace", place.namespace, namespace="")
    kept = place.new_set(client=behind)
    await kept.rolled_out(CONFIG)
    view = OlderView(marker.metadata.resource_version)
    proxy.on_requests(READS, view)
    kept.restarts()
    kept.hidden = {"config"}
    progress = await kept.delete()
    (failure,) = progress.failures
    assert (failure.obstacle, failure.cause) == (
        Obstacle.OUTAGE,
        "the API server shows an outdated view of the cluster",
    )
    assert [entry.key.name for entry in kept.inventory] == ["config"]
    view.heal()
    await kept.deleted()
    assert await place.find("ConfigMap", "config") is None


@pytest.mark.req("R-104")
async def test_behind_an_older_view_nothing_is_written_over(place: Place, proxy: FaultProxy, behind: Client) -> None:
    marker = await place.body("Namespace", place.namespace, namespace="")
    kept = place.new_set(client=behind)
    await kept.rolled_out(CONFIG)
    now = (await place.body("ConfigMap", "config")).metadata
    view = OlderView(marker.metadata.resource_version)
    proxy.on_requests(READS, view)
    kept.restarts()
    kept.hidden = {"config"}
    progress = await kept.apply(CONFIG)
    assert [failure.obstacle for failure in progress.failures] == [Obstacle.CHANGED]
    view.heal()
    await kept.rolled_out(CONFIG)
    then = (await place.body("ConfigMap", "config")).metadata
    assert (then.uid, then.resource_version) == (now.uid, now.resource_version)


@pytest.mark.parametrize("policy", ["ssa-override", "replace", "recreate"])
@pytest.mark.req("R-102")
async def test_a_lost_answer_to_a_creation_makes_nothing_twice(
    place: Place, proxy: FaultProxy, behind: Client, policy: str
) -> None:
    kept = place.new_set(client=behind)
    text = annotated(CONFIG, update_policy=policy)
    proxy.on_requests(WRITES & requests(resource="configmaps"), CutConnection(after_forwarding=True), nth(1))
    *_, progress = [await kept.apply(text) for _ in range(3)]
    assert progress.done, [str(each) for each in (*progress.failures, *progress.waits)]
    found = (await place.body("ConfigMap", "config")).metadata
    assert found.generation == 0
    assert kept.phases() == {"config": "Ready"}


@pytest.mark.parametrize("policy", ["ssa-override", "replace", "recreate"])
@pytest.mark.req("R-102")
async def test_a_lost_answer_to_a_change_is_made_good(
    place: Place, proxy: FaultProxy, behind: Client, policy: str
) -> None:
    kept = place.new_set(client=behind)
    await kept.rolled_out(annotated(CONFIG, update_policy=policy))
    newer = annotated(CONFIG.replace('A: "1"', 'A: "9"'), update_policy=policy)
    proxy.on_requests(WRITES & requests(resource="configmaps"), CutConnection(after_forwarding=True), nth(1))
    *_, progress = [await kept.apply(newer) for _ in range(3)]
    assert progress.done, [str(each) for each in (*progress.failures, *progress.waits)]
    assert (await place.body("ConfigMap", "config")).at("data", "A") == "9"


@pytest.mark.req("R-203")
async def test_a_refusal_stops_the_waves_behind_and_not_its_neighbours(
    place: Place, proxy: FaultProxy, behind: Client
) -> None:
    kept = place.new_set(client=behind)
    later = annotated("\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\n", apply_order=1)
    await kept.apply(joined(TWO, later))
    proxy.on_requests(requests("apply", "configmaps", name="config"), AnswerInstead(403, message="no"))
    progress = await kept.apply(joined(TWO, later))
    assert [str(failure.ref.key.name) for failure in progress.failures] == ["config"]
    assert await place.find("ConfigMap", "other") is not None
    assert await place.find("ConfigMap", "later") is None


@pytest.mark.parametrize("write", range(1, 5))
@pytest.mark.req("R-101")
async def test_a_process_that_dies_at_any_write_leaves_nothing_behind_that_the_next_does_not_know(
    place: Place, proxy: FaultProxy, behind: Client, write: int
) -> None:
    """It is taken for dead when a write is cut: what it had learned is thrown away."""
    kept = place.new_set(client=behind)
    text = joined(DEFINITION, INSTANCE, CONFIG, annotated(SECRET, apply_order="-1"))
    saved = (await kept.apply(text)).inventory
    proxy.on_requests(WRITES, CutConnection(after_forwarding=write % 2 == 0), nth(write))
    with suppress(ApiError):
        await kept.apply(text)
    kept.restarts()
    kept.inventory = saved
    await kept.rolled_out(text)
    assert {entry.phase for entry in kept.inventory} == {Phase.READY}
    await kept.deleted()
    for kind, name in (("ConfigMap", "config"), ("Secret", "secret")):
        assert await place.find(kind, name) is None
