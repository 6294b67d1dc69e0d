"""What a Component's status becomes, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.component.given import ITEM, component

from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, MissingNamespacesPolicy, UpdatePolicy
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.delivery.reconcile_request import FORCE_AT_ANNOTATION, REQUESTED_AT_ANNOTATION
from stellwerk.delivery.sets import set_status
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.component import status_plan
from stellwerk.operators.component.errors import ClusterChanged, ClusterUnidentified, InvalidSpec
from stellwerk.operators.component.reasons import PassReport, Reason

HOME, FAR, OTHER = "uid-of-home", "uid-of-far", "uid-of-other"


def bound_for(found: str, *, former: str = "", objects: bool = True, confirmed: str = "") -> str:
    """The cluster that the status names, when the Component leads to `found`."""
    status: dict[str, Any] = {"targetCluster": former, "inventory": [ITEM] if objects else []}
    annotations: JsonObject = {CONFIRMED_CLUSTER_ANNOTATION: confirmed} if confirmed else {}
    one = component(status=status, annotations=annotations)
    return status_plan.set_target_cluster(one, one.status, found, HOME).target_cluster


@pytest.mark.req("R-509")
@pytest.mark.parametrize("applied_as", ["operator", "system:serviceaccount:shop:deployer"])
def test_what_was_applied_at_home_is_not_left_there_for_another_cluster(applied_as: str) -> None:
    applied: dict[str, Any] = {"appliedAs": applied_as, "inventory": [ITEM]}
    with pytest.raises(
        ClusterChanged, match=f"in the cluster {HOME}, and the component now leads to the cluster {FAR}"
    ):
        status_plan.set_target_cluster(component(status=applied), component(status=applied).status, FAR, HOME)
    with pytest.raises(ClusterUnidentified):
        status_plan.set_target_cluster(component(status=applied), component(status=applied).status, "", HOME)
    for identity in (applied_as, "kubeconfig"):
        one = component(status={**applied, "appliedAs": identity})
        assert status_plan.set_target_cluster(one, one.status, HOME, HOME) == one.status
    confirmed = component(status=applied, annotations={CONFIRMED_CLUSTER_ANNOTATION: FAR})
    assert status_plan.set_target_cluster(confirmed, confirmed.status, FAR, HOME).target_cluster == FAR


@pytest.mark.parametrize(
    ("former", "found", "named"),
    [("", HOME, ""), ("", FAR, FAR), (FAR, FAR, FAR), ("", "", "")],
    ids=["at home", "not known yet", "the same", "never known"],
)
def test_the_cluster_of_the_objects_is_remembered(former: str, found: str, named: str) -> None:
    assert bound_for(found, former=former) == named


@pytest.mark.req("R-210")
@pytest.mark.parametrize("found", [OTHER, HOME])
def test_another_cluster_in_its_place_is_refused_by_name(found: str) -> None:
    with pytest.raises(ClusterChanged) as failed:
        bound_for(found, former=FAR)
    assert FAR in str(failed.value)
    assert f"{CONFIRMED_CLUSTER_ANNOTATION}={found}" in str(failed.value)


@pytest.mark.req("R-210")
@pytest.mark.parametrize(("found", "named"), [(OTHER, OTHER), (HOME, "")])
def test_another_cluster_that_is_confirmed_is_taken(found: str, named: str) -> None:
    assert bound_for(found, former=FAR, confirmed=found) == named


@pytest.mark.req("R-210")
def test_the_confirmation_of_one_cluster_is_none_of_another() -> None:
    with pytest.raises(ClusterChanged):
        bound_for(OTHER, former=FAR, confirmed="uid-of-a-third")


def test_without_objects_a_component_may_go_anywhere() -> None:
    assert bound_for(OTHER, former=FAR, objects=False) == OTHER
    assert bound_for("", former=FAR, objects=False) == FAR


@pytest.mark.req("R-210")
def test_a_cluster_that_nothing_identifies_any_more_is_not_taken_for_the_former_one() -> None:
    with pytest.raises(ClusterUnidentified, match=FAR):
        bound_for("", former=FAR)


# ---- what the spec asks for


def test_policies_that_are_left_out_are_the_originals() -> None:
    found = status_plan.policies(component().spec)
    assert (found.adoption, found.update) == (AdoptionPolicy.IF_UNOWNED, UpdatePolicy.SSA_OVERRIDE)
    assert (found.delete, found.missing_namespaces) == (DeletePolicy.DELETE, MissingNamespacesPolicy.CREATE)
    assert found.reapply_seconds == 3600.0


def test_a_component_that_orphans_does_so_when_it_is_deleted_and_not_before() -> None:
    kept = status_plan.policies(component(spec={"deletePolicy": "Orphan"}).spec).delete
    assert kept.orphans_on_delete
    assert not kept.orphans_on_apply


def test_a_policy_without_meaning_is_named_with_those_that_have_one() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.updatePolicy: 'Sometimes' is unknown; expected one of Recreate"):
        status_plan.policies(component(spec={"updatePolicy": "Sometimes"}).spec)


@pytest.mark.req("R-412")
def test_more_managed_types_than_a_cluster_has_are_refused_and_a_deletion_drops_none() -> None:
    types: list[JsonValue] = [{"group": "x.org", "kind": f"Kind{number}"} for number in range(1_001)]
    many, few = (
        component(spec={"additionalManagedTypes": [*listed, *listed[:1]]}).spec for listed in (types, types[:999])
    )
    with pytest.raises(InvalidSpec, match=r"spec\.additionalManagedTypes: has 1002 entries; at most 1000 are allowed"):
        status_plan.policies(many)
    assert len(status_plan.policies(few).managed_types) == 999
    assert len(status_plan.policies_of_deletion(many).managed_types) == 1_001


def test_a_deletion_asks_for_nothing_that_a_spec_could_say_wrong() -> None:
    spec: dict[str, Any] = {
        "reapplyInterval": "soon",
        "updatePolicy": "Sometimes",
        "additionalManagedTypes": [{"group": "*.x.io", "kind": "*"}],
    }
    (pattern,) = status_plan.policies_of_deletion(component(spec=spec).spec).managed_types
    assert pattern.matches("a.x.io", "Thing")


# ---- how a status goes on

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
WHOLE = NOW.replace(microsecond=0)
ARTIFACT = Artifact(url="https://x/a.tar.gz", digest="sha256:1", revision="main@sha1:1")
SOURCE = SourceStatus(artifact=ARTIFACT, digest="source")
WORKING: dict[str, Any] = {"processingDigest": "old", "processingSince": "2026-01-01T00:00:00Z", "revision": 4}


def test_a_new_content_begins_the_time_anew_and_the_same_one_does_not() -> None:
    one = component(status=WORKING)
    new = status_plan.start_content(one, SOURCE, "new")
    assert (new.is_new, new.status.processing_digest, new.status.processing_since) == (True, "new", None)
    assert new.status.source_ref == SOURCE
    same = status_plan.start_content(one, SOURCE, "old")
    assert (same.is_new, same.status.processing_since) == (False, one.status.processing_since)


@pytest.mark.parametrize(
    ("generation", "revision", "is_new"),
    [(1, ARTIFACT.revision, False), (2, ARTIFACT.revision, True), (1, "another", True)],
    ids=["nothing has changed", "the spec has", "the source has"],
)
def test_what_the_original_has_applied_is_begun_anew_only_where_something_changed(
    generation: int, revision: str, is_new: bool
) -> None:
    status: JsonObject = {
        "processingDigest": "f" * 64,
        "appliedGeneration": 1,
        "lastAppliedDigest": ARTIFACT.digest,
        "lastAppliedRevision": revision,
    }
    begun = status_plan.start_content(component(status=status, generation=generation), SOURCE, "a" * 64)
    assert begun.is_new is is_new
    assert status_plan.record_attempt(begun.status, ARTIFACT).revision == (1 if is_new else 0)


@pytest.mark.req("R-306")
@pytest.mark.parametrize(
    ("changed", "is_new"),
    [
        ({}, False),
        ({"observedGeneration": 1}, True),
        ({"lastAttemptedDigest": "sha256:2"}, True),
        ({"lastAttemptedRevision": "another"}, True),
        ({"lastProcessingDigest": "e" * 64}, True),
        ({"processingDigest": "f" * 40, "lastProcessingDigest": "f" * 40}, True),
    ],
    ids=["nothing has changed", "the spec has", "the artifact has", "its revision has", "not rendered yet", "ours"],
)
def test_what_the_original_is_applying_goes_on_with_its_revision_where_nothing_changed(
    changed: JsonObject, is_new: bool
) -> None:
    status: dict[str, Any] = {
        "observedGeneration": 2,
        "processingDigest": "f" * 64,
        "lastProcessingDigest": "f" * 64,
        "processingSince": "2026-01-01T00:00:00Z",
        "revision": 1,
        "lastAttemptedDigest": ARTIFACT.digest,
        "lastAttemptedRevision": ARTIFACT.revision,
    } | changed
    one = component(status=status, generation=2)
    begun = status_plan.start_content(one, SOURCE, "a" * 64)
    assert (begun.is_new, begun.digest) == (is_new, "a" * 40)
    assert status_plan.is_unchanged(one, ARTIFACT) is not is_new
    attempted = status_plan.record_attempt(begun.status, ARTIFACT)
    assert attempted.revision == (2 if is_new else 1)
    assert attempted.processing_since == (None if is_new else one.status.processing_since)
    if not is_new:  # a pass that fails now is still a take-over
        assert attempted.processing_digest == status["processingDigest"]
    applied = status_plan.with_content(attempted, Inventory(), begun.digest)
    assert (applied.processing_digest, applied.last_processing_digest) == ("a" * 40, "a" * 40)


def test_each_content_that_is_rendered_raises_the_revision_once() -> None:
    begun = status_plan.start_content(component(status=WORKING), SOURCE, "new").status
    attempted = status_plan.record_attempt(begun, ARTIFACT)
    assert (attempted.revision, attempted.last_processing_digest) == (5, "new")
    assert (attempted.last_attempted_digest, attempted.last_attempted_revision) == (ARTIFACT.digest, ARTIFACT.revision)
    assert status_plan.record_attempt(attempted, ARTIFACT).revision == 5


def test_a_component_that_was_applied_before_revisions_were_counted_has_had_one() -> None:
    status = {"processingDigest": "d", "lastProcessingDigest": "d", "lastAppliedAt": "2026-01-01T00:00:00Z"}
    assert status_plan.record_attempt(component(status=status).status, ARTIFACT).revision == 1


def test_waiting_counts_from_its_first_moment() -> None:
    waiting = set_status.waiting(component().status, NOW)
    assert waiting.processing_since == WHOLE
    assert set_status.waiting(waiting, NOW + timedelta(hours=1)) == waiting
    assert not set_status.is_late(waiting, timedelta(minutes=5), WHOLE + timedelta(minutes=4, seconds=59))
    assert set_status.is_late(waiting, timedelta(minutes=5), WHOLE + timedelta(minutes=5))
    assert not set_status.is_late(component().status, timedelta(minutes=5), NOW)


def test_what_is_finished_says_what_was_applied_and_waits_no_more() -> None:
    one = component(generation=3)
    done = status_plan.finished(one, set_status.waiting(status_plan.record_attempt(one.status, ARTIFACT), NOW), NOW)
    assert (done.last_applied_digest, done.last_applied_revision) == (ARTIFACT.digest, ARTIFACT.revision)
    assert (done.applied_generation, done.last_applied_at, done.processing_since) == (3, WHOLE, None)


def test_a_deletion_works_on_nothing() -> None:
    left = set_status.start_deletion(component(status=WORKING).status)
    assert (left.processing_digest, left.processing_since, left.revision) == ("", None, 4)


def test_times_alone_are_no_reason_to_write_a_status() -> None:
    ready = status_plan.with_report(component(), component().status, PassReport(reason=Reason.Ready), NOW)
    assert (ready.state, ready.observed_generation, ready.last_observed_at) == (State.Ready, 1, WHOLE)
    later = NOW + timedelta(hours=1)
    one = msgspec.structs.replace(component(), status=ready)
    assert (
        status_plan.with_report(one, status_plan.finished(one, ready, later), PassReport(reason=Reason.Ready), later)
        != ready
    )
    one = msgspec.structs.replace(component(), status=status_plan.finished(one, ready, NOW))
    again = status_plan.finished(one, one.status, later)
    assert status_plan.with_report(one, again, PassReport(reason=Reason.Ready), later) is one.status


def test_objects_that_cannot_be_watched_are_looked_at_as_often_as_the_original_looks() -> None:
    looks, elapsed = 0, 0.0
    times: dict[int, float] = {}
    while looks < 60:
        elapsed += status_plan.polling_pause(elapsed)
        looks += 1
        times[looks] = elapsed
    assert (times[5] < 2, 15 < times[20] < 18, 70 < times[50] < 80) == (True, True, True)
    assert [status_plan.polling_pause(seconds) for seconds in (0, 0.2, 5, 30, 3600)] == [0.05, 0.2, 1.0, 2.0, 10.0]


@pytest.mark.parametrize(("handled", "expected"), [("", True), ("a", True), ("b", False)])
def test_a_forced_request_holds_until_it_was_acted_on_to_its_end(handled: str, expected: bool) -> None:
    annotations: JsonObject = {REQUESTED_AT_ANNOTATION: "b", FORCE_AT_ANNOTATION: "b"}
    one = component(status={"lastHandledForceAt": handled}, annotations=annotations)
    assert status_plan.is_forced(one) is expected
    done = status_plan.with_drift(one, one.status, SetProgress(Inventory(), done=True))
    assert (done.last_handled_force_at, done.drifted_objects) == ("b", 0)


def test_a_component_without_a_forced_request_is_not_forced() -> None:
    one = component(status={"lastHandledForceAt": "a"}, annotations={REQUESTED_AT_ANNOTATION: "b"})
    assert not status_plan.is_forced(one)
    assert status_plan.with_drift(one, one.status, SetProgress(Inventory())).last_handled_force_at == "a"
