"""What a set has perhaps never written, and its identity may not ask for, is looked for by another client."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cluster.apply.object_sets import Place
from tests.cluster.apply.sets import CONFIG

from stellwerk.api.core import ConfigMap
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.inventory_update import joined
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import metadata_of

pytestmark = pytest.mark.req("R-953")


async def deleted_by_nobody(place: Place, *, is_written: bool = False) -> SetProgress:
    """One pass of the deletion of a set by a user without rights, behind caches that show nothing."""
    kept = place.new_set(client=place.others.acting_as("nobody"))
    inventory = joined(await kept.wanted(CONFIG), Inventory())
    if is_written:
        (entry,) = inventory
        inventory = Inventory((replace(entry, uid="written"),))
    kept.inventory = inventory
    object_set = replace(await kept.object_set(), witness=place.others)
    progress = await object_set.delete(inventory, {}, await kept.resources(()))
    kept.inventory = Inventory()
    return progress


async def test_what_does_not_exist_is_dropped_without_any_right(place: Place) -> None:
    assert (await deleted_by_nobody(place)).done


async def test_an_object_of_another_client_is_left_and_holds_nothing(place: Place) -> None:
    await place.others.apply(ConfigMap, {"metadata": {"name": "config", "namespace": place.namespace}})
    assert (await deleted_by_nobody(place)).done
    assert await place.others.find(metadata_of(ConfigMap), "config", place.namespace)


async def test_an_object_of_the_set_holds_its_deletion(place: Place) -> None:
    writer = place.new_set(client=place.others)
    await writer.rolled_out(CONFIG)
    (failure,) = (await deleted_by_nobody(place)).failures
    assert isinstance(failure.error, Forbidden)
    assert await place.others.find(metadata_of(ConfigMap), "config", place.namespace)


async def test_what_was_written_is_looked_for_by_the_identity_itself(place: Place) -> None:
    (failure,) = (await deleted_by_nobody(place, is_written=True)).failures
    assert isinstance(failure.error, Forbidden)
