"""What an operation on a tenant needs next."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_tenant import CAPTenantOperation, OperationState
from stellwerk.operators.cap.operation import plan
from stellwerk.operators.cap.operation.plan import Prepare, Refuse, Release, Rest, RunStep, Snapshot
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.runtime.control.jobs import Advance, AwaitJob, JobStepFailed, RestartJob, StartJob

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEPS: tuple[JsonObject, ...] = (
    {"name": "notify", "type": "CustomTenantOperation", "continueOnFailure": True},
    {"name": "mtxs", "type": "TenantOperation"},
)
OWNER: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "name": "acme", "uid": "uid-acme"}
FAILED: JsonObject = {
    "state": "Failed",
    "conditions": [{"type": "Ready", "status": "True", "reason": "StepFailed", "message": ""}],
}


def prepared(*, status: JsonObject | None = None, **metadata: JsonValue) -> CAPTenantOperation:
    """An operation with finalizer, owner, labels and annotations."""
    marks = plan.marks_of(given.tenant(), "upgrade")
    complete: JsonObject = {
        "finalizers": ["sme.sap.com/captenantoperation"],
        "ownerReferences": [{**OWNER, "controller": True}],
        "labels": {**marks["labels"]},
        "annotations": {**marks["annotations"]},
    }
    body = given.metadata("acme-op", **{**complete, **metadata})
    return given.operation("upgrade", *STEPS, metadata=body, status=status or {})


def a_job(number: int, condition: str = "") -> Job:
    """The Job of a step, of the operation `acme-op`."""
    operation = prepared()
    conditions: list[JsonValue] = [{"type": condition, "status": "True", "reason": "R", "message": "m"}]
    owner: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenantOperation"}
    body: JsonObject = {
        "metadata": {
            "name": f"job-{number}",
            "namespace": given.NAMESPACE,
            "uid": f"uid-job-{number}",
            "labels": {
                names.OWNER_HASH_LABEL: names.owner_hash(operation.key),
                names.OPERATION_STEP_LABEL: str(number),
            },
            "ownerReferences": [{**owner, "name": "acme-op", "uid": "uid-acme-op", "controller": True}],
        },
        "status": {"conditions": conditions if condition else []},
    }
    return msgspec.convert(body, Job)


def action(operation: CAPTenantOperation, *jobs: Job) -> plan.Action:
    return plan.next_action(Snapshot(operation=operation, tenant=given.tenant(), jobs=jobs))


def test_an_operation_by_hand_gets_finalizer_owner_and_labels_in_one_write() -> None:
    match action(given.operation("upgrade")):
        case Prepare(lacking):
            metadata = lacking
        case other:
            pytest.fail(f"{other}")
    assert metadata["finalizers"] == ["sme.sap.com/captenantoperation"]
    labels = metadata["labels"]
    assert isinstance(labels, dict)
    assert labels["sme.sap.com/tenant-operation-type"] == "upgrade"
    assert labels["sme.sap.com/tenant-type"] == "consumer"
    assert metadata["annotations"] == {"sme.sap.com/owner-identifier": "shop.acme"}


def test_what_is_present_is_not_corrected() -> None:
    operation = prepared(
        labels={**plan.marks_of(given.tenant(), "upgrade")["labels"], "sme.sap.com/tenant-type": "odd"}
    )

    assert isinstance(action(operation), RunStep)


def test_an_operation_without_steps_is_refused() -> None:
    operation = msgspec.structs.replace(prepared(), spec=msgspec.structs.replace(prepared().spec, steps=()))

    assert action(operation) == Refuse("CAPTenantOperation shop/acme-op has no steps")


def test_the_first_step_starts_and_each_next_one_after_it_was_recorded() -> None:
    first = action(prepared())
    running = action(prepared(status={"currentStep": 1}), a_job(1))
    recorded = action(prepared(status={"currentStep": 2}), a_job(1, "Complete"))

    assert isinstance(first, RunStep)
    assert isinstance(first.decision, StartJob)
    assert isinstance(running, RunStep)
    assert isinstance(running.decision, AwaitJob)
    assert isinstance(recorded, RunStep)
    assert (recorded.number, recorded.step.name) == (2, "mtxs")
    assert isinstance(recorded.decision, StartJob)


def test_a_step_that_may_fail_lets_the_operation_go_on() -> None:
    failed = action(prepared(status={"currentStep": 1}), a_job(1, "Failed"))

    assert isinstance(failed, RunStep)
    assert isinstance(failed.decision, Advance)
    report = plan.report_of(prepared(), 1, failed.decision)
    assert report is not None
    assert (report.step, report.starts_next, report.has_ended) == (2, True, False)
    assert report.message.endswith("; continuing operation")


def test_a_step_that_must_not_fail_ends_the_operation() -> None:
    failed = action(prepared(status={"currentStep": 2}), a_job(2, "Failed"))

    assert isinstance(failed, RunStep)
    assert isinstance(failed.decision, JobStepFailed)
    report = plan.failure_report(prepared(), 2, failed.decision, ". Last exit code 1 (Error)")
    status = plan.status_of(prepared(status={"currentStep": 2, "activeJob": "job-2"}), report, NOW)
    assert (status.state, status.current_step, status.active_job) == ("Failed", None, "")
    assert status.conditions[0].status == "True"
    assert status.conditions[0].message.endswith(". Last exit code 1 (Error)")


def test_an_operation_that_has_ended_rests() -> None:
    assert action(prepared(status=FAILED), a_job(2, "Failed")) == Rest()


def test_an_operation_that_failed_runs_its_failed_step_again_on_request() -> None:
    annotations: JsonObject = {**plan.marks_of(given.tenant(), "upgrade")["annotations"], "sme.sap.com/retry": "true"}
    again = action(prepared(status=FAILED, annotations=annotations), a_job(1, "Complete"), a_job(2, "Failed"))

    assert isinstance(again, RunStep)
    assert again.number == 2
    assert again.is_retry
    assert isinstance(again.decision, RestartJob)


def test_an_operation_that_succeeded_does_not_run_again() -> None:
    annotations: JsonObject = {**plan.marks_of(given.tenant(), "upgrade")["annotations"], "sme.sap.com/retry": "true"}
    completed: JsonObject = {**FAILED, "state": "Completed"}

    assert action(prepared(status=completed, annotations=annotations)) == Rest()


def test_a_deletion_waits_for_the_end_and_then_lets_the_operation_go() -> None:
    deleted: dict[str, JsonValue] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert isinstance(action(prepared(status=None, **deleted), a_job(1)), RunStep)
    assert action(prepared(status=FAILED, **deleted)) == Release()
    assert action(prepared(status=FAILED, **{**deleted, "finalizers": []})) == Rest()


def test_an_operation_that_is_deleted_shows_it_until_its_end() -> None:
    operation = prepared(deletionTimestamp="2026-01-01T00:00:00Z")
    report = plan.Report(OperationReason.StepProcessing, "waiting", step=1)

    assert plan.status_of(operation, report, NOW).state == OperationState.DELETING


def test_a_running_job_is_not_reported_again() -> None:
    report = plan.Report(OperationReason.StepProcessing, "waiting", step=1, job="job-1")

    assert plan.is_implied(report, "StepInitiated", "job-1")
    assert not plan.is_implied(report, "StepInitiated", "job-0")
    assert not plan.is_implied(report, "StepProcessingError", "job-1")


def test_the_name_of_a_job_is_the_same_in_each_pass_and_fits_a_label() -> None:
    seen = Snapshot(operation=prepared(), tenant=given.tenant("a" * 80))
    step = seen.operation.spec.steps[0]

    assert plan.job_name(seen, 1, step) == plan.job_name(seen, 1, step)
    assert plan.job_name(seen, 1, step) != plan.job_name(seen, 2, step)
    assert len(plan.job_name(seen, 1, step)) <= 63
