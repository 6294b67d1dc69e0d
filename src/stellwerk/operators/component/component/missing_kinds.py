"""Which Components failed for want of a kind, so that its definition has them looked at again.

Their back-off grows to a quarter of an hour. They are found by the API group of the kind: its plural, by which a
definition is named, is not known as long as the kind is not served.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stellwerk.apply.errors import InvalidSet
from stellwerk.delivery.watched_objects import Unwatchable
from stellwerk.kube.types.identifiers import ObjectKey


@dataclass(slots=True)
class MissingKinds:
    """The API groups in which each Component misses a kind, as its last pass found out."""

    _groups: dict[ObjectKey, frozenset[str]] = field(default_factory=dict)

    def forget(self, key: ObjectKey) -> None:
        """A pass on a Component has not failed, or the Component is gone: it is not known to miss any."""
        self._groups.pop(key, None)

    def note(self, key: ObjectKey, failure: Exception) -> None:
        """What the pass on a Component failed with. During a pass, what the former one missed stays: a definition may
        come after the pass has looked for it."""
        self.forget(key)
        if groups := _groups_of(failure):
            self._groups[key] = groups

    def in_group(self, group: str) -> Iterable[ObjectKey]:
        """The Components that miss a kind of the group."""
        return [key for key, groups in self._groups.items() if group in groups]


def _groups_of(failure: Exception) -> frozenset[str]:
    match failure:
        case InvalidSet():
            return frozenset(problem.unserved.group for problem in failure.problems if problem.unserved is not None)
        case Unwatchable():
            return frozenset({failure.resource.group})
        case _:
            return frozenset()
