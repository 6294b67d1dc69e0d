"""The chart of the product: what it grants is what the manager may grant, and it takes over the original's pods."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, JsonValue, dig, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap_manager.api import OWNER_ID
from stellwerk.testing.eventually import eventually
from tests.cluster.cap_manager.conftest import Running
from tests.cluster.cap_manager.scene import LABELS, NAME, Scene

IMAGE = "registry.example.com/stellwerk:1.2.3"
PODS: JsonObject = {
    "replicas": 2,
    "resources": {"limits": {"memory": "1Gi"}},
    "nodeSelector": {"a": "b"},
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}
            ]
        }
    },
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "podSecurityContext": {"runAsNonRoot": True},
    "securityContext": {"readOnlyRootFilesystem": True},
    "volumes": [{"name": "v", "emptyDir": {}}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}


@pytest.fixture
def own(running: Running, tmp_path: Path) -> Running:
    """The manager with the chart of the product."""
    running.folder, running.image = tmp_path / "absent", IMAGE
    return running


async def container(scene: Scene, name: str) -> JsonObject:
    found = await scene.client.get(unstructured(Deployment.resource), name, scene.namespace)
    containers = found.at("spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    first = containers[0]
    assert isinstance(first, dict)
    return first


async def value_of_gateway(scene: Scene, server: str) -> str:
    """The value that the VirtualService adds, which is that of the Secret."""
    secret = await scene.client.get(Secret, f"{server}-gateway", scene.namespace)
    routes = (await scene.client.get(VirtualService, server, scene.namespace)).spec.http
    (headers,) = [each.headers for each in routes]
    assert headers is not None
    assert headers.request is not None
    added = headers.request.set["x-stellwerk-gateway"]
    assert secret.text("current") == added
    return added


@pytest.mark.req("R-951")
@pytest.mark.timeout(300)
async def test_the_sample_of_the_original_is_installed_with_it_and_leaves_nothing(
    own: Running, scene: Scene, admin: Client, manager_cluster: LocalCluster
) -> None:
    await own.start()
    await scene.asks()
    found = await scene.shows("Ready", within=120)
    kinds = {(item.kind, item.name) for item in found.status.inventory}
    assert sum(kind == "CustomResourceDefinition" for kind, _ in kinds) == 7
    assert {("Deployment", "cap-operator-controller"), ("ClusterRole", "cap-operator-controller")} <= kinds
    controller = await container(scene, "cap-operator-controller")
    assert controller["image"] == IMAGE
    assert {"name": "DNS_TARGET", "value": "x.ingress.example.com"} in cast(list[JsonValue], controller["env"])
    server = "cap-operator-subscription-server"
    gateway = await admin.get(unstructured(Gateway.resource), server, scene.namespace)
    assert gateway.at("spec", "selector") == LABELS
    assert "cap-op.cluster.example.com" in str(gateway.at("spec", "servers"))
    entry = await admin.get(unstructured(DnsEntry.resource), server, scene.namespace)
    assert entry.at("spec", "targets") == ["x.ingress.example.com"]
    assert (await container(scene, server))["image"] == IMAGE
    first = await value_of_gateway(scene, server)
    assert "--gateway-secret=cap-operator-subscription-server-gateway" in str((await container(scene, server))["args"])
    revision = found.status.revision
    await scene.annotates(note="the chart is rendered again")

    async def is_installed_again() -> bool:
        status = (await scene.capoperator()).status
        return status.revision > revision and status.state == "Ready"

    await eventually(is_installed_again, within=60)
    assert await value_of_gateway(scene, server) == first, "the value is kept"
    await scene.deletes()
    await scene.is_gone()
    for kind in (ClusterRole, ClusterRoleBinding, CustomResourceDefinition):
        labelled = (await admin.list(metadata_of(kind), labels=OWNER_ID)).items
        assert not [obj.key for obj in labelled if f"/{scene.namespace}/" in obj.metadata.annotations[OWNER_ID]]


@pytest.mark.timeout(300)
async def test_every_setting_of_a_capoperator_reaches_the_pods(own: Running, scene: Scene) -> None:
    await own.start()
    await scene.asks(
        dnsTarget="lb.example.com",
        subscriptionServer={
            "subDomain": "cap-op",
            "replicas": 2,
            "certificateManager": "Gardener",
            "certificateConfig": {"additionalCACertificate": "the authorities"},
        },
        controller={
            **PODS,
            "nodeSelector": {},
            "detailedOperationalMetrics": True,
            "maxConcurrentReconciles": {"capApplication": "2", "capTenant": "20"},
            "versionMonitoring": {"prometheusAddress": "http://p:9090", "metricsEvaluationInterval": "2h"},
            "clientRateLimiting": {"qps": "20", "burst": "30"},
            "rolloutDelay": "2h",
        },
        monitoring={"enabled": False, "serviceMonitorSelectorLabels": {"a": "b"}},
        webhook={"replicas": 2, "certificateManager": "Default"},
    )
    found = await scene.shows("Ready", within=120)
    variables = cast(list[JsonValue], (await container(scene, "cap-operator-controller"))["env"])
    for name, value in {
        "DNS_TARGET": "lb.example.com",
        "DETAILED_OPERATIONAL_METRICS": "true",
        "MAX_CONCURRENT_RECONCILES_CAP_APPLICATION": "2",
        "MAX_CONCURRENT_RECONCILES_CAP_TENANT": "20",
        "PROMETHEUS_ADDRESS": "http://p:9090",
        "METRICS_EVAL_INTERVAL": "2h",
        "ROLLOUT_DELAY": "2h",
    }.items():
        assert {"name": name, "value": value} in variables
    deployment = await scene.client.get(unstructured(Deployment.resource), "cap-operator-controller", scene.namespace)
    assert deployment.at("spec", "replicas") == 2
    pods = deployment.at("spec", "template", "spec")
    assert dig(pods, "affinity") == PODS["affinity"]
    assert dig(pods, "tolerations") == PODS["tolerations"]
    assert dig(pods, "securityContext", "runAsNonRoot") is True
    (spread,) = cast(list[JsonValue], dig(pods, "topologySpreadConstraints"))
    assert dig(spread, "whenUnsatisfiable") == "ScheduleAnyway"
    assert {"name": "v", "emptyDir": {}} in cast(list[JsonValue], dig(pods, "volumes"))
    manager = await container(scene, "cap-operator-controller")
    assert {"name": "v", "mountPath": "/v"} in cast(list[JsonValue], manager["volumeMounts"])
    assert dig(manager, "securityContext", "readOnlyRootFilesystem") is True
    for part in ("subscription-server", "webhook"):
        other = await scene.client.get(unstructured(Deployment.resource), f"cap-operator-{part}", scene.namespace)
        assert other.at("spec", "replicas") == 2
    server = await container(scene, "cap-operator-subscription-server")
    assert "--sms-client-ca=" in str(server["args"])
    gateway = await scene.client.get(
        unstructured(Gateway.resource), "cap-operator-subscription-server", scene.namespace
    )
    assert "OPTIONAL_MUTUAL" in str(gateway.at("spec", "servers"))
    assert dig(await container(scene, "cap-operator-controller"), "resources", "limits", "memory") == "1Gi"
    assert found.metadata.name == NAME


@pytest.mark.timeout(300)
async def test_deployments_of_the_original_are_taken_over_with_their_selectors(own: Running, scene: Scene) -> None:
    """Their selectors cannot be changed, and are not those of our chart: the pods get the labels of both."""
    labels: JsonObject = {"operator.sme.sap.com/app": "cap-operator-controller"}
    pod: JsonObject = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    body: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cap-operator-controller", "namespace": scene.namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    target = unstructured(Deployment.resource)
    before = await scene.client.create(target, body, field_manager="helm")
    await own.start()
    await scene.asks()
    await scene.shows("Ready", within=120)
    after = await scene.client.get(target, "cap-operator-controller", scene.namespace)
    assert after.metadata.uid == before.metadata.uid
    assert after.at("spec", "selector", "matchLabels") == labels
    templated = after.at("spec", "template", "metadata", "labels")
    assert isinstance(templated, dict)
    assert labels.items() <= templated.items()
    assert templated["app.kubernetes.io/instance"] == NAME
    assert (await container(scene, "cap-operator-controller"))["image"] == IMAGE


async def test_without_an_image_the_message_names_the_variable(own: Running, scene: Scene) -> None:
    own.image = ""
    await own.start()
    await scene.asks()
    await scene.shows("Error", "Error", "STELLWERK_IMAGE")
