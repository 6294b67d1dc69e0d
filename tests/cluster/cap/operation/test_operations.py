"""An operation on a tenant runs its Jobs one after the other, each exactly once."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, ready, router

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.events import Event
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, owner_reference, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


async def test_an_operation_is_completed_when_its_job_is(running: Running, shop: Shop, audit: AuditLog) -> None:
    await shop.open(follows=False)
    await shop.tenant_shows("ProcessingStarted", state="")
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
    assert ready(operation)[1] == f"step 1/1: job {shop.namespace}.{made.metadata.name} completed"
    assert made.metadata.controller is not None
    assert made.metadata.controller.name == "acme-op"
    requests = [f"{entry.verb} {entry.resource}/{entry.subresource}" for entry in shop.requests(audit)]
    others = ("watch", "create events", "update captenants", "update capapplications")
    assert sorted(each for each in requests if not each.startswith(others)) == [
        "create jobs/",
        "create secrets/",
        "patch captenantoperations/",
        "update captenantoperations/status",
        "update captenantoperations/status",
    ]


@pytest.mark.req("R-104")
async def test_an_operation_that_was_created_for_a_tenant_that_is_gone_goes_without_a_job(
    running: Running, shop: Shop
) -> None:
    """As a pass creates it whose cache still shows the tenant; the garbage collector deletes it."""
    await shop.open(follows=False)
    await shop.tenant_shows("ProcessingStarted", state="")
    tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
    owner = msgspec.to_builtins(owner_reference(tenant)) | {"uid": "00000000-0000-0000-0000-000000000000"}
    await shop.operate("deprovisioning", owner=owner)

    async def gone() -> bool:
        return not await shop.operations()

    await eventually(gone, within=60, describe="the operation is gone")
    assert await shop.jobs() == {}


async def test_the_job_reads_its_credentials_from_a_secret_of_the_operation(running: Running, shop: Shop) -> None:
    await shop.open(follows=False)
    await shop.operate("provisioning")
    await shop.ends()
    listed = (await shop.client.list(Secret, shop.namespace, labels=names.SECRET_OWNER_HASH_LABEL)).items

    (secret,) = (each for each in listed if each.metadata.controller and each.metadata.controller.name == "acme-op")
    assert secret.decoded()["VCAP_SERVICES"] == (
        b'{"xsuaa":[{"credentials":{"clientid":"id"},"instance_name":"uaa","label":"xsuaa","name":"uaa","tags":["xsuaa"]}]}'
    )


@pytest.mark.req("CAP-26")
async def test_properties_of_a_binding_with_metadata_become_those_of_the_service(running: Running, shop: Shop) -> None:
    await shop.open(follows=False)
    described: JsonObject = {
        "metaDataProperties": [
            {"name": "label", "sourceName": "type", "format": "text"},
            {"name": "plan", "format": "text"},
            {"name": "instance_name", "format": "text"},
        ],
        "credentialProperties": [{"name": "credentials", "format": "json", "container": True}],
    }
    values = {
        ".metadata": json.dumps(described),
        "type": "xsuaa",
        "plan": "application",
        "instance_name": "my-uaa",
        "credentials": '{"clientid": "id", "nested": {"a": 1}}',
    }
    data: JsonObject = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    metadata: JsonObject = {"name": "uaa-secret", "namespace": shop.namespace}
    await shop.client.apply(Secret, {"metadata": metadata, "data": data}, force=True)
    await running.settled(shop.client)
    await shop.operate("provisioning")
    await shop.ends()

    listed = (await shop.client.list(Secret, shop.namespace, labels=names.SECRET_OWNER_HASH_LABEL)).items
    (secret,) = (each for each in listed if each.metadata.controller and each.metadata.controller.name == "acme-op")
    assert json.loads(secret.decoded()["VCAP_SERVICES"]) == {
        "xsuaa": [
            {
                "name": "my-uaa",
                "label": "xsuaa",
                "plan": "application",
                "instance_name": "my-uaa",
                "credentials": {"clientid": "id", "nested": {"a": 1}},
            }
        ]
    }


@pytest.mark.req("CAP-37")
@pytest.mark.parametrize("may_fail", [True, False], ids=["a step that may fail", "a step that must not"])
async def test_a_failed_step_ends_the_operation_unless_it_may_fail(
    running: Running, shop: Shop, may_fail: bool
) -> None:
    await shop.open(job("notify", "CustomTenantOperation", "fail"), job("mtxs"), follows=False)
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
    assert message.startswith("step 1/2: Job ")
    assert "kubectl logs job/acme-notify-" in message
    assert "Last exit code 1" in message


async def test_two_jobs_of_a_step_are_an_error_until_one_is_deleted(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="hang"), follows=False)
    await shop.operate("upgrade")
    await shop.shows("StepInitiated")
    (first,) = await shop.all_jobs()
    owners: JsonValue = msgspec.to_builtins(first.metadata.owner_references)
    pod: JsonObject = {"restartPolicy": "Never", "containers": [{"name": "mtxs", "image": "job:1"}]}
    metadata: JsonObject = {"name": "acme-mtxs-x7k2p", "namespace": shop.namespace, "ownerReferences": owners}
    metadata["labels"] = {**first.metadata.labels}
    await shop.client.create(Job, {"metadata": metadata, "spec": {"template": {"spec": pod}}})
    operation = await shop.shows("StepProcessingError", saying="Delete all but one of them")

    assert operation.status.state == "Processing"
    await shop.client.delete(metadata_of(Job), first.metadata.name, shop.namespace, propagation="Background")
    operation = await shop.ends()
    assert (operation.status.state, ready(operation)[0]) == ("Completed", "StepCompleted")


async def test_a_failed_operation_shows_where_its_log_is_and_how_its_pod_ended(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"), follows=False)
    await shop.operate("upgrade")
    operation = await shop.ends()

    (failed,) = (await shop.jobs()).values()
    message = ready(operation)[1]
    assert f"Read its logs with: kubectl logs job/{failed.metadata.name} -n {shop.namespace}" in message
    assert message.endswith("Last exit code 1 (Error)")
    assert operation.status.failed_step == 1


async def test_a_failed_step_runs_again_once_for_each_request(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"), follows=False)
    await shop.operate("upgrade")
    await shop.ends()
    for attempt, request in enumerate(("one", "two"), start=2):
        (failed,) = (await shop.jobs()).values()
        await shop.ask_again(CAPTenantOperation, "acme-op", request)
        operation = await shop.fails_again("acme-op", request)
        await running.settled(shop.client)
        (again,) = (await shop.jobs()).values()
        assert again.metadata.uid != failed.metadata.uid
        assert operation.status.state == "Failed"
        assert ready(operation)[1].endswith(f"It was tried {attempt} times")


async def test_a_retry_reads_the_credentials_as_they_are_now(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"), follows=False)
    await shop.operate("upgrade")
    await shop.ends()
    renewed: JsonObject = {"credentials": base64.b64encode(b'{"clientid": "renewed"}').decode()}
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, MergePatch({"data": renewed}))
    await running.settled(shop.client)
    await shop.ask_again(CAPTenantOperation, "acme-op", "one")
    await shop.fails_again("acme-op", "one")

    (again,) = (await shop.jobs()).values()
    job_body = await shop.client.get(unstructured(Job.resource), again.metadata.name, shop.namespace)
    (source,) = msgspec.convert(job_body.at("spec", "template", "spec", "containers"), list[dict[str, Any]])[0][
        "envFrom"
    ]
    secret = await shop.client.get(Secret, source["secretRef"]["name"], shop.namespace)
    assert b"renewed" in secret.decoded()["VCAP_SERVICES"]


async def test_a_failed_step_runs_again_by_itself_as_often_as_the_application_asks(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(jobRetry={"maxAttempts": 3, "delaySeconds": 0})
    await shop.release("1", job("mtxs", fate="fail"), router())
    await shop.version_shows("WorkloadsReady")
    await shop.subscribe(follows=False)
    await shop.operate("upgrade")
    operation = await shop.ends()

    assert operation.status.state == "Failed"
    assert ready(operation)[1].endswith("It was tried 3 times")
    assert operation.status.retry is not None
    assert operation.status.retry.attempts == 3


async def test_a_deletion_waits_for_the_end_of_the_operation(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="hang"), follows=False)
    await shop.operate("deprovisioning")
    await shop.shows("StepInitiated")
    await shop.client.delete(metadata_of(CAPTenantOperation), "acme-op", shop.namespace)
    await running.settled(shop.client)
    operation = await shop.client.get(CAPTenantOperation, "acme-op", shop.namespace)
    assert operation.metadata.finalizers == (names.OPERATION_FINALIZER,)
    await shop.fail_hanging_jobs()
    await shop.is_gone(CAPTenantOperation, "acme-op")


async def test_a_tenant_without_the_payload_of_its_subscription_is_named(running: Running, shop: Shop) -> None:
    await shop.open(subscribed=False, follows=False)
    await shop.operate("provisioning")
    without = "has no annotation sme.sap.com/subscription-context-secret"
    operation = await shop.shows("StepProcessingError", saying=without)

    assert operation.status.state == "Processing"


@pytest.mark.parametrize("absent", ["version", "credentials"])
async def test_what_is_absent_is_named_and_the_operation_goes_on_when_it_comes(
    running: Running, shop: Shop, absent: str
) -> None:
    await shop.open(ready=absent != "version", follows=False)
    if absent == "credentials":
        await shop.version_shows("WorkloadsReady")
        await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)
    await shop.operate("upgrade")

    if absent == "version":
        operation = await shop.shows("StepProcessingError", saying="is not Ready: stellwerk why cav/shop-v1")
        assert "CAPApplicationVersion" in ready(operation)[1]
        await shop.make_ready()
    else:
        missing = f"Secret {shop.namespace}/uaa-secret does not exist"
        operation = await shop.shows("StepProcessingError", saying=missing)
        assert ready(operation)[1].startswith(missing)
        data: JsonObject = {"credentials": base64.b64encode(b"{}").decode()}
        body: JsonObject = {"metadata": {"name": "uaa-secret", "namespace": shop.namespace}, "data": data}
        await shop.client.create(Secret, body)
    assert (await shop.ends()).status.state == "Completed"


async def test_an_operation_that_fails_on_and_on_is_tried_every_five_minutes_and_goes_on_when_its_secret_comes(
    running: Running, shop: Shop
) -> None:
    await shop.open(follows=False)
    await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)
    await running.settled(shop.client)
    await shop.operate("upgrade")
    await shop.shows("StepProcessingError")
    failed = {"controller": "CAPTenantOperation", "result": "error"}
    for _ in range(20):
        before = running.sample("controller_runtime_reconcile_total", failed)
        await running.clock.skip(seconds=301)
        await running.rests()
        assert running.sample("controller_runtime_reconcile_total", failed) != before
    data: JsonObject = {"credentials": base64.b64encode(b"{}").decode()}
    body: JsonObject = {"metadata": {"name": "uaa-secret", "namespace": shop.namespace}, "data": data}
    await shop.client.create(Secret, body)

    assert (await shop.ends()).status.state == "Completed"


async def actions_of_events(shop: Shop, running: Running, kind: str) -> list[tuple[str, str, str]]:
    """Type, reason and action of the operator's Events about objects of a kind, each as often as there is an Event."""
    await running.settled(shop.client)
    events = (await shop.client.list(Event, shop.namespace)).items
    ours = (each for each in events if each.reporting_controller == names.OPERATOR_NAME)
    return sorted((each.type, each.reason, each.action) for each in ours if each.regarding.kind == kind)


