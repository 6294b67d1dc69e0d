"""The chart limits the CAP Operator to namespaces: by its flags, and by rights that end there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import Chart

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.render.errors import RenderError

WATCHED: Sequence[JsonValue] = ("books", "shop")
CAP: JsonObject = {"enabled": True, "controller": {"ingressNamespaces": "gateways, edge"}}
VALUES: JsonObject = {"watchNamespaces": [*WATCHED], "capOperator": CAP}


@pytest.fixture
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as made:
        yield made


def rules(bodies: Sequence[JsonObject], kind: str) -> Iterator[tuple[JsonValue, str, str]]:
    """The place, resource and verb of each right of the roles of a kind."""
    for body in bodies:
        if body["kind"] == kind and isinstance(listed := body.get("rules"), list):
            for rule in listed:
                for resource in words(rule, "resources"):
                    yield from ((dig(body, "metadata", "namespace"), resource, verb) for verb in words(rule, "verbs"))


def words(rule: JsonValue, name: str) -> list[str]:
    found = dig(rule, name)
    return [str(each) for each in found] if isinstance(found, list) else []


@pytest.mark.req("R-961")
async def test_with_watched_namespaces_no_cluster_role_has_a_right_to_an_object_that_has_a_namespace(
    chart: Chart,
) -> None:
    bodies = await chart.bodies(VALUES)
    users = ("cap-operator-edit", "cap-operator-view", "cap-operator-admin")
    of_programs = [body for body in bodies if dig(body, "metadata", "name") not in users]
    assert {resource.partition("/")[0] for _, resource, _ in rules(of_programs, "ClusterRole")} == {
        "clusterdomains",
        "customresourcedefinitions",
        "mutatingwebhookconfigurations",
        "namespaces",
        "subjectaccessreviews",
        "tokenreviews",
        "validatingwebhookconfigurations",
    }
    roles = {*rules(bodies, "Role")}
    assert {place for place, resource, verb in roles if (resource, verb) == ("secrets", "list")} == {
        *("books", "shop", "gateways", "edge"),
        helm_charts.NAMESPACE,  # the server's own Secret of the gateway
    }
    assert {place for place, resource, _ in roles if resource == "captenants"} == {*WATCHED}
    assert {place for place, resource, _ in roles if resource == "endpointslices"} == {"gateways", "edge"}
    assert {right for right in roles if right[0] == "default"} == {
        ("default", "events", "create"),
        ("default", "events", "patch"),
    }, "for Events about objects without a namespace"


@pytest.mark.req("R-961")
async def test_each_role_is_bound_in_its_namespace_to_the_account_of_its_process(chart: Chart) -> None:
    bodies = await chart.bodies(VALUES)
    roles = {
        (dig(body, "metadata", "namespace"), dig(body, "metadata", "name")) for body in bodies if body["kind"] == "Role"
    }
    bound = {
        (dig(body, "metadata", "namespace"), dig(body, "roleRef", "name"))
        for body in bodies
        if body["kind"] == "RoleBinding"
    }
    assert roles == bound
    accounts = {dig(body, "metadata", "name") for body in bodies if body["kind"] == "ServiceAccount"}
    for body in bodies:
        if body["kind"] == "RoleBinding":
            subjects = body["subjects"]
            assert isinstance(subjects, list)
            assert {dig(each, "name") for each in subjects} <= accounts
            assert {dig(each, "namespace") for each in subjects} == {helm_charts.NAMESPACE}


@pytest.mark.req("R-961")
async def test_each_process_has_the_list_and_its_webhooks_are_asked_about_these_namespaces_only(chart: Chart) -> None:
    bodies = await chart.bodies(VALUES)
    deployments = [body for body in bodies if body["kind"] == "Deployment"]
    assert len(deployments) == 3
    for body in deployments:
        containers = dig(body, "spec", "template", "spec", "containers")
        assert isinstance(containers, list)
        assert "--watch-namespaces=books,shop" in words(containers[0], "args")
    configurations = [body for body in bodies if str(body["kind"]).endswith("WebhookConfiguration")]
    assert len(configurations) == 2
    inside: JsonObject = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*WATCHED]}
    for body in configurations:
        webhooks = body["webhooks"]
        assert isinstance(webhooks, list)
        for webhook in webhooks:
            expressions = dig(webhook, "namespaceSelector", "matchExpressions")
            assert isinstance(expressions, list)
            assert inside in expressions


@pytest.mark.req("R-961")
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"controller": {}}, "capOperator.controller.ingressNamespaces"),
        ({"controller": {"ingressNamespaces": "*"}}, "capOperator.controller.ingressNamespaces"),
        (
            {**CAP, "subscriptionServer": {"istioSystemNamespace": ""}},
            "capOperator.subscriptionServer.istioSystemNamespace",
        ),
    ],
)
async def test_with_watched_namespaces_those_of_ingress_gateways_have_to_be_named(
    chart: Chart, changed: JsonObject, named: str
) -> None:
    with pytest.raises(RenderError, match=named):
        await chart.render({**VALUES, "capOperator": {**changed, "enabled": True}})
