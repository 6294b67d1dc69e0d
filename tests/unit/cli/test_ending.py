"""What a verb that waited in vain reports: the root cause and the next step."""

from __future__ import annotations

from stellwerk.cli.objects import wait_result
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.objects.wait_result import Ending
from stellwerk.kube.types.errors import Unreachable
from stellwerk.runtime.insight.diagnosis import Diagnosis, Finding

POD = Finding('Pod shop/db-1: image "db:99" cannot be pulled', "ErrImagePull", is_root_cause=True)
DEPENDENCY = Finding("waits for Component shop/db: Processing", because=(POD,))
DIAGNOSIS = Diagnosis((Finding("dependent component shop/db not ready", because=(DEPENDENCY,)),), "correct the image")


def test_the_ending_names_the_root_cause_with_its_object_and_the_next_step() -> None:
    assert wait_result.told(DIAGNOSIS) == Ending(POD.text, "correct the image")


def test_several_root_causes_are_named_each_once() -> None:
    other = Finding("Pod shop/web-1: no node takes it", is_root_cause=True)
    assert wait_result.told(Diagnosis((DEPENDENCY, other, POD))).cause == f"{POD.text}; {other.text}"


def test_the_fix_begins_with_the_next_step_and_ends_with_the_command_that_shows_all() -> None:
    assert Ending("c", "correct the image").fix("stellwerk why comp/x") == (
        "correct the image\ndetails: stellwerk why comp/x"
    )
    assert Ending().fix("stellwerk why comp/x") == "stellwerk why comp/x"


async def test_a_cluster_that_cannot_be_read_costs_the_cause_and_not_the_report() -> None:
    async def judged() -> ObjectSummary:
        raise Unreachable("connection refused")

    assert await wait_result.of(judged()) == Ending()
