"""What the chart renders for Istio, Gardener and cert-manager is valid for their kinds."""

from __future__ import annotations

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, unstructured
from tests.unit.operators import helm_charts

OF_OTHERS = (
    "cert.gardener.cloud/v1alpha1",
    "cert-manager.io/v1",
    "dns.gardener.cloud/v1alpha1",
    "networking.istio.io/v1",
    "admissionregistration.k8s.io/v1",
)


@pytest.mark.parametrize("manager", ["Gardener", "CertManager"])
async def test_objects_for_other_controllers_have_no_field_that_these_do_not_know(
    admin: Client, home: str, manager: str
) -> None:
    issuers: JsonObject = {
        "gardener": {"issuerName": "ours", "issuerNamespace": "issuers"},
        "certManager": {"issuerName": "ours", "issuerKind": "Issuer", "issuerGroup": "cert-manager.io"},
    }
    server: JsonObject = {
        "domain": "cop.example.com",
        "dnsTarget": "lb.example.com",
        "istioSystemNamespace": home,
        "certificateManager": manager,
        "certificateConfig": issuers,
    }
    webhook: JsonObject = {"certificateManager": "CertManager" if manager == "CertManager" else "Default"}
    values: JsonObject = {"enabled": True, "subscriptionServer": server, "webhook": webhook}
    async with helm_charts.chart() as chart:
        objects = await chart.render({"capOperator": values}, home, apis=["dns.gardener.cloud/v1alpha1"])

    checked = [body for body in objects.values() if body["apiVersion"] in OF_OTHERS and body["kind"] != "Issuer"]
    assert len(checked) == (7 if manager == "CertManager" else 6)
    for body in checked:
        gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
        target = unstructured(await admin.mapper.resource(gvk))
        await admin.apply(target, body, dry_run=True, field_validation="Strict")
