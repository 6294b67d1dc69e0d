"""The worlds in which the BTP Manager's promises are tested: each method makes one fact true on the real API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Namespace, Pod, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Forbidden, Invalid
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, metadata_of, unstructured
from stellwerk.operators.btp.api import OPERAND_POD_SELECTOR, BtpOperator
from stellwerk.runtime.certificates import certs
from stellwerk.testing.eventually import eventually

CREDENTIALS: Mapping[str, str] = {
    "clientid": "client-one",
    "clientsecret": "canary-clientsecret-1f3a",
    "sm_url": "https://service-manager.example.com",
    "tokenurl": "https://token.example.com",
    "cluster_id": "cluster-one",
}

_ADMISSION = ("admissionregistration.k8s.io", "v1")
POLICIES = unstructured(Resource(*_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False))
POLICY_BINDINGS = unstructured(
    Resource(*_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False)
)

PRIORITY_CLASS = unstructured(Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False))
PRIORITY_CLASS_NAME = "btp-manager-kyma-priority"
PRIORITY_CLASS_BODY: JsonObject = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": PRIORITY_CLASS_NAME},
    "value": 2100000,
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

    @asynccontextmanager
    async def changes_are_refused(self, plural: str, name: str, namespace: str = "default") -> AsyncIterator[None]:
        """Nobody can update one object of the services' kinds in this context: not even its finalizers."""
        rule: JsonObject = {
            "apiGroups": ["services.cloud.sap.com"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": [plural],
        }
        policy: JsonObject = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "refused by the test"}],
        }
        binding: JsonObject = {"policyName": "refused", "validationActions": ["Deny"]}
        await self.client.apply(POLICIES, {"metadata": {"name": "refused"}, "spec": policy})
        await self.client.apply(POLICY_BINDINGS, {"metadata": {"name": "refused"}, "spec": binding})
        target = Resource("services.cloud.sap.com", "v1", "Any", plural, namespaced=True)

        async def is_refused() -> bool:
            patch = MergePatch({"metadata": {"annotations": {"probe": "yes"}}})
            try:
                await self.client.patch(metadata_of(target), name, namespace, patch, dry_run=True)
            except Invalid as error:
                return "refused by the test" in str(error)
            return False

        try:
            await eventually(is_refused, describe="the API server refuses the change")
            yield
        finally:
            await self.client.delete(POLICY_BINDINGS, "refused")
            await self.client.delete(POLICIES, "refused")

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

    async def without_finalizers(self, kind: type[Kind], name: str, namespace: str = "default") -> None:
        """Whoever held the object lets it go."""
        await self.client.patch(metadata_of(kind), name, namespace, MergePatch({"metadata": {"finalizers": None}}))

    async def no_bindings(self) -> None:
        """Users delete all their bindings."""
        await self._delete_all(ServiceBinding)

    async def no_instances(self) -> None:
        """Users delete all their instances."""
        await self._delete_all(ServiceInstance)

    async def _delete_all(self, kind: type[ServiceBinding] | type[ServiceInstance]) -> None:
        for obj in (await self.client.list(metadata_of(kind))).items:
            await self.client.delete(metadata_of(kind), obj.metadata.name, obj.metadata.namespace)

    async def annotations_on(
        self, kind: type[Kind], name: str, namespace: str = "kyma-system", **annotations: str
    ) -> None:
        """Annotations set by somebody else."""
        patch = MergePatch({"metadata": {"annotations": dict(annotations)}})
        await self.client.patch(metadata_of(kind), name, namespace, patch)

    async def no_annotation_on(self, kind: type[Kind], name: str, annotation: str) -> None:
        """An annotation removed by somebody else, of an object in the module's namespace."""
        patch = MergePatch({"metadata": {"annotations": {annotation: None}}})
        await self.client.patch(metadata_of(kind), name, self.namespace, patch)

    async def data_on(self, kind: type[Kind], name: str, namespace: str = "kyma-system", **data: str) -> None:
        """Data edited by somebody else."""
        await self.client.patch(metadata_of(kind), name, namespace, MergePatch({"data": dict(data)}))

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

    async def no_priority_class(self) -> None:
        """The class that the operand's pods name does not exist, and the API server refuses such pods.

        It knows the classes from a watch of its own, so it goes on for a moment as if nothing had happened.
        """
        await self.client.delete(PRIORITY_CLASS, PRIORITY_CLASS_NAME)
        spec: JsonObject = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": PRIORITY_CLASS_NAME}
        pod: JsonObject = {"metadata": {"name": "probe", "namespace": self.namespace}, "spec": spec}

        async def is_refused() -> bool:
            try:
                await self.client.create(Pod, {"apiVersion": "v1", "kind": "Pod", **pod}, dry_run=True)
            except Forbidden as error:
                return PRIORITY_CLASS_NAME in str(error)
            return False

        await eventually(is_refused, describe="the API server misses the priority class")

    async def priority_class(self) -> None:
        """The class that the operand's pods name exists."""
        await self.client.apply(PRIORITY_CLASS, PRIORITY_CLASS_BODY)

    async def replace(self, kind: type[Kind], body: JsonObject) -> None:
        """The object exactly as given: created, or put in the place of what is there."""
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
        if await self.client.find(kind, name, namespace) is None:
            await self.client.create(kind, body)
        else:
            await self.client.update(kind, body)
