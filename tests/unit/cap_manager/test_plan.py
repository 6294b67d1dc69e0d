"""What a CAPOperator makes of its surroundings: domain, DNS target, values of the chart, and its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from stellwerk.api.core import Service, ServiceSpec
from stellwerk.delivery.sets import set_status
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, decode_json, encode_json
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap_manager.api import NEW, CAPOperator, CAPOperatorSpec
from stellwerk.operators.cap_manager.capoperator import plan
from stellwerk.operators.cap_manager.capoperator.plan import DnsTarget, KnownTarget
from stellwerk.operators.cap_manager.errors import InvalidInventory, InvalidSpec
from stellwerk.operators.cap_manager.reasons import Cause, PassReport, Reason

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
LABELS: JsonObject = {"name": "istio", "value": "ingressgateway"}
GATEWAY = {"istio": "ingressgateway", "version": "1"}


def spec_of(**fields: object) -> CAPOperatorSpec:
    body = {"subscriptionServer": {"subDomain": "cap-op"}, "ingressGatewayLabels": [LABELS], **fields}
    return msgspec.convert({key: value for key, value in body.items() if value is not None}, CAPOperatorSpec)


def capoperator(name: str = "cap-operator", minute: int = 0, **metadata: object) -> CAPOperator:
    meta = ObjectMeta(
        name=name,
        namespace="cap",
        generation=1,
        creation_timestamp=NOW + timedelta(minutes=minute),
        **metadata,  # type: ignore[arg-type]
    )
    return CAPOperator(metadata=meta, spec=spec_of())


def pod(namespace: str = "istio-system", name: str = "gateway") -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace=namespace, labels=GATEWAY))


def balancer(names: str = "*.ingress.example.com", name: str = "gateway", **selector: str) -> Service:
    annotations = {plan.DNS_NAMES_ANNOTATION: names} if names else {}
    return Service(
        metadata=ObjectMeta(name=name, namespace="istio-system", annotations=annotations),
        spec=ServiceSpec(type="LoadBalancer", selector=selector or {"istio": "ingressgateway"}),
    )


def test_the_domain_of_the_server_is_below_that_of_the_cluster() -> None:
    assert plan.server_domain(spec_of(), "cluster.example.com") == "cap-op.cluster.example.com"


def test_a_domain_of_64_characters_is_the_longest() -> None:
    longest = "a" * (64 - len("cap-op."))
    assert len(plan.server_domain(spec_of(), longest)) == 64
    with pytest.raises(InvalidSpec, match=r"'cap-op\.a+' is longer than 64 characters; use a smaller subDomain"):
        plan.server_domain(spec_of(), f"{longest}a")


def test_the_target_is_the_name_on_the_one_load_balancer_of_the_gateway() -> None:
    found = plan.dns_target_of_gateway([pod()], [balancer("*.ingress.example.com, other"), balancer(app="other")], "c")
    assert found == DnsTarget("x.ingress.example.com")


@pytest.mark.parametrize(
    ("pods", "services", "cause"),
    [
        ([], [balancer()], "no pod has the labels"),
        ([pod("b"), pod("a")], [balancer()], "are in a, b"),
        ([pod()], [balancer("*, localhost, a b.c,")], "has no DNS name in its annotation dns.gardener.cloud/dnsnames"),
        ([pod()], [], "no Service of type LoadBalancer"),
        ([pod()], [balancer(), balancer(name="second")], "2 Services of type LoadBalancer"),
        ([pod()], [balancer("")], "Service istio-system/gateway has no annotation dns.gardener.cloud/dnsnames"),
        ([pod()], [balancer(app="other")], "no Service of type LoadBalancer"),
    ],
)
def test_where_that_is_not_found_the_wildcard_of_the_cluster_is_the_target(
    pods: list[PartialObjectMetadata], services: list[Service], cause: str
) -> None:
    found = plan.dns_target_of_gateway(pods, services, "cluster.example.com")
    assert found.name == "x.cluster.example.com"
    assert cause in found.fallback_cause


def test_pods_that_another_user_has_created_do_not_hide_the_gateway() -> None:
    found = plan.dns_target_of_gateway([pod("shop"), pod()], [balancer()], "cluster.example.com")
    assert found == DnsTarget("x.ingress.example.com")


@pytest.mark.parametrize(
    "names",
    [
        "*,*.ingress.example.com",
        "localhost, *.ingress.example.com",
        " ,*.ingress.example.com",
        "*.Ingress.Example.com.",
    ],
)
def test_the_first_name_of_the_load_balancer_that_a_record_can_have_is_the_target(names: str) -> None:
    assert plan.dns_target_of_gateway([pod()], [balancer(names)], "c") == DnsTarget("x.ingress.example.com")


FOUND, FALLBACK = DnsTarget("x.ingress.example.com"), DnsTarget("x.cluster.example.com", "no pod")


def test_the_last_target_is_kept_for_ten_minutes_before_the_fallback() -> None:
    target, known = plan.kept_target(FOUND, "a=b", None, 0.0)
    assert (target, known) == (FOUND, KnownTarget(FOUND.name, "a=b"))
    target, known = plan.kept_target(FALLBACK, "a=b", known, 100.0)
    assert target == FOUND
    assert known is not None
    assert known.seconds_left(100.0) == 600.0
    target, known = plan.kept_target(FALLBACK, "a=b", known, 699.0)
    assert target == FOUND
    target, known = plan.kept_target(FALLBACK, "a=b", known, 700.0)
    assert target == FALLBACK
    target, known = plan.kept_target(FALLBACK, "a=b", known, 800.0)
    assert target == FALLBACK, "it is over once"
    target, known = plan.kept_target(FOUND, "a=b", known, 900.0)
    assert (target, known) == (FOUND, KnownTarget(FOUND.name, "a=b"))


def test_the_target_of_another_gateway_is_not_kept() -> None:
    known = KnownTarget(FOUND.name, "a=b")
    assert plan.kept_target(FALLBACK, "a=c", known, 0.0) == (FALLBACK, None)
    assert plan.kept_target(FALLBACK, "a=c", None, 0.0) == (FALLBACK, None)


def test_without_target_and_labels_both_fields_are_named() -> None:
    with pytest.raises(InvalidSpec, match=r"neither spec\.dnsTarget nor spec\.ingressGatewayLabels"):
        plan.gateway_selector(spec_of(ingressGatewayLabels=None))


def test_labels_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.ingressGatewayLabels"):
        plan.gateway_selector(spec_of(ingressGatewayLabels=[{"name": "a b", "value": "c"}]))


def test_a_given_target_needs_no_gateway() -> None:
    assert plan.gateway_selector(spec_of(ingressGatewayLabels=None, dnsTarget="lb.example.com")) == ""
    assert plan.normalized("*.example.com") == "x.example.com"


def test_the_values_are_the_spec_with_what_was_derived() -> None:
    spec = spec_of(
        controller={"replicas": 0, "maxConcurrentReconciles": {"capTenant": "7"}, "rolloutDelay": "2h"},
        monitoring={"enabled": True, "grafana": {"dashboard": {"configMapLabels": {"a": "b"}}}},
        webhook={"certificateManager": "CertManager", "resources": {"limits": {"memory": "1Gi"}}},
    )
    assert plan.chart_values(spec, "cap-op.example.com", "x.example.com") == {
        "subscriptionServer": {
            "domain": "cap-op.example.com",
            "dnsTarget": "x.example.com",
            "ingressGatewayLabels": {"istio": "ingressgateway", "app": None},
        },
        "controller": {
            "replicas": 0,
            "maxConcurrentReconciles": {"capTenant": "7"},
            "rolloutDelay": "2h",
            "dnsTarget": "x.example.com",
        },
        "monitoring": {"enabled": True, "grafana": {"dashboard": {"configMapLabels": {"a": "b"}}}},
        "webhook": {"certificateManager": "CertManager", "resources": {"limits": {"memory": "1Gi"}}},
    }


def test_the_oldest_capoperator_has_the_cluster_also_while_it_is_deleted() -> None:
    old, young = capoperator("old", deletion_timestamp=NOW), capoperator("young", 1)
    assert plan.first_of([young, old]) is old
    assert plan.first_of([]) is None


def test_a_new_content_raises_the_revision_and_restarts_the_clock() -> None:
    obj = capoperator()
    first = plan.start_content(obj, "one")
    assert (first.revision, first.processing_digest, first.last_processing_digest) == (1, "one", "one")
    waited = msgspec.structs.replace(obj, status=set_status.waiting(first, NOW))
    assert plan.start_content(waited, "one") == waited.status
    second = plan.start_content(waited, "two")
    assert (second.revision, second.processing_since) == (2, None)


def test_a_content_that_the_original_applied_counts_as_one_revision() -> None:
    applied = msgspec.structs.replace(NEW, last_applied_at=NOW, processing_digest="a" * 64)
    obj = msgspec.structs.replace(capoperator(), status=applied)
    assert plan.start_content(obj, "one").revision == 2


def test_an_annotation_or_another_chart_is_another_content() -> None:
    plain = plan.digest_of(capoperator(), "chart", {})
    assert plan.digest_of(capoperator(annotations={"a": "b"}), "chart", {}) != plain
    assert plan.digest_of(capoperator(), "other", {}) != plain
    assert plan.digest_of(capoperator(), "chart", {"a": 1}) != plain
    assert plan.digest_of(capoperator(), "chart", {}) == plain


def test_objects_are_late_after_ten_minutes() -> None:
    waiting = set_status.waiting(NEW, NOW)
    assert not set_status.is_late(waiting, plan.TIMEOUT, NOW + timedelta(minutes=9, seconds=59))
    assert set_status.is_late(waiting, plan.TIMEOUT, NOW + timedelta(minutes=10))
    assert not set_status.is_late(NEW, plan.TIMEOUT, NOW)


def test_an_edited_inventory_is_refused_with_the_command_that_mends_it() -> None:
    entry = {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
        "name": "../x",
        "adoptionPolicy": "Always",
        "reconcilePolicy": "OnObjectChange",
        "updatePolicy": "Replace",
        "deletePolicy": "Delete",
        "applyOrder": 0,
        "deleteOrder": 0,
        "digest": "",
    }
    body = {
        "metadata": {"name": "cap-operator", "namespace": "cap"},
        "status": {"observedGeneration": 1, "inventory": [entry]},
    }
    with pytest.raises(InvalidInventory, match=r"kubectl -n cap patch capoperator cap-operator --subresource status"):
        plan.check_inventory(msgspec.convert(body, CAPOperator))


@pytest.mark.parametrize(
    ("report", "state", "ready", "second"),
    [
        (PassReport(reason=Reason.Ready), State.Ready, "True", None),
        (PassReport(reason=Reason.Processing, cause=Cause.ObjectsNotReady), State.Processing, "Unknown", "Reconciling"),
        (PassReport(reason=Reason.Error, message="x", cause=Cause.InvalidSpec), State.Error, "False", "Stalled"),
        (PassReport(reason=Reason.Error, message="x", cause=Cause.ApplyFailed), State.Error, "False", "Reconciling"),
        (PassReport(reason=Reason.Timeout, cause=Cause.ObjectsNotReady), State.Error, "False", "Stalled"),
        (
            PassReport(reason=Reason.DeletionBlocked, message="x", cause=Cause.CapObjectsExist),
            State.DeletionPending,
            "Unknown",
            "Reconciling",
        ),
    ],
)
def test_the_state_and_the_conditions_follow_from_the_reason(
    report: PassReport, state: State, ready: str, second: str | None
) -> None:
    shown = set_status.with_report(NEW, NEW, report, 1, NOW)
    assert shown.state is state
    assert [each.type for each in shown.conditions] == ["Ready", *([second] if second else [])]
    assert shown.conditions[0].status == ready
    assert shown.last_observed_at == NOW


def test_a_report_that_changes_nothing_leaves_the_status_as_it_is() -> None:
    report = PassReport(reason=Reason.Ready)
    ready = set_status.with_report(NEW, set_status.finished(NEW, 1, NOW), report, 1, NOW)
    later = NOW + timedelta(minutes=10)
    again = set_status.with_report(ready, set_status.finished(ready, 1, later), report, 1, later)
    assert again is ready


def test_a_status_of_the_original_is_read_and_written_under_its_names() -> None:
    text: JsonObject = {
        "observedGeneration": 3,
        "appliedGeneration": 3,
        "lastObservedAt": "2026-01-31T09:30:00Z",
        "lastAppliedAt": "2026-01-31T09:30:00Z",
        "processingDigest": "a" * 64,
        "lastProcessingDigest": "a" * 64,
        "processingSince": "2026-01-31T09:30:00Z",
        "revision": 7,
        "state": "Ready",
    }
    status = msgspec.convert(text, type(NEW))
    assert decode_json(encode_json(status)) == text
