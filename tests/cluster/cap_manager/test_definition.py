"""The API server takes what the original's takes, and refuses what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, dig, unstructured
from stellwerk.operators.cap_manager.api import CAPOperator
from tests.cluster.cap_manager.scene import NAME

SAMPLE = Path(__file__).parents[4] / "shared" / "fixtures" / "cap" / "capoperator-sample.yaml"

LABELS: list[JsonObject] = [{"name": "istio", "value": "ingressgateway"}]
SERVER: JsonObject = {"subDomain": "cap-op"}


def body(namespace: str, **spec: object) -> JsonObject:
    found: JsonObject = {
        "apiVersion": "operator.sme.sap.com/v1alpha1",
        "kind": "CAPOperator",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"subscriptionServer": SERVER, **spec},  # type: ignore[dict-item]
    }
    return found


async def test_a_spec_with_every_field_is_stored_as_it_is(admin: Client, home: str) -> None:
    pods: JsonObject = {
        "replicas": 2,
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"a": "b"},
        "affinity": {"podAntiAffinity": {}},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "priorityClassName": "high",
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "podSecurityContext": {"runAsNonRoot": True},
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    issuer: JsonObject = {"issuerName": "a", "issuerKind": "ClusterIssuer", "issuerGroup": "cert-manager.io"}
    wanted = body(
        home,
        subscriptionServer={
            **pods,
            **SERVER,
            "certificateManager": "Gardener",
            "certificateConfig": {"gardener": {"issuerName": "a", "issuerNamespace": "b"}},
        },
        dnsTarget="lb.example.com",
        controller={
            **pods,
            "detailedOperationalMetrics": True,
            "maxConcurrentReconciles": {"capApplication": "1", "clusterDomain": "2"},
            "versionMonitoring": {"prometheusAddress": "http://p", "metricsEvaluationInterval": "1h"},
            "clientRateLimiting": {"qps": "20", "burst": "30"},
            "rolloutDelay": "1h",
        },
        monitoring={
            "enabled": True,
            "serviceMonitorSelectorLabels": {"a": "b"},
            "grafana": {"dashboard": {"configMapLabels": {"grafana_dashboard": "1"}}},
        },
        webhook={**pods, "certificateManager": "CertManager", "certificateConfig": {"certManager": issuer}},
    )
    made = await admin.create(CAPOperator, wanted, field_validation="Strict")
    assert made.spec.subscription_server.sub_domain == "cap-op"
    assert made.status.observed_generation == -1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "Exactly one of 'dnsTarget' or 'ingressGatewayLabels' must be provided"),
        ({"dnsTarget": "a", "ingressGatewayLabels": LABELS}, "Exactly one of"),
        ({"ingressGatewayLabels": []}, "should have at least 1 items"),
        ({"dnsTarget": "*.example.com"}, "must be a DNS name"),
        ({"dnsTarget": "a", "subscriptionServer": {}}, "subDomain"),
        (
            {
                "dnsTarget": "a",
                "subscriptionServer": {**SERVER, "certificateConfig": {"gardener": {}, "certManager": {}}},
            },
            "At most one of",
        ),
        ({"dnsTarget": "a", "webhook": {"certificateManager": "Gardener"}}, "Unsupported value"),
    ],
)
async def test_what_means_nothing_is_refused(admin: Client, home: str, spec: JsonObject, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await admin.create(CAPOperator, body(home, **spec))


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample of the original is not beside this checkout")
async def test_the_sample_of_the_original_is_taken(admin: Client, home: str) -> None:
    sample: JsonObject = yaml.safe_load(SAMPLE.read_text())
    metadata = sample["metadata"]
    assert isinstance(metadata, dict)
    found = await admin.apply(
        unstructured(CAPOperator.resource), {**sample, "metadata": {**metadata, "namespace": home}}
    )
    assert found.body["spec"] == sample["spec"]
    assert found.metadata.labels == dig(sample, "metadata", "labels")
