"""CAPApplicationVersion: the workloads of one version of an application.

Parts of pods are JSON here and go into Deployments and Jobs as they are; their schemas are those of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from stellwerk.kube.schema.crd import ValidationRule, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import ObjectMeta, Record, always_written
from stellwerk.operators.cap.kinds.status import (
    API_VERSION,
    GROUP,
    READY,
    HandledRetry,
    ReconciledStatus,
    RetryProgress,
    see_why,
)
from stellwerk.runtime import conditions

_AUTOSCALING = "io.k8s.api.autoscaling.v2."
_DURATION = text_forms.PROMETHEUS_DURATION.pattern


def _core(type: str, text: str) -> msgspec.Meta:
    """A field with JSON of a type of Kubernetes' core group."""
    return documented(text, definition=f"io.k8s.api.core.v1.{type}")


def _fields_set(number: Literal["exactly one", "at most one"], *fields: str) -> ValidationRule:
    """How many of the fields an object has."""
    size, verb = ("== 1", "must") if number == "exactly one" else ("<= 1", "may")
    listed = ",".join(f"has(self.{field})" for field in fields)
    return ValidationRule(
        rule=f"[{listed}].filter(x,x==true).size() {size}",
        message=f"{number} of the fields in [{' '.join(fields)}] {verb} be set",
    )


PodPart: TypeAlias = dict[str, Any]
EnvVar: TypeAlias = Annotated[PodPart, _core("EnvVar", "A variable.")]
Container: TypeAlias = Annotated[PodPart, _core("Container", "A container.")]
Toleration: TypeAlias = Annotated[PodPart, _core("Toleration", "A toleration.")]
SpreadConstraint: TypeAlias = Annotated[PodPart, _core("TopologySpreadConstraint", "A constraint.")]
Volume: TypeAlias = Annotated[PodPart, _core("Volume", "A volume.")]
VolumeMount: TypeAlias = Annotated[PodPart, _core("VolumeMount", "A mount.")]
MetricSpec: TypeAlias = Annotated[PodPart, documented("A metric.", definition=f"{_AUTOSCALING}MetricSpec")]


class VersionState(StrEnum):
    """The state of a CAPApplicationVersion."""

    UNKNOWN = ""
    READY = "Ready"
    ERROR = "Error"
    PROCESSING = "Processing"
    DELETING = "Deleting"


class DeploymentType(StrEnum):
    """The types of workloads that run as Deployments. The schema allows any text, the webhook only these."""

    CAP = "CAP"
    ROUTER = "Router"
    ADDITIONAL = "Additional"
    SERVICE = "Service"


class JobType(StrEnum):
    """The types of workloads that run as Jobs."""

    CONTENT = "Content"
    TENANT_OPERATION = "TenantOperation"
    CUSTOM_TENANT_OPERATION = "CustomTenantOperation"


class NetworkPolicyScope(StrEnum):
    """Who may connect to a port."""

    APPLICATION = "Application"
    CLUSTER = "Cluster"


class MetricType(StrEnum):
    """How a metric is summed up before it is compared."""

    GAUGE = "Gauge"
    COUNTER = "Counter"


# ---- Deployments and Jobs


class PodDetails(Record, frozen=True, kw_only=True):
    """What the pods of Deployments and Jobs have in common."""

    image: Annotated[str, documented("Image of the container.", example="registry.example.com/shop/srv:2.1.0")]
    image_pull_policy: Annotated[str, documented("When the image is pulled.", example="IfNotPresent")] = ""
    command: Annotated[tuple[str, ...], documented("Command of the container.")] = ()
    args: Annotated[tuple[str, ...], documented("Arguments of the container.")] = ()
    env: Annotated[tuple[EnvVar, ...], documented("Environment of the container.")] = ()
    volumes: Annotated[tuple[Volume, ...], documented("Volumes of the pod.")] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], documented("Mounts of the container.")] = ()
    service_account_name: Annotated[str, documented("Service account of the pod.", example="shop")] = ""
    resources: Annotated[PodPart | None, _core("ResourceRequirements", "Resources of the container.")] = None
    security_context: Annotated[PodPart | None, _core("SecurityContext", "Security context of the container.")] = None
    pod_security_context: Annotated[PodPart | None, _core("PodSecurityContext", "Security context of the pod.")] = None
    node_name: Annotated[str, documented("Node of the pod.")] = ""
    node_selector: Annotated[Mapping[str, str] | None, documented("Labels of the nodes that the pod may run on.")] = (
        None
    )
    priority_class_name: Annotated[str, documented("Priority class of the pod.")] = ""
    affinity: Annotated[PodPart | None, _core("Affinity", "Affinity of the pod.")] = None
    tolerations: Annotated[tuple[Toleration, ...], documented("Tolerations of the pod.")] = ()
    topology_spread_constraints: Annotated[
        tuple[SpreadConstraint, ...],
        documented("How pods are spread. A constraint without a label selector gets the labels of the pods."),
    ] = ()
    init_containers: Annotated[
        tuple[Container, ...],
        documented("Containers that run first. They get the version and the credentials as the container does."),
    ] = ()
    restart_policy: Annotated[str, documented("Restart policy of the pod.", otherwise="Never for Jobs")] = ""
    termination_grace_period_seconds: Annotated[
        int | None, documented("How long the pod may take to end.", unit="seconds")
    ] = None
    lifecycle: Annotated[PodPart | None, _core("Lifecycle", "Lifecycle hooks of the container.")] = None


