"""What holds of a Manifest wherever a process dies."""

from __future__ import annotations

import random

import pytest
from tests.unit.kyma.manifest.worlds import THERE, in_steps

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma import labels
from stellwerk.testing.steps import effects_of


@pytest.mark.req("R-101")
def test_an_object_that_was_written_is_listed_wherever_the_process_dies() -> None:
    """What is not listed would stay for ever when the module loses it."""
    written = 0
    for seed in range(60):
        world = in_steps(random.Random(seed))
        for count in range(effects_of(world, world.rehearsed()) + 1):
            cut = world.copied()
            before = {each.key for collection in THERE for each in cut.there[collection]}
            cut.passed(count)
            listed = {ObjectKey(each.namespace, each.name) for each in cut.obj.status.synced}
            there = {
                each.key
                for collection in THERE
                for each in cut.there[collection]
                if each.metadata.labels.get(labels.MANAGED_BY_LABEL) == labels.KYMA
            }
            assert cut.is_released or there - before <= listed, f"seed {seed} behind {count} effects"
            written += len(there - before)
    assert written > 100
