"""The steps of an operation and its former passes do the same in random worlds: requests, Events, status and failures.

Preconditions of writes are left out: these are stricter now. No Secret is made for a Job whose name is taken. What
cannot be read is another matter: the former passes took some of it for absent (`test_steps`).
"""

from __future__ import annotations

import random

from tests.unit.cap.operation.worlds import Outcome, a_world, passes, steps

WORLDS = 150
"""6,000 were compared when the steps were written; each takes a hundredth of a second."""


def without_secrets(found: Outcome) -> Outcome:
    """Without the Secrets, if the name of a Job is taken."""
    if found.failure is not None and "cannot use Job" in found.failure[0]:
        found.requests = [each for each in found.requests if each[:2] != ("create", "Secret")]
    return found


def test_the_steps_of_an_operation_are_its_passes() -> None:
    for seed in range(WORLDS):
        expected = passes(a_world(random.Random(seed)), 3, random.Random(seed))
        found = steps(a_world(random.Random(seed)), 3, random.Random(seed))
        assert without_secrets(found) == without_secrets(expected), seed
