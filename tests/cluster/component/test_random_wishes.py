"""Whatever a Component was asked for before, what it is asked for last is what is there, or a condition names why not.

A run of 200 wishes a seed is WISHES=200; the few of every day take as long as three other tests.
"""

from __future__ import annotations

import os
import random

import pytest

from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.normalize import Masks
from tests.cluster import permissions
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.test_changes_of_mind import MARKS, NAMED, owned
from tests.cluster.component.then import Then
from tests.cluster.component.wishes import ACCOUNT, NOBODY, SECOND_SOURCE, VALUES, Wishes

UNDER_WAY = (Reason.FirstSeen, Reason.Restarting, Reason.Processing)
WISHES = int(os.environ.get("WISHES", "15"))


async def world(given: Given) -> str:
    """What the good wishes name; and the namespace in which fresh deployments are made."""
    there = await given.a_namespace()
    await given.source({"named.yaml": NAMED, "sub/other.yaml": config("other")}, revision="r1")
    await given.source({"second.yaml": config("second")}, SECOND_SOURCE, revision="r1")
    await given.config(VALUES, values="names: [from-a-config-map]")
    await given.account(ACCOUNT, "edit")
    body: JsonObject = {
        "metadata": {"name": ACCOUNT, "namespace": there},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": given.namespace}],
    }
    await given.client.apply(RoleBinding, body)
    user = permissions.account(ACCOUNT, given.namespace)
    await permissions.count(given.client, user, permissions.on("configmaps", "update", there))
    return there


async def wished(given: Given, name: str, spec: JsonObject) -> Component | None:
    """The Component as the API server has taken it; None where it does not let the wish in."""
    metadata: JsonObject = {"name": name, "namespace": given.namespace}
    try:
        return await given.client.apply(Component, {"metadata": metadata, "spec": spec}, force=True)
    except Invalid:
        return None


async def settled(given: Given, running: Running, name: str) -> Component:
    """The Component once it has been looked at as it is now, and nothing more is done about it."""

    async def found() -> Component | None:
        await running.rests()
        one = await given.client.get(Component, name, given.namespace)
        ready = conditions.find(one.status.conditions, "Ready")
        if ready is None or one.status.observed_generation != one.metadata.generation:
            return None
        return one if ready.reason not in UNDER_WAY else None

    component = await eventually(found, describe=f"Component {name} comes to rest")
    assert component is not None
    return component


def names_why(component: Component) -> bool:
    """Whether a Component that is not Ready names the cause, in words that people can look up."""
    told = component.status.conditions
    causes = [one.reason for one in told if one.type in ("Stalled", "Reconciling") and one.is_true]
    ready = conditions.find(told, "Ready")
    if ready is None or not ready.message or ready.reason not in Reason.__members__:
        return False
    return any(one in Cause.__members__ for one in causes)


@pytest.mark.req("R-109")
@pytest.mark.timeout(max(120, 4 * WISHES))
@pytest.mark.parametrize("seed", [1, 2])
async def test_after_each_wish_there_is_what_a_fresh_component_has_or_a_condition_and_nothing_new(
    given: Given, running: Running, then: Then, seed: int
) -> None:
    there = await world(given)
    masks = Masks(words={then.namespace: "HERE", there: "HERE"}, paths=MARKS)
    wishes, met = Wishes(random.Random(seed)), 0
    await running.start()
    for number in range(WISHES):
        spec = wishes.spec()
        where = f"seed {seed}, wish {number}: {spec}"
        before = masks.objects(await owned(given.client, then.namespace))
        taken = await wished(given, "comp", spec)
        if taken is None:
            assert masks.objects(await owned(given.client, then.namespace)) == before, where
            continue
        component = await settled(given, running, "comp")
        now = masks.objects(await owned(given.client, then.namespace))
        if not component.is_ready:
            assert names_why(component), f"{where}\n{component.status}"
            assert now == before, where
            continue
        met += 1
        if spec.get("serviceAccountName") == NOBODY:
            continue  # all was there already, so nothing was refused; a fresh one would be
        await wished(given, "fresh", {**spec, "namespace": there, "deletePolicy": "Delete"})
        assert (await settled(given, running, "fresh")).is_ready, where
        assert now == masks.objects(await owned(given.client, there)), where
        await given.client.delete(metadata_of(Component), "fresh", given.namespace)
        await then.gone("fresh")
    assert met >= WISHES // 5, "enough of the wishes can be met"
