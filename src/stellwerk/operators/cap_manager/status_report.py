"""The report of a pass, as the status shows it.

The state follows from the reason, and the conditions from both. kstatus takes `Stalled` for a failure, so it is set
only where waiting does not help; otherwise `Reconciling` is next to a condition Ready that is not True.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from stellwerk.kube.types.model import JsonObject, Unreadable, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap_manager.api import NEW, READY, RECONCILING, STALLED, CAPOperatorStatus, State
from stellwerk.operators.cap_manager.reasons import FACTS, Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """What a pass reports. `message` may be empty where the reason has a text of its own."""

    reason: Reason
    message: str = ""
    cause: Cause | None = None

    @property
    def state(self) -> State:
        """The state that is shown."""
        return FACTS[self.reason].state

    @property
    def text(self) -> str:
        """The message that is shown."""
        text = self.message or FACTS[self.reason].message
        return text[:1].upper() + text[1:]

    @property
    def severity(self) -> Severity:
        """The type of the Event about it."""
        needs_user = any(FACTS[word].only_user_can_fix for word in (self.reason, self.cause) if word is not None)
        return Severity.WARNING if self.state is State.Error or needs_user else Severity.NORMAL

    @property
    def is_stalled(self) -> bool:
        """Whether only a user's action can help."""
        helpless = self.reason is Reason.Timeout or FACTS[self.cause or self.reason].only_user_can_fix
        return self.state is State.Error and helpless

    def shown_on(self, status: CAPOperatorStatus, *, generation: int, now: datetime) -> CAPOperatorStatus:
        """The status with this state and these conditions; all else stays. Equal words give an equal status."""
        return msgspec.structs.replace(
            status,
            observed_generation=generation,
            state=self.state,
            conditions=self._conditions(status.conditions, generation, now),
        )

    def _conditions(self, former: tuple[Condition, ...], generation: int, now: datetime) -> tuple[Condition, ...]:
        def condition(type_: str, status: str, reason: str) -> Condition:
            return Condition(
                type=type_, status=status, reason=reason, message=self.text, observed_generation=generation
            )

        is_ready = {State.Ready: "True", State.Error: "False"}.get(self.state, "Unknown")
        shown = conditions.set_condition(former, condition(READY, is_ready, self.reason), now)
        true = "" if self.state is State.Ready else STALLED if self.is_stalled else RECONCILING
        for type_ in (RECONCILING, STALLED):
            shown = (
                conditions.set_condition(shown, condition(type_, "True", self.cause or self.reason), now)
                if type_ == true
                else conditions.without(shown, type_)
            )
        return shown


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a CAPOperator that cannot be read. Equal for an equal cause."""
    report = PassReport(reason=Reason.Error, message=f"object cannot be read: {obj.why}", cause=Cause.ObjectUnreadable)
    shown = report.shown_on(NEW, generation=obj.metadata.generation, now=datetime.fromtimestamp(0, UTC))
    listed = [msgspec.structs.replace(each, last_transition_time=None) for each in shown.conditions]
    return {
        "observedGeneration": shown.observed_generation,
        "state": report.state.value,
        "conditions": [to_json_object(each) for each in listed],
    }
