"""How an object is doing, in the same few words for every kind.

Ready, state and reason are read from what Kubernetes' API conventions agree on: a condition of the kind's own main
type, and `status.state` or `status.phase`. Foreign kinds are judged as kstatus does, so that a Deployment with one
replica of three is not called ready. One of ours gets its status with the first pass; without one it is not ready yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import msgspec

from stellwerk.api import btp
from stellwerk.api.core import Pod
from stellwerk.apply.errors import UnreadableStatus
from stellwerk.apply.readiness import readiness
from stellwerk.apply.readiness.readiness import Hints
from stellwerk.cli import kinds
from stellwerk.cli.objects.unreadable import REASON, MetadataOnlyObject
from stellwerk.delivery.operator_spec import ShownBy
from stellwerk.kube.types.model import JsonValue, Kind, Unstructured, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime import conditions

Readiness = Literal["True", "False", "Unknown", "-"]

BUSY = ("Processing", "Upgrading", "InProgress")
"""States of objects that are on their way."""
MAIN_CONDITIONS = ("Ready", "Available", "Established", "Complete")
"""The condition that answers "is it ready", by the order in which kinds prefer them."""


@dataclass(frozen=True, slots=True)
class ObjectHealth:
    """The state of an object. `since` is how long it has been as it is shown, None where that is unknown."""

    ready: Readiness
    state: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    cause: str = ""
    """Which of kstatus' conditions is true, also for an object that is ready: Stalled, Reconciling or neither."""
    is_terminating: bool = False
    """Whether its deletion was requested."""
    drifted: int = 0
    """How many of its objects others have changed, which its operator puts back later."""

    @property
    def is_ready(self) -> bool:
        """Whether the object is ready."""
        return self.ready == "True"

    @property
    def is_changing(self) -> bool:
        """Whether the object is ready and changed at the same time, as a tenant that is upgraded."""
        return self.is_ready and not self.is_stalled and (self.state in BUSY or self.cause == conditions.RECONCILING)

    @property
    def is_stalled(self) -> bool:
        """Whether a user has to act."""
        return self.cause == conditions.STALLED

    @property
    def is_blocked(self) -> bool:
        """Whether the deletion of the object waits for a user."""
        waits = self.is_stalled or self.state == "Warning" or self.state.endswith("Error")
        return self.is_terminating and not self.is_ready and waits

    @property
    def has_drift(self) -> bool:
        """Whether the object is ready, and others have changed objects of it that are not put back yet."""
        return self.is_ready and self.drifted > 0

    @property
    def is_well(self) -> bool:
        """Whether the object is ready, and nothing else has to be known about it."""
        return self.is_ready and not self.needs_attention and not self.is_changing

    @property
    def needs_attention(self) -> bool:
        """Whether `--not-ready` lists the object: it is not ready, not yet, in error, or stalled.

        A suspension is on purpose, and a failure that is superseded is history.
        """
        is_in_error = self.state.endswith("Error") and self.reason != conditions.SUPERSEDED
        return self.ready in ("False", "Unknown") or is_in_error or self.is_stalled


def of(obj: Unstructured | Kind) -> ObjectHealth:
    """The health of any object."""
    seen = Unstructured.of(to_json_object(obj)) if isinstance(obj, Kind) else obj
    return replace(_of(seen), is_terminating=seen.metadata.is_terminating)


def _of(seen: Unstructured) -> ObjectHealth:
    if isinstance(seen, MetadataOnlyObject):
        return ObjectHealth("False", "", REASON, seen.message)
    if seen.at("spec", "suspend") is True:
        return ObjectHealth("-", "Suspended", _why_suspended(seen))
    row = kinds.by_gvk(seen.gvk)
    if row is None:
        return _of_foreign(seen)
    if row.readiness is ShownBy.NONE:
        return ObjectHealth("-", _state(seen))
    if row.readiness is ShownBy.STATE:
        return _of_state(seen)
    main = main_condition(conditions.listed_in(seen.body))
    if main is None:
        return ObjectHealth("Unknown", _state(seen), "NotSeenYet", "no operator has looked at it yet")
    if main.is_true and seen.metadata.is_terminating:
        return _of_deleted(seen, main)
    if 0 < main.observed_generation < seen.metadata.generation:
        return ObjectHealth("Unknown", _state(seen), "ChangeNotSeenYet", "the latest change has not been looked at yet")
    superseded = conditions.find(conditions.listed_in(seen.body), conditions.SUPERSEDED)
    if superseded is not None and superseded.is_true:
        since = superseded.last_transition_time
        return ObjectHealth("-", _state(seen), superseded.reason, superseded.message, since)
    cause, state = conditions.true_cause(conditions.listed_in(seen.body)), _state(seen)
    # What has ended is Ready with the original CAP Operator, well or not: its state shows which.
    ready: Readiness = "False" if state == "Failed" else _readiness(main.status)
    message = cause.message if cause is not None and main.is_true else main.message
    since, shown = _since(main, cause, state), cause.type if cause is not None else ""
    drifted = seen.at("status", "driftedObjects")
    drifted = drifted if isinstance(drifted, int) else 0
    return ObjectHealth(ready, state, _precise_reason(main, cause), message, since, shown, drifted=drifted)


