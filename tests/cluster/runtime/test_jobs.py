"""Jobs as steps on a real API server: one Job per step, wherever the process is killed."""

from __future__ import annotations

import msgspec
import pytest

from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject
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
    carry_out,
    next_step,
)
from stellwerk.testing.eventually import eventually


def build(fate: str = "") -> JsonObject:
    annotations: JsonObject = {"stellwerk.local/fate": fate} if fate else {}
    pod: JsonObject = {"restartPolicy": "Never", "containers": [{"name": "step", "image": "step:1"}]}
    return {"spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": pod}}}


def step(name: str, fate: str = "") -> JobStep:
    return JobStep(name, f"operation-{name}", lambda: build(fate), {"step": name})


STEPS = (step("first"), step("second"))


async def owner(client: Client, namespace: str, name: str = "operation") -> ConfigMap:
    return await client.create(ConfigMap, {"metadata": {"name": name, "namespace": namespace}})


class Process:
    """One life of an operator. What it knows is in the cluster: the Jobs, and the finished steps in the owner."""

    def __init__(self, client: Client, owned_by: ConfigMap, steps: tuple[JobStep, ...]) -> None:
        self.client, self.owner, self.steps = client, owned_by, steps

    async def decide(self) -> StepDecision:
        metadata = self.owner.metadata
        now = await self.client.get(ConfigMap, metadata.name, metadata.namespace)
        jobs = await self.client.list(Job, metadata.namespace)
        return next_step(self.owner, self.steps, jobs.items, finished=now.data.keys())

    async def record(self, decision: Advance) -> None:
        metadata: JsonObject = {"name": self.owner.metadata.name, "namespace": self.owner.metadata.namespace}
        body: JsonObject = {"metadata": metadata, "data": {decision.step.name: "finished"}}
        await self.client.apply(ConfigMap, body, field_manager=decision.step.name)

    async def until(self, kind: type[StepDecision]) -> StepDecision:
        """Wait for a decision of this kind, without a write."""
        found: list[StepDecision] = []

        async def is_reached() -> bool:
            found.append(await self.decide())
            return isinstance(found[-1], kind)

        await eventually(is_reached, within=60, describe=f"the decision {kind.__name__}")
        return found[-1]


async def test_a_process_killed_between_any_two_writes_runs_each_job_once(client: Client, namespace: str) -> None:
    owned_by = await owner(client, namespace)
    uids: list[str] = []
    for current in STEPS:
        decision = await Process(client, owned_by, STEPS).decide()
        assert decision == StartJob(current)
        started = await carry_out(client, owned_by, decision)
        assert isinstance(started, AwaitJob)
        # Killed before the status was written; the next process has a cache that does not show the Job yet.
        adopted = await carry_out(client, owned_by, decision)
        assert isinstance(adopted, AwaitJob | Advance)
        assert adopted.job.metadata.uid == started.job.metadata.uid
        uids.append(started.job.metadata.uid)
        # Killed after the Job ended and before its step was recorded.
        assert isinstance(await Process(client, owned_by, STEPS).until(Advance), Advance)
        ended = await Process(client, owned_by, STEPS).decide()
        assert isinstance(ended, Advance)
        await Process(client, owned_by, STEPS).record(ended)

    assert await Process(client, owned_by, STEPS).decide() == StepsDone()
    assert sorted(job.metadata.uid for job in (await client.list(Job, namespace)).items) == sorted(uids)


async def test_a_recorded_step_does_not_run_again_after_its_job_was_removed(client: Client, namespace: str) -> None:
    owned_by = await owner(client, namespace)
    process = Process(client, owned_by, STEPS)
    await carry_out(client, owned_by, await process.decide())
    ended = await process.until(Advance)
    assert isinstance(ended, Advance)
    await process.record(ended)
    await client.delete(Job, ended.job.metadata.name, namespace, propagation="Background")

    assert await process.decide() == StartJob(STEPS[1])


async def test_a_failed_job_stops_the_steps_and_runs_again_on_request(client: Client, namespace: str) -> None:
    owned_by = await owner(client, namespace)
    steps = (step("first", "fail"), step("second"))
    process = Process(client, owned_by, steps)
    await carry_out(client, owned_by, await process.decide())

    failed = await process.until(JobStepFailed)

    assert isinstance(failed, JobStepFailed)
    assert failed.message == (
        f"Job {namespace}/operation-first failed: BackoffLimitExceeded: Job has reached the specified backoff limit. "
        f"Read its logs with: kubectl logs job/operation-first -n {namespace}"
    )
    jobs = (await client.list(Job, namespace)).items
    assert [job.metadata.name for job in jobs] == ["operation-first"]
    restart = next_step(owned_by, steps, jobs, finished=(), retry=True)
    assert isinstance(restart, RestartJob)
    await carry_out(client, owned_by, restart)
    assert await process.until(StartJob) == StartJob(steps[0])


@pytest.mark.parametrize("owned", [True, False])
async def test_a_job_of_another_owner_under_the_same_name_is_left_alone(
    client: Client, namespace: str, owned: bool
) -> None:
    first, second = await owner(client, namespace), await owner(client, namespace, "another")
    if owned:
        await carry_out(client, first, StartJob(STEPS[0]))
    else:
        metadata: JsonObject = {"name": "operation-first", "namespace": namespace, "labels": {"step": "first"}}
        await client.create(Job, {**build("hang"), "metadata": metadata})
    before = await client.get(Job, "operation-first", namespace)

    refused = await carry_out(client, second, StartJob(STEPS[0]))

    assert isinstance(refused, StepBlocked)
    assert f"Job {namespace}/operation-first, which exists and" in refused.message
    after = await client.get(Job, "operation-first", namespace)
    assert msgspec.to_builtins(after.metadata.owner_references) == msgspec.to_builtins(before.metadata.owner_references)
