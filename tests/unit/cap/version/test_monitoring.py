"""Which versions are not used any more, and what is asked about them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from tests.unit.cap import given

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version import monitoring, plan
from stellwerk.operators.cap.version.monitoring import Answer, Question, UnusableRule
from stellwerk.runtime.control.jobs import StepsDone

_TEXTS = st.text('ax:1m[](){}"=,\\\n ', max_size=30)
OWNER: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "name": "acme", "uid": "uid-acme"}
READY: JsonObject = {"type": "Ready", "status": "True", "reason": "WorkloadsReady", "message": "ready"}


def a_version(number: str, suffix: str = "", *, ready: bool = True) -> CAPApplicationVersion:
    found = given.version(name=f"bookshop-v{number}{suffix}", version=number)
    status: JsonObject = {"conditions": [READY] if ready else []}
    return msgspec.structs.replace(found, status=msgspec.convert(status, type(found.status)))


def a_tenant(version: str, current: str) -> CAPTenant:
    found = given.tenant()
    spec = msgspec.structs.replace(found.spec, version=version)
    status = msgspec.structs.replace(found.status, current_version=current)
    return msgspec.structs.replace(found, spec=spec, status=status)


def annotated(text: str) -> CAPApplication:
    found = given.application()
    metadata = msgspec.structs.replace(found.metadata, annotations={names.CLEANUP_ANNOTATION: text})
    return msgspec.structs.replace(found, metadata=metadata)


def with_rules(**rules: Any) -> CAPApplicationVersion:
    return given.version(given.deployment("srv", "CAP", monitoring={"deletionRules": rules}))


def metric(**fields: str) -> JsonObject:
    usual = {"name": "sessions", "type": "Gauge", "calculationPeriod": "30m", "thresholdValue": "0.5"}
    return {**usual, **fields}


@pytest.mark.parametrize(
    ("text", "asked"),
    [("true", "true"), ("True", "true"), ("DRY-RUN", "dry-run"), ("false", ""), ("yes", ""), ("", "")],
)
def test_an_application_asks_by_an_annotation(text: str, asked: str) -> None:
    assert monitoring.asks(annotated(text)) == asked


def test_older_versions_that_no_tenant_needs_are_candidates() -> None:
    versions = [a_version(number) for number in ("1.0.0", "1.5.0", "2.0.0", "3.0.0")]
    newer = a_version("4.0.0", ready=False)
    tenants = [a_tenant("2.0.0", "bookshop-v1.0.0")]
    found = monitoring.candidates([*versions, newer], tenants, ())
    assert [version.metadata.name for version in found] == ["bookshop-v1.5.0"]


def test_a_version_with_the_number_that_a_tenant_asks_for_is_no_candidate() -> None:
    versions = [a_version("2.0.0"), a_version("2.0.0", "-fix"), a_version("3.0.0")]
    assert monitoring.candidates(versions, [a_tenant("2.0.0", "bookshop-v2.0.0")], ()) == []


def test_a_version_that_an_operation_under_way_needs_is_no_candidate() -> None:
    versions = [a_version("1.0.0"), a_version("2.0.0")]
    owner: JsonObject = {**OWNER, "controller": True}
    metadata = given.metadata("acme-op", ownerReferences=[owner])
    operation = given.operation("upgrade", metadata=metadata)
    spec = msgspec.structs.replace(operation.spec, version_name="bookshop-v1.0.0")
    operation = msgspec.structs.replace(operation, spec=spec)
    assert monitoring.candidates(versions, (), [operation]) == []
    assert monitoring.candidates(versions, (), ()) == versions[:1]


def test_without_a_ready_version_none_is_a_candidate() -> None:
    assert monitoring.candidates([a_version("1.0.0", ready=False)], (), ()) == ()


def test_metrics_are_asked_about_the_service_of_their_workload() -> None:
    gauge, counter = monitoring.questions(with_rules(metrics=[metric(), metric(type="Counter", name="requests")]))
    series = '{job="bookshop-v1-srv-svc",namespace="shop"}[30m]'
    assert gauge == Question(query=f"sum(avg_over_time(sessions{series}))", threshold=0.5)
    assert counter.query == f"sum(rate(requests{series}))"
    assert monitoring.questions(given.version()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 'a{b="c"}'},
        {"name": ""},
        {"thresholdValue": "few"},
        {"thresholdValue": "nan"},
        {"calculationPeriod": "1m])) or sum(rate(secrets[1m"},
        {"calculationPeriod": ""},
    ],
)
def test_a_rule_that_cannot_be_asked_about_keeps_the_version(wrong: dict[str, str]) -> None:
    with pytest.raises(UnusableRule):
        monitoring.questions(with_rules(metrics=[metric(**wrong)]))


@pytest.mark.req("R-917")
def test_an_expression_is_asked_only_if_a_setting_allows_the_metrics_of_all_namespaces() -> None:
    version = with_rules(expression="scalar(sum(sessions)) == bool 0", metrics=[metric()])
    with pytest.raises(UnusableRule, match=r"of workload srv .* UNRESTRICTED_METRIC_QUERIES=true"):
        monitoring.questions(version)
    expression, about = monitoring.questions(version, unrestricted=True)
    assert expression == Question(query="scalar(sum(sessions)) == bool 0")
    assert 'namespace="shop"' in about.query


@pytest.mark.req("R-917")
@given_any(_TEXTS, _TEXTS)
def test_no_name_and_no_period_of_a_metric_leads_out_of_the_namespace(name: str, period: str) -> None:
    try:
        (question,) = monitoring.questions(with_rules(metrics=[metric(name=name, calculationPeriod=period)]))
    except UnusableRule:
        return
    assert question.query.count("{") == 1
    assert question.query.endswith(f'namespace="shop"}}[{period}]))')


@pytest.mark.parametrize("rules", [{"expression": ""}, {"expression": " \n"}, {"metrics": []}, {}])
def test_rules_that_ask_nothing_keep_the_version(rules: dict[str, Any]) -> None:
    with pytest.raises(UnusableRule, match="srv ask nothing"):
        monitoring.questions(with_rules(**rules))


@pytest.mark.parametrize(
    ("threshold", "is_scalar", "values", "unused"),
    [
        (0.5, False, (0.5,), True),
        (0.5, False, (0.6,), False),
        (0.5, False, (), True),
        (0.5, False, (float("nan"),), False),
        (0.5, True, (0.0,), False),
        (None, True, (1.0,), True),
        (None, True, (0.0,), False),
        (None, False, (1.0,), False),
    ],
)
def test_an_answer_means_unused(
    threshold: float | None, is_scalar: bool, values: tuple[float, ...], unused: bool
) -> None:
    question = Question(query="q", threshold=threshold)
    assert question.is_unused(Answer(is_scalar=is_scalar, values=values)) is unused


@pytest.mark.req("R-917")
@pytest.mark.parametrize("annotation", ["true", "dry-run", ""])
@pytest.mark.parametrize("unrestricted", [False, True])
def test_a_ready_version_names_the_rule_that_is_refused_and_the_setting(annotation: str, unrestricted: bool) -> None:
    """Without the annotation of its application, its rules have no effect."""
    rules = {"deletionRules": {"expression": "scalar(sum(sessions))"}}
    version = given.version(given.deployment("srv", "CAP", monitoring=rules))
    ready = msgspec.convert(
        {"state": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}, type(version.status)
    )
    version = msgspec.structs.replace(version, status=ready)
    application = given.application()
    metadata = msgspec.structs.replace(application.metadata, annotations={names.CLEANUP_ANNOTATION: annotation})
    application = msgspec.structs.replace(application, metadata=metadata)
    problem = monitoring.problem_of_rules(version, application, unrestricted=unrestricted)
    seen = plan.VersionSnapshot(version=version, application=application, unusable_rules=problem)
    report = plan.progress(seen, StepsDone(), ())
    assert report.is_ready
    expected = ("workload srv", "deletionRules.expression", "UNRESTRICTED_METRIC_QUERIES=true")
    if annotation and not unrestricted:
        assert all(word in report.message for word in expected)
    else:
        assert report.message == "all workloads are ready"
