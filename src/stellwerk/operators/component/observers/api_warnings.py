"""What API servers remark about objects of Components (deprecated versions, dropped fields), and what of it is new.

A remark comes with each write of its object and never without one. It is reported when it appears: an object that is
written again with the same remark is no news, one that no longer causes it is forgotten, and a calm Component costs
nothing. After a restart nothing is known, and nothing is requested for that reason alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.plan.actions import Create, Update
from stellwerk.runtime.reconciler import Notice, Severity

REMARKED = "ApiServerWarning"
"""Reason of the Event."""
MOST_OBJECTS = 100
"""Of one Component; warnings about further objects are reported each time."""


@dataclass(slots=True)
class Remarks:
    """The remarks about the objects of one Component when they were written last."""

    _known: dict[Address, tuple[str, ...]] = field(default_factory=dict)

    def news(self, carried: Iterable[ActionResult]) -> list[str]:
        """The remarks that were not there before, each with the object that it is about."""
        known = self._known
        written = [each for each in carried if isinstance(each.action, Create | Update)]
        last = {each.address: each.remarks for each in written if each.remarks or each.address in known}
        kept = {address: remarks for address, remarks in {**known, **last}.items() if remarks}
        self._known = dict([*kept.items()][-MOST_OBJECTS:])
        return [
            f"{address}: {remark}"
            for address, remarks in last.items()
            for remark in remarks
            if remark not in known.get(address, ())
        ]


def remarked(words: str) -> Notice:
    """The Event about news."""
    return Notice(REMARKED, f"the API server warns: {words}", Severity.WARNING, "Apply")
