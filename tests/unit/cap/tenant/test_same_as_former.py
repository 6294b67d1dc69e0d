"""The steps of a tenant and its former passes do the same in random worlds: requests, Events, status and failures.

Preconditions of writes, and deletions of what is being deleted already, are left out: these differ.
"""

from __future__ import annotations

import random

from tests.unit.cap.tenant.worlds import a_world, passes, steps

WORLDS = 120
"""6,000 were compared when the steps were written; each takes a hundredth of a second."""


def test_the_steps_of_a_tenant_are_its_passes() -> None:
    for seed in range(WORLDS):
        expected, found = passes(a_world(random.Random(seed))), steps(a_world(random.Random(seed)))
        assert found == expected, seed
