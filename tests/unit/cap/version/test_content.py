"""Content jobs run one after the other, and a failed one stops the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap.given import NAMESPACE, job, version

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version import content
from stellwerk.operators.cap.version.content import UnknownContentJob
from stellwerk.operators.cap.version.resources import UnusableWorkload
from stellwerk.runtime.control.jobs import Advance, AwaitJob, JobStepFailed, RestartJob, StartJob, StepsDone

LABELLED = {"labels": {names.OWNER_HASH_LABEL: "hash"}}
TWO = (job("First", "Content"), job("second", "Content"))


def made(*finished: str, listed: bool = True) -> CAPApplicationVersion:
    spec: dict[str, Any] = {"contentJobs": ["First", "second"]} if listed else {}
    found = version(*TWO, **spec)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, finished_jobs=finished))


def ran(name: str, *, condition: str = "") -> Job:
    owner = {
        "apiVersion": "sme.sap.com/v1alpha1",
        "kind": "CAPApplicationVersion",
        "name": "bookshop-v1",
        "uid": "uid-bookshop-v1",
        "controller": True,
    }
    shown = [{"type": condition, "status": "True", "message": "it broke"}] if condition else []
    body = {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [owner]},
        "status": {"conditions": shown},
    }
    return msgspec.convert(body, Job)


def merged(found: Job, metadata: dict[str, Any], **fields: Any) -> Job:
    """The Job with further metadata and fields."""
    body = msgspec.to_builtins(found)
    return msgspec.convert({**body, **fields, "metadata": {**body["metadata"], **metadata}}, Job)


def test_the_next_job_starts_only_when_the_one_before_is_recorded() -> None:
    first = content.next_job(made(), (), retry=False)
    assert isinstance(first, StartJob)
    assert first.step.job_name == "bookshop-v1-first"
    assert isinstance(content.next_job(made(), (ran("bookshop-v1-first"),), retry=False), AwaitJob)
    assert isinstance(content.next_job(made(), (ran("bookshop-v1-first", condition="Complete"),), retry=False), Advance)
    second = content.next_job(made("bookshop-v1-first"), (), retry=False)
    assert isinstance(second, StartJob)
    assert second.step.job_name == "bookshop-v1-second"
    assert isinstance(content.next_job(made("bookshop-v1-first", "bookshop-v1-second"), (), retry=False), StepsDone)


def test_a_failed_job_stops_the_others_until_it_is_asked_for_again_or_deleted() -> None:
    failed = ran("bookshop-v1-first", condition="Failed")
    stopped = content.next_job(made(), (failed,), retry=False)
    assert isinstance(stopped, JobStepFailed)
    assert "it broke" in stopped.message
    assert isinstance(content.next_job(made(), (failed,), retry=True), RestartJob)
    assert isinstance(content.next_job(made(), (), retry=False), StartJob)


def test_a_failed_job_that_the_original_recorded_as_finished_is_not_finished() -> None:
    """The original appends a failed Job to finishedJobs as well, and goes on as soon as the Job is gone."""
    recorded = made("bookshop-v1-first", "bookshop-v1-second")
    assert isinstance(
        content.next_job(recorded, (ran("bookshop-v1-first", condition="Failed"),), retry=False), JobStepFailed
    )
    assert isinstance(content.next_job(recorded, (), retry=False), StepsDone)


def test_a_recorded_job_that_no_cache_shows_is_looked_up() -> None:
    recorded = made("bookshop-v1-first-content", "bookshop-v1-second")
    assert content.unseen(recorded, (ran("bookshop-v1-second"),)) == ["bookshop-v1-first"]
    assert content.unseen(made(), ()) == []


def test_a_job_of_the_original_gets_the_label_by_which_caches_select_it() -> None:
    found = ran("bookshop-v1-first", condition="Failed")
    lacking = content.adoption(made(), found)
    assert lacking == {
        "metadata": {"uid": "bookshop-v1-first", "labels": {names.OWNER_HASH_LABEL: names.owner_hash(made().key)}}
    }
    assert content.adoption(made(), merged(found, LABELLED)) is None


@pytest.mark.parametrize(("condition", "is_kept"), [("", False), ("Complete", False), ("Failed", True)])
def test_only_a_failed_job_loses_its_ttl(condition: str, *, is_kept: bool) -> None:
    found = merged(ran("bookshop-v1-first", condition=condition), LABELLED, spec={"ttlSecondsAfterFinished": 60})
    kept = {"metadata": {"uid": "bookshop-v1-first"}, "spec": {"ttlSecondsAfterFinished": None}}
    assert content.adoption(made(), found) == (kept if is_kept else None)


def test_without_a_list_the_first_content_job_runs_under_a_name_of_its_own() -> None:
    decision = content.next_job(made(listed=False), (), retry=False)
    assert isinstance(decision, StartJob)
    assert decision.step.job_name == "bookshop-v1-content"


def test_names_of_finished_jobs_are_also_read_with_the_suffix_of_the_original() -> None:
    recorded = made("bookshop-v1-first-content", "bookshop-v1-second-content")
    assert isinstance(content.next_job(recorded, (), retry=False), StepsDone)


def test_a_name_that_is_no_content_job_is_refused() -> None:
    with pytest.raises(UnknownContentJob, match=r"names other in spec\.contentJobs"):
        content.next_job(version(*TWO, contentJobs=["other"]), (), retry=False)


def test_a_version_without_content_jobs_is_done_with_them() -> None:
    assert isinstance(content.next_job(version(), (), retry=False), StepsDone)


def test_no_content_is_loaded_for_a_version_whose_number_cannot_be_a_label() -> None:
    found = version(*TWO, version="1.0.0+build", contentJobs=["First", "second"])
    with pytest.raises(UnusableWorkload, match=r"spec\.version 1\.0\.0\+build cannot be used"):
        content.job(found, found.spec.workloads[0], "secret")


def test_the_pods_of_a_content_job_carry_the_labels_of_the_workload() -> None:
    workload = msgspec.structs.replace(made().spec.workloads[0], labels={"team": "a"}, annotations={"x": "y"})
    body = content.job(made(), workload, "secret")
    assert dig(body, "spec", "template", "metadata") == {
        "labels": {"team": "a", "x4.sap.com/disable-karydia": "true"},
        "annotations": {"x": "y"},
    }
    pod = dig(body, "spec", "template", "spec")
    assert isinstance(pod, dict)
    assert pod["restartPolicy"] == "Never"
    assert pod["containers"][0]["env"] == [{"name": "CAPOP_APP_VERSION", "value": "1.0.0"}]  # type: ignore[index,call-overload]
