"""CAPOperator: an installation of the CAP Operator, and every name that others rely on.

The names are a contract with clusters that the original manager has set up: its owner labels, finalizer and inventory
are read and written as they are, so that either can go on where the other has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.delivery.sets.inventory_status import InventoryStatus, State, documented_conditions
from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, ValidationRule, Version, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.runtime.conditions import READY

GROUP = "operator.sme.sap.com"
VERSION = "v1alpha1"

MANAGER = "cap-operator.sme.sap.com"
"""Field manager, finalizer, Lease, Helm's `.Release.Service`, and what all keys on our objects begin with."""
FINALIZER = MANAGER
LEASE_NAME = MANAGER
"""Shared with the original, so that both never act at once."""
CONTROLLER = "capoperator"
"""The controller's name in metrics."""

OWNER_ID = f"{MANAGER}/owner-id"
DELETE_POLICY_ANNOTATION = f"{MANAGER}/delete-policy"
"""On an object of the installation: what becomes of it."""
RETAIN_ANNOTATION = f"{GROUP}/retain-resources"
"""On a CAPOperator, as `"true"`: its objects stay when it is deleted."""

NEVER_OBSERVED = -1
"""What the API server writes as observedGeneration of a CAPOperator before the first pass."""


def _core(text: str, kind: str) -> msgspec.Meta:
    """The schema of a part of a pod."""
    return documented(text, definition=f"io.k8s.api.core.v1.{kind}")


PodPart: TypeAlias = dict[str, Any]
Toleration: TypeAlias = Annotated[PodPart, _core("A toleration.", "Toleration")]
SpreadConstraint: TypeAlias = Annotated[PodPart, _core("A constraint.", "TopologySpreadConstraint")]
Volume: TypeAlias = Annotated[PodPart, _core("A volume.", "Volume")]
VolumeMount: TypeAlias = Annotated[PodPart, _core("A mount.", "VolumeMount")]


# ---- what a CAPOperator asks for


class PodSettings(Record, frozen=True, kw_only=True):
    """Settings of the pods of one part of the CAP Operator. What is absent has the default of the chart."""

    replicas: Annotated[int | None, documented("How many pods run.", format="int32", example="2")] = None
    resources: Annotated[PodPart | None, _core("Resources of the container.", "ResourceRequirements")] = None
    node_selector: Annotated[Mapping[str, str] | None, documented("Labels of the nodes that pods may run on.")] = None
    affinity: Annotated[PodPart | None, _core("Affinity of the pods.", "Affinity")] = None
    tolerations: Annotated[tuple[Toleration, ...], documented("Tolerations of the pods.")] = ()
    priority_class_name: Annotated[str, documented("Priority class of the pods.")] = ""
    topology_spread_constraints: Annotated[
        tuple[SpreadConstraint, ...], documented("How pods are spread over the cluster.")
    ] = ()
    pod_security_context: Annotated[PodPart | None, _core("Security context of the pods.", "PodSecurityContext")] = None
    security_context: Annotated[PodPart | None, _core("Security context of the container.", "SecurityContext")] = None
    volumes: Annotated[tuple[Volume, ...], documented("Further volumes of the pods.")] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], documented("Further mounts of the container.")] = ()


class GardenerIssuer(Record, frozen=True, kw_only=True):
    """The issuer of Gardener's certificate management."""

    issuer_name: Annotated[str, documented("Name of the issuer.")] = ""
    issuer_namespace: Annotated[str, documented("Namespace of the issuer.")] = ""


class CertManagerIssuer(Record, frozen=True, kw_only=True):
    """The issuer of cert-manager."""

    issuer_name: Annotated[str, documented("Name of the issuer.", example="letsencrypt")] = ""
    issuer_kind: Annotated[str, documented("Kind of the issuer.", example="ClusterIssuer")] = ""
    issuer_group: Annotated[str, documented("API group of the issuer.", example="cert-manager.io")] = ""


