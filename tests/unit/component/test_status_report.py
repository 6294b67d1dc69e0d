"""State and conditions follow from what a pass has to say, as the original, kstatus and people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.component.api_status import NEW, ComponentStatus
from stellwerk.operators.component.insight.help_topics import CATALOGUE
from stellwerk.operators.component.reasons import FACTS, Cause, PassReport, Reason, severity_of
from stellwerk.runtime.conditions import find
from stellwerk.runtime.insight.reason_catalog import NOTHING_TO_FIX
from stellwerk.runtime.reconciler import Severity

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def said(report: PassReport, former: ComponentStatus = NEW, now: datetime = NOW) -> ComponentStatus:
    return report.shown_on(former, generation=3, now=now)


def condition(status: ComponentStatus, type_: str) -> Condition:
    found = find(status.conditions, type_)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        (State.Ready, "True"),
        (State.Error, "False"),
        (State.Pending, "Unknown"),
        (State.Processing, "Unknown"),
        (State.DeletionPending, "Unknown"),
        (State.Deleting, "Unknown"),
    ],
)
def test_ready_is_true_false_or_unknown_by_the_state(state: State, ready: str) -> None:
    for reason in (reason for reason in Reason if FACTS[reason].state is state):
        status = said(PassReport(reason=reason, message="because"))

        assert status.state is state
        assert condition(status, "Ready").status == ready
        assert condition(status, "Ready").reason == reason
        assert condition(status, "Ready").observed_generation == status.observed_generation == 3


def test_a_ready_or_suspended_component_carries_no_further_condition() -> None:
    busy = said(PassReport(reason=Reason.Processing, cause=Cause.ObjectsNotReady))

    for reason in (Reason.Ready, Reason.Suspended):
        assert [one.type for one in said(PassReport(reason=reason), busy).conditions] == ["Ready"]


def test_what_waiting_may_help_is_reconciling_and_names_the_cause() -> None:
    for report in (
        PassReport(reason=Reason.Retrying, message="no", cause=Cause.DependencyNotReady),
        PassReport(reason=Reason.Error, message="quota", cause=Cause.ApplyFailed),
        PassReport(reason=Reason.DeletionBlocked, message="others have some", cause=Cause.TypesInUse),
    ):
        status = said(report)

        assert [one.type for one in status.conditions] == ["Ready", "Reconciling"]
        assert condition(status, "Reconciling").reason == report.cause


def test_what_only_somebody_can_mend_is_stalled() -> None:
    status = said(PassReport(reason=Reason.Error, message="a circle", cause=Cause.DependencyCycle))
    late = said(PassReport(reason=Reason.Timeout, cause=Cause.ObjectsNotReady))

    assert condition(status, "Stalled").reason == "DependencyCycle"
    assert condition(late, "Stalled").reason == "ObjectsNotReady"
    assert find(status.conditions, "Reconciling") is None


def test_a_timeout_that_is_retried_is_pending_and_not_stalled() -> None:
    status = said(
        PassReport(reason=Reason.Timeout, message="no source", cause=Cause.SourceNotReady, state=State.Pending)
    )

    assert status.state is State.Pending
    assert condition(status, "Reconciling").reason == "SourceNotReady"


def test_messages_begin_with_a_capital_letter_and_default_to_the_reasons_own() -> None:
    assert condition(said(PassReport(reason=Reason.Error, message="error x")), "Ready").message == "Error x"
    assert condition(said(PassReport(reason=Reason.FirstSeen)), "Ready").message == "First seen"
    assert PassReport(reason=Reason.Ready).text == "Dependent resources successfully reconciled"
    with pytest.raises(ValueError, match="Retrying needs a message"):
        said(PassReport(reason=Reason.Retrying))


NORMAL = {
    Reason.FirstSeen: "it starts at once",
    Reason.Retrying: "what is missing may still come",
    Reason.Restarting: "progress",
    Reason.Processing: "progress",
    Reason.Ready: "done",
    Reason.Suspended: "the user's own decision",
    Reason.DeletionRetrying: "what is in the way may still go",
    Reason.DeletionProcessing: "progress",
    Cause.ObjectsNotReady: "progress",
    Cause.SourceNotReady: "it may still come",
    Cause.KindsUnknown: "its server may still answer",
    Cause.DependencyNotReady: "it may still become ready",
    Cause.TooManyTargetClusters: "others may leave",
    Cause.LargeComponentsBusy: "others are at work",
    Cause.ServerBusy: "others are at work",
}
"""The reasons that no user has to act on, and why. All others are worth a Warning."""

_OF_CAUSES = {
    State.Pending: Reason.Retrying,
    State.Processing: Reason.Processing,
    State.Error: Reason.Error,
    State.Deleting: Reason.DeletionBlocked,
    State.DeletionPending: Reason.DeletionRetrying,
}


def report_of(word: Reason | Cause) -> PassReport:
    if isinstance(word, Reason):
        return PassReport(reason=word, message="m")
    return PassReport(reason=_OF_CAUSES[FACTS[word].state], cause=word, message="m")


@pytest.mark.parametrize("word", FACTS, ids=str)
def test_the_event_is_a_warning_where_the_operator_failed_or_the_user_has_to_act(word: Reason | Cause) -> None:
    report = report_of(word)
    expected = Severity.NORMAL if word in NORMAL else Severity.WARNING

    assert report.severity is expected
    assert severity_of(said(report)) is expected, "read from the status"


@pytest.mark.parametrize("word", FACTS, ids=str)
def test_a_reason_that_warns_names_what_the_user_can_do(word: Reason | Cause) -> None:
    if report_of(word).severity is Severity.WARNING:
        assert CATALOGUE.meanings[word].fix
        assert not CATALOGUE.meanings[word].fix[0].startswith(NOTHING_TO_FIX)


def test_a_wait_that_took_too_long_is_a_warning_whatever_it_is_for() -> None:
    late = PassReport(reason=Reason.Timeout, message="no source", cause=Cause.SourceNotReady, state=State.Pending)

    assert late.severity is severity_of(said(late)) is Severity.WARNING


def test_a_status_without_a_reason_of_ours_warns_of_nothing() -> None:
    assert severity_of(NEW) is Severity.NORMAL


def test_the_same_report_again_changes_nothing_and_all_else_stays() -> None:
    report = PassReport(reason=Reason.Error, message="no quota", cause=Cause.ApplyFailed)
    first = msgspec.structs.replace(said(report), revision=7, processing_digest="d")

    assert said(report, first, LATER) == first
    assert said(PassReport(reason=Reason.Ready), first, LATER).revision == 7
