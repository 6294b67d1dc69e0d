"""The steps of a tenant and its former passes do the same in random worlds: requests, Events, status and failures.

Preconditions of writes, and deletions of what is being deleted already, are left out: these differ. One difference is
intended: a tenant in use whose version does not exist, or is not Ready, shows a condition besides Ready. If there is
none, it has an Event and another message, too. What is written is the same.
"""

from __future__ import annotations

import random

from tests.unit.cap.tenant.worlds import a_world, compare, passes, steps

WORLDS = 120
"""6,000 were compared when the steps were written; each takes a hundredth of a second."""


def test_the_steps_of_a_tenant_are_its_passes() -> None:
    intended = [
        seed
        for seed in range(WORLDS)
        if compare(passes(a_world(random.Random(seed))), steps(a_world(random.Random(seed))))
    ]
    assert 0 < len(intended) < WORLDS / 3, "the difference is no rule"
