"""What a person may ask of a BtpOperator, and how it shows that somebody has listened."""

from __future__ import annotations

from datetime import UTC, datetime

from stellwerk.kube.meta import ObjectMeta
from stellwerk.kube.model import Unstructured, to_json_object
from stellwerk.operators.btp import actions, reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.reasons import Reason
from stellwerk.operators.requests import REQUESTED_AT_ANNOTATION

READY = BtpOperatorStatus(state=State.Ready)


def operator(asked: str = "", status: BtpOperatorStatus | None = READY) -> BtpOperator:
    annotations = {REQUESTED_AT_ANNOTATION: asked} if asked else {}
    return BtpOperator(metadata=ObjectMeta(name="o", namespace="n", annotations=annotations), status=status)


def test_a_pass_that_says_nothing_still_says_which_request_it_was() -> None:
    answered = actions.answered(operator("now"), None)
    assert answered is not None
    assert (answered.state, answered.last_handled_reconcile_at) == (State.Ready, "now")


def test_a_request_is_the_annotation_that_is_answered() -> None:
    assert actions.request("now") == {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: "now"}}}


def test_without_a_request_nothing_is_added() -> None:
    assert actions.answered(operator(), None) is None
    assert actions.answered(operator(), READY) is READY
    assert actions.answered(operator("now", status=None), None) is None


def test_a_request_is_answered_once_and_its_answer_survives_other_news() -> None:
    handled = actions.answered(operator("now"), None)
    assert actions.answered(operator("now", status=handled), None) is None
    news = reasons.status_for(handled, Reason.MissingSecret, "", 1, datetime.now(UTC))
    assert news.last_handled_reconcile_at == "now"


def test_a_request_counts_as_handled_when_its_own_moment_is_shown() -> None:
    live = Unstructured.of(to_json_object(operator("now", status=actions.answered(operator("now"), None))))
    assert actions.was_handled(live, "now")
    assert not actions.was_handled(live, "later")


def test_force_is_the_label_that_the_operator_knows() -> None:
    live = Unstructured.of(to_json_object(operator()))
    assert actions.unstuck(live) == {"metadata": {"labels": {"force-delete": "true"}}}
