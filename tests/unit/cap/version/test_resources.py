"""The objects of workloads, as the specification describes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cap.given import NAMESPACE, application, deployment, job, version

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable
from stellwerk.operators.cap.version.resources import UnusableWorkload, VersionObjects


def objects_of(made: CAPApplicationVersion) -> VersionObjects:
    return VersionObjects(application=application(), version=made)


def deployed(made: CAPApplicationVersion, name: str) -> Any:
    objects = objects_of(made)
    (workload,) = (each for _, each in objects.workloads() if each.name == name)
    return objects.deployment(workload, "the-secret").body


def beside(made: CAPApplicationVersion, name: str) -> dict[str, Any]:
    """Companions, Services and monitors of a workload, by their kind."""
    objects = objects_of(made)
    (workload,) = (each for _, each in objects.workloads() if each.name == name)
    found = (*objects.companions(workload), *objects.services(workload), *objects.monitors(workload))
    return {each.resource.kind: each for each in found}


def at(body: Any, *path: str) -> Any:
    for part in path:
        body = body[part]
    return body


def env(body: Any) -> dict[str, object]:
    containers = at(body, "spec", "template", "spec", "containers")
    return {each["name"]: each.get("value") for each in containers[0]["env"]}


def test_a_deployment_selects_its_pods_by_all_its_labels() -> None:
    made = version(deployment("srv", "CAP") | {"labels": {"team": "a", "app": "mine"}})
    body = deployed(made, "srv")
    labels = at(body, "metadata", "labels")

    assert labels == at(body, "spec", "selector", "matchLabels") == at(body, "spec", "template", "metadata", "labels")
    assert labels["app"] == "bookshop", "the labels of the operator win"
    assert labels["team"] == "a"
    assert labels["sme.sap.com/category"] == "Workload"
    assert labels["sme.sap.com/workload-type"] == "CAP"
    assert labels["sme.sap.com/workload-name"] == "bookshop-v1-srv"
    assert labels["sme.sap.com/cav-version"] == "1.0.0"
    assert labels["sme.sap.com/owner-generation"] == "1"
    assert "sme.sap.com/exposed-workload" not in labels
    assert at(body, "metadata", "annotations") == {"sme.sap.com/owner-identifier": f"{NAMESPACE}.bookshop-v1"}
    assert at(body, "metadata", "name") == "bookshop-v1-srv"
    assert "replicas" not in body["spec"], "the API server fills in 1"


def test_pods_read_their_credentials_from_the_secret_and_know_their_version() -> None:
    body = deployed(version(deployment("srv", "CAP", env=[{"name": "A", "value": "b"}])), "srv")
    (container,) = at(body, "spec", "template", "spec", "containers")

    assert [each["name"] for each in container["env"]] == ["CAPOP_APP_VERSION", "A"]
    assert container["env"][0]["value"] == "1.0.0"
    assert container["envFrom"] == [{"secretRef": {"name": "the-secret", "optional": True}}]


@pytest.mark.parametrize("name", ["CAPOP_APP_VERSION", "VCAP_SERVICES"])
def test_a_variable_of_the_operator_in_a_workload_is_refused_by_name(name: str) -> None:
    made = version(deployment("srv", "CAP", env=[{"name": name, "value": "{}"}]))
    (workload,) = made.spec.workloads
    with pytest.raises(ReservedVariable, match=f"workload srv sets the environment variable {name}"):
        objects_of(made).check(workload)


def test_a_number_that_cannot_be_a_label_is_refused_with_the_cause() -> None:
    made = version(deployment("srv", "CAP"), version="1.0.0+build")
    (workload,) = made.spec.workloads
    with pytest.raises(UnusableWorkload, match=r"cav-version.*Create another CAPApplicationVersion instead"):
        objects_of(made).check(workload)


def test_a_router_finds_the_server_and_keeps_what_its_user_configured() -> None:
    given = json.dumps([{"name": "srv-api", "url": "http://old", "timeout": 60000}, {"name": "own", "url": "http://x"}])
    router = deployment("app", "Router", env=[{"name": "A", "value": "b"}, {"name": "destinations", "value": given}])
    body = deployed(version(deployment("srv", "CAP"), router), "app")

    assert [*env(body)] == ["CAPOP_APP_VERSION", "A", "destinations"]
    assert env(body)["destinations"] == (
        '[{"name":"srv-api","url":"http://bookshop-v1-srv-svc:4004","timeout":60000},{"name":"own","url":"http://x"}]'
    )


@pytest.mark.parametrize("given", [None, "no JSON", '{"name":"srv-api"}', "[1]", "[" * 5000])
def test_a_router_without_usable_destinations_gets_those_of_the_version(given: str | None) -> None:
    variables = [] if given is None else [{"name": "destinations", "value": given}]
    body = deployed(version(deployment("srv", "CAP"), deployment("app", "Router", env=variables)), "app")

    assert env(body)["destinations"] == (
        '[{"name":"srv-api","url":"http://bookshop-v1-srv-svc:4004","forwardAuthToken":true}]'
    )


def test_a_router_has_a_cookie_only_where_no_stickiness_is_given() -> None:
    assert "DestinationRule" in beside(version(deployment("app", "Router")), "app")
    assert "DestinationRule" not in beside(version(deployment("app", "Router", stickiness={})), "app")
    assert "DestinationRule" not in beside(version(deployment("srv", "CAP")), "srv")


def test_the_ingress_reaches_routers_and_workloads_of_service_exposures() -> None:
    exposures = [{"subDomain": "api", "routes": [{"workloadName": "api", "port": 8080}]}]
    made = version(
        deployment("app", "Router"),
        deployment("api", "Service", ports=[{"name": "api", "port": 8080}]),
        deployment("srv", "CAP"),
        serviceExposures=exposures,
    )
    exposed = {
        name: "sme.sap.com/exposed-workload" in at(deployed(made, name), "metadata", "labels")
        for name in ("app", "api", "srv")
    }
    assert exposed == {"app": True, "api": True, "srv": False}


@pytest.mark.parametrize(
    ("kind", "ports"),
    [
        ("Router", [{"name": "router-svc-port", "port": 5000}]),
        ("CAP", [{"name": "server-svc-port", "port": 4004}]),
        ("Additional", None),
        ("Service", None),
    ],
)
def test_a_workload_without_ports_has_those_of_its_type(kind: str, ports: list[JsonObject] | None) -> None:
    service = beside(version(deployment("srv", kind)), "srv").get("Service")

    assert (None if service is None else service.body["spec"]["ports"]) == ports


def test_a_service_leads_to_the_pods_of_its_workload() -> None:
    ports = [{"name": "web", "port": 80, "appProtocol": "http", "routerDestinationName": "x"}]
    service = beside(version(deployment("srv", "CAP", ports=ports)), "srv")["Service"]

    assert service.key.name == "bookshop-v1-srv-svc"
    assert service.body["spec"] == {
        "type": "ClusterIP",
        "ports": [{"name": "web", "port": 80, "appProtocol": "http"}],
        "selector": {
            "app": "bookshop",
            "sme.sap.com/cav-version": "1.0.0",
            "sme.sap.com/category": "Workload",
            "sme.sap.com/workload-type": "CAP",
            "sme.sap.com/workload-name": "bookshop-v1-srv",
        },
    }
    labels = at(service.body, "metadata", "labels")
    assert labels["sme.sap.com/category"] == "Service"
    assert labels["sme.sap.com/workload-name"] == "bookshop-v1-srv-svc"


def test_metrics_are_read_at_a_named_port_and_a_name_that_no_port_has_is_refused() -> None:
    monitoring = {"scrapeConfig": {"port": "metrics", "interval": "30s", "path": "/m"}}
    ports = [{"name": "web", "port": 80}, {"name": "metrics", "port": 9000}]
    found = beside(version(deployment("srv", "Additional", ports=ports, monitoring=monitoring)), "srv")
    monitor = found["ServiceMonitor"].body["spec"]
    assert monitor["endpoints"] == [{"port": "metrics", "interval": "30s", "path": "/m"}]
    service = at(found["Service"].body, "metadata", "labels")
    selected = at(found["ServiceMonitor"].body, "spec", "selector", "matchLabels")
    assert selected.items() <= service.items(), "it selects the Service"

    for ports in ([], [{"name": "web", "port": 80}]):
        with pytest.raises(UnusableWorkload, match="workload srv has no port with the name metrics"):
            beside(version(deployment("srv", "Additional", ports=ports, monitoring=monitoring)), "srv")


def test_budget_and_autoscaler_are_about_the_deployment() -> None:
    made = version(
        deployment(
            "srv",
            "CAP",
            podDisruptionBudget={"maxUnavailable": 1},
            horizontalPodAutoscaler={"minReplicas": 2, "maxReplicas": 5, "behavior": {}},
        )
    )
    found, body = beside(made, "srv"), deployed(made, "srv")

    assert found["PodDisruptionBudget"].body["spec"] == {
        "maxUnavailable": 1,
        "selector": at(body, "spec", "selector"),
    }
    assert found["HorizontalPodAutoscaler"].body["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "bookshop-v1-srv"},
        "minReplicas": 2,
        "maxReplicas": 5,
    }


def test_users_stay_on_one_pod_of_a_router() -> None:
    of_router, of_server = (beside(version(), name).get("DestinationRule") for name in ("app", "srv"))
    assert of_server is None
    assert of_router is not None
    assert of_router.body["metadata"] == {"name": "bookshop-v1-app", "namespace": "shop"}
    assert of_router.body["spec"] == {
        "host": "bookshop-v1-app-svc.shop.svc.cluster.local",
        "trafficPolicy": {
            "loadBalancer": {
                "consistentHash": {"httpCookie": {"name": "CAPOP_ROUTER_STICKY", "path": "/", "ttl": "0s"}}
            }
        },
    }


def test_a_spread_without_a_selector_is_about_the_pods_of_one_template() -> None:
    constraints = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 1, "topologyKey": "node", "labelSelector": {"matchLabels": {"a": "b"}}},
    ]
    body = deployed(version(deployment("srv", "CAP", topologySpreadConstraints=constraints)), "srv")
    first, second = at(body, "spec", "template", "spec", "topologySpreadConstraints")

    assert first["labelSelector"] == at(body, "spec", "selector")
    assert first["matchLabelKeys"] == ["pod-template-hash"]
    assert second == constraints[1]


def test_pods_accept_each_other_and_the_whole_cluster_only_at_ports_that_ask_for_it() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "networkPolicy": "Cluster"}]
    own, opened = objects_of(version(deployment("srv", "CAP", ports=ports), deployment("app", "Router"))).policies()
    marks = {"app": "bookshop", "sme.sap.com/cav-version": "1.0.0", "sme.sap.com/category": "Workload"}

    assert own.key.name == "bookshop-v1"
    assert own.body["spec"] == {
        "podSelector": {"matchLabels": marks},
        "ingress": [{"from": [{"podSelector": {"matchLabels": marks}}]}],
        "policyTypes": ["Ingress"],
    }
    assert opened.key.name == "bookshop-v1-srv"
    assert at(opened.body, "spec", "ingress") == [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 81}]}]


def test_workloads_come_in_the_order_of_their_types_and_only_the_first_router_counts() -> None:
    made = version(
        deployment("more", "Additional"),
        deployment("srv", "CAP"),
        deployment("app", "Router"),
        deployment("app2", "Router"),
        deployment("api", "Service"),
        job("mtxs", "TenantOperation"),
    )
    assert [each.name for _, each in objects_of(made).workloads()] == ["api", "app", "srv", "more"]


@pytest.mark.parametrize(
    "asked",
    [
        {"httpCookie": {"name": "c", "path": "/", "ttl": "1h", "attributes": [{"name": "SameSite", "value": "None"}]}},
        {"httpHeaderName": "x-user"},
        {"useSourceIp": True},
        {"httpQueryParameterName": "user"},
    ],
)
def test_stickiness_reaches_istio_as_it_was_asked_for(asked: JsonObject) -> None:
    rule = beside(version(deployment("srv", "CAP", stickiness={"hash": asked})), "srv")["DestinationRule"]
    assert at(rule.body, "spec", "trafficPolicy", "loadBalancer", "consistentHash") == asked
