"""The values of the CAP Operator in the chart."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.chart.part import ChartPart, OperatorChart
from stellwerk.delivery.chart.values import COUNT, PORT, RESOURCES, SETTING, SWITCH, TEXT, TEXTS, Value, words
from stellwerk.kube.types.model import JsonObject

_DETECTED = "Empty: what the cluster serves."
_GARDENER, _CERT_MANAGER = "certificateConfig.gardener", "certificateConfig.certManager"
_TEMPLATES = files("stellwerk.operators.cap.chart") / "templates"
_SMALL: JsonObject = {"limits": {"memory": "200Mi", "cpu": 0.1}, "requests": {"memory": "20Mi", "cpu": 0.01}}


def _process(
    key: str,
    name: str,
    *values: Value,
    replicas: int = 1,
    resources: JsonObject = _SMALL,
    by_variable: bool = False,
    local_settings: tuple[str, ...] = (),
) -> ChartPart:
    """A process of the operator. Policies and queries of users find the objects of the original by the labels."""
    prefix = "operator.sme.sap.com"
    return ChartPart(
        key=key,
        suffix=name,
        values=(
            Value("replicas", replicas, COUNT, "Number of pods."),
            Value("resources", resources, RESOURCES),
            *values,
        ),
        by_variable=by_variable,
        labels={f"{prefix}/app": "{name}", f"{prefix}/category": name, f"{prefix}/release": "{release}"},
        local_settings=local_settings,
    )


def _workers(kind: str, field: str) -> Value:
    help = "How many are reconciled at once. Empty: `concurrency.maxConcurrentReconciles`, else the program's default."
    return Value(f"maxConcurrentReconciles.{kind}", "", SETTING, help, field=f"max_concurrent_reconciles_{field}")


CONTROLLER = _process(
    "controller",
    "controller",
    Value(
        "certManager",
        "",
        TEXT,
        f"What issues certificates: gardener or cert-manager.io. {_DETECTED}",
        field="cert_manager",
        detected=(("cert.gardener.cloud/v1alpha1", "gardener"), ("", "cert-manager.io")),
    ),
    Value(
        "dnsManager",
        "",
        TEXT,
        f"What keeps DNS records: gardener or kubernetes. {_DETECTED}",
        field="dns_manager",
        detected=(("dns.gardener.cloud/v1alpha1", "gardener"), ("", "kubernetes")),
    ),
    Value("dnsTarget", "", TEXT, "DNS target of domains that set none.", field="dns_target"),
    Value(
        "ingressNamespaces",
        "",
        TEXT,
        "Namespaces of ingress gateways, separated by commas or blanks. Empty: istio-system and istio-ingress. "
        "*: all but those of the system.",
        field="ingress_namespaces",
    ),
    Value(
        "certificateIssuers",
        "",
        TEXT,
        "Issuers of cert-manager that a Domain may name besides the ClusterIssuer cluster-ca, separated by commas or "
        "blanks, such as ClusterIssuer/letsencrypt. *: all.",
        field="certificate_issuers",
    ),
    Value(
        "detailedOperationalMetrics",
        False,
        SWITCH,
        "Metrics of tenants and versions, with a series for each of them.",
        field="detailed_operational_metrics",
    ),
    _workers("capApplication", "cap_application"),
    _workers("capApplicationVersion", "cap_application_version"),
    _workers("capTenant", "cap_tenant"),
    _workers("capTenantOperation", "cap_tenant_operation"),
    _workers("domain", "domain"),
    _workers("clusterDomain", "cluster_domain"),
    Value(
        "versionMonitoring.prometheusAddress",
        "",
        TEXT,
        "Address of Prometheus for the monitoring of versions. The NetworkPolicy allows its port; where a Service "
        "leads to another port of its pods, add that to `networkPolicy.egressPorts`.",
        field="prometheus_address",
    ),
    Value(
        "versionMonitoring.unrestrictedMetricQueries",
        False,
        SWITCH,
        "Ask `deletionRules.expression` of versions as it is: users of a namespace may read the metrics of all.",
        field="unrestricted_metric_queries",
    ),
    Value(
        "versionMonitoring.metricsEvaluationInterval",
        "1h",
        TEXT,
        "Pause between two looks at versions that may be deleted.",
        field="metrics_eval_interval",
    ),
    Value(
        "versionMonitoring.promClientAcquireRetryDelay",
        "1h",
        TEXT,
        "How long Prometheus is not asked after no connection to it came about.",
        field="prom_acquire_client_retry_delay",
    ),
    Value("clientRateLimiting.qps", "", SETTING, "Accepted for compatibility.", field="client_qps"),
    Value("clientRateLimiting.burst", "", SETTING, "Accepted for compatibility.", field="client_burst"),
    Value(
        "rolloutDelay",
        "",
        TEXT,
        "How long after a change of a binding Secret Deployments get the new credentials.",
        field="rollout_delay",
    ),
    resources={"limits": {"memory": "500Mi", "cpu": 0.2}, "requests": {"memory": "50Mi", "cpu": 0.02}},
    by_variable=True,
)

SERVER = _process(
    "subscriptionServer",
    "subscription-server",
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
        "gatewaySecret.name",
        "",
        TEXT,
        "The Secret with the value that the VirtualService adds to requests: by it the server knows them. With a "
        "domain the chart creates it, and empty means the name of the server with `-gateway` after it. Without one, "
        "the Secret and the VirtualService are yours; empty: client certificates are refused.",
        field="gateway_secret",
        derived=("domain", "gateway"),
    ),
    Value(
        "gatewaySecret.value",
        "",
        {"type": "string", "pattern": "^([A-Za-z0-9_-]{32,})?$"},
        "The value. Empty: the chart creates one and keeps it, for which it reads the cluster. Where manifests are "
        "made without a cluster (`helm template`, Argo CD), set it, or each rendering has another one.",
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
    local_settings=("host",),
)
"""The subscription server, with the objects by which it is reached from outside."""

WEBHOOK = _process(
    "webhook",
    "webhook",
    Value("service.targetPort", 1443, PORT, "The port of the pods.", field="webhook_port"),
    replicas=2,
)

CHART = OperatorChart(
    name="cap-operator",
    values=(
        Value("monitoring.enabled", False, SWITCH, "ServiceMonitors, and a ConfigMap with the dashboard for Grafana."),
        Value("monitoring.serviceMonitorSelectorLabels", {}, TEXTS, "Further labels of the ServiceMonitors."),
        Value(
            "monitoring.grafana.dashboard.configMapLabels",
            {"grafana_dashboard": "1"},
            TEXTS,
            "Labels by which Grafana finds the dashboard.",
        ),
    ),
    ignored_images=("ghcr.io/sap/cap-operator/",),
    templates={file.name: file.read_text() for file in _TEMPLATES.iterdir() if file.name.endswith(".yaml")},
)
"""The operator as a whole; templates: its objects that no other operator has."""
