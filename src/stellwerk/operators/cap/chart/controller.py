"""The controllers in the chart."""

from __future__ import annotations

from stellwerk.delivery.chart.part import ChartPart
from stellwerk.delivery.chart.values import SETTING, SWITCH, TEXT, Value
from stellwerk.operators.cap.chart.component import component, labels

_DETECTED = "Empty: what the cluster serves."


def _workers(kind: str, field: str) -> Value:
    help = "How many are reconciled at once. Empty: `concurrency.maxConcurrentReconciles`, else the program's default."
    return Value(f"maxConcurrentReconciles.{kind}", "", SETTING, help, field=f"max_concurrent_reconciles_{field}")


PART = ChartPart(
    key="controller",
    suffix="controller",
    labels=labels("controller"),
    by_variable=True,
    values=(
        *component("500Mi", 0.2, requested_memory="50Mi", requested_cpu=0.02),
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
            "Namespaces of ingress gateways, separated by commas or blanks. Empty: all but those of the system.",
            field="ingress_namespaces",
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
    ),
)