def _of_state(seen: Unstructured) -> ObjectHealth:
    """The health of an object whose state shows it. Its cause is the last operation, else a condition."""
    state = str(seen.at("status", "state") or "")
    if not state:
        return ObjectHealth("Unknown", _state(seen), "NotSeenYet", "no operator has looked at it yet")
    if state in ("Ready", "Unmanaged") and seen.metadata.is_terminating:
        asked_at = seen.metadata.deletion_timestamp
        return ObjectHealth("Unknown", "Deleting", "DeletionRequested", "its deletion has not begun yet", asked_at)
    failing = next((each for each in conditions.listed_in(seen.body) if not each.is_true), None)
    operation = seen.at("status", "lastOperation", "operation")
    since = _moment(seen.at("status", "lastOperation", "lastUpdateTime"))
    if state in ("Ready", "Unmanaged"):
        return ObjectHealth("True", state, since=since)
    message = str(operation or (failing.message if failing is not None else ""))
    since = since or (failing.last_transition_time if failing is not None else None)
    return ObjectHealth("False", state, failing.type if failing is not None else "", message, since)


def _moment(value: JsonValue) -> datetime | None:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None


def _of_deleted(seen: Unstructured, main: Condition) -> ObjectHealth:
    """The health of an object that is being deleted and whose condition is still true: some kinds keep it so."""
    asked_at = seen.metadata.deletion_timestamp
    if conditions.shows_deletion(seen, main):
        return ObjectHealth("False", "Deleting", main.reason, main.message, asked_at)
    return ObjectHealth("Unknown", "Deleting", "DeletionRequested", "its deletion has not begun yet", asked_at)


def _precise_reason(main: Condition, cause: Condition | None) -> str:
    """The reason with the cause: kstatus' conditions name it where Ready keeps the original's reason."""
    reason = cause.reason if cause is not None and cause.reason else main.reason
    return main.reason if (main.reason, reason) == ("Timeout", "ObjectsNotReady") else reason


def _since(main: Condition, cause: Condition | None, state: str) -> datetime | None:
    """How long the object has been as it is shown: a failure does not have the age of the readiness before it.

    Of a state that `main` does not show and that has no condition of its own, as the originals write it, no age is
    known.
    """
    if cause is not None:
        return cause.last_transition_time
    is_shown = not main.is_true or not (state in BUSY or state == "Failed" or state.endswith("Error"))
    return main.last_transition_time if is_shown else None


def _why_suspended(seen: Unstructured) -> str:
    """The reason that the user gave."""
    noted = [text for key, text in seen.metadata.annotations.items() if key.endswith("/suspend-reason")]
    return noted[0] if noted else ""


def main_condition(listed: tuple[Condition, ...]) -> Condition | None:
    """The condition that shows whether the object is ready."""
    by_type = {condition.type: condition for condition in listed}
    return next((by_type[name] for name in MAIN_CONDITIONS if name in by_type), None)


def _of_foreign(seen: Unstructured) -> ObjectHealth:
    main = main_condition(conditions.listed_in(seen.body))
    try:
        judged = readiness.assess(seen, now=datetime.now(UTC), hints=_hints(seen))
    except UnreadableStatus as error:
        return ObjectHealth("Unknown", _state(seen), "UnreadableStatus", str(error))
    since = main.last_transition_time if main is not None and main.is_true == judged.is_ready else None
    if seen.gvk[::2] == Pod.resource.gvk[::2] and seen.at("status", "phase") == "Failed":
        # kstatus calls it current, as nothing more happens to it: right for the engine, and no success for a user.
        message = str(seen.at("status", "message") or "the pod has failed")
        return ObjectHealth("False", "Failed", str(seen.at("status", "reason") or ""), message, since)
    reason = main.reason if main and not main.is_true and not judged.is_ready else ""
    ready: Readiness = "True" if judged.is_ready else "False"
    return ObjectHealth(ready, _state(seen) or judged.verdict.value, reason, judged.why, since)


def _hints(seen: Unstructured) -> Hints:
    """Hints besides the status: the kinds of the SAP BTP service operator have a condition Ready."""
    hints = readiness.hints_on(seen)
    return replace(hints, has_ready_condition=True) if seen.gvk.group == btp.GROUP else hints


def _state(seen: Unstructured) -> str:
    own = seen.at("status", "state") or seen.at("status", "phase")
    return str(own or ("Deleting" if seen.metadata.is_terminating else ""))


def _readiness(status: str) -> Readiness:
    return "True" if status == "True" else "False" if status == "False" else "Unknown"
