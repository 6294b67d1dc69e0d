"""The status of a Kyma: its state, conditions and operation, from what a pass has found. Pure.

| what was found | state |
| --- | --- |
| an error of the pass itself | Error |
| a module in Error | Error |
| a module in Warning | Warning |
| a module in Processing | Processing |
| a condition that is not True | Processing |
| nothing of these | Ready |

A module that is being deleted, or has no state yet, makes the condition Modules False, and with it the Kyma Processing.
An equal status is returned as it was, so that nothing is written, and the times in it stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stellwerk.kube.types.object_meta import Condition, kubernetes_time
from stellwerk.operators.kyma.api import Kyma, KymaStatus, ModuleStatus
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.runtime import conditions

STARTED = "started processing"
READY = "kyma is ready"
WAITING = "waiting for all modules to become ready"
REASON = "Ready"
"""Of each condition, whatever its status."""


class ConditionType(StrEnum):
    """The conditions of a Kyma, in the order in which they are shown."""

    DEFINITIONS = "CRDsSync"
    MODULES = "Modules"
    CATALOG = "ModuleCatalog"
    WEBHOOK = "SKRWebhook"
    PULL_SECRET = "SKRImagePullSecretSync"  # noqa: S105  # the type of a condition


class Messages(NamedTuple):
    """The messages of a condition by its status."""

    true: str
    false: str
    unknown: str


_WEBHOOK = "skrwebhook is out of sync and needs to be resynchronized"
_PULL_SECRET = "skr image pull secret is out of sync and needs to be resynchronized"  # noqa: S105  # a message
MESSAGES: Mapping[ConditionType, Messages] = {
    ConditionType.DEFINITIONS: Messages(
        "CRDs are synchronized to the SKR",
        "CRDs are not synchronized to the SKR",
        "CRDs synchronization state is unknown",
    ),
    ConditionType.MODULES: Messages(
        "all modules are in ready state", "not all modules are in ready state", "modules state is unknown"
    ),
    ConditionType.CATALOG: Messages(
        "module templates are synchronized",
        "module templates are out of sync and need to be resynchronized",
        "module templates synchronization state is unknown",
    ),
    ConditionType.WEBHOOK: Messages("skrwebhook is synchronized", _WEBHOOK, _WEBHOOK),
    ConditionType.PULL_SECRET: Messages("skr image pull secret is synchronized", _PULL_SECRET, _PULL_SECRET),
}

Findings = Mapping[ConditionType, bool | None]
"""The conditions that the settings of the process require, and whether each holds; None: that is not known."""


def are_ready(modules: Iterable[ModuleStatus]) -> bool:
    """Whether the condition Modules is True. A module that the user manages counts."""
    return all(each.state in (State.Ready, State.Unmanaged) for each in modules)


def aggregate(modules: Sequence[ModuleStatus], findings: Findings) -> State:
    """The state of a Kyma whose pass had no error."""
    states = {each.state for each in modules}
    for worst in (State.Error, State.Warning, State.Processing):
        if worst in states:
            return worst
    others = (value for each, value in findings.items() if each is not ConditionType.MODULES)
    holds = are_ready(modules) and all(others)
    return State.Ready if holds else State.Processing


def started(kyma: Kyma, findings: Findings, now: datetime) -> KymaStatus:
    """The first status of a Kyma."""
    return _written(kyma, State.Processing, STARTED, kyma.status.modules, findings, now)


def processed(
    kyma: Kyma, channel: str, modules: Sequence[ModuleStatus], findings: Findings, now: datetime
) -> KymaStatus:
    """The status after a pass without an error of its own. `channel`: that of the specification that was followed."""
    state = aggregate(modules, findings)
    findings = {**findings, ConditionType.MODULES: are_ready(modules)}
    operation = READY if state is State.Ready else WAITING
    active = channel if state in (State.Ready, State.Warning) else ""
    return _written(kyma, state, operation, modules, findings, now, active)


def failed(
    kyma: Kyma, message: str, findings: Findings, now: datetime, modules: Sequence[ModuleStatus] | None = None
) -> KymaStatus:
    """The status if the pass had an error. What is known of the modules stays, if nothing newer is given."""
    return _written(kyma, State.Error, message, modules if modules is not None else kyma.status.modules, findings, now)


def disconnected(kyma: Kyma, message: str, findings: Findings, now: datetime) -> KymaStatus:
    """The status if the remote cluster cannot be used: so nothing is known of the modules, but what they were."""
    modules = [msgspec.structs.replace(each, state=State.Error, message=message) for each in kyma.status.modules]
    return _written(kyma, State.Error, message, modules, findings, now)


def is_progress(former: KymaStatus, new: KymaStatus) -> bool:
    """Whether only modules differ: neither the state, nor a condition, nor the operation."""
    before, after = former.last_operation, new.last_operation
    if before is None or after is None or before.operation != after.operation:
        return False
    return msgspec.structs.replace(new, modules=former.modules, last_operation=before) == former


def _written(
    kyma: Kyma,
    state: State,
    operation: str,
    modules: Sequence[ModuleStatus],
    findings: Findings,
    now: datetime,
    active_channel: str = "",
) -> KymaStatus:
    """The new status; the former one if only the time of the operation would differ."""
    former = kyma.status
    status = KymaStatus(
        state=state,
        active_channel=active_channel or former.active_channel,
        conditions=_conditions(kyma, findings, now),
        last_operation=LastOperation(operation=operation, last_update_time=kubernetes_time(now)),
        modules=tuple(sorted(modules, key=lambda each: each.name)),
    )
    if former.last_operation is None or former.last_operation.operation != operation:
        return status
    is_same = msgspec.structs.replace(status, last_operation=former.last_operation) == former
    return former if is_same else status


def _conditions(kyma: Kyma, findings: Findings, now: datetime) -> tuple[Condition, ...]:
    """The conditions in their order; those of other types disappear."""
    found: list[Condition] = []
    for each in (each for each in ConditionType if each in findings):
        holds = findings[each]
        messages = MESSAGES[each]
        status = "Unknown" if holds is None else "True" if holds else "False"
        new = Condition(
            type=each,
            status=status,
            reason=REASON,
            message=messages.unknown if holds is None else messages.true if holds else messages.false,
            observed_generation=kyma.metadata.generation,
        )
        former = conditions.find(kyma.status.conditions, each)
        found += conditions.set_condition((former,) if former is not None else (), new, now)
    return tuple(found)