class WorkloadPort(Record, frozen=True, kw_only=True):
    """A port of a workload, and of its Service."""

    name: Annotated[str, documented("Name of the port.", example="server")]
    port: Annotated[int, documented("Number of the port.", format="int32", example="4004")]
    app_protocol: Annotated[str, documented("Protocol of the application.", example="http")] = ""
    network_policy: Annotated[
        str,
        documented(
            "Who may connect: pods of the application, or all pods of the cluster.",
            otherwise="Application",
            values=tuple(NetworkPolicyScope),
            example="Cluster",
        ),
    ] = ""
    router_destination_name: Annotated[
        str, documented("Name under which the router finds the port.", example="srv-api")
    ] = ""


class DeletionMetric(Record, frozen=True, kw_only=True):
    """A metric that shows whether a workload is still used."""

    name: Annotated[str, documented("Name of the metric.", example="current_sessions")]
    type: Annotated[str, documented("Gauge: the average is compared. Counter: the rate is.", values=tuple(MetricType))]
    calculation_period: Annotated[str, documented("The period that is looked at.", pattern=_DURATION, example="30m")]
    threshold_value: Annotated[
        str, documented("A value up to which the workload is unused.", format="double", example="0.1")
    ]


class DeletionRules(Record, frozen=True, kw_only=True):
    """When a version that no tenant uses may be deleted."""

    metrics: Annotated[tuple[DeletionMetric, ...], documented("All of them must be at or below their thresholds.")] = ()
    expression: Annotated[
        str, documented("A PromQL expression whose result is the scalar 1.", example="scalar(x) > bool 2")
    ] = ""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (_fields_set("exactly one", "metrics", "expression"),)


class ScrapeConfig(Record, frozen=True, kw_only=True):
    """How Prometheus reads the metrics of a workload."""

    port: Annotated[str, documented("Name of the port.", example="metrics")]
    interval: Annotated[str, documented("How often.", pattern=_DURATION, example="30s")] = ""
    scrape_timeout: Annotated[str, documented("How long it may take.", pattern=_DURATION, example="10s")] = ""
    path: Annotated[str, documented("Path of the metrics page.", otherwise="/metrics")] = ""


class Monitoring(Record, frozen=True, kw_only=True):
    """Metrics of a workload."""

    deletion_rules: Annotated[
        DeletionRules | None, documented("When the version may be deleted, as far as this workload is concerned.")
    ] = None
    scrape_config: Annotated[ScrapeConfig | None, documented("How its metrics are read.")] = None


class Autoscaler(Record, frozen=True, kw_only=True):
    """The HorizontalPodAutoscaler of a workload, without its target."""

    min_replicas: Annotated[int | None, documented("The fewest pods.", format="int32", otherwise="1")] = None
    max_replicas: Annotated[int, documented("The most pods.", format="int32")]
    metrics: Annotated[tuple[MetricSpec, ...], documented("What is measured.")] = ()
    behavior: Annotated[
        PodPart | None,
        documented("How fast it scales.", definition=f"{_AUTOSCALING}HorizontalPodAutoscalerBehavior"),
    ] = None


class CookieAttribute(Record, frozen=True, kw_only=True):
    """An attribute of a cookie."""

    name: Annotated[str, documented("Name of the attribute.", example="SameSite")] = ""
    value: Annotated[str, documented("Value of the attribute.", example="Lax")] = ""


