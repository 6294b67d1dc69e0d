"""The worlds in which the BTP Manager's promises are tested: each method makes one fact true on the real API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Pod, Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, metadata_of
from stellwerk.operators.btp.api import OPERAND_POD_SELECTOR, BtpOperator
from stellwerk.runtime.certificates import certs
from stellwerk.testing.scenarios.objects import ObjectActions

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
class Given(ObjectActions):
    """Makes facts true. `client` is a cluster administrator's, as the user's own kubectl would be."""

    namespace: str = "kyma-system"
    secret_name: str = "sap-btp-manager"

    async def without_finalizers(self, kind: type[Kind], name: str, namespace: str = "default") -> None:
        """The client that held the object back has removed its finalizers."""
        await self.client.patch(metadata_of(kind), name, namespace, MergePatch({"metadata": {"finalizers": None}}))

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

    async def service_instance(self, name: str, namespace: str = "default", *finalizers: str) -> None:
        """A user's service instance.

        It is applied: the API server holds up a create of a kind that was established within two seconds.
        """
        await self.client.apply(
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
        await self.client.apply(
            ServiceBinding,
            {
                "apiVersion": "services.cloud.sap.com/v1",
                "kind": "ServiceBinding",
                "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
                "spec": spec,
            },
        )

    async def secret(self, name: str, namespace: str = "default", **metadata: JsonValue) -> None:
        """A Secret of somebody's; further `metadata` may be given."""
        named: JsonObject = {"name": name, "namespace": namespace, **metadata}
        await self.replace(Secret, {"apiVersion": "v1", "kind": "Secret", "metadata": named})

    async def secret_of_binding(
        self, name: str, binding: str, namespace: str = "default", *, controller: bool = True
    ) -> None:
        """The Secret that the operand writes for a binding, which is its controller.

        One that is not controlled has an owner that stays, too: Kubernetes does not collect it with the binding.
        """
        found = await self.client.get(metadata_of(ServiceBinding), binding, namespace)
        owner: JsonObject = {
            "apiVersion": "services.cloud.sap.com/v1",
            "kind": "ServiceBinding",
            "name": binding,
            "uid": found.metadata.uid,
            "controller": controller,
        }
        stays = await self.client.get(metadata_of(ConfigMap), "kube-root-ca.crt", namespace)
        other: JsonObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "kube-root-ca.crt",
            "uid": stays.metadata.uid,
        }
        await self.secret(name, namespace, ownerReferences=[owner] if controller else [owner, other])

    async def says(self, kind: type[Kind], name: str, message: str, namespace: str = "default") -> None:
        """What the operand writes on a user's object that fails."""
        condition: JsonObject = {
            "type": "Succeeded",
            "status": "False",
            "reason": "DeleteFailed",
            "message": message,
            "lastTransitionTime": "2026-05-01T12:00:00Z",
        }
        patch = MergePatch({"status": {"conditions": [condition]}})
        await self.client.patch(metadata_of(kind), name, namespace, patch, subresource="status")

    async def no_bindings(self) -> None:
        """Users delete all their bindings."""
        await self._delete_all(ServiceBinding)

    async def no_instances(self) -> None:
        """Users delete all their instances."""
        await self._delete_all(ServiceInstance)

    async def _delete_all(self, kind: type[ServiceBinding] | type[ServiceInstance]) -> None:
        for obj in (await self.client.list(metadata_of(kind))).items:
            await self.client.delete(metadata_of(kind), obj.metadata.name, obj.metadata.namespace)

    async def secret_data(self, name: str, data: Mapping[str, bytes], namespace: str = "kyma-system") -> None:
        """A Secret's values overwritten by somebody else."""
        values: JsonObject = {key: base64.b64encode(value).decode() for key, value in data.items()}
        await self.client.patch(metadata_of(Secret), name, namespace, MergePatch({"data": values}))

    async def another_authority(self) -> certs.KeyPair:
        """A CA that is not ours."""
        wish = certs.Wish(
            common_name="foreign",
            names=("foreign.example.com",),
            lifetime=timedelta(days=300),
            now=datetime.now(UTC),
            key_bits=2048,
        )
        return await asyncio.to_thread(certs.new_authority, wish)

    async def operand_cluster_id(self, value: str, namespace: str = "kyma-system") -> None:
        """What the operand writes down when it first starts."""
        await self.replace(
            Secret,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "sap-btp-operator-clusterid", "namespace": namespace},
                "data": {"INITIAL_CLUSTER_ID": base64_text(value)},
            },
        )

    async def operand_pods(self) -> list[Pod]:
        """The operand's pods as they are now."""
        return (await self.client.list(Pod, self.namespace, labels=OPERAND_POD_SELECTOR)).items
