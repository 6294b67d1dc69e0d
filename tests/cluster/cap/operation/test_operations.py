"""An operation on a tenant runs its Jobs one after the other, each exactly once."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from tests.cluster.cap.operation.conftest import OPERATOR, Running

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_application import CAPApplication
from stellwerk.operators.cap.api_tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.api_version import CAPApplicationVersion
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

FATE = "stellwerk.local/fate"


@dataclass
class Shop:
    """An application with one version and one tenant."""

    client: Client
    namespace: str

    async def open(self, *workloads: JsonObject, ready: bool = True, subscribed: bool = True) -> None:
        """Make the application, its Secret, its tenant and its version."""
        secret: JsonObject = {"credentials": base64.b64encode(b'{"clientid": "id"}').decode()}
        await self.client.apply(Secret, {**self._metadata("uaa-secret"), "data": secret})
        await self.client.apply(
            CAPApplication,
            {
                **self._metadata("shop"),
                "spec": {
                    "btpAppName": "shop",
                    "providerSubaccountId": "subaccount",
                    "btp": {"services": [{"name": "uaa", "class": "xsuaa", "secret": "uaa-secret"}]},
                },
            },
        )
        version: JsonObject = {
            "capApplicationInstance": "shop",
            "version": "1.0.0",
            "workloads": [*(workloads or (job("mtxs"),))],
        }
        await self.client.apply(CAPApplicationVersion, {**self._metadata("shop-v1"), "spec": version})
        if ready:
            await self.make_ready()
        tenant: JsonObject = {"capApplicationInstance": "shop", "subDomain": "acme", "tenantId": "acme-id"}
        labels: JsonObject = {"sme.sap.com/tenant-type": "consumer", "sme.sap.com/btp-tenant-id": "acme-id"}
        annotations: JsonObject = {names.CONTEXT_SECRET_ANNOTATION: "acme-context"} if subscribed else {}
        marks = {"labels": labels, "annotations": annotations}
        await self.client.apply(CAPTenant, {**self._metadata("acme", **marks), "spec": tenant})
        payload: JsonObject = {names.CONTEXT_KEY: base64.b64encode(b"{}").decode()}
        await self.client.apply(Secret, {**self._metadata("acme-context"), "data": payload})

    async def make_ready(self) -> None:
        """The version is Ready, as its controller would show it."""
        ready: JsonObject = {
            "type": "Ready",
            "status": "True",
            "reason": "WorkloadsReady",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = MergePatch({"status": {"state": "Ready", "conditions": [ready]}})
        target = metadata_of(CAPApplicationVersion)
        await self.client.patch(target, "shop-v1", self.namespace, patch, subresource="status")

    async def operate(self, operation: str, *steps: JsonObject, name: str = "acme-op") -> None:
        """Ask for an operation."""
        spec: JsonObject = {
            "operation": operation,
            "subDomain": "acme",
            "tenantId": "acme-id",
            "capApplicationVersionInstance": "shop-v1",
            "steps": [*(steps or ({"name": "mtxs", "type": "TenantOperation"},))],
        }
        await self.client.apply(CAPTenantOperation, {**self._metadata(name), "spec": spec})

    async def ends(self, name: str = "acme-op") -> CAPTenantOperation:
        """Return the operation when it has ended."""
        found: list[CAPTenantOperation] = []

        async def ended() -> bool:
            found[:] = [await self.client.get(CAPTenantOperation, name, self.namespace)]
            return conditions.is_true(found[0].status.conditions, "Ready")

        await eventually(ended, within=30, describe=f"operation {name} has ended")
        return found[0]

    async def shows(self, reason: str, name: str = "acme-op") -> CAPTenantOperation:
        """Return the operation when its condition has this reason."""
        found: list[CAPTenantOperation] = []

        async def does() -> bool:
            found[:] = [await self.client.get(CAPTenantOperation, name, self.namespace)]
            return ready(found[0])[0] == reason

        await eventually(does, within=30, describe=f"operation {name} shows {reason}")
        return found[0]

    async def jobs(self) -> dict[str, Job]:
        """All Jobs, by the number of their step."""
        listed = (await self.client.list(Job, self.namespace)).items
        return {each.metadata.labels[names.OPERATION_STEP_LABEL]: each for each in listed}

    def _metadata(self, name: str, **fields: Mapping[str, object]) -> JsonObject:
        return {"metadata": {"name": name, "namespace": self.namespace, **fields}}  # type: ignore[dict-item]


def job(name: str, kind: str = "TenantOperation", fate: str = "", **limits: JsonValue) -> JsonObject:
    """A workload whose pods do this."""
    annotations: JsonObject = {FATE: fate} if fate else {}
    details: JsonObject = {"type": kind, "image": "job:1", "backoffLimit": 0, **limits}
    return {"name": name, "consumedBTPServices": ["uaa"], "annotations": annotations, "jobDefinition": details}


def ready(operation: CAPTenantOperation) -> tuple[str, str]:
    """Reason and message of the condition Ready."""
    condition = conditions.find(operation.status.conditions, "Ready")
    return (condition.reason, condition.message) if condition is not None else ("", "")


@pytest.fixture
def shop(admin: Client, home: str) -> Shop:
    return Shop(admin, home)


async def test_an_operation_is_completed_when_its_job_is(running: Running, shop: Shop, audit: AuditLog) -> None:
    await shop.open()
    await running.settled(shop.client)
    audit.mark()
    await shop.operate("provisioning")
    operation = await shop.ends()
    await running.settled(shop.client)

    assert operation.status.state == "Completed"
    assert operation.status.current_step is None
    assert operation.status.active_job == ""
    assert ready(operation)[0] == "StepCompleted"
    (made,) = (await shop.jobs()).values()
    assert ready(operation)[1] == f"step 1/1 : job {shop.namespace}.{made.metadata.name} completed"
    assert made.metadata.controller is not None
    assert made.metadata.controller.name == "acme-op"
    requests = [
        f"{entry.verb} {entry.resource}/{entry.subresource}" for entry in audit.entries() if entry.user == OPERATOR
    ]
    assert sorted(each for each in requests if not each.startswith("watch")) == [
        "create events/",
        "create events/",
        "create jobs/",
        "create secrets/",
        "get secrets/",
        "list secrets/",
        "patch captenantoperations/",
        "update captenantoperations/status",
        "update captenantoperations/status",
    ]


async def test_the_job_reads_its_credentials_from_a_secret_of_the_operation(running: Running, shop: Shop) -> None:
    await shop.open()
    await shop.operate("provisioning")
    await shop.ends()
    listed = (await shop.client.list(Secret, shop.namespace, labels=names.SECRET_OWNER_HASH_LABEL)).items

    (secret,) = listed
    assert secret.metadata.controller is not None
    assert secret.metadata.controller.name == "acme-op"
    assert secret.decoded()["VCAP_SERVICES"] == (
        b'{"xsuaa":[{"credentials":{"clientid":"id"},"instance_name":"uaa","label":"xsuaa","name":"uaa","tags":["xsuaa"]}]}'
    )


@pytest.mark.parametrize("may_fail", [True, False], ids=["a step that may fail", "a step that must not"])
async def test_a_failed_step_ends_the_operation_unless_it_may_fail(
    running: Running, shop: Shop, may_fail: bool
) -> None:
    await shop.open(job("notify", "CustomTenantOperation", "fail"), job("mtxs"))
    steps: tuple[JsonObject, ...] = (
        {"name": "notify", "type": "CustomTenantOperation", "continueOnFailure": may_fail},
        {"name": "mtxs", "type": "TenantOperation"},
    )
    await shop.operate("upgrade", *steps)
    operation = await shop.ends()

    if may_fail:
        assert (operation.status.state, ready(operation)[0]) == ("Completed", "StepCompleted")
        assert sorted(await shop.jobs()) == ["1", "2"]
        return
    assert (operation.status.state, ready(operation)[0]) == ("Failed", "StepFailed")
    assert [*await shop.jobs()] == ["1"]
    message = ready(operation)[1]
    assert message.startswith("step 1/2 : Job ")
    assert "kubectl logs job/acme-notify-" in message
    assert "Last exit code 1" in message


async def test_a_failed_step_runs_again_on_request(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"))
    await shop.operate("upgrade")
    await shop.ends()
    (failed,) = (await shop.jobs()).values()
    request = MergePatch({"metadata": {"annotations": {names.RETRY_ANNOTATION: "true"}}})
    await shop.client.patch(metadata_of(CAPTenantOperation), "acme-op", shop.namespace, request)

    async def runs_again() -> bool:
        jobs = [*(await shop.jobs()).values()]
        return [each.metadata.uid for each in jobs] not in ([], [failed.metadata.uid])

    await eventually(runs_again, within=30)
    operation = await shop.ends()
    assert operation.status.state == "Failed"
    assert names.RETRY_ANNOTATION not in operation.metadata.annotations


async def test_a_deletion_waits_for_the_end_of_the_operation(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="hang", activeDeadlineSeconds=5))
    await shop.operate("deprovisioning")
    await shop.shows("StepInitiated")
    await shop.client.delete(metadata_of(CAPTenantOperation), "acme-op", shop.namespace)
    await running.settled(shop.client)
    operation = await shop.client.get(CAPTenantOperation, "acme-op", shop.namespace)
    assert operation.metadata.finalizers == (names.OPERATION_FINALIZER,)

    async def gone() -> bool:
        return await shop.client.find(metadata_of(CAPTenantOperation), "acme-op", shop.namespace) is None

    await eventually(gone, within=30)


async def test_a_tenant_without_the_payload_of_its_subscription_is_named(running: Running, shop: Shop) -> None:
    await shop.open(subscribed=False)
    await shop.operate("provisioning")
    operation = await shop.shows("StepProcessingError")

    assert operation.status.state == "Processing"
    assert "has no annotation sme.sap.com/subscription-context-secret" in ready(operation)[1]


@pytest.mark.parametrize("absent", ["version", "credentials"])
async def test_what_is_absent_is_named_and_the_operation_goes_on_when_it_comes(
    running: Running, shop: Shop, absent: str
) -> None:
    await shop.open(ready=absent != "version")
    if absent == "credentials":
        await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)
    await shop.operate("upgrade")
    operation = await shop.shows("StepProcessingError")

    if absent == "version":
        assert "CAPApplicationVersion" in ready(operation)[1]
        assert "is not Ready: stellwerk why cav/shop-v1" in ready(operation)[1]
        await shop.make_ready()
    else:
        assert ready(operation)[1].startswith(f"Secret {shop.namespace}/uaa-secret does not exist")
        data: JsonObject = {"credentials": base64.b64encode(b"{}").decode()}
        body: JsonObject = {"metadata": {"name": "uaa-secret", "namespace": shop.namespace}, "data": data}
        await shop.client.create(Secret, body)
    assert (await shop.ends()).status.state == "Completed"


async def test_events_name_the_action(running: Running, shop: Shop) -> None:
    await shop.open()
    await shop.operate("provisioning")
    await shop.ends()
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    told = {(each.reason, each.action) for each in events if each.reporting_controller == names.OPERATOR_NAME}

    assert told == {("StepInitiated", "CreateJob"), ("StepCompleted", "TrackJob")}