class HttpCookie(Record, frozen=True, kw_only=True):
    """A cookie that keeps a user on one pod."""

    name: Annotated[str, documented("Name of the cookie.", example="STICKY")] = ""
    path: Annotated[str, documented("Path of the cookie.", example="/")] = ""
    ttl: Annotated[str, documented("How long the cookie lives; 0s: as long as the session.", example="1h")] = ""
    attributes: Annotated[tuple[CookieAttribute, ...], documented("Attributes of the cookie.")] = ()


class StickinessHash(Record, frozen=True, kw_only=True):
    """What decides which pod gets a request."""

    http_header_name: Annotated[str, documented("A header of the request.", example="x-user")] = ""
    http_cookie: Annotated[HttpCookie | None, documented("A cookie.")] = None
    use_source_ip: Annotated[bool | None, documented("The client's address.")] = None
    http_query_parameter_name: Annotated[str, documented("A parameter of the query.", example="user")] = ""

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        _fields_set("at most one", "httpHeaderName", "httpCookie", "useSourceIp", "httpQueryParameterName"),
    )


class Stickiness(Record, frozen=True, kw_only=True):
    """Which pod of a workload gets a request."""

    hash: Annotated[StickinessHash | None, documented("What decides.")] = None


class DeploymentDetails(PodDetails, frozen=True, kw_only=True):
    """A workload that runs as a Deployment."""

    type: Annotated[str, documented("CAP, Router, Additional or Service.", example="CAP")]
    replicas: Annotated[int | None, documented("Number of pods.", format="int32", otherwise="1")] = None
    ports: Annotated[
        tuple[WorkloadPort, ...],
        documented("Ports.", otherwise="4004 for CAP, 5000 for Router, none for other types"),
    ] = ()
    liveness_probe: Annotated[PodPart | None, _core("Probe", "Liveness probe of the container.")] = None
    readiness_probe: Annotated[PodPart | None, _core("Probe", "Readiness probe of the container.")] = None
    startup_probe: Annotated[PodPart | None, _core("Probe", "Startup probe of the container.")] = None
    monitoring: Annotated[Monitoring | None, documented("Metrics of the workload.")] = None
    pod_disruption_budget: Annotated[
        PodPart | None,
        documented(
            "Its PodDisruptionBudget, without a selector.", definition="io.k8s.api.policy.v1.PodDisruptionBudgetSpec"
        ),
    ] = None
    horizontal_pod_autoscaler: Annotated[Autoscaler | None, documented("Its HorizontalPodAutoscaler.")] = None
    stickiness: Annotated[
        Stickiness | None,
        documented("Which pod gets a request.", otherwise="the router keeps a user on one pod by a cookie"),
    ] = None


class JobDetails(PodDetails, frozen=True, kw_only=True):
    """A workload that runs as a Job."""

    type: Annotated[str, documented("Content, TenantOperation or CustomTenantOperation.", example="TenantOperation")]
    backoff_limit: Annotated[
        int | None, documented("How often a failed pod is replaced.", format="int32", otherwise="6")
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None, documented("When a Job that has ended is deleted.", unit="seconds", format="int32")
    ] = None
    active_deadline_seconds: Annotated[int | None, documented("How long the Job may take.", unit="seconds")] = None


class Workload(Record, frozen=True, kw_only=True):
    """A Deployment or a Job of the version."""

    name: Annotated[str, documented("Name of the workload.", example="srv")]
    consumed_services: Annotated[
        tuple[str, ...], documented("Services of the CAPApplication whose credentials it gets.")
    ] = msgspec.field(name="consumedBTPServices")
    labels: Annotated[Mapping[str, str] | None, documented("Further labels of its objects.")] = None
    annotations: Annotated[Mapping[str, str] | None, documented("Further annotations of its objects.")] = None
    deployment: Annotated[DeploymentDetails | None, documented("The workload as a Deployment.")] = msgspec.field(
        name="deploymentDefinition", default=None
    )
    job: Annotated[JobDetails | None, documented("The workload as a Job.")] = msgspec.field(
        name="jobDefinition", default=None
    )

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        _fields_set("exactly one", "deploymentDefinition", "jobDefinition"),
    )


# ---- the version


class TenantStep(Record, frozen=True, kw_only=True):
    """A workload that is a step of an operation on tenants."""

    workload_name: Annotated[str, documented("Name of the workload.", example="mtxs")]
    continue_on_failure: Annotated[
        bool,
        documented("Whether the operation goes on when a CustomTenantOperation fails.", otherwise="false"),
    ] = False


