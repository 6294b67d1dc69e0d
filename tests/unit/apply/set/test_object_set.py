"""What a pass over a set reports."""

from __future__ import annotations

from typing import cast

from tests.unit.apply.set.given import NOW, RESOURCES, SSA, US, document, live, registered, wanted

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.object_set import ObjectSet, ObservedState
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.client.client import Client
from stellwerk.operators.component import errors


class _Unasked:
    """A client of which nothing is needed."""


async def test_a_status_that_cannot_be_read_is_no_silence_of_the_cluster() -> None:
    objects = wanted(document("Thing", "odd"))
    seen = {
        ObjectIdentity.of(each.desired.ref): LiveObject(
            each.address, live(each.desired, more={"status": {"conditions": {}}})
        )
        for each in objects
    }
    resources = {ObjectIdentity.of(each.desired.ref): RESOURCES[each.address.resource.gvk] for each in objects}
    object_set = ObjectSet(
        client=cast(Client, _Unasked()),
        owner=US,
        policies=SSA,
        memory=ObservedState(),
        namespace_exists=lambda _: True,
        now=NOW,
        clock=0.0,
    )
    progress = await object_set.apply(objects, registered(objects), seen, resources)
    (failure,) = progress.failures
    assert failure.obstacle is Obstacle.UNREADABLE
    assert not isinstance(failure.error, errors.NO_ANSWER)
    assert type(errors.writes_failed(progress.failures)) is errors.ApplyFailed
