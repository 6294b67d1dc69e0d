"""An application with a version and a tenant, on a real control plane."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stellwerk.api.batch import Job
from stellwerk.api.core import Pod, Secret
from stellwerk.api.istio import VirtualService
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

FATE = "stellwerk.local/fate"
OPERATOR = "cap-controller"
"""The user that the operator is, with its rights and nothing more."""
_READY: JsonObject = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@dataclass
class Shop:
    """An application with one version and one tenant."""

    client: Client
    namespace: str

    async def open(
        self,
        *workloads: JsonObject,
        ready: bool = True,
        subscribed: bool = True,
        follows: bool = True,
        host: str = "",
        waits: bool = True,
        **fields: JsonValue,
    ) -> None:
        """Make the application, its Secret, a version, a tenant without a version, and a domain that is Ready.

        Without `follows`, the tenant is never given a version. It `waits` until the version is Ready, if it becomes so.
        """
        await self.bind()
        await self.apply(host=host, **fields)
        await self.release("1", *workloads, ready=ready)
        if ready and waits:
            await self.version_shows("WorkloadsReady")
        await self.subscribe(with_payload=subscribed, follows=follows)

    async def bind(self) -> None:
        """Make the Secret of the service that the application uses."""
        secret: JsonObject = {"credentials": base64.b64encode(b'{"clientid": "id"}').decode()}
        await self.client.apply(Secret, {**self._metadata("uaa-secret"), "data": secret})

    async def apply(self, *, host: str = "", **fields: JsonValue) -> None:
        """Make the application, and its domain where a host is given."""
        spec: JsonObject = {
            "btpAppName": "shop",
            "providerSubaccountId": "subaccount",
            "btp": {"services": [{"name": "uaa", "class": "xsuaa", "secret": "uaa-secret"}]},
            **fields,
        }
        if host:
            spec["domainRefs"] = [{"kind": "Domain", "name": "primary"}]
            await self.serve(host)
        await self.client.apply(CAPApplication, {**self._metadata("shop"), "spec": spec})

    async def subscribe(
        self,
        name: str = "acme",
        *,
        with_payload: bool = True,
        follows: bool = True,
        guid: str = "",
        context: str = "",
    ) -> None:
        """Make a tenant without a version, as the subscription server does. `context`: the Secret with its payload."""
        context = context or f"{name}-context"
        tenant: JsonObject = {"capApplicationInstance": "shop", "subDomain": name, "tenantId": f"{name}-id"}
        if not follows:
            tenant["versionUpgradeStrategy"] = "never"
        labels: JsonObject = {"sme.sap.com/tenant-type": "consumer", "sme.sap.com/btp-tenant-id": f"{name}-id"}
        annotations: JsonObject = {names.CONTEXT_SECRET_ANNOTATION: context} if with_payload else {}
        if guid:
            labels[names.SUBSCRIPTION_GUID] = annotations[names.SUBSCRIPTION_GUID] = guid
        marks = {"labels": labels, "annotations": annotations}
        await self.client.apply(CAPTenant, {**self._metadata(name, **marks), "spec": tenant})
        payload: JsonObject = {names.CONTEXT_KEY: base64.b64encode(b"{}").decode()}
        await self.client.apply(Secret, {**self._metadata(context), "data": payload})

    async def release(self, number: str, *workloads: JsonObject, ready: bool = True, **spec: Any) -> None:
        """Make the version `shop-v<number>`. Its pods become ready by themselves, unless they wait for `make_ready`."""
        version: JsonObject = {
            "capApplicationInstance": "shop",
            "version": f"{number}.0.0",
            "workloads": [*(workloads or (job("mtxs"), router(fate="" if ready else "unready")))],
            **spec,
        }
        await self.client.apply(CAPApplicationVersion, {**self._metadata(f"shop-v{number}"), "spec": version})

    async def make_ready(self, number: str = "1") -> None:
        """Have the pods of a version become ready."""
        for name in await self.names_of_pods(f"{names.VERSION_LABEL}={number}.0.0"):
            await self.end_fate(name)

    async def names_of_pods(self, labels: str) -> list[str]:
        """The pods with these labels, as soon as there are any."""

        async def pods() -> list[str]:
            listed = await self.client.list(metadata_of(Pod), self.namespace, labels=labels)
            return [pod.metadata.name for pod in listed.items]

        return await eventually(pods, within=30, describe=f"there are pods with {labels}")

    async def pod_waits(self, name: str) -> None:
        """Return when a container of a pod reports that it waits."""

        async def does() -> bool:
            pod = await self.client.get(Pod, name, self.namespace)
            return any(each.state.waiting is not None for each in pod.status.container_statuses)

        await eventually(does, within=30, describe=f"a container of pod {name} waits")

    async def end_fate(self, pod: str) -> None:
        """Have a pod live as usual from now on."""
        patch = MergePatch({"metadata": {"annotations": {FATE: None}}})
        await self.client.patch(metadata_of(Pod), pod, self.namespace, patch)

    async def fail_hanging_jobs(self) -> None:
        """Have the pods that hang end with an error, as soon as there are any."""

        async def hanging() -> list[str]:
            listed = await self.client.list(metadata_of(Pod), self.namespace)
            return [each.metadata.name for each in listed.items if each.metadata.annotations.get(FATE) == "hang"]

        for name in await eventually(hanging, within=30, describe="a pod hangs"):
            patch = MergePatch({"metadata": {"annotations": {FATE: "fail"}}})
            await self.client.patch(metadata_of(Pod), name, self.namespace, patch)

    async def version_shows(self, reason: str, number: str = "1", *, state: str = "Ready") -> CAPApplicationVersion:
        """Return the version when it has this state for this reason."""
        found: list[CAPApplicationVersion] = []

        async def does() -> bool:
            found[:] = [await self.client.get(CAPApplicationVersion, f"shop-v{number}", self.namespace)]
            condition = conditions.find(found[0].status.conditions, "Ready")
            assert condition is not None
            shown = (found[0].status.state, condition.reason)
            assert shown == (state, reason), f"{shown}: {condition.message}"
            return True

        await eventually(does, within=30, describe=f"version {number} shows {state}, {reason}")
        return found[0]

    async def serve(self, host: str, *, name: str = "primary", state: str = "Ready") -> None:
        """Make a domain, which is Ready unless it has another state, as its controller would show it."""
        spec: JsonObject = {
            "domain": host,
            "ingressSelector": {"istio": "gateway"},
            "tlsMode": "Simple",
            "dnsMode": "None",
        }
        await self.client.apply(Domain, {**self._metadata(name), "spec": spec})
        patch = MergePatch({"status": {"state": state, "gatewayName": f"{name}-gateway", "conditions": [_READY]}})
        await self.client.patch(metadata_of(Domain), name, self.namespace, patch, subresource="status")

    async def set_version(self, version: str) -> None:
        """Have the tenant use a version, as the controller of the application does."""
        patch = MergePatch({"spec": {"version": version}})
        await self.client.patch(metadata_of(CAPTenant), "acme", self.namespace, patch)

    async def tenant_shows(
        self, reason: str, *, state: str = "Ready", name: str = "acme", saying: str = ""
    ) -> CAPTenant:
        """Return a tenant when it has this state for this reason, with a message that has the words `saying`."""
        found: list[CAPTenant] = []

        async def does() -> bool:
            found[:] = [await self.client.get(CAPTenant, name, self.namespace)]
            condition = conditions.find(found[0].status.conditions, "Ready")
            assert condition is not None
            shown = (found[0].status.state, condition.reason)
            assert shown == (state, reason), f"{shown}: {condition.message}"
            assert saying in condition.message, condition.message
            return True

        await eventually(does, within=30, describe=f"tenant {name} shows {state}, {reason}")
        return found[0]

    async def has_version(self, version: str, *, name: str = "acme") -> None:
        """Return when a tenant is Ready with the version object of this name."""

        async def does() -> bool:
            status = (await self.client.get(CAPTenant, name, self.namespace)).status
            assert (status.state, status.current_version) == ("Ready", version), f"{status}"
            return True

        await eventually(does, within=30, describe=f"tenant {name} is Ready with {version}")

    async def is_gone(self, kind: type[Kind], name: str, *, within: float = 30) -> None:
        """Return when an object does not exist any more."""

        async def gone() -> bool:
            return await self.client.find(metadata_of(kind), name, self.namespace) is None

        await eventually(gone, within=within, describe=f"{kind.resource.kind} {name} is gone")

    async def shows_application(self, reason: str, *, state: str, condition: str = "Ready") -> CAPApplication:
        """Return the application when it has this state, and a condition this reason."""
        found: list[CAPApplication] = []

        async def does() -> bool:
            found[:] = [await self.client.get(CAPApplication, "shop", self.namespace)]
            shown = conditions.find(found[0].status.conditions, condition)
            assert shown is not None
            assert (found[0].status.state, shown.reason) == (state, reason), f"{found[0].status}"
            return True

        await eventually(does, within=30, describe=f"the application shows {state}, {reason}")
        return found[0]

    def inline_domains(self, host: str) -> JsonObject:
        """Domains as the first releases had them written into the application."""
        return {
            "primary": host,
            "secondary": [f"other.{host}"],
            "istioIngressGatewayLabels": [{"name": "istio", "value": "gateway"}],
        }

    def requests(self, audit: AuditLog) -> Sequence[AuditEntry]:
        """What the operator asked for in this namespace: it may still be busy with those of earlier tests."""
        return audit.entries(lambda entry: entry.user == OPERATOR and entry.namespace == self.namespace)

    async def routes(self, tenant: str = "acme") -> VirtualService | None:
        """The tenant's VirtualService."""
        return await self.client.find(VirtualService, tenant, self.namespace)

    async def operations(self) -> list[CAPTenantOperation]:
        """All operations of the namespace."""
        return [*(await self.client.list(CAPTenantOperation, self.namespace)).items]

    async def upgrade(self) -> CAPTenantOperation:
        """The upgrade, of which there is one."""
        (found,) = [each for each in await self.operations() if each.spec.operation == "upgrade"]
        return found

    async def operate(
        self, operation: str, *steps: JsonObject, name: str = "acme-op", owner: JsonObject | None = None
    ) -> None:
        """Ask for an operation, of which `owner` is the controller already."""
        spec: JsonObject = {
            "operation": operation,
            "subDomain": "acme",
            "tenantId": "acme-id",
            "capApplicationVersionInstance": "shop-v1",
            "steps": [*(steps or ({"name": "mtxs", "type": "TenantOperation"},))],
        }
        owned: JsonObject = {}
        if owner is not None:
            owned = {"ownerReferences": [owner], "finalizers": [names.OPERATION_FINALIZER]}
        await self.client.apply(CAPTenantOperation, {**self._metadata(name, **owned), "spec": spec})

    async def pauses(self, name: str) -> None:
        """Return when an operation waits for its next attempt."""

        async def does() -> bool:
            operation = await self.client.get(CAPTenantOperation, name, self.namespace)
            return operation.status.retry is not None

        await eventually(does, within=30, describe=f"operation {name} waits for its next attempt")

    async def ends(self, name: str = "acme-op") -> CAPTenantOperation:
        """Return the operation when it has ended."""
        found: list[CAPTenantOperation] = []

        async def ended() -> bool:
            found[:] = [await self.client.get(CAPTenantOperation, name, self.namespace)]
            return conditions.is_true(found[0].status.conditions, "Ready")

        await eventually(ended, within=30, describe=f"operation {name} has ended")
        return found[0]

    async def ask_again(self, kind: type[Kind], name: str, request: str) -> None:
        """Ask an object to run its failed Job again."""
        patch = MergePatch({"metadata": {"annotations": {names.RETRY_ANNOTATION: request}}})
        await self.client.patch(metadata_of(kind), name, self.namespace, patch)

    async def take_back(self, kind: type[Kind], name: str) -> None:
        """Take back what `ask_again` asked for."""
        patch = MergePatch({"metadata": {"annotations": {names.RETRY_ANNOTATION: None}}})
        await self.client.patch(metadata_of(kind), name, self.namespace, patch)

    async def fails_again(self, name: str, request: str) -> CAPTenantOperation:
        """Return the operation when it has handled a request and has ended."""
        found: list[CAPTenantOperation] = []

        async def failed() -> bool:
            found[:] = [await self.client.get(CAPTenantOperation, name, self.namespace)]
            ended = conditions.is_true(found[0].status.conditions, "Ready")
            return ended and found[0].status.last_handled_retry == request

        await eventually(failed, within=30, describe=f"operation {name} has ended after the request {request}")
        return found[0]

    async def mend(self, workload: JsonObject, number: str = "1") -> None:
        """Have the first workload of a version do this from now on. Without webhooks, a version can be changed."""
        version = await self.client.get(unstructured(CAPApplicationVersion.resource), f"shop-v{number}", self.namespace)
        listed = version.at("spec", "workloads")
        assert isinstance(listed, list)
        patch = MergePatch({"spec": {"workloads": [workload, *listed[1:]]}})
        await self.client.patch(metadata_of(CAPApplicationVersion), f"shop-v{number}", self.namespace, patch)

    async def shows(self, reason: str, name: str = "acme-op", *, saying: str = "") -> CAPTenantOperation:
        """Return the operation when its condition has this reason, and a message with these words."""
        found: list[CAPTenantOperation] = []

        async def does() -> bool:
            found[:] = [await self.client.get(CAPTenantOperation, name, self.namespace)]
            shown, message = ready(found[0])
            return shown == reason and saying in message

        await eventually(does, within=30, describe=f"operation {name} shows {reason}, {saying}")
        return found[0]

    async def jobs(self) -> dict[str, Job]:
        """All Jobs, by the number of their step."""
        return {each.metadata.labels[names.OPERATION_STEP_LABEL]: each for each in await self.all_jobs()}

    async def names_of(self, resource: Resource) -> list[str]:
        """The names of all objects of a kind in the namespace; none where the kind is not served."""
        try:
            listed = await self.client.list(metadata_of(resource), self.namespace)
        except NotServed:
            return []
        return sorted(each.metadata.name for each in listed.items)

    async def all_jobs(self) -> list[Job]:
        """All Jobs of the namespace."""
        return [*(await self.client.list(Job, self.namespace)).items]

    def _metadata(self, name: str, **fields: JsonValue) -> JsonObject:
        return {"metadata": {"name": name, "namespace": self.namespace, **fields}}


def job(name: str, kind: str = "TenantOperation", fate: str = "", **limits: JsonValue) -> JsonObject:
    """A workload whose pods do this."""
    annotations: JsonObject = {FATE: fate} if fate else {}
    details: JsonObject = {"type": kind, "image": "job:1", "backoffLimit": 0, **limits}
    return {"name": name, "consumedBTPServices": ["uaa"], "annotations": annotations, "jobDefinition": details}


def ready(operation: CAPTenantOperation) -> tuple[str, str]:
    """Reason and message of the condition Ready."""
    condition = conditions.find(operation.status.conditions, "Ready")
    return (condition.reason, condition.message) if condition is not None else ("", "")


def server(name: str, kind: str = "CAP", fate: str = "", **fields: Any) -> JsonObject:
    """A workload whose pods run on."""
    annotations: JsonObject = {FATE: fate} if fate else {}
    details: JsonObject = {"type": kind, "image": f"{name}:1", **fields}
    return {
        "name": name,
        "consumedBTPServices": ["uaa"],
        "annotations": annotations,
        "deploymentDefinition": details,
    }


def router(fate: str = "") -> JsonObject:
    """The workload that requests of tenants reach first."""
    return server("app", "Router", fate)
