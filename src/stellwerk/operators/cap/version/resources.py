"""The objects of the workloads of a version (pure; spec section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Service
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.version import (
    Autoscaler,
    CAPApplicationVersion,
    DeploymentDetails,
    DeploymentType,
    NetworkPolicyScope,
    Workload,
)
from stellwerk.operators.cap.pods import workload_pods
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.routing import objects as routing_objects
from stellwerk.operators.cap.routing import stickiness, targets
from stellwerk.operators.cap.version import destinations
from stellwerk.operators.cap.watches import AUTOSCALER, BUDGET

_WORKLOAD, _SERVICE, _MONITOR = "Workload", "Service", "ServiceMonitor"
_ORDER: Sequence[tuple[VersionReason, Sequence[DeploymentType]]] = (
    (VersionReason.ErrorInServiceDeployment, (DeploymentType.SERVICE,)),
    (VersionReason.ErrorInAppRouterDeployment, (DeploymentType.ROUTER,)),
    (VersionReason.ErrorInServerDeployment, (DeploymentType.CAP,)),
    (VersionReason.ErrorInJobWorkerDeployment, (DeploymentType.ADDITIONAL,)),
)
"""The reason that a failure of a Deployment has, by its type, in the order in which they are created."""


class UnusableWorkload(ValueError):
    """The definition of a workload contradicts itself. A version cannot be changed: only another one helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionObjects:
    """The objects of a version, without their owner reference."""

    application: CAPApplication
    version: CAPApplicationVersion

    # ---- workloads

    def workloads(self) -> Iterable[tuple[VersionReason, Workload]]:
        """The workloads that run as Deployments, in their order, each with the reason of its failures.

        A version has one router: further ones are ignored, as the original does.
        """
        for reason, types in _ORDER:
            listed = [each for each in self.version.spec.workloads if each.deployment and each.deployment.type in types]
            yield from ((reason, each) for each in (listed[:1] if DeploymentType.ROUTER in types else listed))

    def check(self, workload: Workload) -> None:
        """Raise ReservedVariable where the Deployment of a workload may not be created."""
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
            spec = _autoscaler(name, details.horizontal_pod_autoscaler)
            yield self._object(AUTOSCALER, name, spec, labels, annotations)
        if details.pod_disruption_budget is not None:
            spec = {**details.pod_disruption_budget, "selector": {"matchLabels": {**labels}}}
            yield self._object(BUDGET, name, spec, labels, annotations)
        given = details.stickiness
        asked = targets.consistent_hash(given.hash if given is not None else None)
        chosen = stickiness.chosen(asked, has_default=details.type == DeploymentType.ROUTER and given is None)
        if chosen is not None:
            rule = stickiness.destination_rule(self._service(workload), self.version.metadata.namespace, chosen)
            yield routing_objects.destination_rule(ObjectKey(self.version.metadata.namespace, name), rule)

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
        endpoint = workload_pods.given(
            port=scrape.port, interval=scrape.interval, scrapeTimeout=scrape.scrape_timeout, path=scrape.path
        )
        selected = {**(workload.labels or {}), **self._marks(_SERVICE, details.type, name)}
        spec: JsonObject = {"endpoints": [endpoint], "selector": {"matchLabels": {**selected}}}
        labels, annotations = self._labels(workload, _MONITOR, name), self._annotations(workload)
        yield self._object(ServiceMonitor.resource, name, spec, labels, annotations)

    # ---- network policies

    def policies(self) -> Iterable[Desired]:
        """Pods of the version accept connections of each other, and from everywhere at ports that ask for it."""
        own: JsonObject = {"matchLabels": {**self._marks(_WORKLOAD)}}
        yield self._policy(self.version.metadata.name, own, {"from": [{"podSelector": own}]})
        for workload in self.version.spec.workloads:
            details = workload.deployment
            ports = targets.ports_of(details) if details is not None else ()
            is_open = [port.port for port in ports if port.network_policy == NetworkPolicyScope.CLUSTER]
            if details is not None and is_open:
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
        return f"{self.name(workload)}-svc"

    def _labels(self, workload: Workload, category: str = _WORKLOAD, name: str = "") -> dict[str, str]:
        """The labels of an object: those of the workload, the operator's, and those of the owner."""
        details = _details(workload)
        own = self._marks(category, details.type, name or self.name(workload))
        own |= names.owner_labels(self.version.key, self.version.metadata.generation)
        if category == _WORKLOAD and targets.is_exposed(self.version, workload):
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


def _autoscaler(name: str, asked: Autoscaler) -> JsonObject:
    target: JsonObject = {"apiVersion": Deployment.resource.api_version, "kind": Deployment.resource.kind, "name": name}
    return workload_pods.given(
        scaleTargetRef=target,
        minReplicas=asked.min_replicas,
        maxReplicas=asked.max_replicas,
        metrics=[*asked.metrics],
        behavior=asked.behavior,
    )
