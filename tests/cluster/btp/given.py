"""The worlds in which the BTP Manager's promises are tested: each method makes one fact true on the real API server."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client import Client
from stellwerk.kube.model import JsonObject, Kind
from stellwerk.kube.patch import MergePatch
from stellwerk.operators.btp.api import BtpOperator

CREDENTIALS: Mapping[str, str] = {
    "clientid": "client-one",
    "clientsecret": "canary-clientsecret-1f3a",
    "sm_url": "https://service-manager.example.com",
    "tokenurl": "https://token.example.com",
    "cluster_id": "cluster-one",
}


def base64_text(value: str) -> str:
    """A Secret's data value."""
    return base64.b64encode(value.encode()).decode()


@dataclass(frozen=True, slots=True)
class Given:
    """Makes facts true. `client` is a cluster administrator's, as the user's own kubectl would be."""

    client: Client
    namespace: str = "kyma-system"
    secret_name: str = "sap-btp-manager"
    made_namespaces: list[str] = field(default_factory=list)

    async def required_secret(self, *, labelled: bool = True, without: tuple[str, ...] = (), **values: str) -> None:
        """The Secret that the environment broker injects, with some keys changed (`values`) or left out (`without`)."""
        data = {key: value for key, value in {**CREDENTIALS, **values}.items() if key not in without}
        labels: JsonObject = {"app.kubernetes.io/managed-by": "kcp-kyma-environment-broker"} if labelled else {}
        await self.replace(
            Secret,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": self.secret_name, "namespace": self.namespace, "labels": labels},
                "data": {key: base64_text(value) for key, value in data.items()},
            },
        )

    async def tunables(self, **values: str) -> None:
        """The ConfigMap that overrides flags."""
        await self.replace(
            ConfigMap,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "sap-btp-manager", "namespace": self.namespace},
                "data": dict(values),
            },
        )

    async def btp_operator(
        self, name: str = "btpoperator", namespace: str = "kyma-system", **metadata: Mapping[str, str]
    ) -> BtpOperator:
        """The CR, as the user applies it; `labels` and `annotations` may be given."""
        extra: JsonObject = {key: dict(value) for key, value in metadata.items()}
        return await self.client.create(
            BtpOperator,
            {
                "apiVersion": "operator.kyma-project.io/v1alpha1",
                "kind": "BtpOperator",
                "metadata": {"name": name, "namespace": namespace, **extra},
            },
        )

    async def labels_on(self, kind: type[Kind], name: str, namespace: str = "kyma-system", **labels: str) -> None:
        """Labels set by somebody else."""
        await self.client.patch(kind, name, namespace, MergePatch({"metadata": {"labels": dict(labels)}}))

    async def a_namespace(self, name: str) -> str:
        """A namespace that exists."""
        await self.client.apply(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.made_namespaces.append(name)
        return name

    async def service_instance(self, name: str, namespace: str = "default", *finalizers: str) -> None:
        """A user's service instance."""
        await self.client.create(
            ServiceInstance,
            {
                "apiVersion": "services.cloud.sap.com/v1",
                "kind": "ServiceInstance",
                "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
                "spec": {"serviceOfferingName": "xsuaa", "servicePlanName": "application"},
            },
        )

    async def service_binding(
        self, name: str, instance: str, namespace: str = "default", *finalizers: str, secret_name: str = ""
    ) -> None:
        """A user's binding."""
        spec: JsonObject = {"serviceInstanceName": instance}
        if secret_name:
            spec["secretName"] = secret_name
        await self.client.create(
            ServiceBinding,
            {
                "apiVersion": "services.cloud.sap.com/v1",
                "kind": "ServiceBinding",
                "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
                "spec": spec,
            },
        )

    async def replace(self, kind: type[Kind], body: JsonObject) -> None:
        """The object exactly as given: created, or put in the place of what is there."""
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
        if await self.client.find(kind, name, namespace) is None:
            await self.client.create(kind, body)
        else:
            await self.client.update(kind, body)