async def test_events_name_the_action(running: Running, shop: Shop) -> None:
    await shop.open(follows=False)
    await shop.operate("provisioning")
    await shop.ends()

    assert await actions_of_events(shop, running, "CAPTenantOperation") == [
        ("Normal", "StepCompleted", "TrackJob"),
        ("Normal", "StepInitiated", "CreateJob"),
    ]


async def test_the_event_about_an_absent_tenant_names_the_reference(running: Running, shop: Shop) -> None:
    await shop.operate("provisioning")
    await shop.shows("StepProcessingError")

    found = await actions_of_events(shop, running, "CAPTenantOperation")
    assert found == [("Warning", "InvalidReference", "Prepare")]


async def test_the_event_about_an_absent_secret_names_the_action(running: Running, shop: Shop) -> None:
    await shop.open(follows=False)
    await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)
    await running.settled(shop.client)
    await shop.operate("upgrade")
    await shop.shows("StepProcessingError")

    found = await actions_of_events(shop, running, "CAPTenantOperation")
    assert found == [("Warning", "StepProcessingError", "TrackJob")]


async def test_an_operation_without_steps_has_failed_and_counts(running: Running, shop: Shop) -> None:
    await shop.open(follows=False)
    tenant = await shop.tenant_shows("ProcessingStarted", state="")
    spec: JsonObject = {
        "operation": "upgrade",
        "subDomain": "acme",
        "tenantId": "acme-id",
        "capApplicationVersionInstance": "shop-v1",
        "steps": [],
    }
    metadata: JsonObject = {"name": "acme-op", "namespace": shop.namespace}
    counter = {"app": tenant.metadata.labels[names.APP_HASH_LABEL], "operation": "upgrade"}
    before = running.sample("cap_op_tenant_operations_total", counter) or 0
    await shop.client.apply(CAPTenantOperation, {"metadata": metadata, "spec": spec})
    operation = await shop.ends()

    assert (operation.status.state, ready(operation)[0]) == ("Failed", "StepProcessingError")
    found = await actions_of_events(shop, running, "CAPTenantOperation")
    assert found == [("Warning", "StepProcessingError", "TrackJob")]
    assert running.sample("cap_op_tenant_operations_total", counter) == before + 1
