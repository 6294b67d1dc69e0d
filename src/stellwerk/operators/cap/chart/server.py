"""The subscription server in the chart, with the objects by which it is reached from outside."""

from __future__ import annotations

from stellwerk.delivery.chart.part import ChartPart
from stellwerk.delivery.chart.values import PORT, TEXT, TEXTS, Value, words
from stellwerk.operators.cap.chart.component import component, labels

_GARDENER, _CERT_MANAGER = "certificateConfig.gardener", "certificateConfig.certManager"

PART = ChartPart(
    key="subscriptionServer",
    suffix="subscription-server",
    labels=labels("subscription-server"),
    local_settings=("host", "loopback_port"),
    values=(
        *component("200Mi", 0.1, requested_memory="20Mi", requested_cpu=0.01),
        Value("port", 4000, PORT, "The port of the pods and of the Service.", field="port"),
        Value(
            "domain",
            "",
            TEXT,
            "The host that registries call. Empty: certificate, DNS entry, Gateway and VirtualService are yours.",
        ),
        Value("dnsTarget", "", TEXT, "The DNS name of the ingress gateway; needed for the DNS entry of Gardener."),
        Value(
            "istioSystemNamespace",
            "istio-system",
            TEXT,
            "The namespace of the ingress gateway.",
            field="gateway_namespace",
        ),
        Value(
            "ingressGatewayLabels",
            {"istio": "ingressgateway", "app": "istio-ingressgateway"},
            TEXTS,
            "The labels of its pods. The server accepts client certificates from these pods alone.",
            field="gateway_labels",
        ),
        Value(
            "certificateManager",
            "Gardener",
            words("Gardener", "CertManager"),
            "What issues the certificate of the domain.",
        ),
        Value(f"{_GARDENER}.issuerName", "", TEXT, "Empty: the default of Gardener."),
        Value(f"{_GARDENER}.issuerNamespace", "", TEXT),
        Value(f"{_CERT_MANAGER}.issuerGroup", "", TEXT),
        Value(f"{_CERT_MANAGER}.issuerKind", "", TEXT, "Empty: ClusterIssuer."),
        Value(f"{_CERT_MANAGER}.issuerName", "", TEXT, "Empty: cluster-ca."),
        Value(f"{_CERT_MANAGER}.commonName", "", TEXT, "At most 64 characters; seldom needed."),
        Value(
            "certificateConfig.additionalCACertificate",
            "",
            TEXT,
            "The authorities, as PEM, of client certificates of the Subscription Management Service, such as the SAP "
            "Cloud Root CA. Empty: requests of that service are refused.",
            field="sms_client_ca",
            file="client-ca.crt",
        ),
    ),
)
