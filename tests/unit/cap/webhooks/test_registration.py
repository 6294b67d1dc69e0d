"""API servers ask the webhooks about as few writes as possible, because they refuse what no webhook answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.webhooks import judges, registration
from stellwerk.runtime.serving import webhook

HOME = "cap-operator-system"
NOTHING: Any = None
JUDGES = judges.Judges(
    client=NOTHING, applications=NOTHING, tenants=NOTHING, domains=NOTHING, cluster_domains=NOTHING, namespaces=NOTHING
)
"""Their paths and kinds are asked for, and no decision."""


def at_a_service(path: str) -> JsonObject:
    return {"service": {"namespace": HOME, "name": "webhooks", "path": path}}


def webhooks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each webhook with the kind of its configuration."""
    for body in registration.configurations(at_a_service, HOME):
        for entry in yaml.safe_load(yaml.safe_dump(body))["webhooks"]:
            yield str(body["kind"]), entry


@pytest.mark.req("R-706")
def test_an_api_server_waits_for_five_seconds_at_most() -> None:
    assert all(entry["timeoutSeconds"] <= 5 for _, entry in webhooks())
    assert webhook.LIMITS.answer_seconds == 5


@pytest.mark.req("R-706")
def test_only_the_deletion_of_the_tenant_of_a_provider_is_asked_about() -> None:
    asked = [
        (rule["resources"], entry["objectSelector"])
        for _, entry in webhooks()
        for rule in entry["rules"]
        if "DELETE" in rule["operations"]
    ]
    assert asked == [(["captenants"], {"matchLabels": {"sme.sap.com/tenant-type": "provider"}})]


@pytest.mark.req("R-706")
def test_an_object_that_is_being_deleted_is_asked_about_only_where_its_spec_changes() -> None:
    for _, entry in webhooks():
        if "UPDATE" in entry["rules"][0]["operations"]:
            assert [each["expression"] for each in entry["matchConditions"]] == [
                'request.operation == "CREATE" || !has(object.metadata.deletionTimestamp) || '
                "(has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec))"
            ]


@pytest.mark.req("R-706")
def test_the_namespace_of_the_webhooks_is_left_out() -> None:
    for _, entry in webhooks():
        (expression,) = entry["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", [HOME])


def test_every_kind_that_is_judged_is_registered_at_its_path_under_the_names_of_the_original() -> None:
    bodies = registration.configurations(at_a_service, HOME)
    assert [(body["kind"], body["metadata"]) for body in bodies] == [
        ("ValidatingWebhookConfiguration", {"name": "cap-operator"}),
        ("MutatingWebhookConfiguration", {"name": "cap-operator"}),
    ]
    registered = {
        (entry["clientConfig"]["service"]["path"], resource)
        for _, entry in webhooks()
        for rule in entry["rules"]
        for resource in rule["resources"]
    }
    judged = {(judge.path, f"{judge.gvk.kind.lower()}s") for judge in JUDGES.webhooks()}
    assert registered == judged
    assert {entry["name"] for _, entry in webhooks()} == {
        "cap-operator.sme.sap.com",
        "deletion.cap-operator.sme.sap.com",
    }