class ServerCertificateConfig(Record, frozen=True, kw_only=True):
    """Details of the certificate of the subscription server."""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            rule="!(has(self.gardener) && has(self.certManager))",
            message="At most one of 'gardener' or 'certManager' may be provided",
        ),
    )

    gardener: Annotated[GardenerIssuer | None, documented("For the certificate manager Gardener.")] = None
    cert_manager: Annotated[CertManagerIssuer | None, documented("For the certificate manager CertManager.")] = None
    additional_ca_certificate: Annotated[
        str,
        documented(
            "Authorities, as PEM, of the client certificates of the Subscription Management Service, such as the SAP "
            "Cloud Root CA. Without them, requests of that service are refused."
        ),
    ] = msgspec.field(name="additionalCACertificate", default="")


class WebhookCertificateConfig(Record, frozen=True, kw_only=True):
    """Details of the certificate of the webhooks."""

    cert_manager: Annotated[CertManagerIssuer | None, documented("For the certificate manager CertManager.")] = None


class SubscriptionServer(PodSettings, frozen=True, kw_only=True):
    """The server that SaaS registries call."""

    sub_domain: Annotated[
        str,
        documented(
            "Subdomain of the cluster's domain under which the server is reached. Both together have at most 64 "
            "characters.",
            example="cap-op",
        ),
    ]
    certificate_manager: Annotated[
        str,
        documented("What issues its certificate.", otherwise="Gardener", values=("Gardener", "CertManager")),
    ] = ""
    certificate_config: Annotated[ServerCertificateConfig | None, documented("Details of its certificate.")] = None


class Webhook(PodSettings, frozen=True, kw_only=True):
    """The server that checks the CAP objects of users."""

    certificate_manager: Annotated[
        str,
        documented(
            "What issues its certificate. Default: it signs its own.",
            otherwise="Default",
            values=("Default", "CertManager"),
        ),
    ] = ""
    certificate_config: Annotated[WebhookCertificateConfig | None, documented("Details of its certificate.")] = None


class ConcurrentReconciles(Record, frozen=True, kw_only=True):
    """How many objects of each kind are reconciled at once, as text."""

    cap_application: Annotated[str, documented("CAPApplications.", example="1")] = ""
    cap_application_version: Annotated[str, documented("CAPApplicationVersions.", example="3")] = ""
    cap_tenant: Annotated[str, documented("CAPTenants.", example="10")] = ""
    cap_tenant_operation: Annotated[str, documented("CAPTenantOperations.", example="10")] = ""
    domain: Annotated[str, documented("Domains.", example="1")] = ""
    cluster_domain: Annotated[str, documented("ClusterDomains.", example="1")] = ""


class VersionMonitoring(Record, frozen=True, kw_only=True):
    """Where metrics show whether a version is still used."""

    prometheus_address: Annotated[
        str, documented("Address of Prometheus.", example="http://prometheus.monitoring.svc:9090")
    ] = ""
    metrics_evaluation_interval: Annotated[str, documented("Pause between two looks.", unit="duration")] = ""
    prom_client_acquire_retry_delay: Annotated[
        str, documented("Pause after Prometheus could not be reached.", unit="duration")
    ] = ""


class ClientRateLimiting(Record, frozen=True, kw_only=True):
    """Limits of the controller's requests."""

    qps: Annotated[str, documented("Requests per second, as text.", example="20")] = ""
    burst: Annotated[str, documented("Requests at once, as text.", example="30")] = ""


class ControllerSettings(PodSettings, frozen=True, kw_only=True):
    """The controllers of the CAP kinds."""

    detailed_operational_metrics: Annotated[bool, documented("Metrics for each tenant and version.")] = False
    max_concurrent_reconciles: Annotated[ConcurrentReconciles | None, documented("Objects at once, by kind.")] = None
    version_monitoring: Annotated[VersionMonitoring | None, documented("Monitoring of versions.")] = None
    client_rate_limiting: Annotated[ClientRateLimiting | None, documented("Limits of requests.")] = None
    rollout_delay: Annotated[
        str,
        documented("How long after a change of credentials workloads are restarted.", unit="duration", example="1h"),
    ] = ""


class GrafanaDashboard(Record, frozen=True, kw_only=True):
    """The ConfigMaps of dashboards."""

    config_map_labels: Annotated[
        Mapping[str, str] | None, documented("Labels by which Grafana finds the ConfigMaps.")
    ] = None


