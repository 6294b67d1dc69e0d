"""Jobs as steps: every state has one decision, and a crash between any two writes runs no Job twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product

import pytest

from stellwerk.api.batch import Job, JobStatus
from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.model import JsonObject, owner_reference
from stellwerk.kube.types.object_meta import Condition, ObjectMeta, OwnerReference
from stellwerk.runtime.control.jobs import (
    Advance,
    AwaitJob,
    JobStep,
    JobStepFailed,
    RestartJob,
    StartJob,
    StepBlocked,
    StepDecision,
    StepsDone,
    next_step,
    writes_of,
)
from stellwerk.runtime.control.step import Create, Delete, Failure, Write
from stellwerk.runtime.reading.questions import Collection

JOBS = Collection(Job)
OWNER = ConfigMap(metadata=ObjectMeta(name="operation", namespace="tenant", uid="owner-1"))
STRANGER = ConfigMap(metadata=ObjectMeta(name="operation", namespace="tenant", uid="owner-2"))
RUNNING = JobStatus(active=1)
COMPLETE = JobStatus(succeeded=1, conditions=(Condition(type="Complete", status="True"),))
FAILED = JobStatus(
    failed=1,
    conditions=(
        Condition(
            type="Failed",
            status="True",
            reason="BackoffLimitExceeded",
            message="Job has reached the specified backoff limit",
        ),
    ),
)
NOT_FAILED_YET = JobStatus(
    conditions=(
        Condition(type="Failed", status="False"),
        Condition(type="FailureTarget", status="True"),
        Condition(type="Suspended", status="True"),
    )
)
FAILURE = (
    "Job tenant/op-a failed: BackoffLimitExceeded: Job has reached the specified backoff limit. "
    "Read its logs with: kubectl logs job/op-a -n tenant"
)


def step(name: str, *, may_fail: bool = False, labels: bool = True) -> JobStep:
    return JobStep(name, f"op-{name}", build, {"step": name} if labels else {}, may_fail)


def build() -> JsonObject:
    return {"spec": {}}


def job(
    name: str,
    status: JobStatus = RUNNING,
    *,
    owner: ConfigMap | None = OWNER,
    labels: dict[str, str] | None = None,
    job_name: str = "",
    namespace: str = "tenant",
    terminating: bool = False,
) -> Job:
    owners: tuple[OwnerReference, ...] = () if owner is None else (owner_reference(owner),)
    metadata = ObjectMeta(
        name=job_name or f"op-{name}",
        namespace=namespace,
        labels={"step": name} if labels is None else labels,
        owner_references=owners,
        deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if terminating else None,
    )
    return Job(metadata=metadata, status=status)


A, B = step("a"), step("b")
LENIENT = step("a", may_fail=True)
PLAIN = step("a", labels=False)


@pytest.mark.parametrize(
    ("steps", "jobs", "finished", "expected"),
    [
        pytest.param((), (), (), StepsDone(), id="no steps"),
        pytest.param((A, B), (), (), StartJob(A), id="nothing yet"),
        pytest.param((A, B), (job("a"),), (), AwaitJob(A, job("a")), id="runs"),
        pytest.param(
            (A,), (job("a", NOT_FAILED_YET),), (), AwaitJob(A, job("a", NOT_FAILED_YET)), id="fails but has not ended"
        ),
        pytest.param((A, B), (job("a", COMPLETE),), (), Advance(A, job("a", COMPLETE)), id="complete"),
        pytest.param((A, B), (job("a", COMPLETE),), ("a",), StartJob(B), id="recorded, the next one starts"),
        pytest.param((A, B), (), ("a",), StartJob(B), id="recorded, its Job removed after its TTL"),
        pytest.param((A, B), (job("a", FAILED),), ("a",), StartJob(B), id="recorded, whatever its Job shows"),
        pytest.param((A, B), (job("b", COMPLETE),), (), StartJob(A), id="a later Job does not replace an earlier"),
        pytest.param((A, B), (), ("a", "b"), StepsDone(), id="all recorded, all Jobs removed"),
        pytest.param(
            (A, B),
            (job("a", FAILED),),
            (),
            JobStepFailed(A, FAILURE, job("a", FAILED)),
            id="failed, later steps do not start",
        ),
        pytest.param(
            (LENIENT, B), (job("a", FAILED),), (), Advance(LENIENT, job("a", FAILED), FAILURE), id="failed as permitted"
        ),
        pytest.param(
            (A,),
            (job("a", COMPLETE, terminating=True),),
            (),
            Advance(A, job("a", COMPLETE, terminating=True)),
            id="complete, being removed after its TTL",
        ),
        pytest.param(
            (LENIENT,),
            (job("a", FAILED, terminating=True),),
            (),
            Advance(LENIENT, job("a", FAILED, terminating=True), FAILURE),
            id="failed as permitted, being removed after its TTL",
        ),
        pytest.param(
            (A,),
            (job("a", FAILED, terminating=True),),
            (),
            AwaitJob(A, job("a", FAILED, terminating=True)),
            id="failed, being deleted for a retry",
        ),
        pytest.param(
            (A,), (job("a", terminating=True),), (), AwaitJob(A, job("a", terminating=True)), id="runs, being deleted"
        ),
        pytest.param(
            (A,),
            (job("a", job_name="op-a-x7k2p"),),
            (),
            AwaitJob(A, job("a", job_name="op-a-x7k2p")),
            id="under a generated name",
        ),
        pytest.param((PLAIN,), (job("a", labels={}),), (), AwaitJob(PLAIN, job("a", labels={})), id="by its name"),
        pytest.param((PLAIN,), (job("b", labels={}),), (), StartJob(PLAIN), id="another name"),
        pytest.param((A,), (job("a", namespace="other"),), (), StartJob(A), id="in another namespace"),
        pytest.param(
            (A,), (job("a", owner=STRANGER, job_name="op-z"),), (), StartJob(A), id="labels of ours, another owner"
        ),
    ],
)
def test_each_state_has_one_decision(
    steps: tuple[JobStep, ...], jobs: tuple[Job, ...], finished: tuple[str, ...], expected: StepDecision
) -> None:
    assert next_step(OWNER, steps, jobs, finished=finished) == expected


@pytest.mark.parametrize(
    ("present", "cause"),
    [
        (job("a", owner=STRANGER), "belongs to ConfigMap operation (uid owner-2)"),
        (job("a", owner=None), "has no controlling owner"),
        (job("a", labels={"step": "z"}), "does not carry the labels of step a"),
    ],
)
def test_a_job_of_another_owner_is_not_adopted(present: Job, cause: str) -> None:
    assert next_step(OWNER, (A,), (present,), finished=()) == StepBlocked(
        A,
        f"step a of {OWNER.ref} cannot use Job tenant/op-a, which exists and {cause}. Delete or rename that Job",
    )


def test_two_jobs_of_one_step_block_it_and_are_both_named() -> None:
    jobs = (job("a", COMPLETE), job("a", job_name="op-a-x7k2p"))
    assert next_step(OWNER, (A,), jobs, finished=()) == StepBlocked(
        A, "step a has 2 Jobs in namespace tenant: op-a, op-a-x7k2p. Delete all but one of them"
    )


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ((), StartJob(A)),
        ((job("a"),), AwaitJob(A, job("a"))),
        ((job("a", COMPLETE),), Advance(A, job("a", COMPLETE))),
        ((job("a", FAILED),), RestartJob(A, job("a", FAILED))),
        ((job("a", FAILED, terminating=True),), AwaitJob(A, job("a", FAILED, terminating=True))),
    ],
)
def test_a_retry_restarts_only_a_failed_job(present: tuple[Job, ...], expected: StepDecision) -> None:
    assert next_step(OWNER, (A,), present, finished=(), retry=True) == expected


def test_a_failure_without_a_reason_still_names_the_job_and_the_command() -> None:
    bare = JobStatus(conditions=(Condition(type="Failed", status="True"),))
    assert next_step(OWNER, (A,), (job("a", bare),), finished=()) == JobStepFailed(
        A,
        "Job tenant/op-a failed: no reason given. Read its logs with: kubectl logs job/op-a -n tenant",
        job("a", bare),
    )


class Crash(Exception):
    """The process ends before a write."""


@dataclass
class Model:
    """What survives a crash: the Jobs, the recorded steps, the request to retry. Counts the writes and the runs."""

    outcomes: dict[str, Iterator[JobStatus]]
    ttl: bool
    writes_left: int = -1
    retry: bool = False
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    finished: list[str] = field(default_factory=list[str])
    runs: list[str] = field(default_factory=list[str])

    def write(self) -> None:
        if self.writes_left == 0:
            raise Crash
        self.writes_left -= 1

    def controllers(self) -> None:
        """Jobs end, and the TTL controller removes the ended Jobs of recorded steps."""
        for name, present in [*self.jobs.items()]:
            if not present.has_ended:
                self.jobs[name] = job(name, next(self.outcomes[name]))
            elif self.ttl and name in self.finished:
                del self.jobs[name]

    def one_pass(self, steps: tuple[JobStep, ...], seen: tuple[Job, ...]) -> StepDecision:
        decision = next_step(OWNER, steps, seen, finished=self.finished, retry=self.retry)
        if self.retry and not isinstance(decision, RestartJob):
            self.write()
            self.retry = False
        match decision:
            case StartJob(started):
                self.write()
                if started.name in self.jobs:  # the cache was stale: AlreadyExists
                    return next_step(OWNER, (started,), (self.jobs[started.name],), finished=())
                self.jobs[started.name] = job(started.name)
                self.runs.append(started.name)
            case RestartJob(restarted):
                self.write()
                del self.jobs[restarted.name]
            case Advance(ended):
                self.write()
                self.finished.append(ended.name)
            case _:
                pass
        return decision

    def run(self, steps: tuple[JobStep, ...], stale: bool) -> StepDecision:
        """Passes until the operation ends. With `stale` each pass sees the Jobs of the pass before."""
        former: tuple[Job, ...] = ()
        for _ in range(50):
            live = tuple(self.jobs.values())
            decision = self.one_pass(steps, former if stale else live)
            former = live
            if isinstance(decision, StepsDone | JobStepFailed):
                return decision
            self.controllers()
        raise AssertionError("the operation does not end")


STEPS = (A, step("b", may_fail=True), step("c"))


@pytest.mark.parametrize(("crash_after", "ttl", "stale"), [*product(range(8), (False, True), (False, True))])
def test_a_crash_before_any_write_runs_each_job_once(crash_after: int, ttl: bool, stale: bool) -> None:
    outcomes = {"a": iter([COMPLETE]), "b": iter([FAILED]), "c": iter([COMPLETE])}
    model = Model(outcomes, ttl, writes_left=crash_after)
    try:
        model.run(STEPS, stale)
    except Crash:
        model.writes_left = -1
        model.controllers()

    assert model.run(STEPS, stale) == StepsDone()
    assert model.runs == model.finished == ["a", "b", "c"]


def stopped(model: Model) -> str:
    decision = model.run((A,), stale=False)
    assert isinstance(decision, JobStepFailed)
    return decision.message


@pytest.mark.parametrize("crash_after", range(8))
def test_a_crash_during_a_retry_restarts_the_failed_job_once(crash_after: int) -> None:
    model = Model({"a": iter([FAILED, FAILED])}, ttl=False)
    assert stopped(model) == FAILURE

    model.retry, model.writes_left = True, crash_after
    try:
        model.run((A,), stale=False)
    except Crash:
        model.writes_left = -1
        model.controllers()

    assert stopped(model) == FAILURE
    assert model.runs == ["a", "a"]
    assert not model.retry


def test_what_a_decision_asks_for_is_a_value() -> None:
    def refused(message: str, error: StatusError | None) -> Failure:
        return Failure(message=message)

    def writes(decision: StepDecision) -> tuple[Write, ...]:
        return writes_of(decision, OWNER, JOBS, refused)

    (create,) = writes(StartJob(A))
    assert isinstance(create, Create)
    metadata = create.body["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["name"], metadata["labels"]) == ("op-a", {"step": "a"})
    assert JOBS.shaped(create.body).metadata.is_controlled_by(OWNER.metadata)
    failed = job("a", FAILED)
    (delete,) = writes(RestartJob(A, failed))
    assert isinstance(delete, Delete)
    assert (delete.seen, delete.propagation) == (failed, "Background")
    for decision in (AwaitJob(A, failed), JobStepFailed(A, "", failed), StepBlocked(A, ""), StepsDone()):
        assert writes(decision) == ()
