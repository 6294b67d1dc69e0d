"""What a verb that waited in vain reports at its end: root cause and next step, as `stellwerk why` finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.kube.types.errors import ApiError
from stellwerk.runtime.insight.diagnosis import Diagnosis, root_causes

LOOK_SECONDS = 10.0
"""For how long the cluster is read; a report that comes late is worse than one without its cause."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The root cause with its object, and the next step; both empty where nothing was found."""

    cause: str = ""
    next_step: str = ""

    def fix(self, why: str) -> str:
        """The part `Fix` of a report. `why` is the command that shows how the cause was found."""
        return f"{self.next_step}\ndetails: {why}" if self.next_step else why


async def of(judging: Awaitable[ObjectSummary]) -> Ending:
    """The ending of an object while `judging` reads it; an empty one where that fails or takes longer than ten seconds.

    For any object: `of(verdict.reached(cluster, obj))`; for a release: `of(releasing.judged(cluster, release))`.
    """
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            judged = await judging
    except (ApiError, TimeoutError):
        return Ending()
    return told(judged.diagnosis)


def told(diagnosis: Diagnosis) -> Ending:
    """The ending that a diagnosis comes to (pure)."""
    causes = dict.fromkeys(root.text for root in root_causes(diagnosis.findings))
    return Ending("; ".join(causes), diagnosis.next_step)
