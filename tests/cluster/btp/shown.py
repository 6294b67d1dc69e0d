"""Everything that BtpOperators have shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.scenarios import status_history
from stellwerk.testing.scenarios.status_history import Shown

MODULE = "btpoperator"


@dataclass
class StatusHistory(status_history.StatusHistory[BtpOperator]):
    """What BtpOperators have shown, wherever they are."""

    kind: type[BtpOperator] = BtpOperator
    pages: dict[ObjectKey, list[Shown]] = field(default_factory=dict)
    present: set[ObjectKey] = field(default_factory=set)
    uids: dict[ObjectKey, str] = field(default_factory=dict)
    """Whose pages they are."""

    def of(self, name: str = MODULE, namespace: str = "kyma-system") -> list[Shown]:
        """All that this CR has shown so far; one that is made again begins anew."""
        return self.pages.get(ObjectKey(namespace, name), [])

    def states(self, name: str = MODULE, namespace: str = "kyma-system") -> list[tuple[str, str]]:
        """Through which states and reasons it went; that the message told more and more meanwhile does not matter."""
        return [turn for turn, _ in groupby((shown.state, shown.reason) for shown in self.of(name, namespace))]

    def has(self, name: str = MODULE, namespace: str = "kyma-system") -> bool:
        """Whether the CR exists."""
        return ObjectKey(namespace, name) in self.present

    def write(self, obj: BtpOperator) -> None:
        if self.uids.get(obj.key) != obj.metadata.uid:
            self.uids[obj.key] = obj.metadata.uid
            self.pages.pop(obj.key, None)
        self.present.add(obj.key)
        if obj.status is None:
            return
        condition = obj.status.conditions[0] if obj.status.conditions else None
        reason, message = (condition.reason, condition.message) if condition else ("", "")
        status_history.turn(self.pages.setdefault(obj.key, []), Shown(obj.status.state, reason, message))

    def end(self, obj: BtpOperator) -> None:
        self.present.discard(obj.key)
