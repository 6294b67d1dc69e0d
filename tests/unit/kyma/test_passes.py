"""How many passes a change asks for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import msgspec
from tests.unit.kyma.kyma import worlds as kymas
from tests.unit.kyma.manifest import worlds as manifests

from stellwerk.kube.watch.watch_states import Changed, Removed
from stellwerk.operators.kyma.api_manifest import ManifestStatus
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS
from stellwerk.runtime.reading.questions import Collection
from stellwerk.testing.steps import Watched, World


def at_rest(in_steps: Any, other: Collection[Any], state: State) -> World[Any, Any]:
    """The first world that rests in a state and has objects of another kind, of which Manifests are Ready."""
    for seed in range(200):
        world: World[Any, Any] = in_steps(random.Random(seed))
        if world.is_released or world.hidden or world.trouble:
            continue
        world.settled()
        if other is MANIFESTS:
            ready = ManifestStatus(state=State.Ready)
            world.objects[other] = [msgspec.structs.replace(each, status=ready) for each in world.objects[other]]
            world.settled()
        if world.obj.status.state is state and world.objects[other]:
            return world
    raise AssertionError("no world rests so")


_versions = itertools.count(10_000)


def changed(obj: Any, labels: Mapping[str, str] | None = None, **fields: Any) -> Any:
    """The object as a watch shows it later."""
    seen = obj.metadata
    marks = {**seen.labels, **(labels or {})}
    metadata = msgspec.structs.replace(seen, resource_version=str(next(_versions)), labels=marks)
    return msgspec.structs.replace(obj, metadata=metadata, **fields)


def test_a_kyma_looks_again_at_the_state_of_its_manifest_and_at_nothing_else_of_it() -> None:
    world = at_rest(kymas.in_steps, MANIFESTS, State.Ready)
    watched, (manifest, *_) = Watched.of(world), world.objects[MANIFESTS]
    assert watched.passes_after(MANIFESTS, Changed(changed(manifest))) == []
    failed = msgspec.structs.replace(manifest.status, state=State.Error)
    assert watched.passes_after(MANIFESTS, Changed(changed(manifest, status=failed))) == ["k"]
    listed = msgspec.structs.replace(failed, synced=(*failed.synced,), conditions=())
    assert watched.passes_after(MANIFESTS, Changed(changed(manifest, status=listed))) == []


def test_a_manifest_looks_again_when_its_kyma_does_not_know_it_any_more_and_at_no_other_status() -> None:
    world = at_rest(manifests.in_steps, KYMAS, State.Processing)
    watched, (kyma, *_) = Watched.of(world), world.objects[KYMAS]
    busy = msgspec.structs.replace(kyma.status, state=State.Processing)
    assert watched.passes_after(KYMAS, Changed(changed(kyma, status=busy))) == []
    assert {*watched.passes_after(KYMAS, Removed(kyma))} == {world.obj.metadata.name}


def test_a_change_of_another_kyma_or_of_its_manifests_wakes_no_kyma() -> None:
    world = at_rest(kymas.in_steps, MANIFESTS, State.Ready)
    watched = Watched.of(world)
    assert watched.passes_after(KYMAS, Changed(kymas.a_kyma("other"))) == []
    marks = {f"{kymas.PREFIX}/kyma-name": "other"}
    assert watched.passes_after(MANIFESTS, Changed(kymas.a_manifest("other-amod", labels=marks))) == []
    other = next(iter(world.objects[MANIFESTS]))
    assert watched.passes_after(MANIFESTS, Changed(changed(other, marks))) == ["k"]


def test_a_cluster_that_is_of_no_use_any_more_wakes_its_kyma_once_and_once_when_that_is_over() -> None:
    world = at_rest(kymas.in_steps, MANIFESTS, State.Ready)
    watched = Watched.of(world)
    (caches,) = watched.others.values()
    for trouble in ("it is silent", ""):
        watched.decide(world.obj)
        caches.become(trouble)
        assert watched.woken == ["k"]
