"""What can be asked of which kind."""

from __future__ import annotations

import pytest

from stellwerk.cli import kinds
from stellwerk.cli.objects import health, object_actions, object_summary
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.delivery import reconcile_request
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta


def an(api_version: str, kind: str) -> Unstructured:
    return Unstructured.of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "y"}})


MODULE = an("operator.kyma-project.io/v1alpha1", "BtpOperator")
COMPONENT = an("core.cs.sap.com/v1alpha1", "Component")


@pytest.mark.parametrize("obj", [MODULE, COMPONENT])
def test_each_kind_of_ours_can_be_reconciled_on_request(obj: Unstructured) -> None:
    assert object_actions.action(obj, lambda of: of.reconcile, "reconciled on request").request("now")


def test_only_components_put_back_later_what_others_have_changed() -> None:
    deferring = [row.short for row in kinds.OWN if (able := row.insight().reconcile) and able.defers_drift]
    assert deferring == ["comp"]


@pytest.mark.parametrize(
    ("handled", "forced", "expected"), [("now", "now", True), ("now", "", False), ("before", "now", False)]
)
def test_a_forced_request_is_handled_when_all_is_put_back(handled: str, forced: str, expected: bool) -> None:
    status: JsonObject = {"lastHandledReconcileAt": handled, "lastHandledForceAt": forced}
    assert reconcile_request.force_was_handled(Unstructured.of({**COMPONENT.body, "status": status}), "now") is expected


@pytest.mark.parametrize(("requested", "force_at", "asked"), [("b", "b", "b"), ("b", "a", ""), ("b", None, "")])
def test_a_force_is_of_the_request_with_the_same_value_and_of_no_later_one(
    requested: str, force_at: str | None, asked: str
) -> None:
    annotations = {reconcile_request.REQUESTED_AT_ANNOTATION: requested}
    annotations |= {reconcile_request.FORCE_AT_ANNOTATION: force_at} if force_at else {}
    assert reconcile_request.force_asked(ObjectMeta(annotations=annotations)) == asked


def test_a_ready_object_of_which_others_have_changed_something_is_shown_without_a_tick() -> None:
    ready: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready"}
    status: JsonObject = {"conditions": [ready], "state": "Ready", "driftedObjects": 2}
    seen = health.of(Unstructured.of({**COMPONENT.body, "status": status}))
    assert object_summary.in_words(seen) == ("◌", "busy", "is ready, and others have changed 2 of its objects")
    assert not seen.needs_attention
    told = object_actions.put_back_now(COMPONENT)
    assert told == "Put it back now: stellwerk reconcile component/x -n y --force"


@pytest.mark.parametrize("verb", ["suspended", "resumed"])
def test_what_a_kind_cannot_do_is_said_with_those_that_can(verb: str) -> None:
    with pytest.raises(Failure) as refused:
        object_actions.action(MODULE, lambda of: of.suspend, verb)
    report = refused.value.report
    assert report.error == f"BtpOperator y/x cannot be {verb}"
    assert "BtpOperator" in report.cause
    assert report.fix.endswith(": comp")
    assert refused.value.code == Exit.USAGE


def test_an_object_of_somebody_else_is_nobodys_business_here() -> None:
    with pytest.raises(Failure) as refused:
        object_actions.action(an("apps/v1", "Deployment"), lambda of: of.reconcile, "reconciled on request")
    assert refused.value.report.cause == "no operator of ours looks after it"
    assert ": btp, comp, " in refused.value.report.fix
