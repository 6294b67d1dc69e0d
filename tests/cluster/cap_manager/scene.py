"""A cluster with an ingress gateway, and what users and other controllers do in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Namespace, Pod, Service
from stellwerk.api.istio import Gateway
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig, metadata_of, unstructured
from stellwerk.operators.cap_manager.api import CAPOperator
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY
from stellwerk.testing.eventually import eventually

NAME = "cap-operator"
DOMAIN = "cluster.example.com"
LABELS = {"istio": "ingressgateway", "app": "istio-ingressgateway"}
APPLICATIONS = Resource("sme.sap.com", "v1alpha1", "CAPApplication", "capapplications", namespaced=True)
WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Acts and looks as a cluster administrator. CAPOperators are in the test's own namespace."""

    client: Client
    namespace: str

    # ---- the surroundings

    async def shoot_info(self, domain: str = DOMAIN) -> None:
        """The ConfigMap in which Gardener writes the domain of the cluster."""
        body = _named("ConfigMap", "v1", "shoot-info", "kube-system", {"data": {"domain": domain}})
        await self.client.apply(ConfigMap, body)

    async def gateway(self, dns_names: str = "", *, labels: dict[str, str] | None = None) -> None:
        """A pod of the ingress gateway with its load balancer."""
        labels = labels or LABELS
        await self.client.apply(
            Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "istio-system"}}
        )
        container: JsonValue = {"name": "proxy", "image": "example.com/proxy:1"}
        pod = _named("Pod", "v1", "gateway", "istio-system", {"spec": {"containers": [container]}}, labels)
        await self.client.apply(unstructured(Pod.resource), pod)
        await self.load_balancer(dns_names)

    async def load_balancer(self, dns_names: str, name: str = "gateway") -> None:
        """The Service in front of the gateway."""
        ports: JsonValue = [{"name": "https", "port": 443}]
        selector: JsonObject = {**LABELS}
        spec: JsonObject = {"type": "LoadBalancer", "selector": selector, "ports": ports}
        body = _named("Service", "v1", name, "istio-system", {"spec": spec})
        annotations: JsonObject = {"dns.gardener.cloud/dnsnames": dns_names} if dns_names else {}
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        await self.client.apply(
            unstructured(Service.resource), {**body, "metadata": {**metadata, "annotations": annotations}}
        )

    # ---- CAPOperators

    async def asks(self, name: str = NAME, *, annotations: dict[str, str] | None = None, **spec: JsonValue) -> None:
        """A CAPOperator; without a `spec` of its own, as in the sample of the original."""
        labels: list[JsonValue] = [{"name": label, "value": value} for label, value in LABELS.items()]
        target: JsonObject = {} if "dnsTarget" in spec else {"ingressGatewayLabels": labels}
        body = _named(
            "CAPOperator",
            "operator.sme.sap.com/v1alpha1",
            name,
            self.namespace,
            {"spec": {"subscriptionServer": {"subDomain": "cap-op"}, **target, **spec}},
        )
        if annotations:
            metadata = body["metadata"]
            assert isinstance(metadata, dict)
            body = {**body, "metadata": {**metadata, "annotations": {**annotations}}}
        await self.client.apply(CAPOperator, body)

    async def annotates(self, name: str = NAME, **annotations: str) -> None:
        """Annotations on a CAPOperator; the key is that of `operator.sme.sap.com`."""
        patch: JsonObject = {f"operator.sme.sap.com/{key.replace('_', '-')}": text for key, text in annotations.items()}
        await self.client.patch(
            metadata_of(CAPOperator), name, self.namespace, MergePatch({"metadata": {"annotations": patch}})
        )

    async def deletes(self, name: str = NAME) -> None:
        """The end of a CAPOperator is asked for."""
        await self.client.delete(metadata_of(CAPOperator), name, self.namespace)

    async def capoperator(self, name: str = NAME) -> CAPOperator:
        """It as it is now."""
        return await self.client.get(CAPOperator, name, self.namespace)

    async def shows(
        self, state: str, reason: str = "", text: str = "", *, name: str = NAME, within: float = WITHIN_SECONDS
    ) -> CAPOperator:
        """Return it when it is in a state for its spec as it is now, with a reason and a part of the message."""
        found: list[CAPOperator] = []

        async def shown() -> bool:
            obj = await self.capoperator(name)
            ready = conditions.find(obj.status.conditions, READY)
            assert ready is not None, obj.status
            assert obj.status.observed_generation == obj.metadata.generation
            assert obj.status.state == state, (obj.status.state, ready.message)
            assert not reason or ready.reason == reason, ready
            assert text in ready.message, ready.message
            found.append(obj)
            return True

        await eventually(shown, within=within, describe=f"{name} is {state}")
        return found[-1]

    async def is_gone(self, name: str = NAME) -> None:
        """Return when it is not there any more."""

        async def gone() -> bool:
            return await self.client.find(metadata_of(CAPOperator), name, self.namespace) is None

        await eventually(gone, within=WITHIN_SECONDS, describe=f"{name} is gone")

    # ---- objects

    async def deployment(self, part: str, name: str = NAME) -> Unstructured:
        """A Deployment of the installation."""
        return await self.client.get(unstructured(Deployment.resource), f"{name}-{part}", self.namespace)

    async def variables(self, part: str) -> dict[str, str]:
        """The environment of its container."""
        containers = (await self.deployment(part)).at("spec", "template", "spec", "containers")
        assert isinstance(containers, list)
        listed = dig(containers[0], "env")
        assert isinstance(listed, list)
        return {str(dig(each, "name")): str(dig(each, "value") or "") for each in listed}

    async def hosts(self) -> JsonValue:
        """The hosts that the gateway of the installation serves."""
        gateway = await self.client.get(unstructured(Gateway.resource), NAME, self.namespace)
        servers = gateway.at("spec", "servers")
        assert isinstance(servers, list)
        return dig(servers[0], "hosts")

    async def until(self, holds: Callable[[dict[str, str]], bool], part: str = "controller") -> None:
        """Return when the environment of a Deployment is as it should be."""

        async def as_wanted() -> bool:
            return holds(await self.variables(part))

        await eventually(as_wanted, within=WITHIN_SECONDS, describe="the Deployment has changed")

    async def application(self, name: str = "shop") -> None:
        """A CAPApplication of a user."""
        spec: JsonObject = {"btp": {"services": []}, "btpAppName": name, "providerSubaccountId": "provider"}
        body = _named("CAPApplication", APPLICATIONS.api_version, name, self.namespace, {"spec": spec})
        await self.client.create(unstructured(APPLICATIONS), body)


def _named(
    kind: str, api_version: str, name: str, namespace: str, content: JsonObject, labels: dict[str, str] | None = None
) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = {**labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
