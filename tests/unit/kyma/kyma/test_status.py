"""State, conditions and operation of a Kyma."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import a_kyma

from stellwerk.kube.types.model import plain_json
from stellwerk.operators.kyma.api import Kyma, KymaStatus, ModuleStatus
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.kyma import status
from stellwerk.operators.kyma.kyma.status import ConditionType, Findings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
GOOD: Findings = {ConditionType.DEFINITIONS: True, ConditionType.MODULES: None, ConditionType.CATALOG: True}


def module(name: str, state: str) -> ModuleStatus:
    """The status of a module."""
    return ModuleStatus(name=name, state=State(state))


def with_status(kyma: Kyma, shown: KymaStatus) -> Kyma:
    """The Kyma as it is read after its status was written."""
    return msgspec.structs.replace(kyma, status=shown)


def shown(
    kyma: Kyma, *states: str, findings: Findings = GOOD, now: datetime = NOW, channel: str = "fast"
) -> KymaStatus:
    """The status after a pass that found modules in these states."""
    modules = [module(f"m{number}", state) for number, state in enumerate(states)]
    return status.processed(kyma, channel, modules, {**GOOD, **findings}, now)


def of_type(found: KymaStatus, type: ConditionType) -> Any:
    """A condition."""
    (condition,) = (each for each in found.conditions if each.type == type)
    return condition


@pytest.mark.parametrize(
    ("states", "expected", "condition"),
    [
        ((), "Ready", "True"),
        (("Ready", "Ready"), "Ready", "True"),
        (("Ready", "Unmanaged"), "Ready", "True"),
        (("Unmanaged", "Unmanaged"), "Ready", "True"),
        (("Ready", "Processing"), "Processing", "False"),
        (("Ready", "Deleting"), "Processing", "False"),
        (("Ready", "Warning"), "Warning", "False"),
        (("Warning", "Processing"), "Warning", "False"),
        (("Warning", "Deleting"), "Warning", "False"),
        (("Error", "Warning"), "Error", "False"),
        (("Error", "Ready"), "Error", "False"),
        (("", "Ready"), "Processing", "False"),
    ],
)
def test_the_state_is_that_of_the_worst_module(states: tuple[str, ...], expected: str, condition: str) -> None:
    for order in (states, states[::-1]):
        found = shown(a_kyma(), *order)
        assert found.state == expected
        assert of_type(found, ConditionType.MODULES).status == condition
        assert found.last_operation is not None
        ready, waiting = "kyma is ready", "waiting for all modules to become ready"
        assert found.last_operation.operation == (ready if expected == "Ready" else waiting)
        assert found.active_channel == ("fast" if expected in ("Ready", "Warning") else "")


@pytest.mark.parametrize("value", [False, None])
def test_a_condition_that_does_not_hold_keeps_a_kyma_from_ready(value: bool | None) -> None:
    assert shown(a_kyma(), "Ready", findings={ConditionType.CATALOG: value}).state == "Processing"
    assert shown(a_kyma(), "Warning", findings={ConditionType.CATALOG: value}).state == "Warning"


TEXTS = {
    "CRDsSync": (
        "CRDs are synchronized to the SKR",
        "CRDs are not synchronized to the SKR",
        "CRDs synchronization state is unknown",
    ),
    "Modules": ("all modules are in ready state", "not all modules are in ready state", "modules state is unknown"),
    "ModuleCatalog": (
        "module templates are synchronized",
        "module templates are out of sync and need to be resynchronized",
        "module templates synchronization state is unknown",
    ),
    "SKRWebhook": ("skrwebhook is synchronized", *["skrwebhook is out of sync and needs to be resynchronized"] * 2),
    "SKRImagePullSecretSync": (
        "skr image pull secret is synchronized",
        *["skr image pull secret is out of sync and needs to be resynchronized"] * 2,
    ),
}


@pytest.mark.parametrize(("number", "value"), [(0, True), (1, False), (2, None)])
def test_each_condition_has_its_message_and_they_are_in_their_order(number: int, value: bool | None) -> None:
    findings = dict.fromkeys(reversed(ConditionType), value)
    kyma = a_kyma(generation=3, status={"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]})

    found = status.failed(kyma, "why", findings, NOW)

    assert [(each.type, each.message) for each in found.conditions] == [(k, v[number]) for k, v in TEXTS.items()]
    assert {(each.status, each.reason, each.observed_generation) for each in found.conditions} == {
        (("True", "False", "Unknown")[number], "Ready", 3)
    }


def test_only_the_conditions_that_the_settings_require_are_shown() -> None:
    assert [each.type for each in shown(a_kyma()).conditions] == ["CRDsSync", "Modules", "ModuleCatalog"]


def test_modules_are_sorted_by_name() -> None:
    modules = [module("b", "Ready"), module("a", "Ready")]
    assert [each.name for each in status.processed(a_kyma(), "fast", modules, GOOD, NOW).modules] == ["a", "b"]


@pytest.mark.parametrize(
    ("states", "value"), [*product([(), ("Ready",), ("Error", "Ready"), ("Deleting",)], [True, False])]
)
def test_a_pass_that_finds_the_same_changes_nothing(states: tuple[str, ...], value: bool) -> None:
    findings: Findings = {ConditionType.CATALOG: value}
    first = shown(a_kyma(), *states, findings=findings)
    kyma = with_status(a_kyma(), first)
    assert shown(kyma, *states, findings=findings, now=LATER) is first
    error = status.failed(kyma, "why", GOOD, NOW)
    assert status.failed(with_status(kyma, error), "why", GOOD, LATER) is error


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = shown(a_kyma(), "Ready")
    kyma = with_status(a_kyma(), first)
    second = shown(kyma, "Processing", now=LATER)
    assert of_type(second, ConditionType.CATALOG).last_transition_time == NOW
    assert of_type(second, ConditionType.MODULES).last_transition_time == LATER
    assert second.last_operation is not None
    assert second.last_operation.last_update_time == LATER


def test_the_active_channel_stays_until_the_kyma_is_ready_or_in_warning_again() -> None:
    kyma = with_status(a_kyma(), shown(a_kyma(), "Ready", channel="regular"))
    for state, expected in (("Processing", "regular"), ("Error", "regular"), ("Warning", "fast"), ("Ready", "fast")):
        assert shown(kyma, state, channel="fast").active_channel == expected
    assert status.failed(kyma, "why", GOOD, LATER).active_channel == "regular"
    moved = shown(kyma, "Ready", channel="fast", now=LATER)
    assert (moved.active_channel, moved.last_operation and moved.last_operation.last_update_time) == ("fast", LATER)


def test_a_new_kyma_has_started_and_nothing_is_known_of_it() -> None:
    found = status.started(a_kyma(), dict.fromkeys(GOOD), NOW)
    assert found.state == "Processing"
    assert found.last_operation is not None
    assert found.last_operation.operation == "started processing"
    assert {each.status for each in found.conditions} == {"Unknown"}


def test_a_lost_connection_shows_its_cause_on_each_module_and_keeps_what_was_known() -> None:
    known = {"name": "a", "state": "Ready", "version": "1.0.0", "channel": "fast"}
    kyma = a_kyma(status={"state": "Ready", "modules": [known]})

    found = status.disconnected(kyma, "connection refused", GOOD, NOW)

    assert found.state == "Error"
    assert found.last_operation is not None
    assert found.last_operation.operation == "connection refused"
    assert [plain_json(each) for each in found.modules] == [
        {**known, "state": "Error", "message": "connection refused"}
    ]


def test_an_error_of_the_pass_leaves_the_modules_as_they_were() -> None:
    kyma = a_kyma(status={"state": "Ready", "modules": [{"name": "a", "state": "Ready"}]})
    found = status.failed(kyma, "catalog sync: refused", GOOD, NOW)
    assert (found.state, found.modules) == ("Error", kyma.status.modules)
