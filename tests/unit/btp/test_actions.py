"""What a person may ask of a BtpOperator, and how it shows that somebody has listened."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.unit.kube.scripted import serving

from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import Unstructured, to_json_object
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp import reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.btpoperator import reconcile
from stellwerk.operators.btp.insight import actions
from stellwerk.operators.btp.reasons import Reason

READY = BtpOperatorStatus(state=State.Ready)


def operator(asked: str = "", status: BtpOperatorStatus | None = READY) -> BtpOperator:
    annotations = {REQUESTED_AT_ANNOTATION: asked} if asked else {}
    return BtpOperator(metadata=ObjectMeta(name="o", namespace="n", annotations=annotations), status=status)


def test_a_pass_that_says_nothing_still_says_which_request_it_was() -> None:
    answered = reconcile.answered(operator("now"), None)
    assert answered is not None
    assert (answered.state, answered.last_handled_reconcile_at) == (State.Ready, "now")


def test_a_request_is_the_annotation_that_is_answered() -> None:
    assert actions.RECONCILE.request("now") == {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: "now"}}}


def test_without_a_request_nothing_is_added() -> None:
    assert reconcile.answered(operator(), None) is None
    assert reconcile.answered(operator(), READY) is READY
    assert reconcile.answered(operator("now", status=None), None) is None


def test_a_request_is_answered_once_and_its_answer_survives_other_news() -> None:
    handled = reconcile.answered(operator("now"), None)
    assert reconcile.answered(operator("now", status=handled), None) is None
    news = reasons.status_for(handled, Reason.MissingSecret, "", 1, datetime.now(UTC))
    assert news.last_handled_reconcile_at == "now"


def test_a_request_counts_as_handled_when_its_own_moment_is_shown() -> None:
    live = Unstructured.of(to_json_object(operator("now", status=reconcile.answered(operator("now"), None))))
    assert actions.RECONCILE.was_handled(live, "now")
    assert not actions.RECONCILE.was_handled(live, "later")


def test_force_is_the_label_that_the_operator_knows() -> None:
    live = Unstructured.of(to_json_object(operator()))
    assert actions.UNSTICK.force(live) == {"metadata": {"labels": {"force-delete": "true"}}}


@pytest.mark.parametrize(
    ("selection", "namespace", "has_effect"),
    [
        ("oldest", "module", True),
        ("oldest", "n", False),
        ("oldest", "kyma-system", False),
        ("fixed", "kyma-system", True),
        ("fixed", "module", False),
    ],
)
async def test_force_has_an_effect_in_one_namespace_alone(selection: str, namespace: str, has_effect: bool) -> None:
    home = "module" if selection == "oldest" else "kyma-system"
    data = {"ChartNamespace": "module", "CrSelection": selection}
    tunables = {"metadata": {"name": "sap-btp-manager"}, "data": data}
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", **tunables}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    leaving = BtpOperator(metadata=ObjectMeta(name="o", namespace=namespace))
    async with serving(answer) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client.connect(config) as client:
            obstacle = await actions.UNSTICK.obstacle(client, Unstructured.of(to_json_object(leaving)))
    if has_effect:
        assert obstacle is None
    else:
        assert obstacle is not None
        assert f"only on a BtpOperator in the namespace {home}, if the operator's flags" in obstacle[0]
        assert "stellwerk instance list" in obstacle[1]
