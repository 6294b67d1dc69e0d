"""The report of a pass on an object with an inventory, as its status shows it (pure).

The state follows from the reason, and the conditions from both: `Ready` for every client, and one of kstatus' two next
to it while the object is not ready. `Stalled` is set only where waiting does not help: kstatus takes it for a failure,
and a flux health check or a `helm --wait` above us should go on waiting through an outage, but not through a typing
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from stellwerk.delivery.sets.inventory_status import InventoryStatus, State
from stellwerk.kube.types.model import JsonObject, Unreadable, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.insight.reason_catalog import ReasonFacts
from stellwerk.runtime.reconciler import Severity

S = TypeVar("S", bound=InventoryStatus)


class SetReason(StrEnum):
    """The words for how far a pass came that all kinds with an inventory have."""

    FirstSeen = "FirstSeen"
    Restarting = "Restarting"
    Processing = "Processing"
    Ready = "Ready"
    Error = "Error"
    Timeout = "Timeout"
    DeletionBlocked = "DeletionBlocked"
    DeletionProcessing = "DeletionProcessing"


class SetCause(StrEnum):
    """The words for what is missing that all kinds with an inventory have."""

    ObjectsNotReady = "ObjectsNotReady"
    ForeignFinalizers = "ForeignFinalizers"
    ObjectUnreadable = "ObjectUnreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """What a pass reports: how far it came, and what is missing or wrong. A kind gives its `facts`.

    `message` may be empty where the reason has a text of its own; `state` is None for the reason's own.
    """

    facts: ClassVar[Mapping[Any, ReasonFacts[State]]]
    """About each reason and each cause of the operator."""

    reason: StrEnum
    message: str = ""
    cause: StrEnum | None = None
    state: State | None = None

    @property
    def effective_state(self) -> State:
        """The state that is shown."""
        return self.state or self.facts[self.reason].state

    @property
    def text(self) -> str:
        """The message that is shown. Raises `ValueError` where a reason without a text of its own was given none."""
        text = self.message or self.facts[self.reason].message
        if not text:
            raise ValueError(f"{self.reason} needs a message")
        return text[0].upper() + text[1:]

    @property
    def word(self) -> StrEnum:
        """The most precise word."""
        return self.cause or self.reason

    @property
    def is_paused(self) -> bool:
        """Whether nothing is done because the user wants that: no progress, and no reason to warn."""
        return self.reason == "Suspended"

    @property
    def severity(self) -> Severity:
        """The type of the Event about it: Warning where the operator failed, or where only the user can go on."""
        if self.is_paused:
            return Severity.NORMAL
        needs_user = any(self.facts[word].only_user_can_fix for word in (self.reason, self.word))
        return Severity.WARNING if self.effective_state is State.Error or needs_user else Severity.NORMAL

    @property
    def is_stalled(self) -> bool:
        """Whether only a user's action can help. Reports `Timeout` once the wait exceeds the timeout."""
        helpless = self.reason == "Timeout" or self.facts[self.word].only_user_can_fix
        return self.effective_state is State.Error and helpless

    def shown_on(self, status: S, *, generation: int, now: datetime) -> S:
        """The status with this state and these conditions; all else stays. Equal words give an equal status."""
        return msgspec.structs.replace(
            status,
            observed_generation=generation,
            state=self.effective_state,
            conditions=self._conditions(status.conditions, generation, now),
        )

    @classmethod
    def of_unreadable(cls, why: str) -> Self:
        """The report about an object that cannot be read."""
        message = f"object cannot be read: {why}"
        return cls(reason=SetReason.Error, message=message, cause=SetCause.ObjectUnreadable)

    @classmethod
    def unreadable(cls, obj: Unreadable) -> JsonObject:
        """The fields of the status of an object that cannot be read. Equal for an equal cause."""
        report = cls.of_unreadable(obj.why)
        shown = report._conditions((), obj.metadata.generation, datetime.fromtimestamp(0, UTC))
        return {
            "observedGeneration": obj.metadata.generation,
            "state": report.effective_state.value,
            "conditions": [to_json_object(msgspec.structs.replace(each, last_transition_time=None)) for each in shown],
        }

    def _conditions(self, former: tuple[Condition, ...], generation: int, now: datetime) -> tuple[Condition, ...]:
        ready = Condition(
            type=READY,
            status=ready_status(self.effective_state),
            reason=self.reason.value,
            message=self.text,
            observed_generation=generation,
        )
        beside = STALLED if self.is_stalled else RECONCILING
        cause = msgspec.structs.replace(ready, type=beside, status="True", reason=self.word.value)
        is_calm = self.effective_state is State.Ready or self.is_paused
        return conditions.with_cause(conditions.set_condition(former, ready, now), None if is_calm else cause, now)


def ready_status(state: State) -> str:
    """The status of the condition Ready in a state."""
    return {State.Ready: "True", State.Error: "False"}.get(state, "Unknown")