class Grafana(Record, frozen=True, kw_only=True):
    """What Grafana gets."""

    dashboard: Annotated[GrafanaDashboard | None, documented("Its dashboards.")] = None


class Monitoring(Record, frozen=True, kw_only=True):
    """Monitoring of all parts."""

    enabled: Annotated[bool, documented("Whether Prometheus reads the metrics.", required=True)] = False
    service_monitor_selector_labels: Annotated[
        Mapping[str, str] | None, documented("Labels by which Prometheus finds the ServiceMonitors.")
    ] = None
    grafana: Annotated[Grafana | None, documented("What Grafana gets.")] = None


class NamedLabel(Record, frozen=True, kw_only=True):
    """A label."""

    name: Annotated[str, documented("Name of the label.", example="istio")]
    value: Annotated[str, documented("Value of the label.", example="ingressgateway")]


class CAPOperatorSpec(Record, frozen=True, kw_only=True):
    """What is wanted of the installation."""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            rule="has(self.dnsTarget) != has(self.ingressGatewayLabels)",
            message="Exactly one of 'dnsTarget' or 'ingressGatewayLabels' must be provided",
        ),
    )

    subscription_server: Annotated[SubscriptionServer, documented("The server that SaaS registries call.")]
    dns_target: Annotated[
        str,
        documented(
            "DNS name of the ingress gateway.",
            otherwise="read from the Service of the gateway that ingressGatewayLabels name",
            form=text_forms.HOST_OR_EMPTY,
            example="public-ingress.example.com",
        ),
    ] = ""
    ingress_gateway_labels: Annotated[
        tuple[NamedLabel, ...], documented("Labels of the pods of the ingress gateway.", min_items=1)
    ] = ()
    controller: Annotated[ControllerSettings | None, documented("The controllers of the CAP kinds.")] = None
    monitoring: Annotated[Monitoring | None, documented("Monitoring of all parts.")] = None
    webhook: Annotated[Webhook | None, documented("The server that checks the CAP objects of users.")] = None


# ---- how it is


class CAPOperatorStatus(InventoryStatus, frozen=True, kw_only=True):
    """How the installation is. Written by the manager only."""

    processing_digest: Annotated[
        str, documented("Fingerprint of spec, annotations, chart and derived values that are being worked on.")
    ] = ""
    conditions: Annotated[tuple[Condition, ...], documented_conditions("CAPOperator", example="Processing")] = ()
    state: Annotated[
        State | None,
        documented(
            "Ready: installed and ready. Pending: something that it needs is missing. Processing and Deleting: no user "
            "has to act. DeletionPending: CAP objects still need it. Error: the manager could not, or it takes too "
            "long.",
            example="Ready",
        ),
    ] = None
    inventory: Annotated[tuple[Item, ...], documented("Every object of the installation.")] = ()


NEW = CAPOperatorStatus(observed_generation=NEVER_OBSERVED)
"""The status of a CAPOperator before the first pass, as the API server sets it."""


class CAPOperator(Kind, frozen=True, kw_only=True):
    """An installation of the CAP Operator. A cluster has one."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "CAPOperator", "capoperators", namespaced=True)

    spec: Annotated[CAPOperatorSpec, documented("What is wanted of the installation.", required=False)] = msgspec.field(
        default_factory=lambda: CAPOperatorSpec(subscription_server=SubscriptionServer(sub_domain=""))
    )
    status: Annotated[
        CAPOperatorStatus,
        documented("How it is.", default={"observedGeneration": NEVER_OBSERVED}, required=False),
    ] = NEW

    @property
    def retains_objects(self) -> bool:
        """Whether the objects stay when it is deleted."""
        return self.metadata.annotations.get(RETAIN_ANNOTATION) == "true"


_READY = f".status.conditions[?(@.type=='{READY}')]"
DEFINITION = Definition(
    short_names=("capop",),
    categories=("all", "sap"),
    versions=(
        Version(
            kind=CAPOperator,
            columns=(
                PrinterColumn(name="State", path=".status.state"),
                PrinterColumn(name="Reason", path=f"{_READY}.reason"),
                AGE,
                PrinterColumn(name="Message", path=f"{_READY}.message", priority=1),
            ),
        ),
    ),
)
