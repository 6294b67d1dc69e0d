"""What an object of the CAP Operator reports about itself, and the objects that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.cap.insight import why
from stellwerk.operators.cap.insight.causes import problem_of
from stellwerk.runtime.insight.diagnosis import ClusterReader, Diagnosis, root_causes
from stellwerk.runtime.insight.reason_catalog import YOURS


def of(status: JsonObject) -> Unstructured:
    return Unstructured.of(
        {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "metadata": {}, "status": status}
    )


def ready(status: str) -> JsonObject:
    return {"type": "Ready", "status": status, "reason": "Because", "message": "it is so."}


@pytest.mark.parametrize("state", ["Ready", "Completed", "Consistent"])
def test_an_object_that_is_ready_has_no_problem(state: str) -> None:
    assert problem_of(of({"state": state, "conditions": [ready("True")]})) is None


@pytest.mark.parametrize("state", ["Failed", "UpgradeError"])
def test_a_failure_is_a_problem_also_where_the_condition_is_true(state: str) -> None:
    problem = problem_of(of({"state": state, "conditions": [ready("True")]}))
    assert problem is not None
    assert (problem.reason, problem.message) == ("Because", "it is so")


@pytest.mark.parametrize(("observed", "message"), [(2, "it is so"), (1, "its deletion was not looked at so far")])
def test_an_object_that_is_ready_and_being_deleted_has_the_problem_that_its_condition_reports(
    observed: int, message: str
) -> None:
    shown: JsonObject = {"state": "Ready", "conditions": [{**ready("True"), "observedGeneration": observed}]}
    metadata: JsonObject = {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    problem = problem_of(Unstructured.of({**of(shown).body, "metadata": metadata}))
    assert problem is not None
    assert problem.message == message


@pytest.mark.parametrize("status", [{}, {"conditions": "none"}, {"conditions": [1, None]}, {"state": 7}])
def test_an_object_without_a_readable_condition_was_not_looked_at(status: JsonObject) -> None:
    problem = problem_of(of(status))
    assert problem is not None
    assert problem.message == "it was not looked at so far"


# ---- what it comes from


def of_kind(objects: Sequence[Unstructured], resource: Resource) -> list[Unstructured]:
    return [each for each in objects if each.gvk.kind == resource.kind]


@dataclass(slots=True)
class Shelf(ClusterReader):
    """A cluster with these objects."""

    objects: Sequence[Unstructured] = ()

    async def find(self, resource: Resource, name: str, namespace: str) -> Unstructured | None:
        """The object of this kind and name."""
        return next((each for each in of_kind(self.objects, resource) if each.key.name == name), None)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Unstructured]:
        """The objects of this kind."""
        return of_kind(self.objects, resource)

    async def first(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Sequence[Unstructured]:
        """The same."""
        return of_kind(self.objects, resource)


def made(
    kind: str,
    name: str,
    reason: str = "",
    message: str = "",
    *,
    ready: bool = False,
    state: str = "Processing",
    spec: JsonObject | None = None,
    api: str = "sme.sap.com/v1alpha1",
    owner: str = "",
    labels: JsonObject | None = None,
    leaves: bool = False,
    more: Sequence[JsonObject] = (),
    status: JsonObject | None = None,
) -> Unstructured:
    metadata: JsonObject = {"name": name, "namespace": "shop", "uid": f"{kind}-{name}", "generation": 1}
    metadata["labels"] = labels or {}
    if owner:
        reference: JsonObject = {"apiVersion": api, "kind": "CAPTenant", "name": owner, "uid": f"CAPTenant-{owner}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    if leaves:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    shown = condition("Ready", ready, reason, message)
    return Unstructured.of(
        {
            "apiVersion": api,
            "kind": kind,
            "metadata": metadata,
            "spec": spec or {},
            "status": {"state": state, "conditions": [shown, *more], **(status or {})},
        }
    )


def condition(type: str, holds: bool, reason: str, message: str) -> JsonObject:
    return {
        "type": type,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
    }


def application(
    reason: str, message: str = "", *, ready: bool = False, more: Sequence[JsonObject] = (), **status: JsonValue
) -> Unstructured:
    services: JsonObject = {"btpAppName": "shop", "btp": {"services": []}}
    domain: JsonObject = {"kind": "Domain", "name": "primary"}
    spec: JsonObject = {**services, "domainRefs": [domain]}
    return made("CAPApplication", "shop", reason, message, ready=ready, spec=spec, more=more, status=status)


def tenant(
    name: str, state: str, reason: str = "", message: str = "", *, ready: bool = False, **more: object
) -> Unstructured:
    spec: JsonObject = {"capApplicationInstance": "shop", "version": "2.0.0"}
    return made("CAPTenant", name, reason, message, ready=ready, state=state, spec=spec, **more)  # type: ignore[arg-type]


def version(
    number: str, state: str, reason: str = "", message: str = "", *, ready: bool = False, leaves: bool = False
) -> Unstructured:
    spec: JsonObject = {"capApplicationInstance": "shop", "version": f"{number}.0.0"}
    name = f"shop-v{number}"
    return made("CAPApplicationVersion", name, reason, message, ready=ready, state=state, spec=spec, leaves=leaves)


FAILED = tenant("acme", "UpgradeError", "UpgradeFailed", "its Job failed", ready=True)
WAITS = tenant("new", "", "ProcessingStarted", "waiting for a version: the CAPApplication sets it")
PROVIDER = tenant(
    "shop-provider", "ProvisioningError", "ProvisioningFailed", "no", labels={"sme.sap.com/tenant-type": "provider"}
)


async def explained(subject: Unstructured, *others: Unstructured) -> Diagnosis:
    return await why.explain(Shelf(cast("Client", None), objects=(subject, *others)), subject)


def roots(answer: Diagnosis) -> list[str]:
    return [each.text for each in root_causes(answer.findings)]


@pytest.mark.parametrize("reason", ["ProcessingSecrets", "ProcessingDomainReferences", "MissingProviderSubaccountId"])
async def test_an_application_that_lacks_what_it_refers_to_does_not_wait_for_its_tenants(reason: str) -> None:
    answer = await explained(application(reason, "waiting for primary"), FAILED, WAITS, version("2", "Error", "R", "m"))
    assert roots(answer) == ["waiting for primary"]
    assert "stellwerk why" not in answer.next_step


async def test_an_application_waits_for_a_domain_that_is_not_ready() -> None:
    domain = made("Domain", "primary", "ProcessingError", "no pod of the gateway", state="Error")
    answer = await explained(application("ProcessingDomainReferences", "waiting"), domain, WAITS)
    assert roots(answer) == ["Domain shop/primary: no pod of the gateway"]


@pytest.mark.parametrize("reason", ["ProviderTenantError", "ProviderTenantProcessing"])
async def test_an_application_that_waits_for_its_provider_waits_for_no_other_tenant(reason: str) -> None:
    answer = await explained(application(reason, "waiting"), FAILED, WAITS, PROVIDER)
    assert roots(answer) == ["CAPTenant shop/shop-provider: no"]


async def test_an_application_that_is_deleted_waits_for_the_tenants_that_are_being_deleted() -> None:
    stuck = tenant("best", "Deleting", "DeprovisioningFailed", "its Job failed", leaves=True)
    answer = await explained(application("TenantsExist", "waiting for 2 tenants"), FAILED, stuck)
    assert roots(answer) == ["CAPTenant shop/best: its Job failed"]


async def test_a_tenant_waits_for_the_version_that_it_should_have() -> None:
    waits = tenant("acme", "Ready", "ProcessingStarted", "could not find a version")
    old = version("1", "Error", "ErrorInWorkloadStatus", "crashes")
    broken = version("2", "Error", "ErrorInWorkloadStatus", "no image")
    answer = await explained(waits, application("VersionExists", ready=True), old, broken)
    assert roots(answer) == ["CAPApplicationVersion shop/shop-v2: no image"]


async def test_a_tenant_without_a_version_leads_to_what_its_application_waits_for_and_not_back() -> None:
    secrets = application("ProcessingSecrets", "waiting for secrets: uaa")
    answer = await explained(WAITS, secrets, FAILED)
    assert roots(answer) == ["CAPApplication shop/shop: waiting for secrets: uaa"]


async def test_a_tenant_that_is_deleted_does_not_wait_for_an_upgrade_that_failed_before() -> None:
    leaves = tenant("acme", "UpgradeError", "UpgradeFailed", "Namespace shop is being deleted", ready=True, leaves=True)
    failed = operation("StepFailed", "its Job failed", state="Failed", ready=True)
    answer = await explained(leaves, failed, application("VersionExists", ready=True))
    assert roots(answer) == ["Namespace shop is being deleted"]


async def test_the_next_step_for_a_domain_names_its_kind_and_another_command_than_why() -> None:
    failed = made("ClusterDomain", "primary", "ProcessingError", "no pod of the gateway", state="Error")
    alone = Unstructured.of({**failed.body, "metadata": {"name": "primary"}})
    assert (await explained(failed)).next_step.endswith("stellwerk tree cdom/primary -n shop")
    assert (await explained(alone)).next_step.endswith("stellwerk tree cdom/primary")


# ---- an application that is ready


UPGRADE: JsonObject = {"version": "2.0.0", "upgraded": 1, "upgrading": 0, "failed": 1, "waiting": 3}


async def test_an_application_that_is_ready_and_well_has_no_finding() -> None:
    calm = tenant("acme", "Ready", "UpgradeCompleted", ready=True)
    well = [condition("LatestVersionReady", True, "R", ""), condition("AllTenantsReady", True, "R", "")]
    answer = await explained(application("VersionExists", ready=True, more=well), calm)
    assert answer == Diagnosis()


async def test_a_paused_upgrade_of_an_application_that_is_ready_is_explained_and_can_be_resumed() -> None:
    waits = condition("AllTenantsReady", False, "NotAllTenantsReady", "1/5 tenants are ready")
    shown: JsonObject = {**UPGRADE, "phase": "Paused"}
    answer = await explained(application("VersionExists", ready=True, more=[waits], tenantUpgrade=shown), FAILED)
    (finding,) = answer.findings
    assert finding.reason == "UpgradePaused"
    assert roots(answer) == ["CAPTenant shop/acme: its Job failed"]
    assert answer.next_step.endswith("stellwerk cap upgrade shop -n shop --resume")
    assert answer.turn == YOURS


async def test_an_upgrade_that_is_paused_though_no_tenant_has_failed_shows_its_cause() -> None:
    cause = "spec.tenantUpgrade.canaryTenants names no tenant that exists: acmee"
    waits = condition("AllTenantsReady", False, "NotAllTenantsReady", f"5/5 tenants are ready; 0 upgraded; {cause}")
    shown: JsonObject = {**UPGRADE, "phase": "Paused"}
    answer = await explained(application("VersionExists", ready=True, more=[waits], tenantUpgrade=shown))
    assert roots(answer) == [f"5/5 tenants are ready; 0 upgraded; {cause}"]
    assert answer.next_step.endswith("stellwerk cap upgrade shop -n shop --resume")


async def test_the_newest_version_of_an_application_that_is_ready_is_explained_where_it_failed() -> None:
    waits = condition("LatestVersionReady", False, "LatestVersionNotReady", "shop-v2 is not Ready")
    tenants = condition("AllTenantsReady", False, "NotAllTenantsReady", "0/0 tenants are ready")
    broken = version("2", "Error", "ErrorInWorkloadStatus", "no image")
    answer = await explained(
        application("VersionExists", ready=True, more=[waits, tenants]), version("1", "Ready", ready=True), broken
    )
    assert [each.reason for each in answer.findings] == ["LatestVersionNotReady"]
    assert roots(answer) == ["CAPApplicationVersion shop/shop-v2: no image"]


async def test_a_tenant_whose_upgrade_failed_is_found_although_its_application_counts_it_as_ready() -> None:
    all_ready = condition("AllTenantsReady", True, "AllTenantsReady", "2/2 tenants are ready")
    answer = await explained(application("VersionExists", ready=True, more=[all_ready]), FAILED)
    assert roots(answer) == ["CAPTenant shop/acme: its Job failed"]
    assert answer.next_step.endswith("stellwerk cap retry cat/acme -n shop")


# ---- an operation


SUPERSEDED = condition("Superseded", True, "Superseded", "its tenant has gone on")


@pytest.mark.parametrize(
    "subject",
    [
        made("CAPTenantOperation", "acme-1", "StepFailed", "no", ready=True, state="Failed", more=[SUPERSEDED]),
        made("CAPApplicationVersion", "shop-v1", "ErrorInWorkloadStatus", "no", state="Error", more=[SUPERSEDED]),
    ],
    ids=["operation", "version"],
)
async def test_a_failure_that_is_superseded_is_no_cause_of_anything(subject: Unstructured) -> None:
    assert await explained(subject) == Diagnosis()
    waits = tenant("acme", "UpgradeError", "UpgradeFailed", "the cause", ready=True)
    assert roots(await explained(waits, subject)) == ["the cause"]


@pytest.mark.parametrize("kind", ["upgrade", "deprovisioning"])
async def test_the_next_step_of_a_failed_operation_whose_version_is_gone_is_no_retry(kind: str) -> None:
    failed = operation("StepFailed", "its Job failed", state="Failed", ready=True)
    failed = Unstructured.of({**failed.body, "spec": {**cast("JsonObject", failed.at("spec")), "operation": kind}})
    there = await explained(failed, FAILED, version("2", "Ready", ready=True))
    gone = await explained(failed, FAILED)
    assert there.next_step.endswith("stellwerk cap retry ctop/acme-1 -n shop")
    again = "create CAPApplicationVersion shop-v2 again"
    move = f"{again}, or set another version: stellwerk cap upgrade shop acme -n shop"
    assert gone.next_step == (again if kind == "deprovisioning" else move)


def operation(
    reason: str, message: str, *, state: str = "Processing", ready: bool = False, **status: JsonValue
) -> Unstructured:
    steps: JsonValue = [{"name": "mtxs", "type": "TenantOperation"}]
    spec: JsonObject = {"operation": "upgrade", "subDomain": "acme", "tenantId": "id", "steps": steps}
    spec["capApplicationVersionInstance"] = "shop-v2"
    return made(
        "CAPTenantOperation",
        "acme-1",
        reason,
        message,
        state=state,
        ready=ready,
        spec=spec,
        owner="acme",
        status=status,
    )


def job(**status: JsonValue) -> Unstructured:
    body = made("Job", "acme-mtxs", api="batch/v1").body
    began: JsonObject = {"startTime": "2026-01-01T00:00:00Z", "active": 1}
    metadata: JsonObject = {
        "name": "acme-mtxs",
        "namespace": "shop",
        "uid": "job",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return Unstructured.of({**body, "metadata": metadata, "status": {**began, **status}})


async def test_a_tenant_that_is_being_upgraded_shows_the_job_that_it_waits_for_since_when_and_how_to_end_it() -> None:
    upgraded = tenant("acme", "Upgrading", "UpgradeOperationCreated", "waiting for acme-1", ready=True)
    step = operation("StepInitiated", "step 1/1: job created", activeJob="acme-mtxs", currentStep=1)
    answer = await explained(upgraded, step, job(), version("2", "Ready", ready=True, leaves=True))
    assert roots(answer) == ["Job shop/acme-mtxs: it runs since 2026-01-01T00:00:00Z"]
    assert "kubectl get pods -n shop -l job-name=acme-mtxs" in answer.next_step
    assert "kubectl delete pods -n shop -l job-name=acme-mtxs" in answer.next_step


async def test_an_operation_between_two_attempts_shows_when_the_next_one_begins() -> None:
    retry: JsonObject = {"attempts": 2, "job": "job", "nextAttemptTime": "2026-01-01T01:00:00Z"}
    step = operation("StepProcessing", "attempt 2 follows: no", activeJob="acme-mtxs", currentStep=1, retry=retry)
    answer = await explained(step, job())
    assert roots(answer) == ["the next attempt begins at 2026-01-01T01:00:00Z"]
    assert answer.next_step.endswith("stellwerk cap retry ctop/acme-1 -n shop")


@pytest.mark.parametrize(
    ("reason", "used"),
    [
        ("StepProcessing", version("2", "Error", "ErrorInWorkloadStatus", "no image")),
        ("StepProcessingError", version("2", "Deleting", "DeleteTriggered", "in use", ready=True, leaves=True)),
    ],
    ids=["its Job runs", "its version is in use"],
)
async def test_an_operation_waits_for_its_version_only_where_a_step_needs_it(reason: str, used: Unstructured) -> None:
    assert roots(await explained(operation(reason, "waiting"), used)) == ["waiting"]


# ---- a version


async def test_a_version_whose_container_crashes_is_the_turn_of_the_user_who_can_read_its_log() -> None:
    waits = version("2", "Processing", "WaitingForWorkloads", "waiting for Deployment shop-v2-app")
    owner: JsonObject = {"apiVersion": "v1", "kind": "K", "name": "n", "controller": True}
    home: JsonObject = {"name": "shop-v2-app", "namespace": "shop"}
    deployment: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**home, "uid": "d", "ownerReferences": [{**owner, "uid": waits.metadata.uid}]},
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "updatedReplicas": 1},
    }
    crash: JsonObject = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**home, "uid": "p", "ownerReferences": [{**owner, "uid": "d"}]},
        "status": {"phase": "Running", "containerStatuses": [crash]},
    }
    answer = await explained(waits, Unstructured.of(deployment), Unstructured.of(pod))
    assert answer.next_step == "see its log: kubectl logs shop-v2-app -n shop"
    assert answer.turn == YOURS


async def test_a_version_that_is_ready_without_a_service_of_its_workload_says_so() -> None:
    workload: JsonObject = {
        "name": "srv",
        "consumedBTPServices": ["ghost"],
        "deploymentDefinition": {"type": "CAP", "image": "srv:1"},
    }
    spec: JsonObject = {"capApplicationInstance": "shop", "version": "1.0.0", "workloads": [workload]}
    runs = made("CAPApplicationVersion", "shop-v1", ready=True, state="Ready", spec=spec)
    shop = application("VersionExists", ready=True)

    found = await explained(runs, shop)

    assert found.findings == ()
    (remark,) = found.remarks
    assert remark.startswith("spec.workloads[0].consumedBTPServices[0] is 'ghost': no such service")
    odd = Unstructured.of({**shop.body, "spec": {"btp": {"services": "none"}}})
    assert (await explained(runs, odd)).remarks == ()
    assert (await explained(runs)).remarks == ()
    assert (await explained(shop, runs)).remarks == ()


async def test_a_tenant_without_its_host_that_is_ready_names_the_tenant_that_has_it() -> None:
    message = "CAPTenant shop/old had the host a.example.com before VirtualService shop/acme"
    stalled = condition("Stalled", True, "VirtualServiceModificationFailed", message)
    acme = tenant("acme", "Ready", "UpgradeCompleted", "done", ready=True, more=[stalled])
    answer = await explained(acme)
    assert roots(answer) == [message]
    assert answer.next_step.startswith("use another subdomain or domain")
    assert answer.turn == YOURS
    of_application = await explained(application("VersionExists", ready=True), acme)
    assert roots(of_application) == [f"CAPTenant shop/acme: {message}"]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("IdentityProved", "IdentityUnproved"),
        ("IdentityProved", "IdentityShared"),
        ("CallbacksDelivered", "CallbackGivenUp"),
    ],
)
async def test_what_the_subscription_server_says_of_an_application_is_explained_although_it_is_ready(
    type_: str, reason: str
) -> None:
    message = "service uaa: CAPApplication other/shop has proved the same identity; next: delete one of them"
    unproved = condition(type_, False, reason, message)
    answer = await explained(application("VersionExists", ready=True, more=[unproved]))
    assert [(each.reason, each.text) for each in answer.findings] == [(reason, message.partition("; next")[0])]
    assert (answer.next_step, answer.turn) == ("delete one of them", YOURS)
