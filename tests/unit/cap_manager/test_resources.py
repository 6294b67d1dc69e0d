"""The marks on objects of an installation, and the rights of the manager."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stellwerk.api.rbac import PolicyRule
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap.operator import OPERATOR as CAP
from stellwerk.operators.cap_manager import rights
from stellwerk.operators.cap_manager.api import DELETE_POLICY_ANNOTATION
from stellwerk.operators.cap_manager.capoperator import resources
from stellwerk.render.request.request import Rendered

CONFIG: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"k": "v"}}}


def rendered(**annotations: str) -> Rendered:
    body: JsonObject = {**CONFIG, "metadata": {"name": "a", "annotations": {"k": "v", **annotations}}}
    return Rendered("helm", (body,), ("templates/a.yaml",), None, frozenset(), "digest")


@pytest.mark.parametrize("present", [{}, {DELETE_POLICY_ANNOTATION: "orphan"}])
def test_objects_are_marked_to_stay_only_where_they_are_retained(present: dict[str, str]) -> None:
    (kept,) = resources.documents(rendered(**present), retains=True)
    assert dig(kept.body, "metadata", "annotations") == {"k": "v", DELETE_POLICY_ANNOTATION: "orphan"}
    (plain,) = resources.documents(rendered(**present), retains=False)
    assert dig(plain.body, "metadata", "annotations") == {"k": "v"}
    assert str(plain.origin) == "templates/a.yaml"


def test_retained_objects_stay_in_a_deletion() -> None:
    entry = InventoryEntry(gvk=GroupVersionKind("", "v1", "ConfigMap"), key=ObjectKey("cap", "a"))
    (kept,) = resources.retained(Inventory((entry, replace(entry, key=ObjectKey("cap", "b"))))).entries[:1]
    assert kept.delete.orphans_on_delete


def test_the_certificate_of_the_originals_webhooks_stays_and_nothing_else() -> None:
    entry = InventoryEntry(gvk=GroupVersionKind("", "v1", "Secret"), key=ObjectKey("cap", "my-cap-webhook-tls"))
    others = (
        replace(entry, key=ObjectKey("cap", "other-webhook-tls")),
        replace(entry, key=ObjectKey("other", "my-cap-webhook-tls")),
        replace(entry, gvk=GroupVersionKind("", "v1", "ConfigMap")),
    )
    kept, *rest = resources.keeping_certificate(Inventory((entry, *others)), ObjectKey("cap", "my-cap"))
    assert kept.delete.orphans_on_apply
    assert not kept.delete.orphans_on_delete
    assert tuple(rest) == others


BY_CHART: JsonObject = {"app.kubernetes.io/name": "webhook", "app.kubernetes.io/instance": "cap"}
LIVE: JsonObject = {"app.kubernetes.io/name": "webhook", "app.kubernetes.io/instance": "release", "tier": "web"}
FOLLOWED: JsonObject = {**BY_CHART, "app.kubernetes.io/instance": "release"}


def document(api_version: str, kind: str, spec: JsonObject, name: str = "webhook") -> Document:
    return Document({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})


def deployment(name: str = "webhook", labels: JsonObject = BY_CHART) -> Document:
    spread: JsonObject = {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}
    pods: JsonObject = {"metadata": {"labels": labels}, "spec": {"topologySpreadConstraints": [spread]}}
    return document("apps/v1", "Deployment", {"selector": {"matchLabels": labels}, "template": pods}, name)


def taken_over(*found: Document, live: JsonObject = LIVE) -> list[JsonObject]:
    """The specs of objects beside a Deployment that has another selector in the cluster."""
    selectors: dict[ObjectKey, JsonObject] = {ObjectKey("cap", "webhook"): {"matchLabels": live}}
    specs = [each.body["spec"] for each in resources.with_selectors(found, selectors, "cap")]
    return [spec for spec in specs if isinstance(spec, dict)]


def test_a_deployment_of_another_release_keeps_its_selector_and_its_pods_spread_by_it() -> None:
    (spec,) = taken_over(deployment())
    assert dig(spec, "selector", "matchLabels") == LIVE
    assert dig(spec, "template", "metadata", "labels") == LIVE
    assert dig(spec, "template", "spec", "topologySpreadConstraints") == [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": FOLLOWED}}
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "field"),
    [
        ("policy/v1", "PodDisruptionBudget", "selector"),
        ("networking.k8s.io/v1", "NetworkPolicy", "podSelector"),
        ("monitoring.coreos.com/v1", "PodMonitor", "selector"),
    ],
)
def test_what_selects_pods_finds_those_of_a_deployment_of_another_release(
    api_version: str, kind: str, field: str
) -> None:
    _, spec = taken_over(deployment(), document(api_version, kind, {field: {"matchLabels": BY_CHART}}))
    assert spec == {field: {"matchLabels": FOLLOWED}}


def test_a_service_leads_to_the_pods_of_a_deployment_of_another_release_wherever_it_is_in_the_chart() -> None:
    service = document("v1", "Service", {"selector": BY_CHART, "ports": [{"port": 443}]})
    before, _, after = taken_over(service, deployment(), service)
    assert before == after == {"selector": FOLLOWED, "ports": [{"port": 443}]}


def test_what_selects_services_or_other_pods_stays() -> None:
    monitor = document("monitoring.coreos.com/v1", "ServiceMonitor", {"selector": {"matchLabels": BY_CHART}})
    other = document("v1", "Service", {"selector": {"app.kubernetes.io/instance": "another"}})
    elsewhere = Document(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"selector": BY_CHART},
        }
    )
    _, *specs = taken_over(deployment(), monitor, other, elsewhere)
    assert specs == [each.body["spec"] for each in (monitor, other, elsewhere)]


def test_a_selector_of_several_deployments_follows_them_only_together() -> None:
    shared = document("policy/v1", "PodDisruptionBudget", {"selector": {"matchLabels": {"part": "cap"}}})
    by_chart: JsonObject = {**BY_CHART, "part": "cap"}
    live: JsonObject = {**LIVE, "part": "old"}
    _, alone = taken_over(deployment("webhook", by_chart), shared, live=live)
    assert dig(alone, "selector", "matchLabels") == {"part": "old"}
    _, _, kept = taken_over(deployment("webhook", by_chart), deployment("new", by_chart), shared, live=live)
    assert dig(kept, "selector", "matchLabels") == {"part": "cap"}


def test_the_manager_has_every_right_that_it_grants() -> None:
    installed = [process.installation() for process in CAP.processes]
    granted = rights.granted_rules(installed)
    bodies = [body for each in installed for body in (*each.accounts(), *each.roles_of_users())]
    roles = [body for body in bodies if body["kind"] in ("ClusterRole", "Role")]
    wanted = [rule for body in roles for rule in _rules(body)]
    assert wanted
    assert set(wanted) == set(granted)


def test_the_manager_may_neither_escalate_nor_bind() -> None:
    verbs = {verb for grant in rights.GRANTS for verb in grant.rule.verbs}
    assert verbs.isdisjoint({"*", "escalate", "bind", "impersonate"})


def _rules(body: JsonObject) -> list[PolicyRule]:
    return msgspec.convert(body["rules"], list[PolicyRule])