class TenantOperations(Record, frozen=True, kw_only=True):
    """The steps of each operation on tenants."""

    provisioning: Annotated[tuple[TenantStep, ...], documented("Steps of provisioning.")] = ()
    upgrade: Annotated[tuple[TenantStep, ...], documented("Steps of an upgrade.")] = ()
    deprovisioning: Annotated[tuple[TenantStep, ...], documented("Steps of deprovisioning.")] = ()


class Route(Record, frozen=True, kw_only=True):
    """A path that leads to a workload."""

    workload_name: Annotated[str, documented("Name of the workload.", example="api")]
    port: Annotated[int, documented("Port of the workload.", format="int32", example="4004")]
    path: Annotated[str, documented("Prefix of the path.", otherwise="/", example="/api")] = ""


class ServiceExposure(Record, frozen=True, kw_only=True):
    """A subdomain under which workloads are reached without a tenant."""

    sub_domain: Annotated[str, documented("The subdomain.", example="service")]
    routes: Annotated[tuple[Route, ...], documented("Its paths, in the order in which they are tried.")]


class VersionSpec(Record, frozen=True, kw_only=True):
    """What a version of an application is made of. It cannot be changed; create another version instead."""

    application: Annotated[str, documented("CAPApplication of the same namespace.", example="bookshop")] = (
        msgspec.field(name="capApplicationInstance")
    )
    version: Annotated[
        str,
        documented("Semantic version; 1 and 1.2 are allowed, too.", form=text_forms.SEMANTIC_VERSION, example="2.1.0"),
    ]
    registry_secrets: Annotated[tuple[str, ...], documented("Secrets with the credentials of image registries.")] = ()
    workloads: Annotated[tuple[Workload, ...], documented("The workloads.", max_items=100)]
    tenant_operations: Annotated[
        TenantOperations | None,
        documented("Steps of operations on tenants.", otherwise="one step: the first job of type TenantOperation"),
    ] = None
    content_jobs: Annotated[
        tuple[str, ...] | None, documented("Content jobs in their order.", otherwise="the only content job")
    ] = None
    service_exposures: Annotated[
        tuple[ServiceExposure, ...], documented("Subdomains under which workloads are reached without a tenant.")
    ] = ()

    @property
    def deployments(self) -> Sequence[tuple[Workload, DeploymentDetails]]:
        """The workloads that run as Deployments."""
        return [(each, each.deployment) for each in self.workloads if each.deployment is not None]


class VersionStatus(ReconciledStatus, frozen=True, kw_only=True):
    """How a version is. Written by the operator only."""

    state: Annotated[
        str,
        documented(
            "Ready: tenants can use the version. Processing and Deleting: work is under way. Error: Ready has the "
            "cause.",
            values=tuple(VersionState),
            example="Ready",
        ),
    ] = always_written()
    finished_jobs: Annotated[tuple[str, ...], documented("Content jobs that have ended, in their order.")] = ()
    retry: Annotated[
        RetryProgress | None, documented("The retry of the content job that is due, where it was tried more than once.")
    ] = None
    last_handled_retry: HandledRetry = ""


class CAPApplicationVersion(Kind, frozen=True, kw_only=True):
    """A version of a CAP application: its workloads, and how tenants are brought to it."""

    resource: ClassVar[Resource] = Resource(
        GROUP, API_VERSION, "CAPApplicationVersion", "capapplicationversions", namespaced=True
    )

    spec: Annotated[VersionSpec, documented("What it is made of.")]
    status: Annotated[VersionStatus, documented("How it is.")] = VersionStatus()

    @property
    def application_key(self) -> ObjectKey:
        """The application that it is a version of."""
        return ObjectKey(self.metadata.namespace, self.spec.application)


def hidden_versions_message(versions: Sequence[ObjectKey]) -> str:
    """What is waited for where versions that cannot be read may be those that count."""
    return f"waiting for versions that cannot be read: {conditions.first_of(versions)}; {see_why('cav', versions[0])}"


def is_offered(version: CAPApplicationVersion) -> bool:
    """Whether tenants may get the version, if it is the newest."""
    return conditions.is_true(version.status.conditions, READY) and not version.metadata.is_terminating


def may_be_of(application: ObjectKey, version: ObjectMeta) -> bool:
    """Whether a version of which only the metadata can be read may be one of an application.

    Its owner shows whose it is; one that has none so far may be of any application of its namespace.
    """
    owner = version.controller
    return version.namespace == application.namespace and (owner is None or owner.name == application.name)
