"""What can be asked of which kind."""

from __future__ import annotations

import pytest

from stellwerk.cli.objects import object_actions
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.model import Unstructured


def an(api_version: str, kind: str) -> Unstructured:
    return Unstructured.of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "y"}})


MODULE = an("operator.kyma-project.io/v1alpha1", "BtpOperator")
COMPONENT = an("core.cs.sap.com/v1alpha1", "Component")


@pytest.mark.parametrize("obj", [MODULE, COMPONENT])
def test_each_kind_of_ours_can_be_reconciled_on_request(obj: Unstructured) -> None:
    assert object_actions.action(obj, lambda of: of.reconcile, "reconciled on request").request("now")


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
