"""`stellwerk why` follows an application to the Job or pod that is the cause."""

from __future__ import annotations

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.batch import Job
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import Kind, Unstructured, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight.why import CapDiagnostician
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime.insight.diagnosis import Diagnosis, root_causes
from stellwerk.runtime.insight.reason_catalog import YOURS
from stellwerk.testing.eventually import eventually


async def why(shop: Shop, kind: type[Kind], name: str) -> Diagnosis:
    subject: Unstructured = await shop.client.get(unstructured(kind.resource), name, shop.namespace)
    return await CapDiagnostician().diagnose(shop.client, subject)


async def test_a_tenant_whose_job_failed_is_explained_by_the_last_words_of_the_job(
    running: Running, shop: Shop
) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    await running.settled(shop.client)
    (operation,) = await shop.operations()
    answer = await why(shop, CAPTenant, "acme")

    (root,) = root_causes(answer.findings)
    assert root.reason == "StepFailed"
    assert "Last exit code 1" in root.text
    assert answer.next_step.endswith(f"stellwerk cap retry ctop/{operation.metadata.name} -n {shop.namespace}")


async def test_an_application_without_a_ready_version_is_explained_by_the_pod_that_cannot_start(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("mtxs"), router(fate="pull-error"))
    await shop.version_shows("WaitingForWorkloads", state="Processing")
    (pod,) = await shop.names_of_pods("sme.sap.com/cav-version=1.0.0")
    await shop.pod_waits(pod)
    await running.settled(shop.client)
    answer = await why(shop, CAPApplication, "shop")

    (root,) = root_causes(answer.findings)
    assert f"{shop.namespace}/{pod}" in root.text
    assert "image" in root.text
    assert answer.next_step


@pytest.mark.parametrize(
    ("fate", "cause", "step"), [("hang", "it runs since", "-l job-name="), ("unready", "Pod", "kubectl logs ")]
)
async def test_a_tenant_that_waits_for_a_job_is_explained_by_the_job_or_its_pod(
    running: Running, shop: Shop, fate: str, cause: str, step: str
) -> None:
    await shop.open(job("mtxs", fate=fate), router())
    await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning")
    await running.settled(shop.client)
    answer = await why(shop, CAPTenant, "acme")

    (root,) = root_causes(answer.findings)
    (made,) = (await shop.client.list(metadata_of(Job), shop.namespace)).items
    assert made.metadata.name in root.text
    assert cause in root.text
    assert f"{step}{made.metadata.name}" in answer.next_step


async def test_a_content_job_is_followed_to_its_pod_from_its_first_failure(running: Running, shop: Shop) -> None:
    """It is tried again for minutes, and nothing but its pods shows that it fails."""
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("content", "Content", fate="fail", backoffLimit=3), job("mtxs"), router())

    async def has_failed() -> bool:
        found = await shop.client.list(unstructured(Job.resource), shop.namespace)
        return any(each.at("status", "failed") for each in found.items)

    await eventually(has_failed, describe="the first attempt has failed")
    answer = await why(shop, CAPApplicationVersion, "shop-v1")

    (root,) = root_causes(answer.findings)
    assert f"Pod {shop.namespace}/shop-v1-content" in root.text
    assert "exit code 1" in root.text
    assert answer.next_step.startswith("see its log: kubectl logs shop-v1-content")
    assert answer.turn == YOURS


async def test_a_tenant_that_others_keep_is_explained_by_their_finalizer_and_not_by_its_operation(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    hold = MergePatch({"metadata": {"finalizers": [names.TENANT_FINALIZER, "example.com/backup"]}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, hold)
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def is_released() -> bool:
        found = await shop.client.get(metadata_of(CAPTenant), "acme", shop.namespace)
        return found.metadata.finalizers == ("example.com/backup",)

    await eventually(is_released, describe="the operator has finished the deletion")
    answer = await why(shop, CAPTenant, "acme")

    (root,) = root_causes(answer.findings)
    assert root.text.endswith("finalizers of other clients keep the object: example.com/backup")
    assert f"kubectl patch captenant/acme -n {shop.namespace} --type merge -p '" in answer.next_step
    free = MergePatch({"metadata": {"finalizers": None}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, free)


async def test_what_is_ready_has_no_cause(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    assert (await why(shop, CAPTenant, "acme")).findings == ()
