"""The report of a pass, as the status shows it.

The state follows from the reason, and the conditions from both: `Ready` for every client, and one of kstatus' two next
to it while the Component is not ready. `Stalled` is set only where waiting does not help: kstatus takes it for a
failure, and a flux health check or a `helm --wait` above us should go on waiting through an outage, but not through a
typing error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from stellwerk.kube.types.model import JsonObject, Unreadable, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.component.api_status import NEW, READY, RECONCILING, STALLED, ComponentStatus, State
from stellwerk.operators.component.reasons import FACTS, Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """The report of a pass about a Component. `message` may be empty where the reason has a text of its own."""

    reason: Reason
    message: str = ""
    cause: Cause | None = None
    state: State | None = None
    """None: the reason's own. A Timeout may be Pending."""

    @property
    def effective_state(self) -> State:
        """The state that is shown."""
        return self.state or FACTS[self.reason].state

    @property
    def text(self) -> str:
        """The message that is shown. Raises `ValueError` where a reason without a text of its own was given none."""
        text = self.message or FACTS[self.reason].message
        if not text:
            raise ValueError(f"{self.reason} needs a message")
        return text[0].upper() + text[1:]

    @property
    def severity(self) -> Severity:
        """The type of the Event about it."""
        return _severity(self.effective_state, self.reason, self.cause)

    @property
    def word(self) -> str:
        """The most precise word."""
        return (self.cause or self.reason).value

    @property
    def is_stalled(self) -> bool:
        """Whether only a user's action can help. Reports `Timeout` once the wait exceeds `spec.timeout`."""
        helpless = self.reason is Reason.Timeout or FACTS[self.cause or self.reason].only_user_can_fix
        return self.effective_state is State.Error and helpless


def status_saying(status: ComponentStatus, saying: Saying, *, generation: int, now: datetime) -> ComponentStatus:
    """The status with this state and these conditions; all else stays. Equal words give an equal status."""
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        state=saying.effective_state,
        conditions=_conditions(status.conditions, saying, generation, now),
    )


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a Component that cannot be read. Equal for an equal cause."""
    message = f"object cannot be read: {obj.why}"
    saying = Saying(reason=Reason.Error, message=message, cause=Cause.ObjectUnreadable)
    said = status_saying(NEW, saying, generation=obj.metadata.generation, now=datetime.fromtimestamp(0, UTC))
    listed = [msgspec.structs.replace(each, last_transition_time=None) for each in said.conditions]
    return {
        "observedGeneration": said.observed_generation,
        "state": saying.effective_state.value,
        "conditions": [to_json_object(each) for each in listed],
    }


def reason_of(status: ComponentStatus) -> Reason | Cause | None:
    """The most precise reason that a status shows; None before the first pass, and for a reason that is none of ours.

    A Component that waits for its objects longer than its timeout shows `Timeout`.
    """
    ready = conditions.find(status.conditions, READY)
    if ready is None:
        return None
    for type_ in (STALLED, RECONCILING):
        found = conditions.find(status.conditions, type_)
        if found is not None and found.reason in Cause.__members__:
            cause = Cause(found.reason)
            timed_out = ready.reason == Reason.Timeout and cause is Cause.ObjectsNotReady
            return Reason.Timeout if timed_out else cause
    return Reason(ready.reason) if ready.reason in Reason.__members__ else None


def severity_of(status: ComponentStatus) -> Severity:
    """The type of the Event about a status.

    Warning where the operator failed, or where it goes on only after the user has acted. A suspension is the user's own
    decision and no reason to warn.
    """
    ready = conditions.find(status.conditions, READY)
    reason = Reason(ready.reason) if ready is not None and ready.reason in Reason.__members__ else None
    return _severity(status.state, reason, reason_of(status))


def _severity(state: State | None, reason: Reason | None, precise: Reason | Cause | None) -> Severity:
    if reason is Reason.Suspended:
        return Severity.NORMAL
    needs_user = any(FACTS[word].only_user_can_fix for word in (reason, precise) if word is not None)
    return Severity.WARNING if state is State.Error or needs_user else Severity.NORMAL


def ready_status(state: State) -> str:
    """The status of the condition Ready in a state."""
    return {State.Ready: "True", State.Error: "False"}.get(state, "Unknown")


def _conditions(former: tuple[Condition, ...], saying: Saying, generation: int, now: datetime) -> tuple[Condition, ...]:
    def condition(type_: str, status: str, reason: str) -> Condition:
        return Condition(type=type_, status=status, reason=reason, message=saying.text, observed_generation=generation)

    ready = condition(READY, ready_status(saying.effective_state), saying.reason.value)
    said = conditions.set_condition(former, ready, now)
    true = _beside_ready(saying)
    for type_ in (RECONCILING, STALLED):
        said = (
            conditions.set_condition(said, condition(type_, "True", saying.word), now)
            if type_ == true
            else conditions.without(said, type_)
        )
    return said


def _beside_ready(saying: Saying) -> str:
    """Which of kstatus' conditions is true; empty: none."""
    if saying.effective_state is State.Ready or saying.reason is Reason.Suspended:
        return ""
    return STALLED if saying.is_stalled else RECONCILING
