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
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.reconciler import Notice, Severity

REMARKED = "ApiServerWarning"
"""Reason of the Event."""
MOST_OBJECTS = 100
"""Of one Component; warnings about further objects are reported each time."""


@dataclass(slots=True)
class Remarks:
    """What was remarked about the objects of each Component when they were written last."""

    _known: dict[ObjectKey, dict[Address, tuple[str, ...]]] = field(default_factory=dict)

    def news(self, component: ObjectKey, carried: Iterable[ActionResult]) -> list[str]:
        """The remarks that were not there before, each with the object that it is about."""
        known = self._known.get(component, {})
        written = [one for one in carried if isinstance(one.action, Create | Update)]
        last = {one.address: one.remarks for one in written if one.remarks or one.address in known}
        news = [
            f"{address}: {said}"
            for address, told in last.items()
            for said in told
            if said not in known.get(address, ())
        ]
        self._learn(component, {**known, **last})
        return news

    def forget(self, component: ObjectKey) -> None:
        """The Component is gone."""
        self._known.pop(component, None)

    def _learn(self, component: ObjectKey, now: dict[Address, tuple[str, ...]]) -> None:
        kept = {address: told for address, told in now.items() if told}
        self._known.pop(component, None)
        if kept:
            self._known[component] = dict([*kept.items()][-MOST_OBJECTS:])


def remarked(words: str) -> Notice:
    """The Event about news."""
    return Notice(REMARKED, f"the API server warns: {words}", Severity.WARNING, "Apply")
