"""What pods may call and pull by default and by values, in each installation that comes from the chart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, CAP, MANAGER, Chart
from tests.unit.operators.test_helm_chart import dig_list, manager

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap_manager.capoperator import chart as charts
from stellwerk.operators.cap_manager.settings import TABLE

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


def called(policy: JsonObject) -> set[tuple[int, str]]:
    """Ports and protocols that a policy allows to any address."""
    (rule,) = dig_list(policy, "spec", "egress")
    assert set(rule) == {"ports"}
    return {(port["port"], port["protocol"]) for port in rule["ports"]}


async def test_names_are_resolved_at_the_ports_of_the_pods_of_coredns(chart: Chart) -> None:
    """Rules count after the address of a Service is translated, and CoreDNS of Gardener listens on 8053."""
    objects = await chart.render({**ALL, "networkPolicy": {"egressPorts": []}})

    policies = [body for (kind, _), body in objects.items() if kind == "NetworkPolicy"]
    assert policies
    for policy in policies:
        assert called(policy) == {(port, protocol) for port in (53, 8053) for protocol in ("UDP", "TCP")}


async def test_the_usual_ports_of_api_servers_may_be_called(chart: Chart) -> None:
    objects = await chart.render(ALL)

    ports = called(objects["NetworkPolicy", "component-operator"])
    assert ports >= {(port, "TCP") for port in (443, 6443, 8443, 16443)}


PROMETHEUS: JsonObject = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@pytest.mark.parametrize("peers", [[], [PROMETHEUS]], ids=["by default", "by value"])
async def test_metrics_are_for_the_peers_that_are_named_and_other_ports_stay_open(
    chart: Chart, peers: list[JsonObject]
) -> None:
    objects = await chart.render({**ALL, "networkPolicy": {"metricsFrom": [*peers]}})

    policies = [body for (kind, _), body in objects.items() if kind == "NetworkPolicy"]
    assert policies
    for policy in policies:
        entries = [
            (port["port"], rule.get("from"))
            for rule in dig_list(policy, "spec", "ingress")
            for port in dig_list(rule, "ports")
        ]
        assert [peer for port, peer in entries if port == "metrics"] == [peers or None]
        assert {peer is None for port, peer in entries if port != "metrics"} == {True}
    assert "webhook" in str(dig(objects["NetworkPolicy", "cap-operator-webhook"], "spec", "ingress"))


async def test_the_manager_passes_network_policy_and_pull_secrets_to_what_it_installs(chart: Chart) -> None:
    values: JsonObject = {
        "imagePullSecrets": [{"name": "common"}],
        "networkPolicy": {
            "egressPorts": [443, 7443],
            "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            "metricsFrom": [PROMETHEUS],
        },
    }
    own: JsonObject = {**MANAGER, "imagePullSecrets": [{"name": "login"}]}
    managing = await chart.render({**values, "capOperatorManager": own})

    container = manager(managing["Deployment", "cap-operator-manager"])
    variables = {str(each["name"]): str(each["value"]) for each in dig_list(container, "env")}
    settings = TABLE.of_process([], variables)
    product = charts.load(settings.manifest_directory, settings.chart_values)
    installed = await chart.render(product.values({}, settings.image, "cap-operator"))
    pod = dig(installed["Deployment", "cap-operator-controller"], "spec", "template", "spec")
    assert dig(pod, "imagePullSecrets") == [{"name": "login"}]
    policy = installed["NetworkPolicy", "cap-operator-controller"]
    own_policy = managing["NetworkPolicy", "cap-operator-manager"]
    assert dig(policy, "spec", "egress") == dig(own_policy, "spec", "egress")
    assert dig_list(policy, "spec", "ingress")[0] == dig_list(own_policy, "spec", "ingress")[0]
    assert dig_list(policy, "spec", "ingress")[0]["from"] == [PROMETHEUS]
    assert (7443, "TCP") in {
        (port["port"], port["protocol"]) for port in dig_list(policy, "spec", "egress")[0]["ports"]
    }


async def test_the_manager_passes_what_administrators_decide_to_what_it_installs(chart: Chart) -> None:
    """Fields of a CAPOperator count before, but it has none for these."""
    headers: JsonObject = {"options": {"allowedRouteHeaders": "x-forwarded-host"}}
    decided: JsonObject = {
        "enabled": False,
        "fullnameOverride": "other",
        "controller": {
            "ingressNamespaces": "gateways",
            "certificateIssuers": "ClusterIssuer/ours",
            "versionMonitoring": {"unrestrictedMetricQueries": True, "metricsEvaluationInterval": "3h"},
            **headers,
        },
        "webhook": headers,
        "subscriptionServer": {
            "options": {"serveUnproved": True},
            "gatewaySecret": {"name": "shared"},
        },
    }
    managing = await chart.render({"capOperatorManager": {**MANAGER, "capOperator": decided}})

    container = manager(managing["Deployment", "cap-operator-manager"])
    variables = {str(each["name"]): str(each["value"]) for each in dig_list(container, "env")}
    settings = TABLE.of_process([], variables)
    product = charts.load(settings.manifest_directory, settings.chart_values)
    own: JsonObject = {"controller": {"versionMonitoring": {"metricsEvaluationInterval": "2h"}}}
    installed = await chart.render(product.values(own, settings.image, "my-cap"))
    controller = manager(installed["Deployment", "my-cap-controller"])
    found = {str(each["name"]): str(each.get("value")) for each in dig_list(controller, "env")}
    assert (
        found.items()
        >= {
            "INGRESS_NAMESPACES": "gateways",
            "CERTIFICATE_ISSUERS": "ClusterIssuer/ours",
            "UNRESTRICTED_METRIC_QUERIES": "true",
            "METRICS_EVAL_INTERVAL": "2h",
        }.items()
    )
    for name in ("controller", "webhook"):
        arguments = str(dig(manager(installed["Deployment", f"my-cap-{name}"]), "args"))
        assert "--allowed-route-headers=x-forwarded-host" in arguments
    server = str(dig(manager(installed["Deployment", "my-cap-subscription-server"]), "args"))
    assert "--serve-unproved" in server
    assert "--gateway-secret=shared" in server


@pytest.mark.parametrize(
    ("address", "added"),
    [
        ("http://prometheus.monitoring:9091", {(9091, "TCP")}),
        ("http://prometheus.monitoring:9091/path?q=:1", {(9091, "TCP")}),
        ("prometheus:9091", {(9091, "TCP")}),
        ("http://[fd00::1]:9091", {(9091, "TCP")}),
        ("http://prometheus.monitoring:443", set[tuple[int, str]]()),
        ("http://prometheus.monitoring", set[tuple[int, str]]()),
        ("http://prometheus.monitoring:99999", set[tuple[int, str]]()),
        ("%:/no address", set[tuple[int, str]]()),
    ],
)
async def test_the_controllers_may_call_the_port_of_prometheus(
    chart: Chart, address: str, added: set[tuple[int, str]]
) -> None:
    own: JsonObject = {**CAP, "controller": {"versionMonitoring": {"prometheusAddress": address}}}
    objects = await chart.render({"capOperator": own, "networkPolicy": {"egressPorts": [443]}})

    usual = called(objects["NetworkPolicy", "cap-operator-webhook"])
    assert called(objects["NetworkPolicy", "cap-operator-controller"]) == usual | added
    assert not usual & added
