"""What a version needs next, and what it shows."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap.given import NAMESPACE, application, deployment, job, operation, tenant, version

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import RetryProgress
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState, VersionStatus
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.version import plan
from stellwerk.operators.cap.version.plan import KeepUp, Prepare, Release, Report, Rest, RunWorkloads, VersionSnapshot
from stellwerk.runtime.control.jobs import JobStep, JobStepFailed, StepsDone

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NAMES = ("bookshop-v1-srv", "bookshop-v1-app")


def prepared(**metadata: object) -> CAPApplicationVersion:
    """A version with all that `Prepare` writes."""
    found = version()
    lacking = plan.next_action(VersionSnapshot(version=found, application=application()))
    assert isinstance(lacking, Prepare)
    body = {**msgspec.to_builtins(found.metadata), **lacking.lacking, **metadata}
    return msgspec.structs.replace(found, metadata=msgspec.convert(body, type(found.metadata)))


def shown(found: CAPApplicationVersion, state: str, *, ready: bool = False) -> CAPApplicationVersion:
    report = Report(state=VersionState(state), reason=VersionReason.WorkloadsReady, message="before", is_ready=ready)
    return msgspec.structs.replace(found, status=plan.status_of(found, report, NOW))


def available(name: str, *, condition: str = "Available", generation: str = "1") -> Deployment:
    body: JsonObject = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {names.OWNER_GENERATION_LABEL: generation}},
        "status": {"conditions": [{"type": condition, "status": "True", "message": "quota exceeded"}]},
    }
    return msgspec.convert(body, Deployment)


def progress(found: CAPApplicationVersion, *deployments: Deployment, unready_domain: str = "") -> Report:
    seen = VersionSnapshot(
        version=found, application=application(), deployments=deployments, unready_domain=unready_domain
    )
    return plan.progress(seen, StepsDone(), NAMES)


def test_a_failed_content_job_is_not_finished_any_more() -> None:
    """So it runs again when it is deleted, by a user or for a retry: the original records a failed Job as well."""
    found = prepared()
    recorded = ("bookshop-v1-first", "bookshop-v1-second-content")
    found = msgspec.structs.replace(found, status=VersionStatus(finished_jobs=recorded))
    seen = VersionSnapshot(version=found, application=application())
    step = JobStep(name="bookshop-v1-second", job_name="bookshop-v1-second", build=dict)
    failed = plan.progress(seen, JobStepFailed(step, "it broke", Job()), NAMES)
    assert plan.status_of(found, failed, NOW).finished_jobs == ("bookshop-v1-first",)
    again = plan.run_again("bookshop-v1-second", RetryProgress(attempts=2), "it broke", NOW)
    assert plan.status_of(found, again, NOW).finished_jobs == ("bookshop-v1-first",)


def test_what_is_lacking_is_written_at_once() -> None:
    action = plan.next_action(VersionSnapshot(version=version(), application=application()))
    assert isinstance(action, Prepare)
    assert action.lacking["finalizers"] == ["sme.sap.com/capapplicationversion"]
    assert {*action.lacking} == {"finalizers", "ownerReferences", "labels", "annotations"}
    assert isinstance(plan.next_action(VersionSnapshot(version=prepared(), application=application())), RunWorkloads)


def test_an_application_that_does_not_exist_is_named() -> None:
    action = plan.next_action(VersionSnapshot(version=version(), applications=["bookstore", "books"]))
    assert isinstance(action, Report)
    assert action.message == (
        "waiting for CAPApplication shop/bookshop, which does not exist (there are books, bookstore): create it, or "
        "create this object again with another spec.capApplicationInstance. See them with: kubectl get ca -n shop"
    )


def test_a_service_that_the_application_does_not_have_is_named_whatever_the_version_comes_to() -> None:
    made = version(
        {**deployment("srv", "CAP"), "consumedBTPServices": ["uaa", "db"]},
        {**job("deployer", "Content"), "consumedBTPServices": ["ghost"]},
    )
    unknown = (
        ". spec.workloads[0].consumedBTPServices[1] is 'db', spec.workloads[1].consumedBTPServices[0] is 'ghost': no "
        "such service in spec.btp.services of CAPApplication shop/bookshop (there are hana, uaa, uaa2), so its "
        "workload has no credentials of it. Add the service to the application, or create another version"
    )
    ready = progress_without_deployments(shown(made, "Ready", ready=True))
    assert (ready.is_ready, ready.state) == (True, VersionState.READY), "as with the original"
    assert ready.message == f"all workloads are ready{unknown}"
    failed = JobStepFailed(JobStep(name="deployer", job_name="deployer", build=dict), "it broke", Job())
    seen = VersionSnapshot(version=made, application=application())
    assert plan.progress(seen, failed, ()).message.endswith(unknown)
    assert progress_without_deployments(version()).message == "all workloads are ready"


def progress_without_deployments(found: CAPApplicationVersion) -> Report:
    return plan.progress(VersionSnapshot(version=found, application=application()), StepsDone(), ())


def test_a_ready_version_stays_so_when_its_application_does_not_exist() -> None:
    """Of several, the first to become Ready again would be the newest one, to which all tenants follow."""
    report = plan.next_action(VersionSnapshot(version=shown(prepared(), "Ready", ready=True)))
    assert isinstance(report, Report)
    assert (report.state, report.reason, report.is_ready) == (VersionState.READY, VersionReason.InvalidReference, True)


def test_an_application_that_cannot_be_read_is_not_taken_for_absent() -> None:
    for found in (shown(prepared(), "Ready", ready=True), shown(prepared(), "Error")):
        assert plan.next_action(VersionSnapshot(version=found, is_application_hidden=True)) == Rest()
    waits = plan.next_action(VersionSnapshot(version=version(), is_application_hidden=True))
    assert isinstance(waits, Report)
    assert (waits.state, waits.message) == (
        VersionState.PROCESSING,
        "waiting for CAPApplication shop/bookshop, which cannot be read; next: stellwerk why ca/bookshop -n shop",
    )


def test_missing_secrets_keep_a_version_from_starting_but_not_from_being_ready() -> None:
    seen = VersionSnapshot(version=prepared(), application=application(), missing_secrets=["uaa-secret"])
    action = plan.next_action(seen)
    assert isinstance(action, Report)
    assert action.reason == VersionReason.WaitingForSecrets
    assert action.message.startswith("Missing secrets; uaa-secret in namespace shop")
    ready = VersionSnapshot(
        version=shown(prepared(), "Ready", ready=True), application=application(), missing_secrets=["uaa-secret"]
    )
    assert isinstance(plan.next_action(ready), RunWorkloads)


def test_secrets_that_cannot_be_read_are_not_taken_for_missing() -> None:
    seen = VersionSnapshot(version=prepared(), application=application(), unknown_secrets="no right")
    action = plan.next_action(seen)
    assert isinstance(action, Report)
    assert (action.reason, action.message) == (
        VersionReason.WaitingForSecrets,
        "no right. Grant the right with: stellwerk install cap",
    )


def test_a_version_is_ready_when_all_its_deployments_are_available() -> None:
    one = progress(prepared(), available(NAMES[0]))
    assert (one.reason, one.message) == (
        VersionReason.WaitingForWorkloads,
        "waiting for Deployment bookshop-v1-app",
    )
    both = progress(prepared(), *map(available, NAMES))
    assert (both.state, both.reason, both.is_ready) == (VersionState.READY, VersionReason.WorkloadsReady, True)


def test_a_deployment_that_cannot_create_pods_is_an_error_with_its_message() -> None:
    report = progress(prepared(), available(NAMES[0], condition="ReplicaFailure"), available(NAMES[1]))
    assert (report.state, report.reason) == (VersionState.ERROR, VersionReason.ErrorInWorkloadStatus)
    assert report.message.endswith("bookshop-v1-srv cannot create pods: quota exceeded")


def test_a_ready_version_stays_ready_when_its_pods_fail_later() -> None:
    found = shown(prepared(), "Ready", ready=True)
    assert progress(found, available(NAMES[0], condition="ReplicaFailure")).is_ready


def test_exposed_services_wait_for_the_domains() -> None:
    exposure: JsonObject = {"subDomain": "api", "routes": []}
    found = msgspec.structs.replace(prepared(), spec=version(serviceExposures=[exposure]).spec)
    report = progress(found, *map(available, NAMES), unready_domain="Domain d is not Ready")
    assert (report.state, report.reason) == (VersionState.PROCESSING, VersionReason.WaitingForServiceDNSEntries)
    assert progress(found, *map(available, NAMES)).is_ready


def test_a_changed_spec_is_pointed_out_because_it_has_no_effect() -> None:
    report = progress(prepared(generation=2), available(NAMES[0], generation="1"), available(NAMES[1]))
    assert "The spec has changed since Deployment bookshop-v1-srv was created, which has no effect" in report.message


def test_a_finished_content_job_is_recorded_once() -> None:
    found = prepared()
    status = plan.status_of(found, plan.record("bookshop-v1-content"), NOW)
    assert status.finished_jobs == ("bookshop-v1-content",)
    again = plan.status_of(msgspec.structs.replace(found, status=status), plan.record("bookshop-v1-content"), NOW)
    assert again.finished_jobs == ("bookshop-v1-content",)


def test_a_deleted_version_is_kept_while_a_tenant_uses_it() -> None:
    found = shown(prepared(deletionTimestamp="2026-01-02T00:00:00Z"), "Ready", ready=True)
    user = tenant()
    users = [
        msgspec.structs.replace(user, status=msgspec.structs.replace(user.status, current_version="bookshop-v1")),
        msgspec.structs.replace(user, spec=msgspec.structs.replace(user.spec, version="1.0.0")),
    ]
    for each in users:
        report = plan.next_action(VersionSnapshot(version=found, tenants=[each]))
        assert isinstance(report, Report)
        assert (report.state, report.reason, report.is_ready) == (
            VersionState.DELETING,
            VersionReason.DeleteTriggered,
            True,
        )
        assert "acme" in report.message
    begun = plan.next_action(VersionSnapshot(version=found, tenants=[user]))
    assert isinstance(begun, Report)
    assert (begun.again_seconds, begun.message) == (0, "before")
    deleting = msgspec.structs.replace(found, status=plan.status_of(found, begun, NOW))
    assert isinstance(plan.next_action(VersionSnapshot(version=deleting)), Release)
    hidden = plan.next_action(VersionSnapshot(version=deleting, hidden_tenants=(ObjectKey("shop", "acme"),)))
    assert isinstance(hidden, Report)
    assert "cannot be read" in hidden.message


def an_operation(*, ended: str = "", asked: str = "", owned: bool = True) -> CAPTenantOperation:
    """An operation with the version `bookshop-v1`, under way or ended."""
    owner: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "name": "acme", "uid": "u"}
    annotations: JsonObject = {names.RETRY_ANNOTATION: asked} if asked else {}
    fields: JsonObject = {"ownerReferences": [{**owner, "controller": True}] if owned else []}
    ready: JsonObject = {"type": "Ready", "status": "True", "reason": "R", "message": ""}
    status: JsonObject = {"state": ended, "conditions": [ready]} if ended else {}
    metadata: JsonObject = {"name": "acme-op", "namespace": "shop", "uid": "o", "annotations": annotations, **fields}
    return operation("upgrade", metadata=metadata, status=status)


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (an_operation(), True),
        (an_operation(ended="Failed", asked="1"), True),
        (an_operation(ended="Failed"), False),
        (an_operation(ended="Completed"), False),
        (an_operation(owned=False), False),
    ],
    ids=["under way", "asked again", "failed", "completed", "of no tenant"],
)
def test_a_deleted_version_waits_for_operations_under_way_though_their_tenants_left_it(
    found: CAPTenantOperation, waits: bool
) -> None:
    leaving = shown(prepared(deletionTimestamp="2026-01-02T00:00:00Z"), "Deleting", ready=True)
    action = plan.next_action(VersionSnapshot(version=leaving, tenants=[tenant()], operations=[found]))

    if not waits:
        assert isinstance(action, Release)
        return
    assert isinstance(action, Report)
    assert action.message == "the version is deleted when no operation runs its Jobs any more: acme-op"
    assert (action.state, action.is_ready, action.again_seconds) == (VersionState.DELETING, True, None)


def test_the_objects_of_a_deleted_version_are_kept_up_for_its_tenants_unless_all_goes() -> None:
    found = shown(prepared(deletionTimestamp="2026-01-02T00:00:00Z"), "Deleting", ready=True)
    user, owner = tenant(), application()
    user = msgspec.structs.replace(user, status=msgspec.structs.replace(user.status, current_version="bookshop-v1"))
    leaving = msgspec.structs.replace(owner, metadata=msgspec.structs.replace(owner.metadata, deletion_timestamp=NOW))
    finalizers = (*found.metadata.finalizers, "foregroundDeletion")
    last = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, finalizers=finalizers))
    unready = shown(found, "Deleting")

    def is_kept_up(version: CAPApplicationVersion, application: CAPApplication | None, *tenants: CAPTenant) -> bool:
        seen = VersionSnapshot(version=version, application=application, tenants=tenants)
        return isinstance(plan.next_action(seen), KeepUp)

    assert is_kept_up(found, owner, user)
    assert not is_kept_up(found, owner)
    assert not is_kept_up(found, None, user)
    assert not is_kept_up(found, leaving, user)
    assert not is_kept_up(last, owner, user)
    assert not is_kept_up(unready, owner, user)


def test_a_deleted_version_is_not_used_by_a_tenant_that_has_another_one_of_the_same_number() -> None:
    found = shown(prepared(deletionTimestamp="2026-01-02T00:00:00Z"), "Ready", ready=True)
    other = version(name="bookshop-v1-again")
    user = tenant()
    has_the_other = msgspec.structs.replace(
        user,
        spec=msgspec.structs.replace(user.spec, version="1.0.0"),
        status=msgspec.structs.replace(user.status, current_version=other.metadata.name),
    )
    both = plan.numbers_of([found, other])
    assert not plan.uses(has_the_other, found, both)
    assert plan.uses(has_the_other, other, both)
    assert plan.uses(has_the_other, found, plan.numbers_of([found])), "what it has is of another number, so it follows"


def a_newer(number: str = "2.0.0", *, ready: bool = True, leaves: bool = False) -> CAPApplicationVersion:
    found = shown(version(name="bookshop-v2", version=number), "Ready" if ready else "Error", ready=ready)
    if not leaves:
        return found
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, deletion_timestamp=NOW))


def having(current: str, wanted: str) -> CAPTenant:
    user = tenant()
    return msgspec.structs.replace(
        user,
        spec=msgspec.structs.replace(user.spec, version=wanted),
        status=msgspec.structs.replace(user.status, current_version=current),
    )


MOVED = having("bookshop-v2", "2.0.0")


@pytest.mark.parametrize(
    ("newer", "users", "operations", "is_history"),
    [
        (a_newer(), [MOVED], [], True),
        (a_newer(), [], [], True),
        (a_newer(), [MOVED], [an_operation(ended="Failed")], True),
        (a_newer(), [having("bookshop-v1", "2.0.0")], [], False),
        (a_newer(), [having("bookshop-v2", "1.0.0")], [], False),
        (a_newer(), [MOVED], [an_operation()], False),
        (a_newer(ready=False), [MOVED], [], False),
        (a_newer(leaves=True), [MOVED], [], False),
        (a_newer("0.9.0"), [MOVED], [], False),
    ],
    ids=["unused", "no tenants", "its operation failed", "used", "wanted", "runs", "unready", "leaves", "older"],
)
def test_a_version_that_is_not_ready_is_history_once_a_newer_one_is_and_nothing_needs_it(
    newer: CAPApplicationVersion, users: list[CAPTenant], operations: list[CAPTenantOperation], is_history: bool
) -> None:
    failed = shown(prepared(), "Error")
    assert (plan.superseding(failed, users, [failed, newer], operations) is newer) == is_history


def test_a_version_shows_what_has_taken_its_place_until_it_is_ready_or_needed() -> None:
    report = Report(state=VersionState.ERROR, reason=VersionReason.ErrorInWorkloadStatus, message="no image")
    failed = msgspec.structs.replace(prepared(), status=plan.status_of(prepared(), report, NOW, newer=a_newer()))
    ready, mark = failed.status.conditions
    assert (failed.status.state, ready.reason, ready.status) == ("Error", "ErrorInWorkloadStatus", "False")
    assert (mark.type, mark.status, mark.reason) == ("Superseded", "True", "Superseded")
    assert mark.message == (
        "CAPApplicationVersion shop/bookshop-v2 is newer and Ready, and no tenant needs this version"
    )
    assert [each.type for each in plan.status_of(failed, report, NOW).conditions] == ["Ready"]
    assert [each.type for each in shown(failed, "Ready", ready=True).status.conditions] == ["Ready"]


def test_the_status_of_a_new_version_is_empty() -> None:
    assert version().status == VersionStatus()
