"""How an object is doing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from stellwerk.cli.look import object_list
from stellwerk.cli.objects import graph, health, object_summary
from stellwerk.cli.objects.graph import Node
from stellwerk.cli.objects.unreadable import unread
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unreadable, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime import conditions

BTP = {"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "BtpOperator"}


def an_object(kind: Mapping[str, JsonValue], **parts: JsonValue) -> Unstructured:
    return Unstructured.of({**kind, "metadata": {"name": "x", "namespace": "n"}, **parts})


def condition(type: str, status: str, reason: str = "", **more: JsonValue) -> JsonObject:
    return {"type": type, "status": status, "reason": reason, **more}


def test_the_ready_condition_and_the_state_are_the_health() -> None:
    ready = condition("Ready", "False", "MissingSecret", message="m", lastTransitionTime="2026-05-01T12:00:00Z")
    seen = health.of(an_object(BTP, status={"state": "Warning", "conditions": [ready]}))
    since = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert seen == health.ObjectHealth("False", "Warning", "MissingSecret", "m", since)
    assert seen.needs_attention


def test_an_object_of_ours_without_a_status_is_not_ready_yet() -> None:
    seen = health.of(an_object(BTP))
    assert (seen.ready, seen.reason, seen.needs_attention) == ("Unknown", "NotSeenYet", True)


def test_a_foreign_object_without_a_status_is_as_its_spec_says() -> None:
    seen = health.of(an_object({"apiVersion": "v1", "kind": "ConfigMap"}))
    assert (seen.ready, seen.state, seen.needs_attention) == ("True", "Current", False)


@pytest.mark.parametrize("kind", ["ServiceInstance", "ServiceBinding"])
def test_a_service_instance_is_not_ready_before_its_operator_says_so(kind: str) -> None:
    of_btp: JsonObject = {"apiVersion": "services.cloud.sap.com/v1", "kind": kind}
    statuses: list[JsonObject] = [{}, {"conditions": []}, {"conditions": [condition("Succeeded", "True")]}]
    for status in statuses:
        seen = health.of(an_object(of_btp, status=status))
        assert (seen.ready, seen.state, seen.needs_attention) == ("False", "InProgress", True)
    assert health.of(an_object(of_btp)).ready == "False"
    assert health.of(an_object(of_btp, status={"conditions": [condition("Ready", "True")]})).is_ready


def test_a_deployment_that_lacks_replicas_is_not_ready() -> None:
    listed: JsonValue = [
        condition("Available", "True", "MinimumReplicasAvailable", lastTransitionTime="2026-05-01T12:00:00Z")
    ]
    status: JsonValue = {"conditions": listed, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 1}
    seen = health.of(an_object({"apiVersion": "apps/v1", "kind": "Deployment"}, spec={"replicas": 3}, status=status))
    assert (seen.ready, seen.state, seen.reason) == ("False", "InProgress", "")
    assert seen.message == "1 of 3 replicas available"


@pytest.mark.parametrize(("phase", "ready"), [("Failed", "False"), ("Succeeded", "True")])
def test_a_pod_that_has_failed_is_not_ready(phase: str, ready: str) -> None:
    seen = health.of(an_object({"apiVersion": "v1", "kind": "Pod"}, status={"phase": phase, "reason": "Evicted"}))
    assert (seen.ready, seen.state) == (ready, phase)
    assert seen.needs_attention == (phase == "Failed")


def test_an_object_is_not_ready_before_it_shows_what_its_author_hints_at() -> None:
    kind: JsonObject = {"apiVersion": "example.com/v1", "kind": "Thing"}
    for hint, ready in (("has-ready-condition", "False"), ("nonsense", "True")):
        annotations: JsonObject = {"component-operator.cs.sap.com/status-hint": hint}
        seen = health.of(Unstructured.of({**kind, "metadata": {"name": "x", "annotations": annotations}}))
        assert seen.ready == ready


def test_a_change_that_the_operator_has_not_seen_makes_readiness_unknown() -> None:
    old = condition("Ready", "True", "ReconcileSucceeded", observedGeneration=1)
    body: JsonObject = {**BTP, "metadata": {"name": "x", "generation": 2}, "status": {"conditions": [old]}}
    assert health.of(Unstructured.of(body)).reason == "ChangeNotSeenYet"


def a_tenant(state: str) -> Unstructured:
    """A tenant that is Ready in some state."""
    shown: JsonObject = {"state": state, "conditions": [condition("Ready", "True", "UpgradeFailed", message="m")]}
    return an_object({"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant"}, status=shown)


def test_an_object_that_is_ready_in_a_state_of_error_is_not_well_and_shows_its_reason() -> None:
    seen = health.of(a_tenant("UpgradeError"))
    assert (seen.is_ready, seen.needs_attention, seen.is_well, seen.is_changing) == (True, True, False, False)
    assert object_summary.in_words(seen) == ("✗", "bad", "works as before, but is in state UpgradeError")
    assert object_list.Looks().row(a_tenant("UpgradeError"), seen, datetime.now(UTC))[5] == "UpgradeFailed"
    failed = Node(a_tenant("UpgradeError").ref, seen)
    assert graph.drawn(failed, Style()) == ["✗ CAPTenant n/x   UpgradeError UpgradeFailed: m"]
    assert not graph.compact(Node(failed.ref, health.of(a_tenant("Ready")), (failed,))).rest


@pytest.mark.parametrize(
    ("kind", "state", "ready"), [("CAPTenantOperation", "Failed", "True"), ("CAPApplicationVersion", "Error", "False")]
)
def test_a_failure_that_is_superseded_needs_no_attention_and_one_that_is_not_does(
    kind: str, state: str, ready: str
) -> None:
    shown = condition("Ready", ready, "StepFailed", message="m")
    mark = condition("Superseded", "True", "Superseded", message="CAPTenant n/acme is to have version 1")

    def seen(*conditions: JsonValue) -> health.ObjectHealth:
        of_cap: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": kind}
        return health.of(an_object(of_cap, status={"state": state, "conditions": [*conditions]}))

    assert (seen(shown).needs_attention, seen(shown, {**mark, "status": "False"}).needs_attention) == (True, True)
    history = seen(shown, mark)
    assert history == health.ObjectHealth("-", state, "Superseded", "CAPTenant n/acme is to have version 1")
    assert not history.needs_attention
    assert object_summary.in_words(history) == ("◌", "dim", "is superseded: nothing waits for it")


def test_an_object_that_is_ready_and_upgraded_is_changing_and_needs_no_attention() -> None:
    seen = health.of(a_tenant("Upgrading"))
    assert (seen.is_ready, seen.needs_attention, seen.is_well, seen.is_changing) == (True, False, False, True)
    assert object_summary.in_words(seen) == ("◌", "busy", "is ready, and is being changed")


def an_application(cause: str, reason: str) -> Unstructured:
    """An application that is Ready, with a condition of kstatus beside it."""
    listed: JsonValue = [
        condition("Ready", "True", "VersionExists", message="version 2 is in use"),
        condition(cause, "True", reason, message="why"),
    ]
    kind: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPApplication"}
    return an_object(kind, status={"state": "Consistent", "conditions": listed})


def test_an_object_that_is_ready_and_needs_its_user_is_listed_with_the_cause() -> None:
    seen = health.of(an_application("Stalled", "UpgradePaused"))
    assert (seen.is_ready, seen.needs_attention, seen.is_well, seen.is_changing) == (True, True, False, False)
    assert (seen.reason, seen.message) == ("UpgradePaused", "why")
    assert object_summary.in_words(seen) == ("✗", "bad", "works, but a user has to act: UpgradePaused")
    row = object_list.Looks().row(an_application("Stalled", "UpgradePaused"), seen, datetime.now(UTC))
    assert row[3:6] == ["True", "Consistent", "UpgradePaused"]


def test_an_object_that_is_ready_and_reconciled_is_changing_and_shows_why() -> None:
    seen = health.of(an_application("Reconciling", "IdentityUnproved"))
    assert (seen.needs_attention, seen.is_well, seen.is_changing) == (False, False, True)
    row = object_list.Looks().row(an_application("Reconciling", "IdentityUnproved"), seen, datetime.now(UTC))
    assert row[3:6] == ["True", "Consistent", "IdentityUnproved"]


def test_a_deployment_that_is_available_and_not_ready_has_no_age() -> None:
    available = condition("Available", "True", "MinimumReplicasAvailable", lastTransitionTime="2026-05-01T12:00:00Z")
    status: JsonValue = {"conditions": [available], "replicas": 3, "updatedReplicas": 3, "availableReplicas": 1}
    deployment = an_object({"apiVersion": "apps/v1", "kind": "Deployment"}, spec={"replicas": 3}, status=status)
    assert (health.of(deployment).ready, health.of(deployment).since) == ("False", None)


def being_deleted(observed: int, state: str = "Ready") -> Unstructured:
    """An object of generation 2 that is being deleted and still Ready, by a condition about generation `observed`."""
    kept = condition(
        "Ready", "True", "UpgradeCompleted", message="Namespace n takes no Jobs", observedGeneration=observed
    )
    metadata: JsonObject = {"name": "x", "generation": 2, "deletionTimestamp": "2026-05-01T12:00:00Z"}
    tenant: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "metadata": metadata}
    return Unstructured.of({**tenant, "status": {"state": state, "conditions": [kept]}})


@pytest.mark.parametrize(("observed", "state"), [(2, "Ready"), (1, "Deleting")])
def test_an_object_that_stays_ready_while_it_is_deleted_shows_what_its_deletion_waits_for(
    observed: int, state: str
) -> None:
    seen = health.of(being_deleted(observed, state))
    assert (seen.ready, seen.state) == ("False", "Deleting")
    assert (seen.reason, seen.message) == ("UpgradeCompleted", "Namespace n takes no Jobs")


def test_a_deletion_that_the_operator_has_not_seen_makes_readiness_unknown() -> None:
    seen = health.of(being_deleted(observed=1))
    assert (seen.ready, seen.state, seen.reason) == ("Unknown", "Deleting", "DeletionRequested")


@pytest.mark.req("R-510")
@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        (BTP, "Warning", "is being deleted, and its deletion is blocked"),
        (BTP, "Error", "is being deleted, and its deletion is blocked"),
        (BTP, "Deleting", "is being deleted"),
        (BTP, "Processing", "is being deleted"),
        ({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}, "", "is being deleted"),
    ],
)
def test_an_object_that_is_being_deleted_says_so_and_whether_that_is_blocked(
    kind: Mapping[str, JsonValue], state: str, words: str
) -> None:
    status: JsonObject = {"conditions": [condition("Ready", "False", "Any")], **({"state": state} if state else {})}
    seen = an_object(kind, status=status)
    metadata: JsonObject = {"name": "x", "namespace": "n", "deletionTimestamp": "2026-05-01T12:00:00Z"}
    assert object_summary.in_words(health.of(Unstructured.of({**seen.body, "metadata": metadata})))[2] == words


def test_a_suspended_object_needs_no_attention() -> None:
    suspended = an_object(BTP, spec={"suspend": True})
    noted: JsonObject = {"annotations": {"example.com/suspend-reason": "change freeze"}}
    seen = health.of(Unstructured.of({**suspended.body, "metadata": {"name": "x", **noted}}))
    assert (seen.ready, seen.state, seen.reason, seen.needs_attention) == ("-", "Suspended", "change freeze", False)


def test_conditions_in_another_shape_do_not_break_the_list() -> None:
    assert conditions.listed_in({"status": {"conditions": {"Ready": "True"}}}) == ()
    assert conditions.listed_in({"status": {"conditions": [{"no": "type"}]}}) == ()
    assert conditions.listed_in({"status": "text"}) == ()


@pytest.mark.req("R-510")
@pytest.mark.parametrize("kind", ["Component", "Deployment"])
def test_what_cannot_be_read_is_not_ready_and_says_why(kind: str) -> None:
    group = "core.cs.sap.com" if kind == "Component" else "apps"
    resource = Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=True)
    odd = unread(Unreadable(resource, ObjectMeta(name="one", namespace="shop"), "spec.a: nested deeper"))
    seen = health.of(odd)
    assert (seen.ready, seen.reason) == ("False", "ObjectUnreadable")
    assert seen.message == "object cannot be read: spec.a: nested deeper"
    assert seen.needs_attention
    assert str(odd.ref) == f"{kind} shop/one"


KYMA = {"apiVersion": "operator.kyma-project.io/v1beta2", "kind": "Kyma"}
SINCE = "2026-05-01T12:00:00Z"


@pytest.mark.parametrize(
    ("state", "ready", "needs_attention"),
    [
        ("Ready", "True", False),
        ("Unmanaged", "True", False),
        ("Processing", "False", True),
        ("Warning", "False", True),
        ("Error", "False", True),
        ("", "Unknown", True),
    ],
)
def test_the_state_is_the_health_of_a_kind_without_the_condition_ready(
    state: str, ready: str, needs_attention: bool
) -> None:
    said: JsonObject = {"operation": "why", "lastUpdateTime": SINCE}
    modules = condition("Modules", "True" if ready == "True" else "False", "Ready")
    seen = health.of(an_object(KYMA, status={"state": state, "lastOperation": said, "conditions": [modules]}))
    assert (seen.ready, seen.needs_attention) == (ready, needs_attention)
    assert seen.message == {"True": "", "False": "why"}.get(ready, "no operator has looked at it yet")
    assert seen.reason == {"True": "", "False": "Modules"}.get(ready, "NotSeenYet")
    assert seen.since == (datetime(2026, 5, 1, 12, tzinfo=UTC) if state else None)


def test_a_ready_kyma_whose_deletion_has_not_begun_is_being_deleted() -> None:
    metadata: JsonObject = {"name": "x", "namespace": "n", "deletionTimestamp": SINCE}
    seen = health.of(an_object(KYMA, metadata=metadata, status={"state": "Ready"}))
    assert (seen.ready, seen.state, seen.reason) == ("Unknown", "Deleting", "DeletionRequested")


def test_a_kind_without_a_status_needs_no_attention() -> None:
    seen = health.of(an_object({**KYMA, "kind": "ModuleReleaseMeta"}))
    assert (seen.ready, seen.needs_attention) == ("-", False)
