"""The objects of the workloads of a version (pure; spec section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Service
from stellwerk.api.istio import DestinationRule
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.apply.objects import name_validation
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, plain_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentDetails,
    DeploymentType,
    NetworkPolicyScope,
    Workload,
)
from stellwerk.operators.cap.pods import workload_pods
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.routing import targets
from stellwerk.operators.cap.version import destinations
from stellwerk.operators.cap.watches import AUTOSCALER, BUDGET

_WORKLOAD, _SERVICE, _MONITOR = "Workload", "Service", "ServiceMonitor"
_REASONS: Mapping[DeploymentType, VersionReason] = {
    DeploymentType.SERVICE: VersionReason.ErrorInServiceDeployment,
    DeploymentType.ROUTER: VersionReason.ErrorInAppRouterDeployment,
    DeploymentType.CAP: VersionReason.ErrorInServerDeployment,
    DeploymentType.ADDITIONAL: VersionReason.ErrorInJobWorkerDeployment,
}
"""The reason that a failure of a Deployment has, by its type, in the order in which they are created."""


class UnusableWorkload(ValueError):
    """No workload can be made of a definition. A version cannot be changed: only another one helps."""


def problem_of_number(version: CAPApplicationVersion) -> str:
    """Why the objects of a version cannot have its number as a label; empty where they can.

    Its schema accepts build metadata, as in 1.0.0+build, and any length.
    """
    labels: JsonObject = {names.VERSION_LABEL: version.spec.version}
    complaint = next(name_validation.complaints("v1", {"labels": labels}), "")
    return f"spec.version {version.spec.version} cannot be used: {complaint}" if complaint else ""


def check_number(version: CAPApplicationVersion) -> None:
    """Raise UnusableWorkload where the objects of a version cannot have its number as a label."""
    if problem := problem_of_number(version):
        raise UnusableWorkload(f"{problem}. Create another CAPApplicationVersion instead")


def check_size(version: CAPApplicationVersion) -> None:
    """Raise UnusableWorkload where a list or a text of a version is too long for anything to be made of it."""
    if problem := bounds.problem_of_size(version):
        raise UnusableWorkload(f"{problem}, in another CAPApplicationVersion")


@dataclass(frozen=True, kw_only=True)
class VersionObjects:
    """The objects of a version, without their owner reference."""

    application: CAPApplication
    version: CAPApplicationVersion

    @cached_property
    def _exposed(self) -> frozenset[str]:
        return targets.exposed_workloads(self.version)

    # ---- workloads

    def workloads(self) -> Iterable[tuple[VersionReason, Workload]]:
        """The workloads that run as Deployments, in their order, each with the reason of its failures.

        A version has one router: further ones are ignored, as the original does.
        """
        for type, reason in _REASONS.items():
            listed = [workload for workload, details in self.version.spec.deployments if details.type == type]
            yield from ((reason, each) for each in (listed[:1] if type is DeploymentType.ROUTER else listed))

    def check(self, workload: Workload) -> None:
        """Raise ReservedVariable or UnusableWorkload where the Deployment of a workload may not be created."""
        check_number(self.version)
        workload_pods.check_variables(workload.name, _details(workload))

    def deployment(self, workload: Workload, secret: str) -> Desired:
        """The Deployment of a workload. `secret` has its credentials."""
        details = _details(workload)
        labels, annotations = self._labels(workload), self._annotations(workload)
        env: list[JsonValue] = [{"name": workload_pods.VERSION_VARIABLE, "value": self.version.spec.version}]
        main = workload_pods.container(workload.name, details, env, secret)
        if details.type == DeploymentType.ROUTER:
            main["env"] = [*env, *destinations.environment(self.version, details.env)]
        main |= workload_pods.command(details) | workload_pods.given(
            livenessProbe=details.liveness_probe,
            readinessProbe=details.readiness_probe,
            startupProbe=details.startup_probe,
        )
        pod = workload_pods.pod_spec(
            details,
            main,
            workload_pods.init_containers(details, env, secret),
            registry_secrets=self.version.spec.registry_secrets,
            labels=labels,
            restart_policy=details.restart_policy,
            spread_by_template=True,
        )
        spec: JsonObject = {
            "selector": {"matchLabels": {**labels}},
            "template": {"metadata": {"labels": {**labels}, "annotations": {**annotations}}, "spec": pod},
        }
        if details.replicas is not None:
            spec["replicas"] = details.replicas
        return self._object(Deployment.resource, self.name(workload), spec, labels, annotations)

    def companions(self, workload: Workload) -> Iterable[Desired]:
        """What scales a Deployment, protects its pods and decides which of them gets a request."""
        details = _details(workload)
        labels, annotations = self._labels(workload), self._annotations(workload)
        name = self.name(workload)
        if details.horizontal_pod_autoscaler is not None:
            kind = Deployment.resource
            target: JsonObject = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}
            spec = workload_pods.given(scaleTargetRef=target, **plain_json(details.horizontal_pod_autoscaler))
            yield self._object(AUTOSCALER, name, spec, labels, annotations)
        if details.pod_disruption_budget is not None:
            spec = {**details.pod_disruption_budget, "selector": {"matchLabels": {**labels}}}
            yield self._object(BUDGET, name, spec, labels, annotations)
        if (chosen := targets.consistent_hash(details)) is not None:
            spec = {
                "host": targets.service_host(self.version, workload.name),
                "trafficPolicy": {"loadBalancer": {"consistentHash": plain_json(chosen)}},
            }
            yield self._object(DestinationRule.resource, name, spec, {}, {})

    def services(self, workload: Workload) -> Iterable[Desired]:
        """The Service of a workload with ports."""
        details = _details(workload)
        ports = targets.ports_of(details)
        if not ports:
            return
        name, annotations = self._service(workload), self._annotations(workload)
        spec: JsonObject = {
            "type": "ClusterIP",
            "ports": [
                workload_pods.given(name=port.name, port=port.port, appProtocol=port.app_protocol) for port in ports
            ],
            "selector": {**self._marks(_WORKLOAD, details.type, self.name(workload))},
        }
        yield self._object(Service.resource, name, spec, self._labels(workload, _SERVICE, name), annotations)

    def monitors(self, workload: Workload) -> Iterable[Desired]:
        """How the metrics of a workload are read, for clusters that serve the kind. Raises UnusableWorkload."""
        details = _details(workload)
        scrape = details.monitoring.scrape_config if details.monitoring is not None else None
        if scrape is None:
            return
        if all(port.name != scrape.port for port in targets.ports_of(details)):
            raise UnusableWorkload(
                f"workload {workload.name} has no port with the name {scrape.port}, which "
                "monitoring.scrapeConfig.port refers to: name one of its ports in another CAPApplicationVersion"
            )
        name = self._service(workload)
        selected = {**(workload.labels or {}), **self._marks(_SERVICE, details.type, name)}
        spec: JsonObject = {"endpoints": [plain_json(scrape)], "selector": {"matchLabels": {**selected}}}
        labels, annotations = self._labels(workload, _MONITOR, name), self._annotations(workload)
        yield self._object(ServiceMonitor.resource, name, spec, labels, annotations)

    # ---- network policies

    def policies(self) -> Iterable[Desired]:
        """Pods of the version accept connections of each other, and from everywhere at ports that ask for it."""
        own: JsonObject = {"matchLabels": {**self._marks(_WORKLOAD)}}
        yield self._policy(self.version.metadata.name, own, {"from": [{"podSelector": own}]})
        for workload, details in self.version.spec.deployments:
            ports = targets.ports_of(details)
            is_open = [port.port for port in ports if port.network_policy == NetworkPolicyScope.CLUSTER]
            if is_open:
                marks = self._marks(_WORKLOAD, details.type, self.name(workload))
                ingress: JsonObject = {
                    "from": [{"namespaceSelector": {}}],
                    "ports": [{"port": number} for number in is_open],
                }
                yield self._policy(self.name(workload), {"matchLabels": {**marks}}, ingress)

    def _policy(self, name: str, selector: JsonObject, ingress: JsonObject) -> Desired:
        spec: JsonObject = {"podSelector": selector, "ingress": [ingress], "policyTypes": ["Ingress"]}
        return self._object(NetworkPolicy.resource, name, spec, {}, names.owner_annotations(self.version.key))

    # ---- names and labels

    def name(self, workload: Workload) -> str:
        """The name of a workload's objects."""
        return f"{self.version.metadata.name}-{workload.name.lower()}"

    def _service(self, workload: Workload) -> str:
        return targets.service_name(self.version, workload.name)

    def _labels(self, workload: Workload, category: str = _WORKLOAD, name: str = "") -> dict[str, str]:
        """The labels of an object: those of the workload, the operator's, and those of the owner."""
        details = _details(workload)
        own = self._marks(category, details.type, name or self.name(workload))
        own |= names.owner_labels(self.version.key, self.version.metadata.generation)
        if category == _WORKLOAD and workload.name in self._exposed:
            own[names.EXPOSED_LABEL] = "true"
        return {**(workload.labels or {}), **own}

    def _marks(self, category: str, type: str = "", name: str = "") -> dict[str, str]:
        """The labels by which objects of the version select each other."""
        found = {
            names.APP_LABEL: self.application.spec.btp_app_name,
            names.VERSION_LABEL: self.version.spec.version,
            names.CATEGORY_LABEL: category,
        }
        further = {names.WORKLOAD_TYPE_LABEL: type, names.WORKLOAD_NAME_LABEL: name}
        return found | {key: value for key, value in further.items() if value}

    def _annotations(self, workload: Workload) -> dict[str, str]:
        return {**(workload.annotations or {}), **names.owner_annotations(self.version.key)}

    def _object(
        self, resource: Resource, name: str, spec: JsonObject, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> Desired:
        metadata = workload_pods.given(labels={**labels}, annotations={**annotations})
        return Desired.named(resource, ObjectKey(self.version.metadata.namespace, name), metadata, spec=spec)


def _details(workload: Workload) -> DeploymentDetails:
    assert workload.deployment is not None, workload.name
    return workload.deployment
