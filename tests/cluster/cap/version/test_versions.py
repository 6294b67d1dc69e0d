"""A version runs its content jobs, brings its workloads to life, and goes when no tenant uses it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import FATE, Shop, job, router, server

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Pod, Secret, Service
from stellwerk.api.istio import DestinationRule
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.watches import AUTOSCALER, BUDGET
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)
VERSION = metadata_of(CAPApplicationVersion)


async def begin(shop: Shop, *workloads: JsonObject, **spec: Any) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", *workloads, **spec)


def message(version: CAPApplicationVersion) -> str:
    condition = conditions.find(version.status.conditions, "Ready")
    assert condition is not None
    return condition.message


@pytest.mark.req("CAP-21")
async def test_a_version_becomes_ready_with_all_objects_of_its_workloads(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.bind()
    await shop.apply()
    await running.settled(shop.client)
    audit.mark()
    budget: JsonObject = {"maxUnavailable": 1}
    scaler: JsonObject = {"minReplicas": 1, "maxReplicas": 2}
    srv = server(
        "srv",
        ports=[{"name": "web", "port": 4004, "routerDestinationName": "srv-api", "networkPolicy": "Cluster"}],
        podDisruptionBudget=budget,
        horizontalPodAutoscaler=scaler,
    )
    await shop.release("1", srv, router(), server("worker", "Additional"), job("mtxs"))
    version = await shop.version_shows("WorkloadsReady")
    await running.settled(shop.client)

    assert version.metadata.finalizers == (names.VERSION_FINALIZER,)
    assert version.metadata.controller is not None
    assert version.metadata.controller.name == "shop"
    assert version.metadata.labels[names.OWNER_GENERATION_LABEL] == "1"
    assert await shop.names_of(Deployment.resource) == ["shop-v1-app", "shop-v1-srv", "shop-v1-worker"]
    assert await shop.names_of(Service.resource) == ["shop-v1-app-svc", "shop-v1-srv-svc"]
    assert await shop.names_of(NetworkPolicy.resource) == ["shop-v1", "shop-v1-srv"]
    assert await shop.names_of(DestinationRule.resource) == ["shop-v1-app"]
    assert await shop.names_of(BUDGET) == ["shop-v1-srv"]
    assert await shop.names_of(AUTOSCALER) == ["shop-v1-srv"]
    asked = Counter(f"{entry.verb} {entry.resource}" for entry in shop.requests(audit) if entry.verb != "watch")
    assert {key: count for key, count in asked.items() if key.startswith("create")} == {
        "create deployments": 3,
        "create services": 2,
        "create networkpolicies": 2,
        "create destinationrules": 1,
        "create poddisruptionbudgets": 1,
        "create horizontalpodautoscalers": 1,
        "create secrets": 3,
        "create events": asked["create events"],
    }
    assert asked["get secrets"] == 1, "the credentials are read once"
    assert asked["patch capapplicationversions"] == 1
    assert asked["update capapplicationversions"] <= 4, "one status for each Deployment that it waits for, at most"


@pytest.mark.req("CAP-23", "CAP-24")
async def test_the_api_server_takes_what_workloads_ask_for_as_it_is_meant(running: Running, shop: Shop) -> None:
    spread: JsonObject = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    srv = server(
        "srv",
        ports=[{"name": "web", "port": 4004, "routerDestinationName": "srv-api"}],
        topologySpreadConstraints=[spread],
        podDisruptionBudget={"maxUnavailable": 1},
        horizontalPodAutoscaler={"minReplicas": 1, "maxReplicas": 2},
    )
    await begin(shop, srv, router(), job("mtxs"))
    await shop.version_shows("WorkloadsReady")
    pods = (await spec_of(shop, Deployment.resource, "shop-v1-srv"))["template"]
    labels = {"matchLabels": pods["metadata"]["labels"]}
    (constraint,) = pods["spec"]["topologySpreadConstraints"]
    assert constraint == {**spread, "labelSelector": labels, "matchLabelKeys": ["pod-template-hash"]}
    assert (await spec_of(shop, BUDGET, "shop-v1-srv"))["selector"] == labels
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop-v1-srv"}
    assert (await spec_of(shop, AUTOSCALER, "shop-v1-srv"))["scaleTargetRef"] == target


async def spec_of(shop: Shop, resource: Resource, name: str) -> Any:
    found = await shop.client.get(unstructured(resource), name, shop.namespace)
    return found.body["spec"]


@pytest.mark.req("CAP-19")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="the port of its type"),
        pytest.param({"ports": [{"name": "web", "port": 4004, "routerDestinationName": "srv-api"}]}, id="its own port"),
    ],
)
async def test_a_destination_of_the_router_leads_to_the_server_and_keeps_what_its_user_configured(
    running: Running, shop: Shop, fields: dict[str, Any]
) -> None:
    given: list[JsonValue] = [
        {"name": "srv-api", "url": "http://elsewhere", "timeout": 60000},
        {"name": "other", "url": "https://other.example.com"},
    ]
    variables: list[JsonValue] = [
        {"name": "BEFORE", "value": "1"},
        {"name": "destinations", "value": json.dumps(given)},
        {"name": "AFTER", "value": "2"},
    ]
    await begin(shop, server("srv", **fields), server("app", "Router", env=variables), job("mtxs"))
    await shop.version_shows("WorkloadsReady")

    (container,) = (await spec_of(shop, Deployment.resource, "shop-v1-app"))["template"]["spec"]["containers"]
    names_of_variables = [each["name"] for each in container["env"]]
    assert names_of_variables == ["CAPOP_APP_VERSION", "BEFORE", "destinations", "AFTER"]
    (service,) = (await spec_of(shop, Service.resource, "shop-v1-srv-svc"))["ports"]
    assert service["port"] == 4004
    assert json.loads(container["env"][2]["value"]) == [
        {"name": "srv-api", "url": "http://shop-v1-srv-svc:4004", "timeout": 60000},
        {"name": "other", "url": "https://other.example.com"},
    ]


@pytest.mark.req("CAP-22")
async def test_a_port_for_the_whole_cluster_is_opened_by_a_policy_of_its_own_and_no_other_port_is(
    running: Running, shop: Shop
) -> None:
    ports: list[JsonValue] = [
        {"name": "web", "port": 4004, "routerDestinationName": "srv-api"},
        {"name": "metrics", "port": 9000, "networkPolicy": "Cluster"},
    ]
    await begin(shop, server("srv", ports=ports), server("worker", "Additional"), router(), job("mtxs"))
    await shop.version_shows("WorkloadsReady")

    assert await shop.names_of(NetworkPolicy.resource) == ["shop-v1", "shop-v1-srv"]
    opened, inside = [await spec_of(shop, NetworkPolicy.resource, name) for name in ("shop-v1-srv", "shop-v1")]
    assert opened["policyTypes"] == inside["policyTypes"] == ["Ingress"]
    assert opened["ingress"] == [
        {"ports": [{"port": 9000, "protocol": "TCP"}], "from": [{"namespaceSelector": {}}]},
    ]
    assert inside["ingress"] == [{"from": [{"podSelector": inside["podSelector"]}]}]
    all_pods = await shop.names_of(Pod.resource)
    assert len(all_pods) == 3
    assert await selected(shop, opened) == [name for name in all_pods if name.startswith("shop-v1-srv-")]
    assert await selected(shop, inside) == all_pods


async def selected(shop: Shop, policy: Any) -> list[str]:
    """The pods that a network policy is about."""
    labels = ",".join(f"{key}={value}" for key, value in policy["podSelector"]["matchLabels"].items())
    return sorted(await shop.names_of_pods(labels))


@pytest.mark.req("CAP-55")
async def test_a_ready_version_that_is_left_alone_costs_no_write_and_no_restart(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await begin(shop)
    await shop.version_shows("WorkloadsReady")
    await running.settled(shop.client)
    await running.stop()
    await running.start()
    audit.mark()
    await running.settled(shop.client)
    assert [entry for entry in shop.requests(audit) if entry.is_write] == []


async def test_what_is_deleted_by_others_comes_back_and_what_they_change_stays(running: Running, shop: Shop) -> None:
    await begin(shop)
    await shop.version_shows("WorkloadsReady")
    scaled = MergePatch({"spec": {"replicas": 2}})
    await shop.client.patch(metadata_of(Deployment), "shop-v1-app", shop.namespace, scaled)
    await shop.client.delete(metadata_of(Service), "shop-v1-app-svc", shop.namespace)
    await shop.client.delete(metadata_of(NetworkPolicy), "shop-v1", shop.namespace)

    async def back() -> bool:
        return bool(await shop.names_of(Service.resource) and await shop.names_of(NetworkPolicy.resource))

    await eventually(back)
    await running.settled(shop.client)
    assert (await shop.client.get(Deployment, "shop-v1-app", shop.namespace)).spec.replicas == 2
    await shop.version_shows("WorkloadsReady")


async def test_missing_secrets_are_named_and_the_version_goes_on_when_they_come(running: Running, shop: Shop) -> None:
    await shop.apply()
    await shop.release("1")
    version = await shop.version_shows("WaitingForSecrets", state="Processing")
    assert message(version).startswith("Missing secrets; uaa-secret")
    assert await shop.names_of(Deployment.resource) == []
    await shop.bind()
    await shop.version_shows("WorkloadsReady")


async def test_a_version_waits_for_its_application(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.release("1")
    version = await shop.version_shows("InvalidReference", state="Processing")
    waits = f"waiting for CAPApplication {shop.namespace}/shop, which does not exist (there are none): create it"
    assert message(version).startswith(waits)
    await shop.apply()
    await shop.version_shows("WorkloadsReady")


@pytest.mark.req("CAP-15", "CAP-17")
async def test_content_jobs_run_one_after_the_other_and_their_deletion_changes_nothing(
    running: Running, shop: Shop
) -> None:
    workloads = (job("first", "Content"), job("second", "Content", fate="hang"), job("mtxs"), router())
    await begin(shop, *workloads, contentJobs=["second", "first"])
    await shop.version_shows("WaitingForWorkloads", state="Processing")
    (pod,) = await shop.names_of_pods("job-name=shop-v1-second")
    await running.settled(shop.client)
    assert await shop.names_of(Job.resource) == ["shop-v1-second"], "the next one waits for its end"
    await shop.end_fate(pod)
    version = await shop.version_shows("WorkloadsReady")
    assert version.status.finished_jobs == ("shop-v1-second", "shop-v1-first")

    for name in await shop.names_of(Job.resource):
        await shop.client.delete(metadata_of(Job), name, shop.namespace, propagation="Background")
    await running.settled(shop.client)
    assert (await shop.version_shows("WorkloadsReady")).status.finished_jobs == version.status.finished_jobs
    assert await shop.all_jobs() == []


@pytest.mark.req("CAP-16")
@pytest.mark.parametrize("way", ["annotation", "deletion"])
async def test_a_failed_content_job_stops_the_next_one_and_runs_again_on_request(
    running: Running, shop: Shop, way: str
) -> None:
    first = job("first", "Content", fate="fail", ttlSecondsAfterFinished=3600)
    workloads = (first, job("second", "Content"), job("mtxs"), router())
    await begin(shop, *workloads, contentJobs=["first", "second"])
    version = await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    assert f"Job {shop.namespace}/shop-v1-first failed" in message(version)
    assert "Last exit code 1" in message(version)
    assert f"stellwerk cap retry cav/shop-v1 -n {shop.namespace}" in message(version)
    (failed,) = await shop.all_jobs()
    assert failed.spec.ttl_seconds_after_finished is None, "its removal would run it again without a request"

    if way == "annotation":
        asked = MergePatch({"metadata": {"annotations": {names.RETRY_ANNOTATION: "true"}}})
        await shop.client.patch(VERSION, "shop-v1", shop.namespace, asked)
    else:
        await shop.client.delete(metadata_of(Job), failed.metadata.name, shop.namespace, propagation="Background")

    async def runs_again() -> bool:
        uids = {each.metadata.uid for each in await shop.all_jobs()}
        return bool(uids) and failed.metadata.uid not in uids

    await eventually(runs_again)
    version = await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    assert version.status.last_handled_retry == ("true" if way == "annotation" else "")
    assert ("It was tried 2 times" in message(version)) == (way == "annotation")
    assert [each.metadata.name for each in await shop.all_jobs()] == ["shop-v1-first"]


async def job_of_the_original(shop: Shop, fate: str) -> Job:
    """The content job of the version as the original creates it: without a label."""
    version = await shop.client.get(CAPApplicationVersion, "shop-v1", shop.namespace)
    owner: JsonObject = {
        "apiVersion": "sme.sap.com/v1alpha1",
        "kind": "CAPApplicationVersion",
        "name": "shop-v1",
        "uid": version.metadata.uid,
        "controller": True,
    }
    pod: JsonObject = {"restartPolicy": "Never", "containers": [{"name": "load", "image": "job:1"}]}
    body: JsonObject = {
        "metadata": {"name": "shop-v1-content", "namespace": shop.namespace, "ownerReferences": [owner]},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": {FATE: fate}}, "spec": pod}},
    }
    return await shop.client.create(Job, body)


async def test_a_content_job_of_the_original_is_taken_over_while_it_runs(running: Running, shop: Shop) -> None:
    """The original gives its Jobs no label, so no watch shows it until it has one."""
    await running.stop()
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("load", "Content"), job("mtxs"), router())
    made = await job_of_the_original(shop, "hang")
    await running.start()
    await shop.version_shows("WaitingForWorkloads", state="Processing")
    (pod_name,) = await shop.names_of_pods("job-name=shop-v1-content")
    await shop.end_fate(pod_name)
    version = await shop.version_shows("WorkloadsReady")

    assert version.status.finished_jobs == ("shop-v1-content",)
    assert [each.metadata.uid for each in await shop.all_jobs()] == [made.metadata.uid]


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded as finished", "not recorded"])
@pytest.mark.parametrize("way", ["annotation", "deletion"])
async def test_a_content_job_that_failed_under_the_original_stops_the_version_and_runs_again_on_request(
    running: Running, shop: Shop, *, is_recorded: bool, way: str
) -> None:
    await running.stop()
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("load", "Content"), job("mtxs"), router())
    made = await job_of_the_original(shop, "fail")

    async def has_failed() -> bool:
        return (await shop.client.get(Job, "shop-v1-content", shop.namespace)).failure is not None

    await eventually(has_failed)
    finished: JsonObject = {"finishedJobs": ["shop-v1-content"]} if is_recorded else {}
    status: JsonObject = {"status": {"state": "Error", "conditions": [], **finished}}
    await shop.client.patch(VERSION, "shop-v1", shop.namespace, MergePatch(status), subresource="status")
    await running.start()
    version = await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    assert f"Job {shop.namespace}/shop-v1-content failed" in message(version)

    if way == "annotation":
        await shop.ask_again(CAPApplicationVersion, "shop-v1", "once")
    else:
        await shop.client.delete(metadata_of(Job), "shop-v1-content", shop.namespace, propagation="Background")
    version = await shop.version_shows("WorkloadsReady")
    assert version.status.finished_jobs == ("shop-v1-content",)
    assert made.metadata.uid not in [each.metadata.uid for each in await shop.all_jobs()]


async def test_a_content_job_whose_name_another_job_has_is_an_error_until_that_is_deleted(
    running: Running, shop: Shop
) -> None:
    """No cache shows the other Job, because it has no label of ours."""
    pod: JsonObject = {"restartPolicy": "Never", "containers": [{"name": "other", "image": "other:1"}]}
    metadata: JsonObject = {"name": "shop-v1-content", "namespace": shop.namespace}
    await shop.client.create(Job, {"metadata": metadata, "spec": {"template": {"spec": pod}}})
    await begin(shop, job("load", "Content"), job("mtxs"), router())
    version = await shop.version_shows("ErrorInContentDeploymentJob", state="Error")
    assert f"Job {shop.namespace}/shop-v1-content, which exists and has no controlling owner" in message(version)
    assert version.status.finished_jobs == ()

    await shop.client.delete(metadata_of(Job), "shop-v1-content", shop.namespace, propagation="Background")
    version = await shop.version_shows("WorkloadsReady")
    assert version.status.finished_jobs == ("shop-v1-content",)


@pytest.mark.req("CAP-18")
async def test_a_variable_of_the_operator_in_a_workload_is_an_error_that_names_it(running: Running, shop: Shop) -> None:
    await begin(shop, server("srv", env=[{"name": "VCAP_SERVICES", "value": "{}"}]), router(), job("mtxs"))
    version = await shop.version_shows("ErrorInServerDeployment", state="Error")
    assert message(version).startswith("workload srv sets the environment variable VCAP_SERVICES")
    assert await shop.names_of(Deployment.resource) == ["shop-v1-app"], "what comes before it in the order"


async def test_a_ready_version_of_which_an_object_cannot_be_created_stays_ready_and_names_it(
    running: Running, shop: Shop
) -> None:
    """Its spec has changed, as it can without webhooks. What exists is not concerned."""
    await begin(shop)
    await shop.version_shows("WorkloadsReady")
    reserved: list[JsonValue] = [{"name": "VCAP_SERVICES", "value": "{}"}]
    await shop.release("1", job("mtxs"), server("app", "Router", env=reserved))
    await shop.client.delete(metadata_of(NetworkPolicy), "shop-v1", shop.namespace)

    async def is_back() -> bool:
        return bool(await shop.names_of(NetworkPolicy.resource))

    await eventually(is_back)
    await running.settled(shop.client)
    await shop.version_shows("WorkloadsReady")

    await shop.client.delete(metadata_of(Deployment), "shop-v1-app", shop.namespace)
    version = await shop.version_shows("ErrorInAppRouterDeployment")
    assert "workload app sets the environment variable VCAP_SERVICES" in message(version)
    assert conditions.is_true(version.status.conditions, "Ready")


async def test_a_deployment_that_belongs_to_another_is_left_alone_and_named(running: Running, shop: Shop) -> None:
    labels: JsonObject = {"app": "other"}
    pod: JsonObject = {"containers": [{"name": "other", "image": "other:1"}]}
    spec: JsonObject = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    body: JsonObject = {"metadata": {"name": "shop-v1-app", "namespace": shop.namespace}, "spec": spec}
    made = await shop.client.create(Deployment, body)
    await begin(shop)
    version = await shop.version_shows("ErrorInAppRouterDeployment", state="Error")
    assert "Deployment" in message(version)
    assert "has no owner" in message(version)
    left = await shop.client.get(Deployment, "shop-v1-app", shop.namespace)
    assert left.metadata.generation == made.metadata.generation

    await shop.client.delete(Deployment, "shop-v1-app", shop.namespace)
    await shop.version_shows("WorkloadsReady")


@pytest.mark.req("CAP-25")
@pytest.mark.parametrize("port", ["metrics", "other"])
async def test_a_version_without_the_kind_of_its_monitors_becomes_ready_without_them(
    running: Running, shop: Shop, port: str
) -> None:
    """Also where they could not be created."""
    monitoring: JsonObject = {"scrapeConfig": {"port": port}}
    ports: list[JsonValue] = [{"name": "metrics", "port": 9000}]
    await begin(shop, server("srv", ports=ports, monitoring=monitoring), router(), job("mtxs"))
    await shop.version_shows("WorkloadsReady")
    assert await shop.names_of(ServiceMonitor.resource) == []


@pytest.mark.req("CAP-25")
async def test_a_port_that_no_workload_has_is_an_error_of_the_service(
    monitors: None, running: Running, shop: Shop
) -> None:
    await begin(shop, server("srv", monitoring={"scrapeConfig": {"port": "other"}}), router(), job("mtxs"))
    version = await shop.version_shows("ErrorInServerService", state="Error")
    assert "workload srv has no port with the name other" in message(version)


async def test_what_the_api_server_refuses_is_reported_in_its_words(running: Running, shop: Shop) -> None:
    await begin(shop, server("srv", serviceAccountName="Not A Name"), router(), job("mtxs"))
    version = await shop.version_shows("ErrorInServerDeployment", state="Error")
    assert "serviceAccountName" in message(version)


@pytest.mark.req("CAP-20")
async def test_a_deployment_without_quota_is_an_error_with_the_cause(running: Running, shop: Shop) -> None:
    quota: JsonObject = {"metadata": {"name": "none", "namespace": shop.namespace}, "spec": {"hard": {"pods": "0"}}}
    await shop.client.apply(unstructured(QUOTA), quota)
    await begin(shop)
    version = await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    assert "shop-v1-app cannot create pods" in message(version)
    assert "exceeded quota" in message(version)
    await shop.client.delete(metadata_of(QUOTA), "none", shop.namespace)
    await shop.version_shows("WorkloadsReady")


async def test_services_that_are_exposed_wait_for_the_domain(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.apply(domainRefs=[{"kind": "Domain", "name": "primary"}])
    exposures: list[JsonValue] = [{"subDomain": "api", "routes": [{"workloadName": "app", "port": 5000}]}]
    await shop.release("1", serviceExposures=exposures)
    version = await shop.version_shows("WaitingForServiceDNSEntries", state="Processing")
    assert "Domain primary" in message(version)
    await shop.serve("shop.example.com")
    await shop.version_shows("WorkloadsReady")


async def test_a_deleted_version_waits_for_the_tenants_that_use_it(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.client.delete(VERSION, "shop-v1", shop.namespace)
    version = await shop.version_shows("DeleteTriggered", state="Deleting")
    assert "acme" in message(version)
    await shop.client.delete(metadata_of(Deployment), "shop-v1-app", shop.namespace)

    async def is_back() -> bool:
        found = await shop.client.find(metadata_of(Deployment), "shop-v1-app", shop.namespace)
        return found is not None and not found.metadata.is_terminating

    await eventually(is_back, describe="the tenant can be used still")
    await shop.version_shows("DeleteTriggered", state="Deleting")
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def gone() -> bool:
        return await shop.client.find(VERSION, "shop-v1", shop.namespace) is None

    await eventually(gone)
    secrets = await shop.client.list(metadata_of(Secret), shop.namespace, labels=names.SECRET_OWNER_HASH_LABEL)
    assert all(each.metadata.controller is not None for each in secrets.items), "they go with their owners"
