"""Every reason has one meaning, and a status always fits its reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stellwerk.apply.readiness.readiness import StatusVerdict, assess
from stellwerk.kube.types.model import JsonObject, Unreadable, Unstructured, decode_json, encode_json
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp import reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.insight.help_topics import CATALOGUE, HELP
from stellwerk.operators.btp.reasons import FACTS, Reason
from stellwerk.runtime.reconciler import Severity

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)

STATES = {
    State.Ready: {"ReconcileSucceeded", "UpdateCheckSucceeded", "UpdateDone"},
    State.Processing: {
        "Initialized",
        "Processing",
        "UpdateCheck",
        "Updated",
        "CredentialsNamespaceChanged",
        "ClusterIdChanged",
    },
    State.Deleting: {"HardDeleting", "SoftDeleting"},
    State.Warning: {"ServiceInstancesAndBindingsNotCleaned", "OlderCRExists", "WrongNamespaceOrName", "MissingSecret"},
    State.Error: {
        "ChartInstallFailed",
        "ChartPathEmpty",
        "ConsistencyCheckFailed",
        "DeletionOfOrphanedResourcesFailed",
        "GettingConfigMapFailed",
        "InconsistentChart",
        "InvalidSecret",
        "PreparingInstallInfoFailed",
        "ProvisioningFailed",
        "ReconcileFailed",
        "ResourceRemovalFailed",
        "StoringChartDetailsFailed",
        "AnnotatingSecretFailed",
        "GettingDefaultCredentialsSecretFailed",
        "GettingSapBtpServiceOperatorConfigMapFailed",
        "GettingSapBtpServiceOperatorClusterIdSecretFailed",
    },
}


def status(reason: Reason, message: str = "", previous: BtpOperatorStatus | None = None) -> BtpOperatorStatus:
    return reasons.status_for(previous, reason, message, 3, LATER if previous else NOW)


def test_the_thirty_one_published_reasons_have_their_published_states() -> None:
    found = {state: {r.value for r, meaning in FACTS.items() if meaning.state is state} for state in State}

    assert found == STATES
    assert sum(map(len, STATES.values())) == 31


def test_every_reason_is_in_the_table_under_its_own_name() -> None:
    assert set(FACTS) == set(Reason)
    assert all(reason.name == reason.value for reason in Reason)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.ReconcileSucceeded, "Module provisioning succeeded"),
        (Reason.UpdateCheckSucceeded, "Update not required"),
        (Reason.UpdateDone, "Updated"),
        (Reason.Initialized, "Initialized"),
        (Reason.Processing, "After deprovisioning"),
        (Reason.UpdateCheck, "Checking for updates"),
        (Reason.Updated, "CR has been updated"),
        (Reason.HardDeleting, "BtpOperator is to be deleted"),
        (Reason.SoftDeleting, "Being soft deleted"),
        (Reason.ChartPathEmpty, "No chart path available for processing"),
        (Reason.DeletionOfOrphanedResourcesFailed, "Deletion of orphaned resources failed"),
        (Reason.GettingConfigMapFailed, "Getting config map failed"),
        (Reason.PreparingInstallInfoFailed, "Error while preparing InstallInfo"),
        (Reason.ResourceRemovalFailed, "Unable to remove installed resources"),
        (Reason.StoringChartDetailsFailed, "Failure of storing chart details"),
        (Reason.MissingSecret, "sap-btp-manager Secret in kyma-system namespace not found"),
        (
            Reason.WrongNamespaceOrName,
            "Your resource must be in the kyma-system namespace. The resource's name must be btpoperator.",
        ),
    ],
)
def test_a_reason_with_a_text_of_its_own_says_what_scripts_look_for(reason: Reason, message: str) -> None:
    assert status(reason).conditions[0].message == message


@pytest.mark.parametrize("reason", list(Reason))
def test_only_ready_reasons_make_the_condition_true(reason: Reason) -> None:
    shown = status(reason, "because")

    assert shown.conditions[0].type == "Ready"
    assert shown.conditions[0].status == ("True" if shown.state is State.Ready else "False")
    assert shown.observed_generation == shown.conditions[0].observed_generation == 3


THE_USER_HAS_TO_ACT = {*STATES[State.Warning], *STATES[State.Error], "SoftDeleting"} - {"InconsistentChart"}
"""An inconsistent chart is put right at once; a soft deletion may leave services in SAP BTP, to be deleted there."""


@pytest.mark.parametrize("reason", list(Reason))
def test_an_event_is_a_warning_exactly_where_the_user_has_to_act(reason: Reason) -> None:
    expected = Severity.WARNING if reason in THE_USER_HAS_TO_ACT else Severity.NORMAL

    assert reasons.severity_of(reason) is expected


@pytest.mark.parametrize("reason", list(Reason))
def test_what_is_not_ready_is_stalled_if_only_the_user_can_mend_it_and_says_the_same_as_ready(reason: Reason) -> None:
    shown = status(reason, "because")
    ready, *others = shown.conditions

    is_stalled = reason in THE_USER_HAS_TO_ACT and shown.state is not State.Deleting
    beside = msgspec.structs.replace(ready, type="Stalled" if is_stalled else "Reconciling", status="True")
    assert others == ([] if shown.state is State.Ready else [beside]), "as the original has it if it is Ready"


def kstatus(shown: BtpOperatorStatus, *, generation: int = 3) -> StatusVerdict:
    metadata: JsonObject = {"name": "b", "namespace": "n", "generation": generation}
    body: JsonObject = {"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "BtpOperator", "metadata": metadata}
    return assess(Unstructured.of({**body, "status": decode_json(encode_json(shown))}), now=NOW).verdict


def test_generic_tools_tell_what_is_ready_what_is_under_way_and_what_failed() -> None:
    failed = status(Reason.ProvisioningFailed, "no quota")
    again = status(Reason.Updated, previous=failed)
    ready = status(Reason.ReconcileSucceeded, previous=again)

    assert [kstatus(each) for each in (failed, again, ready)] == [
        StatusVerdict.FAILED,
        StatusVerdict.IN_PROGRESS,
        StatusVerdict.CURRENT,
    ]
    assert kstatus(ready, generation=4) is StatusVerdict.IN_PROGRESS, "the change has not been looked at"


def test_conditions_of_others_are_dropped_and_ready_comes_first() -> None:
    failed = status(Reason.ProvisioningFailed, "no quota")
    odd = msgspec.structs.replace(failed.conditions[0], type="Odd")
    former = msgspec.structs.replace(failed, conditions=(odd, *reversed(failed.conditions)))

    assert status(Reason.ProvisioningFailed, "no quota", previous=former) == failed


def test_the_transition_time_moves_only_when_the_condition_flips() -> None:
    first = status(Reason.Initialized)
    second = status(Reason.MissingSecret, previous=first)
    third = status(Reason.ReconcileSucceeded, previous=second)

    assert first.conditions[0].last_transition_time == NOW.replace(microsecond=0)
    assert second.conditions[0].last_transition_time == first.conditions[0].last_transition_time
    assert third.conditions[0].last_transition_time == LATER.replace(microsecond=0)


def test_the_same_reason_again_gives_an_equal_status() -> None:
    first = status(Reason.ProvisioningFailed, "no quota")

    assert status(Reason.ProvisioningFailed, "no quota", previous=first) == first


def test_a_message_is_cut_to_what_an_event_can_hold() -> None:
    assert len(status(Reason.ProvisioningFailed, "x" * 5000).conditions[0].message) == 1024


def test_a_reason_without_a_text_must_be_given_one() -> None:
    with pytest.raises(ValueError, match="ProvisioningFailed needs a message"):
        status(Reason.ProvisioningFailed)


def test_the_page_has_a_section_for_every_reason() -> None:
    page = HELP["BtpOperator"].reasons_page("BtpOperator")

    assert all(f"\n## {reason}\n" in page for reason in Reason)


@pytest.mark.parametrize("reason", [reason for reason, m in FACTS.items() if m.state in (State.Warning, State.Error)])
def test_whoever_has_to_act_is_told_the_cause(reason: Reason) -> None:
    meaning = CATALOGUE.meanings[reason]

    assert meaning.causes
    assert meaning.fix or meaning.check


@pytest.mark.req("R-510")
def test_a_btp_operator_that_cannot_be_read_says_so_in_a_status_that_the_schema_takes() -> None:
    metadata = ObjectMeta(name="b", namespace="n", uid="u", generation=3, creation_timestamp=NOW)
    odd = Unreadable(BtpOperator.resource, metadata, "spec: nested deeper than 100 levels")
    shown = reasons.unreadable(odd)
    read = msgspec.convert(shown, BtpOperatorStatus)
    condition, stalled = read.conditions
    assert (stalled.type, stalled.status, read.observed_generation) == ("Stalled", "True", 3)
    assert (read.state, condition.status, condition.reason) == (State.Error, "False", "ReconcileFailed")
    assert condition.message == "object cannot be read: spec: nested deeper than 100 levels; correct the field"
    assert condition.last_transition_time is not None
    assert shown == reasons.unreadable(
        Unreadable(BtpOperator.resource, metadata, "spec: nested deeper than 100 levels")
    )
    without = Unreadable(BtpOperator.resource, ObjectMeta(name="b"), "spec: odd")
    assert msgspec.convert(reasons.unreadable(without), BtpOperatorStatus).conditions[0].last_transition_time


@pytest.mark.parametrize("reason", Reason)
def test_the_operator_and_the_help_agree_about_who_has_to_act(reason: Reason) -> None:
    assert FACTS[reason].asks_user == CATALOGUE.meanings[reason].asks_user
