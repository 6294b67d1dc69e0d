"""What an operation on a tenant needs next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.operation import former
from tests.unit.cap.operation.former import (
    Acknowledge,
    Action,
    Pause,
    Prepare,
    Release,
    Report,
    Rest,
    RunAgain,
    RunStep,
    Snapshot,
    Supersede,
)
from tests.unit.cap.operation.worlds import around, next_action

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.status import RetryProgress
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus
from stellwerk.operators.cap.operation import decide, plan
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.runtime.control.jobs import Advance, AwaitJob, JobStepFailed, RestartJob, StartJob, StepBlocked

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


def a_job(number: int, condition: str = "", *, name: str = "") -> Job:
    """The Job of a step, of the operation `acme-op`."""
    operation = prepared()
    conditions: list[JsonValue] = [{"type": condition, "status": "True", "reason": "R", "message": "m"}]
    owner: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenantOperation"}
    body: JsonObject = {
        "metadata": {
            "name": name or f"job-{number}",
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


def action(operation: CAPTenantOperation, *jobs: Job) -> Action:
    seen = Snapshot(operation=operation, tenant=given.tenant(), version=given.version(), jobs=jobs)
    return next_action(seen, NOW)


def asked(status: JsonObject, request: str = "1") -> CAPTenantOperation:
    """An operation whose failed Job has to run again on request."""
    annotations: JsonObject = {**plan.marks_of(given.tenant(), "upgrade")["annotations"], "sme.sap.com/retry": request}
    return prepared(status=status, annotations=annotations)


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


def test_a_provisioning_names_the_secret_with_the_payload_of_its_subscription() -> None:
    payload = {"sme.sap.com/subscription-context-secret": "acme-context"}
    decision = action(given.operation("provisioning"))

    assert isinstance(decision, Prepare)
    annotations = decision.lacking["annotations"]
    assert isinstance(annotations, dict)
    assert payload.items() <= annotations.items()
    assert "sme.sap.com/subscription-context-secret" not in plan.marks_of(given.tenant(), "upgrade")["annotations"]


def test_an_operation_that_lacks_nothing_but_the_name_of_the_payload_is_not_written() -> None:
    marks = plan.marks_of(given.tenant(), "provisioning")
    annotations = {name: value for name, value in marks["annotations"].items() if "context-secret" not in name}
    metadata: JsonObject = {
        "finalizers": ["sme.sap.com/captenantoperation"],
        "ownerReferences": [{**OWNER, "controller": True}],
        "labels": {**marks["labels"]},
        "annotations": {**annotations},
    }
    operation = given.operation("provisioning", *STEPS, metadata=given.metadata("acme-op", **metadata))

    assert isinstance(action(operation), RunStep)


def test_what_is_present_is_not_corrected() -> None:
    operation = prepared(
        labels={**plan.marks_of(given.tenant(), "upgrade")["labels"], "sme.sap.com/tenant-type": "odd"}
    )

    assert isinstance(action(operation), RunStep)


def test_an_operation_gives_up_the_identity_of_the_first_releases_even_before_its_tenant_does() -> None:
    legacy = {"sme.sap.com/btp-app-identifier-hash": "hash"}
    tenant = given.tenant()
    tenant = msgspec.structs.replace(
        tenant, metadata=msgspec.structs.replace(tenant.metadata, labels={**tenant.metadata.labels, **legacy})
    )
    operation = prepared(labels={**plan.marks_of(given.tenant(), "upgrade")["labels"], **legacy})
    seen = Snapshot(operation=operation, tenant=tenant, application=given.application(), version=given.version())

    assert next_action(seen, NOW) == Prepare({"labels": {"sme.sap.com/btp-app-identifier-hash": None}})
    without = replace(seen, operation=prepared())
    assert isinstance(next_action(without, NOW), RunStep)


def test_an_operation_without_steps_is_refused() -> None:
    operation = msgspec.structs.replace(prepared(), spec=msgspec.structs.replace(prepared().spec, steps=()))

    refused = action(operation)
    assert isinstance(refused, Report)
    assert (refused.message, refused.has_ended) == ("CAPTenantOperation shop/acme-op has no steps", True)
    assert (refused.state, refused.reason) == (OperationState.FAILED, OperationReason.StepProcessingError)


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
    assert (report.step, report.has_ended) == (2, False)
    assert report.message.endswith("; continuing operation")


@pytest.mark.parametrize("condition", ["", "Failed"], ids=["run", "have failed"])
def test_two_jobs_of_a_step_neither_end_the_operation_nor_count_as_its_failure(condition: str) -> None:
    operation = prepared(status={"currentStep": 2})
    jobs = (a_job(2, condition), a_job(2, condition, name="job-2-x7k2p"))
    blocked = action(operation, *jobs)

    assert isinstance(blocked, RunStep)
    assert isinstance(blocked.decision, StepBlocked)
    assert "job-2, job-2-x7k2p" in blocked.decision.message


def test_a_step_that_must_not_fail_ends_the_operation() -> None:
    failed = action(prepared(status={"currentStep": 2}), a_job(2, "Failed"))

    assert isinstance(failed, RunStep)
    assert isinstance(failed.decision, JobStepFailed)
    report = plan.report_of(prepared(), 2, failed.decision, ". Last exit code 1 (Error)")
    status = plan.status_of(prepared(status={"currentStep": 2, "activeJob": "job-2"}), report, NOW)
    assert (status.state, status.current_step, status.active_job) == ("Failed", None, "")
    assert status.conditions[0].status == "True"
    assert status.conditions[0].message.endswith(". Last exit code 1 (Error)")


def test_an_operation_that_has_ended_rests() -> None:
    assert action(prepared(status=FAILED), a_job(2, "Failed")) == Rest()


def test_an_operation_that_failed_runs_its_failed_step_again_on_request() -> None:
    again = action(asked(FAILED), a_job(1, "Complete"), a_job(2, "Failed"))

    assert isinstance(again, RunAgain)
    assert (again.number, again.retry) == (2, RetryProgress(attempts=2, job="uid-job-2"))
    recorded = recorded_by(again)
    assert (recorded["state"], recorded["currentStep"], recorded["lastHandledRetry"]) == ("Processing", 2, "1")
    carried_out = action(asked(recorded), a_job(1, "Complete"), a_job(2, "Failed"))
    assert isinstance(carried_out, RunStep)
    assert isinstance(carried_out.decision, RestartJob)


def test_the_step_whose_job_failed_runs_again_though_a_later_one_has_a_job() -> None:
    again = action(asked(FAILED), a_job(1, "Failed"), a_job(2, "Complete"))

    assert isinstance(again, RunAgain)
    assert (again.number, again.retry.job) == (1, "uid-job-1")


def test_a_request_acts_once_on_each_value() -> None:
    recorded: JsonObject = {**FAILED, "failedStep": 2, "lastHandledRetry": "1"}

    assert action(asked(recorded), a_job(2, "Failed")) == Rest()
    assert isinstance(action(asked(recorded, "2"), a_job(2, "Failed")), RunAgain)


def test_the_step_that_failed_runs_again_though_its_job_is_gone() -> None:
    again = action(asked({**FAILED, "failedStep": 2}))

    assert again == RunAgain(2, RetryProgress(attempts=2), None)
    started = action(asked(recorded_by(again)))
    assert isinstance(started, RunStep)
    assert (started.number, type(started.decision)) == (2, StartJob)


def test_a_retry_that_is_recorded_does_not_restart_the_job_that_takes_the_place() -> None:
    recorded: JsonObject = {"currentStep": 2, "retry": {"attempts": 2, "job": "uid-of-the-former"}}

    failed = action(prepared(status=recorded), a_job(2, "Failed"))

    assert isinstance(failed, RunStep)
    assert isinstance(failed.decision, JobStepFailed)
    report = plan.report_of(prepared(status=recorded), 2, failed.decision)
    assert report.message.endswith("It was tried 2 times")


def test_an_operation_that_succeeded_notes_the_request_and_does_not_run_again() -> None:
    completed: JsonObject = {**FAILED, "state": "Completed"}

    assert action(asked(completed)) == Acknowledge()
    assert action(asked({**completed, "lastHandledRetry": "1"})) == Rest()
    assert action(asked({"currentStep": 1}), a_job(1)) == Acknowledge(), "nor does one whose Job runs"


def test_a_request_that_is_removed_may_come_again() -> None:
    assert action(prepared(status={**FAILED, "lastHandledRetry": "1"})) == Acknowledge()


RETRIED = given.application(jobRetry={"maxAttempts": 3, "delaySeconds": 60})


def by_itself(operation: CAPTenantOperation, *jobs: Job, now: datetime = NOW) -> Action:
    seen = Snapshot(operation=operation, tenant=given.tenant(), application=RETRIED, version=given.version(), jobs=jobs)
    return next_action(seen, now)


def test_a_step_runs_again_by_itself_as_often_as_the_application_asks() -> None:
    first = by_itself(prepared(status={"currentStep": 2}), a_job(2, "Failed"))

    assert isinstance(first, RunAgain)
    assert first.retry == RetryProgress(attempts=2, job="uid-job-2", next_attempt_time=NOW + timedelta(seconds=60))
    second = by_itself(prepared(status={"currentStep": 2, "retry": {"attempts": 2, "job": "old"}}), a_job(2, "Failed"))
    assert isinstance(second, RunAgain)
    assert (second.retry.attempts, second.retry.next_attempt_time) == (3, NOW + timedelta(seconds=120))
    third = by_itself(prepared(status={"currentStep": 2, "retry": {"attempts": 3, "job": "old"}}), a_job(2, "Failed"))
    assert isinstance(third, RunStep)
    assert isinstance(third.decision, JobStepFailed)


def test_a_retry_waits_until_it_is_due_unless_a_user_asks() -> None:
    first = by_itself(prepared(status={"currentStep": 2}), a_job(2, "Failed"))
    waiting: JsonObject = {**recorded_by(first), "lastHandledRetry": ""}

    assert by_itself(prepared(status=waiting), a_job(2, "Failed")) == Pause(60.0)
    due = by_itself(prepared(status=waiting), a_job(2, "Failed"), now=NOW + timedelta(seconds=60))
    assert isinstance(due, RunStep)
    assert isinstance(due.decision, RestartJob)
    hurried = by_itself(asked(waiting), a_job(2, "Failed"))
    assert isinstance(hurried, RunAgain)
    assert hurried.retry == RetryProgress(attempts=2, job="uid-job-2")


def test_without_the_wish_of_the_application_nothing_runs_again() -> None:
    failed = action(prepared(status={"currentStep": 2}), a_job(2, "Failed"))

    assert isinstance(failed, RunStep)
    assert isinstance(failed.decision, JobStepFailed)


def test_a_step_that_has_ended_leaves_no_retry_to_the_next_one() -> None:
    operation = prepared(status={"currentStep": 1, "retry": {"attempts": 2, "job": "old"}})
    ended = action(operation, a_job(1, "Complete"))
    assert isinstance(ended, RunStep)
    assert isinstance(ended.decision, Advance)
    report = plan.report_of(operation, 1, ended.decision)

    assert plan.status_of(operation, report, NOW).retry is None


def test_a_request_counts_by_its_first_characters() -> None:
    recorded: JsonObject = {**FAILED, "lastHandledRetry": "1" * 256}

    assert action(asked(recorded, "1" * 10_000), a_job(2, "Failed")) == Rest()


def recorded_by(again: Action) -> JsonObject:
    """The status after a retry was recorded."""
    assert isinstance(again, RunAgain)
    operation = asked(FAILED)
    status = plan.status_of(operation, plan.retry_report(operation, again.number, again.retry, again.job, ""), NOW)
    recorded: JsonObject = msgspec.json.decode(msgspec.json.encode(status))
    return recorded


def test_a_deletion_waits_for_the_end_and_then_lets_the_operation_go() -> None:
    deleted: dict[str, JsonValue] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert isinstance(action(prepared(status=None, **deleted), a_job(1)), RunStep)
    assert action(prepared(status=FAILED, **deleted)) == Release()
    assert action(prepared(status=FAILED, **{**deleted, "finalizers": []})) == Rest()


def a_user(current: str = "", *, leaves: bool = False, held: bool = True) -> CAPTenant:
    """The tenant of an operation, with its current version."""
    found = given.tenant()
    metadata = msgspec.structs.replace(
        found.metadata,
        deletion_timestamp=NOW if leaves else None,
        finalizers=(names.TENANT_FINALIZER,) if held else (),
    )
    status = msgspec.structs.replace(found.status, current_version=current)
    return msgspec.structs.replace(found, metadata=metadata, status=status)


def completed(kind: str, *, state: str = "Completed", name: str = "acme-op", at: int = 1) -> CAPTenantOperation:
    """An operation with the version `bookshop-v1` that has ended and is being deleted."""
    found = prepared(
        status={**FAILED, "state": state},
        deletionTimestamp="2026-01-01T00:01:00Z",
        creationTimestamp=f"2026-01-01T00:00:{at:02}Z",
    )
    metadata = msgspec.structs.replace(found.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(found, metadata=metadata, spec=msgspec.structs.replace(found.spec, operation=kind))


@pytest.mark.parametrize(
    ("kind", "tenant", "stays"),
    [
        ("provisioning", a_user(), True),
        ("provisioning", a_user("bookshop-v1"), False),
        ("provisioning", a_user("bookshop-v2"), False),
        ("provisioning", a_user(leaves=True), True),
        ("provisioning", a_user(leaves=True, held=False), False),
        ("upgrade", a_user("bookshop-v0"), True),
        ("upgrade", a_user("bookshop-v1"), False),
        ("upgrade", a_user(), False),
        ("upgrade", a_user("bookshop-v0", leaves=True), True),
        ("upgrade", a_user("bookshop-v0", leaves=True, held=False), False),
        ("deprovisioning", a_user("bookshop-v1"), False),
        ("deprovisioning", a_user("bookshop-v1", leaves=True), True),
        ("deprovisioning", a_user("bookshop-v1", leaves=True, held=False), False),
    ],
)
def test_a_success_stays_until_its_tenant_has_acted_on_it(kind: str, tenant: CAPTenant, stays: bool) -> None:
    def decided(operation: CAPTenantOperation, *others: CAPTenantOperation) -> Action:
        seen = Snapshot(operation=operation, tenant=tenant, siblings=(*others, operation), version=given.version())
        return next_action(seen, NOW)

    done = completed(kind)
    assert decided(done) == (Rest() if stays else Release())
    assert decided(completed(kind, state="Failed")) == Release(), "a failure is repeated"
    older, newer = completed(kind, name="older", at=0), completed(kind, name="newer", at=2)
    assert decided(done, older) == decided(done)
    assert decided(done, newer) == Release(), "the newer one decides"
    other = completed("upgrade" if kind == "provisioning" else "provisioning", name="other", at=2)
    assert decided(done, other) == decided(done)


def test_a_success_stays_while_its_tenant_cannot_be_read_and_goes_with_it() -> None:
    done = completed("provisioning")

    assert next_action(Snapshot(operation=done, is_tenant_hidden=True), NOW) == Rest()
    assert next_action(Snapshot(operation=done), NOW) == Release()


def test_an_operation_without_its_tenant_is_released_as_soon_as_no_job_of_it_runs() -> None:
    def orphaned(status: JsonObject | None, *jobs: Job, **metadata: JsonValue) -> Action:
        return next_action(Snapshot(operation=prepared(status=status, **metadata), jobs=jobs), NOW)

    deleted: dict[str, JsonValue] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert orphaned(None, **deleted) == Release(), "its Job cannot be created any more"
    assert isinstance(orphaned(None, a_job(1), **deleted), RunStep), "its Job runs"
    second = a_job(1, "Failed", name="job-1-x7k2p")
    assert isinstance(orphaned(None, a_job(1), second, **deleted), RunStep), "one of its Jobs runs"
    assert orphaned(None, a_job(1, "Complete"), second, **deleted) == Release(), "both have ended"
    assert isinstance(orphaned(None), RunStep), "the cache of tenants may be behind"


PAUSES: JsonObject = {
    "currentStep": 2,
    "retry": {"attempts": 2, "job": "uid-job-2", "nextAttemptTime": "2026-01-01T01:00:00Z"},
}


def leaving(*, ready: bool) -> CAPApplicationVersion:
    """A version that is being deleted."""
    condition: JsonObject = {"type": "Ready", "status": str(ready), "reason": "DeleteTriggered", "message": ""}
    found = given.version()
    return msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, deletion_timestamp=NOW),
        status=msgspec.convert({"state": "Deleting", "conditions": [condition]}, VersionStatus),
    )


def without_version(
    operation: CAPTenantOperation, *jobs: Job, version: CAPApplicationVersion | None = None, hidden: bool = False
) -> Action:
    seen = Snapshot(
        operation=operation,
        tenant=given.tenant(),
        application=RETRIED,
        version=version,
        is_version_hidden=hidden,
        jobs=jobs,
    )
    return next_action(seen, NOW)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "does not exist: create it again, or set another spec.version of CAPTenant shop/acme"),
        (leaving(ready=False), "is being deleted, and is not Ready: set another spec.version of CAPTenant shop/acme"),
    ],
    ids=["gone", "going, and not Ready"],
)
@pytest.mark.parametrize("kind", ["upgrade", "provisioning", "deprovisioning"])
def test_an_operation_that_needs_a_job_of_a_lost_version_has_failed_unless_its_tenant_goes(
    kind: str, version: CAPApplicationVersion | None, message: str
) -> None:
    def of_kind(status: JsonObject) -> CAPTenantOperation:
        found = prepared(status=status)
        return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, operation=kind))

    begins = without_version(of_kind({"currentStep": 2}), version=version)
    pauses = without_version(of_kind(PAUSES), a_job(2, "Failed"), version=version)

    if kind == "deprovisioning":
        assert isinstance(begins, RunStep)
        assert isinstance(pauses, Pause)
        return
    named = "step 2/2: CAPApplicationVersion bookshop-v1 of CAPTenantOperation shop/acme-op"
    for failed in (begins, pauses):
        assert isinstance(failed, Report)
        assert (failed.state, failed.reason) == (OperationState.FAILED, OperationReason.StepFailed)
        assert (failed.has_ended, failed.failed_step) == (True, 2)
        assert failed.message == f"{named} {message}"


def test_a_job_of_a_lost_version_goes_on_and_its_failure_is_not_repeated() -> None:
    runs = without_version(prepared(status={"currentStep": 2}), a_job(2))
    failed = without_version(prepared(status={"currentStep": 2}), a_job(2, "Failed"))
    done = without_version(prepared(status={"currentStep": 2}), a_job(2, "Complete"))

    for each, decision in ((runs, AwaitJob), (failed, JobStepFailed), (done, Advance)):
        assert isinstance(each, RunStep)
        assert isinstance(each.decision, decision)


def test_a_version_that_cannot_be_read_or_goes_while_it_is_ready_is_not_lost() -> None:
    begun = prepared(status={"currentStep": 2})

    assert isinstance(without_version(begun, hidden=True), RunStep)
    assert isinstance(without_version(begun, version=leaving(ready=True)), RunStep)
    assert isinstance(without_version(begun, version=given.version()), RunStep), "it may become Ready again"


@pytest.mark.parametrize(
    ("status", "jobs"),
    [
        ({"currentStep": 2}, ()),
        (PAUSES, (a_job(2, "Failed"),)),
        ({"currentStep": 2}, (a_job(2, "Failed"),)),
    ],
    ids=["before its Job", "between two attempts", "after its last attempt"],
)
def test_a_request_that_a_lost_version_leaves_without_effect_is_handled_before_the_end(
    status: JsonObject, jobs: tuple[Job, ...]
) -> None:
    """To its tenant, an operation that has ended with a request is under way, and no change would wake it."""
    assert without_version(asked(status), *jobs) == Acknowledge()

    ends = without_version(asked({**status, "lastHandledRetry": "1"}), *jobs)
    assert isinstance(ends, Report | RunStep)
    assert isinstance(ends, Report) or isinstance(ends.decision, JobStepFailed)


def test_an_operation_whose_job_cannot_be_created_has_failed_where_what_waits_for_its_end_goes() -> None:
    def given_up(
        kind: str, *jobs: Job, version: CAPApplicationVersion | None = None, tenant: CAPTenant | None = None
    ) -> plan.Report | None:
        found = prepared(status={"currentStep": 2})
        operation = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, operation=kind))
        seen = Snapshot(operation=operation, tenant=tenant or a_user(), version=version or given.version(), jobs=jobs)
        return decide.given_up(around(seen), 2, "a policy denies it")

    version, tenant = leaving(ready=True), a_user("bookshop-v0", leaves=True)
    for ends in (
        given_up("upgrade", version=version),
        given_up("provisioning", version=version),
        given_up("upgrade", tenant=tenant),
    ):
        assert ends is not None
        assert (ends.state, ends.reason, ends.has_ended) == (OperationState.FAILED, OperationReason.StepFailed, True)
        assert (ends.message, ends.failed_step) == ("step 2/2: a policy denies it", 2)
    assert given_up("upgrade") is None, "the cause may be corrected"
    assert given_up("upgrade", a_job(1), version=version) is None, "one of its Jobs runs"
    assert given_up("provisioning", tenant=tenant) is None, "what it has created would stay"
    assert given_up("deprovisioning", version=version, tenant=tenant) is None


def test_a_request_to_an_operation_whose_version_is_lost_is_handled_and_fails() -> None:
    again = without_version(asked({**FAILED, "failedStep": 2}), a_job(2, "Failed"))
    recorded = recorded_by(again)

    failed = without_version(asked(recorded), a_job(2, "Failed"))

    assert isinstance(failed, Report)
    status = former.status_of(asked(recorded), failed, NOW)
    assert (status.state, status.last_handled_retry) == ("Failed", "1")


def test_an_operation_that_is_deleted_shows_it_until_its_end() -> None:
    operation = prepared(deletionTimestamp="2026-01-01T00:00:00Z")
    report = plan.Report(OperationReason.StepProcessing, "waiting", step=1)

    assert plan.status_of(operation, report, NOW).state == OperationState.DELETING


def test_a_running_job_is_not_reported_again() -> None:
    report = plan.Report(OperationReason.StepProcessing, "waiting", step=1, job="job-1")

    def shows(reason: str, job: str, *, generation: int = 1) -> CAPTenantOperation:
        ready: JsonObject = {"type": "Ready", "status": "False", "reason": reason, "message": ""}
        status: JsonObject = {"activeJob": job, "observedGeneration": 1, "conditions": [ready]}
        return prepared(status=status, generation=generation)

    assert plan.is_implied(report, shows("StepInitiated", "job-1"))
    assert not plan.is_implied(report, shows("StepInitiated", "job-0"))
    assert not plan.is_implied(report, shows("StepProcessingError", "job-1"))
    assert not plan.is_implied(report, shows("StepInitiated", "job-1", generation=2)), "its deletion is shown"


def test_the_name_of_a_job_is_the_same_in_each_pass_and_fits_a_label() -> None:
    operation, tenant = prepared(), given.tenant("a" * 80)
    step = operation.spec.steps[0]

    first, second = (plan.job_name(operation, tenant, number, step) for number in (1, 2))
    assert first == plan.job_name(operation, tenant, 1, step)
    assert first != second
    assert len(first) <= 63


def test_an_operation_that_finds_no_tenant_names_what_is_missing() -> None:
    alone = given.operation("upgrade", *STEPS, metadata=given.metadata("acme-op"))
    spec = alone.spec
    assert plan.without_tenant(alone, None, ["v3", "v2"]) == (
        f"spec.capApplicationVersionInstance of CAPTenantOperation shop/acme-op is {spec.version_name}, which does not "
        "exist (there are v2, v3): create it, or create the operation again. See them with: kubectl get cav -n shop"
    )
    assert plan.without_tenant(alone, given.version(), []) == (
        f"there is no CAPTenant with the id {spec.tenant_id} of spec.tenantId of CAPTenantOperation shop/acme-op for "
        "CAPApplication shop/bookshop: create the operation again with the id of a tenant. See them with: kubectl get "
        "cat -n shop -L sme.sap.com/btp-tenant-id"
    )


# ---- failures that are history


def served(current: str, wanted: str, *, state: str = "Ready", generation: int = 1) -> CAPTenant:
    """The tenant of an operation, with its current version and the number of the one that it is to have."""
    found = a_user(current)
    shown = msgspec.structs.replace(found.status, state=state, observed_generation=generation)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, version=wanted), status=shown)


def failed(kind: str = "upgrade", **status: JsonValue) -> CAPTenantOperation:
    """A failed operation with version 1.0.0, of the object `bookshop-v1`."""
    found = prepared(status={**FAILED, **status})
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, operation=kind))


def newer(kind: str) -> CAPTenantOperation:
    return completed(kind, state="Failed", name="acme-op-2", at=2)


V1 = given.version()
HISTORY: dict[str, tuple[str, Snapshot]] = {
    "the tenant is to have another version": (
        "CAPTenant shop/acme is to have version 0.9.0, not 1.0.0",
        Snapshot(operation=failed(), version=V1, tenant=served("bookshop-v0", "0.9.0")),
    ),
    "the tenant was not provisioned, and is to have another version": (
        "CAPTenant shop/acme is to have version 2.0.0, not 1.0.0",
        Snapshot(operation=failed("provisioning"), version=V1, tenant=served("", "2.0.0", state="ProvisioningError")),
    ),
    "the tenant has the version by other means": (
        "CAPTenant shop/acme has CAPApplicationVersion bookshop-v1",
        Snapshot(operation=failed(), version=V1, tenant=served("bookshop-v1", "1.0.0")),
    ),
    "the version is gone, and the tenant is Ready": (
        "its CAPApplicationVersion is gone, and CAPTenant shop/acme is Ready without it",
        Snapshot(operation=failed(), tenant=served("bookshop-v0", "0.9.0")),
    ),
    "the tenant is being deleted": (
        "CAPTenant shop/acme is being deleted",
        Snapshot(operation=failed(), version=V1, tenant=a_user("bookshop-v0", leaves=True)),
    ),
    "the tenant is gone": ("its CAPTenant is gone", Snapshot(operation=failed(), version=V1)),
    "a newer one of its type failed, too": (
        "CAPTenantOperation shop/acme-op-2 of the same type is newer",
        Snapshot(operation=failed(), version=V1, tenant=served("bookshop-v0", "1.0.0"), siblings=(newer("upgrade"),)),
    ),
}
FAILURES: dict[str, Snapshot] = {
    "the tenant is to have the version": Snapshot(
        operation=failed(), version=V1, tenant=served("bookshop-v0", "1.0.0", state="UpgradeError")
    ),
    "the tenant does not show the failure yet": Snapshot(
        operation=failed(), version=V1, tenant=served("bookshop-v0", "1.0.0")
    ),
    "the version is gone, and the tenant has failed": Snapshot(
        operation=failed(), tenant=served("bookshop-v0", "1.0.0", state="UpgradeError")
    ),
    "the version is gone, and a change of the tenant was not looked at": Snapshot(
        operation=failed(), tenant=served("bookshop-v0", "0.9.0", generation=0)
    ),
    "the version cannot be read": Snapshot(
        operation=failed(), is_version_hidden=True, tenant=served("bookshop-v0", "0.9.0")
    ),
    "the tenant cannot be read": Snapshot(operation=failed(), version=V1, is_tenant_hidden=True),
    "the tenant cannot be deprovisioned": Snapshot(
        operation=failed("deprovisioning"), version=V1, tenant=a_user("bookshop-v0", leaves=True)
    ),
    "a newer one is of another type": Snapshot(
        operation=failed(),
        version=V1,
        tenant=served("bookshop-v0", "1.0.0", state="UpgradeError"),
        siblings=(newer("provisioning"),),
    ),
    "it has completed": Snapshot(
        operation=prepared(status={**FAILED, "state": "Completed"}), version=V1, tenant=served("bookshop-v0", "0.9.0")
    ),
}


@pytest.mark.parametrize("case", HISTORY)
def test_a_failed_operation_whose_tenant_has_gone_on_is_history_and_counts_again_if_that_changes(case: str) -> None:
    cause, seen = HISTORY[case]
    assert decide.superseded(around(seen)) == cause

    shown = msgspec.structs.replace(seen.operation, status=plan.status_if_superseded(seen.operation, cause, NOW))
    assert (shown.status.state, shown.has_ended, plan.is_superseded(shown)) == ("Failed", True, True)
    mark = shown.status.conditions[-1]
    assert (mark.type, mark.reason, mark.message) == (
        "Superseded",
        "Superseded",
        f"the failure needs nothing any more: {cause}",
    )
    assert decide.superseded(around(replace(seen, operation=shown))) == cause
    back = plan.status_if_superseded(shown, "", NOW)
    assert [each.type for each in back.conditions] == ["Ready"]
    again = plan.started(shown, 1, shown.key)
    assert [each.type for each in plan.status_of(shown, again, NOW).conditions] == ["Ready"]


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_operation_counts_as_long_as_its_tenant_waits_for_its_repetition(case: str) -> None:
    assert decide.superseded(around(FAILURES[case])) == ""


def test_a_failure_is_shown_as_history_by_one_write_and_as_one_that_counts_by_another() -> None:
    _, seen = HISTORY["the tenant is to have another version"]
    wants_it = served("bookshop-v0", "1.0.0", state="UpgradeError")

    def due(operation: CAPTenantOperation, tenant: CAPTenant) -> Action:
        marks = plan.marks_of(tenant, "upgrade")
        labels = {**operation.metadata.labels, **marks["labels"]}
        marked = msgspec.structs.replace(operation, metadata=msgspec.structs.replace(operation.metadata, labels=labels))
        return next_action(replace(seen, operation=marked, tenant=tenant), NOW)

    assert seen.tenant is not None
    match due(seen.operation, seen.tenant):
        case Supersede(cause):
            status = plan.status_if_superseded(seen.operation, cause, NOW)
        case other:
            pytest.fail(f"{other}")
    shown = msgspec.structs.replace(seen.operation, status=status)
    assert due(shown, seen.tenant) == Rest(), "no write follows"
    assert due(shown, wants_it) == Supersede("")
    assert due(seen.operation, wants_it) == Rest(), "a failure that counts costs no write"
