"""`stellwerk why` follows an application to the Job or pod that is the cause."""

from __future__ import annotations

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.operators.cap.insight.why import CapDiagnostician
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime.insight.diagnosis import Diagnosis, root_causes


async def why(shop: Shop, kind: type[CAPApplication] | type[CAPTenant], name: str) -> Diagnosis:
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


async def test_what_is_ready_has_no_cause(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    assert (await why(shop, CAPTenant, "acme")).findings == ()
