"""From every state of a BtpOperator there is one right step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp import reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.btpoperator import plan
from stellwerk.operators.btp.btpoperator.plan import Blockers, FailedRemoval, Snapshot
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, CredentialsComparison, SecretProblem
from stellwerk.operators.btp.errors import RemovalFailed
from stellwerk.operators.btp.reasons import FACTS, Reason

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FINALIZER = "operator.kyma-project.io/btp-manager"
STARTED = "operator.kyma-project.io/hard-delete-started-at"
SOFT = "operator.kyma-project.io/soft-delete-started-at"
GOOD = BtpCredentials(namespace="kyma-system", cluster_id="one", operand_data={})
MISSING = SecretProblem(Reason.MissingSecret, "sap-btp-manager Secret in kyma-system namespace not found")
CALM = CredentialsComparison(wanted=GOOD, namespace="kyma-system", config_cluster_id="one", initial_cluster_id=None)
USED = Blockers((ObjectKey("default", "db"),), (ObjectKey("default", "db-binding"),))


def operator(
    reason: Reason | None = None,
    message: str = "",
    *,
    name: str = "btpoperator",
    namespace: str = "kyma-system",
    age: timedelta = timedelta(),
    deleted: bool = False,
    finalizers: tuple[str, ...] = (FINALIZER,),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> BtpOperator:
    status: BtpOperatorStatus | None = None
    if reason is not None:
        status = reasons.status_for(None, reason, message or FACTS[reason].message or "because", 1, NOW)
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        creation_timestamp=NOW - age,
        deletion_timestamp=NOW - timedelta(hours=1) if deleted else None,
        finalizers=finalizers,
        labels=labels or {},
        annotations=annotations or {},
    )
    return BtpOperator(metadata=metadata, status=status)


def seen(of: BtpOperator, **changes: object) -> Snapshot:
    snapshot = Snapshot(
        operator=of,
        leader=of,
        fixed=False,
        required_secret=GOOD,
        comparison=CALM,
        blockers=Blockers(),
        now=NOW,
        hard_delete_timeout=timedelta(minutes=20),
    )
    return replace(snapshot, **changes)  # type: ignore[arg-type]  # a test says which


# ---- provisioning


def test_where_none_leads_any_more_nothing_is_done() -> None:
    assert plan.next_step(seen(operator(), leader=None)) == plan.Rest()


def test_a_new_cr_is_given_a_finalizer_first_and_a_state_then() -> None:
    assert plan.next_step(seen(operator(finalizers=()))) == plan.Adopt()
    assert plan.next_step(seen(operator())) == plan.SetStatus(Reason.Initialized)


@pytest.mark.parametrize("reason", [reason for reason, m in FACTS.items() if m.state is State.Processing])
def test_a_processing_cr_is_provisioned(reason: Reason) -> None:
    assert plan.next_step(seen(operator(reason))) == plan.Provision(GOOD)


@pytest.mark.parametrize("reason", [Reason.Initialized, Reason.ReconcileSucceeded])
def test_without_the_secret_nothing_is_provisioned(reason: Reason) -> None:
    assert plan.next_step(seen(operator(reason), required_secret=MISSING, comparison=None)) == plan.ReportSecretProblem(
        MISSING
    )


def test_a_ready_module_is_kept_up() -> None:
    assert plan.next_step(seen(operator(Reason.ReconcileSucceeded))) == plan.Provision(GOOD)


def test_drift_of_a_ready_module_is_shown_before_it_is_mended() -> None:
    moved = replace(CALM, namespace="old")
    renamed = replace(CALM, config_cluster_id="two")

    assert plan.next_step(seen(operator(Reason.ReconcileSucceeded), comparison=moved)) == plan.SetStatus(
        Reason.CredentialsNamespaceChanged, "credentials namespace changed from old to kyma-system"
    )
    assert plan.next_step(seen(operator(Reason.ReconcileSucceeded), comparison=renamed)) == plan.SetStatus(
        Reason.ClusterIdChanged, "cluster ID changed from two to one"
    )


@pytest.mark.parametrize(
    "reason",
    [
        reason
        for reason, m in FACTS.items()
        if m.state in (State.Error, State.Warning) and reason not in (Reason.OlderCRExists, Reason.InconsistentChart)
    ],
)
def test_a_cr_that_complained_starts_over_once_the_cause_may_be_gone(reason: Reason) -> None:
    assert plan.next_step(seen(operator(reason))) == plan.SetStatus(Reason.Updated)


def test_while_the_very_same_thing_is_wrong_with_the_secret_nothing_moves() -> None:
    complaining = operator(MISSING.reason, MISSING.message)

    assert plan.next_step(seen(complaining, required_secret=MISSING, comparison=None)) == plan.Rest()


def test_a_secret_that_could_not_be_read_is_read_again_though_nobody_changes_it() -> None:
    unread = credentials.unreadable(ObjectKey("kyma-system", "sap-btp-manager"), "you may not get secrets")
    complaining = operator(unread.reason, unread.message)

    assert plan.next_step(seen(complaining, required_secret=unread, comparison=None)) == plan.SetStatus(Reason.Updated)


def test_another_problem_of_the_secret_is_told_after_a_new_start() -> None:
    invalid = SecretProblem(Reason.InvalidSecret, "key(s) clientid not found")

    assert plan.next_step(
        seen(operator(MISSING.reason, MISSING.message), required_secret=invalid, comparison=None)
    ) == plan.SetStatus(Reason.Updated)


def test_a_message_tells_what_is_waited_for_now_and_nothing_of_before() -> None:
    moving = "credentials namespace changed from old to new"

    first = plan.waiting_message(moving, "Deployment a/b", "no pod is ready")
    second = plan.waiting_message(first, "Deployment a/b", "the image cannot be pulled. Look at it")

    assert first == f"{moving}. Waiting for Deployment a/b: no pod is ready"
    assert second == f"{moving}. Waiting for Deployment a/b: the image cannot be pulled. Look at it"
    assert plan.waiting_message(second, "Deployment a/b", "no pod is ready") == first


# ---- a module from a chart


@pytest.mark.parametrize("reason", [Reason.ReconcileSucceeded, Reason.UpdateDone, Reason.ChartInstallFailed])
def test_after_a_start_a_module_from_a_chart_is_checked_for_an_update_first(reason: Reason) -> None:
    unchecked = seen(operator(reason), from_chart=True, update_unchecked=True)

    assert plan.next_step(unchecked) == plan.SetStatus(Reason.UpdateCheck)
    assert plan.next_step(replace(unchecked, update_unchecked=False)) != plan.SetStatus(Reason.UpdateCheck)


@pytest.mark.parametrize("reason", [Reason.Initialized, Reason.UpdateCheck, Reason.Updated])
def test_what_is_under_way_goes_on_after_a_start(reason: Reason) -> None:
    unchecked = seen(operator(reason), from_chart=True, update_unchecked=True)

    assert plan.next_step(unchecked) == plan.Provision(GOOD)


def test_an_update_is_not_looked_for_while_the_secret_is_wrong_or_the_cr_goes() -> None:
    complaining = operator(Reason.InvalidSecret, "bad")
    problem = SecretProblem(Reason.InvalidSecret, "bad")
    unchecked = seen(complaining, required_secret=problem, comparison=None, from_chart=True, update_unchecked=True)
    leaving = seen(operator(Reason.ReconcileSucceeded, deleted=True), from_chart=True, update_unchecked=True)

    assert plan.next_step(unchecked) == plan.Rest()
    assert plan.next_step(leaving) == plan.SetStatus(Reason.HardDeleting)


def test_an_inconsistent_chart_begins_anew() -> None:
    assert plan.next_step(seen(operator(Reason.InconsistentChart, "because"), from_chart=True)) == plan.SetStatus(
        Reason.Initialized
    )


def test_a_recovery_is_told_in_the_words_of_the_chart_era() -> None:
    assert plan.next_step(seen(operator(Reason.ChartInstallFailed), from_chart=True)) == plan.SetStatus(
        Reason.Updated, "Resource has been updated"
    )


# ---- who leads


def test_the_oldest_cr_leads_in_any_namespace() -> None:
    old, young = operator(name="a", namespace="default", age=timedelta(seconds=1)), operator()

    assert plan.leader([young, old], fixed=False) is old


def test_of_crs_of_one_second_the_standard_one_leads_then_the_first_by_name() -> None:
    standard, other, another = operator(), operator(namespace="a"), operator(namespace="a", name="b")

    assert plan.leader([other, standard, another], fixed=False) is standard
    assert plan.leader([other, another], fixed=False) is another


@pytest.mark.parametrize("ours", [FINALIZER, "custom-deletion-finalizer"])
def test_a_cr_under_deletion_leads_until_it_is_released(ours: str) -> None:
    leaving = operator(deleted=True, age=timedelta(hours=1), finalizers=("example.com/held", ours))

    assert plan.leader([operator(name="next"), leaving], fixed=False) is leaving


def test_a_cr_that_only_others_keep_from_going_leads_no_more() -> None:
    released = operator(deleted=True, age=timedelta(hours=1), finalizers=("example.com/held",))
    younger = operator(name="next")

    assert plan.leader([released, younger], fixed=False) is younger
    assert plan.leader([released], fixed=True) is None


def test_in_fixed_mode_only_the_standard_place_leads() -> None:
    assert plan.leader([operator(namespace="default", age=timedelta(days=1))], fixed=True) is None
    standard = operator()
    assert plan.leader([operator(namespace="default", age=timedelta(days=1)), standard], fixed=True) is standard


@given(st.permutations([("a", "x"), ("b", "x"), ("a", "y"), ("kyma-system", "btpoperator")]))
def test_the_leader_does_not_depend_on_the_order_of_the_list(places: list[tuple[str, str]]) -> None:
    found = plan.leader([operator(namespace=namespace, name=name) for namespace, name in places], fixed=False)

    assert found is not None
    assert found.key == ObjectKey("kyma-system", "btpoperator")


def test_a_redundant_cr_names_the_leader_and_is_given_no_finalizer() -> None:
    redundant = operator(name="second", namespace="default", finalizers=())

    step = plan.next_step(seen(redundant, leader=operator()))

    assert isinstance(step, plan.NotLeader)
    assert (step.reason, step.release) == (Reason.OlderCRExists, False)
    assert step.message == (
        "'btpoperator' BtpOperator CR in 'kyma-system' namespace reconciles the module. Delete this BtpOperator, which "
        "has no effect: kubectl delete btpoperators second -n default; or, to let it reconcile the module instead, "
        "delete BtpOperator kyma-system/btpoperator, with which its module is removed first"
    )


def test_in_fixed_mode_a_misplaced_cr_says_where_it_belongs() -> None:
    assert plan.next_step(
        seen(operator(namespace="default", finalizers=()), leader=None, fixed=True)
    ) == plan.NotLeader(Reason.WrongNamespaceOrName, "", False)


@pytest.mark.parametrize("held_by", [FINALIZER, "custom-deletion-finalizer"])
def test_a_redundant_cr_that_is_deleted_is_let_go(held_by: str) -> None:
    leaving = operator(Reason.OlderCRExists, name="second", deleted=True, finalizers=(held_by,))

    step = plan.next_step(seen(leaving, leader=operator()))

    assert isinstance(step, plan.NotLeader)
    assert step.release


@pytest.mark.parametrize("fixed", [True, False])
def test_the_former_leader_is_left_alone_while_others_hold_it(fixed: bool) -> None:
    gone = operator(Reason.HardDeleting, deleted=True, finalizers=("example.com/somebody-elses",))

    assert plan.next_step(seen(gone, leader=None, fixed=fixed)) == plan.Rest()


def test_a_redundant_cr_that_comes_to_lead_says_so_first() -> None:
    assert plan.next_step(seen(operator(Reason.OlderCRExists, name="second"))) == plan.SetStatus(
        Reason.Processing, "second is the new leader"
    )


# ---- deletion


NOT_YET_DELETING = [
    reason
    for reason, meaning in FACTS.items()
    if meaning.state is not State.Deleting and reason is not Reason.ServiceInstancesAndBindingsNotCleaned
]


@pytest.mark.parametrize("reason", [None, *NOT_YET_DELETING])
def test_a_deletion_is_shown_before_it_begins(reason: Reason | None) -> None:
    assert plan.next_step(seen(operator(reason, deleted=True))) == plan.SetStatus(Reason.HardDeleting)


def test_without_users_objects_the_module_goes() -> None:
    for reason in (Reason.HardDeleting, Reason.SoftDeleting):
        assert plan.next_step(seen(operator(reason, deleted=True))) == plan.RemoveModule()


def test_users_objects_hold_the_deletion_and_are_counted_and_named() -> None:
    step = plan.next_step(seen(operator(Reason.HardDeleting, deleted=True), blockers=USED))

    assert isinstance(step, plan.Wait)
    assert step.message.startswith("All service instances and bindings must be removed: 1 instance(s) and 1 binding(s)")
    assert "ServiceInstance default/db" in step.message
    assert "ServiceBinding default/db-binding" in step.message


def test_a_message_names_five_objects_and_counts_all() -> None:
    many = Blockers(tuple(ObjectKey("default", f"db-{number:03}") for number in range(300)))

    message = plan.blocked_message(many)

    assert "300 instance(s) and 0 binding(s)" in message
    assert "db-004 and 295 more" in message
    assert len(message) < 1024


def test_the_message_does_not_depend_on_the_order_of_the_objects() -> None:
    keys = tuple(ObjectKey("default", name) for name in "cab")

    assert plan.blocked_message(Blockers(keys)) == plan.blocked_message(Blockers(tuple(reversed(keys))))


BLOCKED = Reason.ServiceInstancesAndBindingsNotCleaned
CLEARED = "BtpOperator is to be deleted after cleaning service instance and binding resources"


def test_a_blocked_deletion_goes_on_when_the_last_object_is_gone() -> None:
    blocked = operator(BLOCKED, deleted=True)

    assert isinstance(plan.next_step(seen(blocked, blockers=USED)), plan.Wait)
    assert plan.next_step(seen(blocked)) == plan.SetStatus(Reason.HardDeleting, CLEARED)


def test_the_force_label_lifts_the_block() -> None:
    forced = operator(BLOCKED, deleted=True, labels={"force-delete": "true"})

    assert plan.next_step(seen(forced, blockers=USED)) == plan.SetStatus(Reason.HardDeleting, CLEARED)


@pytest.mark.req("R-505")
def test_the_force_label_counts_only_in_the_namespace_of_the_module() -> None:
    of_a_tenant = operator(BLOCKED, deleted=True, namespace="a-tenant", labels={"force-delete": "true"})

    step = plan.next_step(seen(of_a_tenant, blockers=USED))

    assert isinstance(step, plan.Wait)
    assert 'the label force-delete="true" counts only on a BtpOperator in the namespace kyma-system' in step.message
    assert "default/db" not in step.message, "a tenant learns how many objects others have, and not their names"
    moved = seen(of_a_tenant, blockers=USED, home="a-tenant")
    assert plan.next_step(moved) == plan.SetStatus(Reason.HardDeleting, CLEARED)


def test_what_is_forced_is_counted_named_and_led_back_to_the_label() -> None:
    assert plan.forced_message(USED, timedelta(minutes=20)) == (
        'The label force-delete="true" is on the BtpOperator, so 1 instance(s) and 1 binding(s) are deleted with the '
        "module. Those that are still there after 20m (HardDeleteTimeout) lose their finalizers (soft deletion): "
        "ServiceInstance default/db, ServiceBinding default/db-binding"
    )


def test_a_forced_deletion_says_when_it_becomes_soft_and_says_the_same_in_each_pass() -> None:
    operator_ = forced(started="2026-01-01T11:45:00+00:00")
    for passed in (timedelta(), timedelta(seconds=7, microseconds=5)):
        snapshot = seen(operator_, blockers=USED, now=NOW + passed)
        step = plan.next_step(snapshot)

        assert isinstance(step, plan.HardDelete)
        assert plan.soft_deletion_message(USED, snapshot.now + step.remaining) == (
            "soft deletion removes their finalizers from 2026-01-01T12:05:00Z on; "
            "ServiceInstance default/db, ServiceBinding default/db-binding"
        )


@pytest.mark.parametrize("value", ["True", "yes", "", "true "])
def test_nothing_but_true_forces(value: str) -> None:
    labelled = operator(Reason.HardDeleting, deleted=True, labels={"force-delete": value})

    assert isinstance(plan.next_step(seen(labelled, blockers=USED)), plan.Wait)


def forced(reason: Reason = Reason.HardDeleting, started: str = "") -> BtpOperator:
    annotations = {STARTED: started} if started else {}
    return operator(reason, deleted=True, labels={"force-delete": "true"}, annotations=annotations)


def test_hard_deletion_has_its_whole_time_when_it_begins() -> None:
    assert plan.next_step(seen(forced(), blockers=USED)) == hard_delete(20, bindings_alone=10)


@pytest.mark.parametrize(("minute", "remaining", "bindings_alone"), [(59, 19, 9), (51, 11, 1), (50, 10, 0), (45, 5, 0)])
def test_instances_wait_for_bindings_during_half_of_the_time_of_hard_deletion(
    minute: int, remaining: int, bindings_alone: int
) -> None:
    step = plan.next_step(seen(forced(started=f"2026-01-01T11:{minute}:00+00:00"), blockers=USED))

    assert step == hard_delete(remaining, bindings_alone)
    assert step.until_next == timedelta(minutes=bindings_alone or remaining)


def test_instances_without_bindings_do_not_wait() -> None:
    instances = Blockers(instances=USED.instances)

    assert plan.next_step(seen(forced(), blockers=instances)) == hard_delete(20, bindings_alone=0)


def hard_delete(remaining: int, bindings_alone: int) -> plan.HardDelete:
    return plan.HardDelete(timedelta(minutes=remaining), timedelta(minutes=bindings_alone))


def test_a_restart_does_not_restart_the_clock_of_hard_deletion() -> None:
    step = plan.next_step(seen(forced(started="2026-01-01T11:45:00+00:00"), blockers=USED))

    assert step == hard_delete(5, bindings_alone=0)


@pytest.mark.parametrize("started", ["2026-01-01T11:40:00+00:00", "2026-01-01T11:00:00Z"])
def test_after_its_time_hard_deletion_becomes_soft(started: str) -> None:
    assert plan.next_step(seen(forced(started=started), blockers=USED)) == plan.SetStatus(Reason.SoftDeleting)


TAMPERED = [
    "yesterday",
    "2026-01-01",
    "2026-01-01T11:45:00",
    "2026-01-01T11:45:00+99:99",
    "2025-01-01T00:00:00Z",
    "2026-01-01T12:06:00Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "x" * 100_000,
]


@pytest.mark.req("R-413")
@pytest.mark.parametrize("tampered", TAMPERED, ids=lambda text: text[:30])
def test_a_start_that_somebody_tampered_with_counts_as_now(tampered: str) -> None:
    assert plan.next_step(seen(forced(started=tampered), blockers=USED)) == hard_delete(20, bindings_alone=10)


def test_a_soft_deletion_that_failed_is_not_hard_again_although_there_is_time_left() -> None:
    notes = {STARTED: "2026-01-01T11:59:00+00:00", SOFT: "2026-01-01T11:59:01+00:00"}
    shown = [Reason.ResourceRemovalFailed, Reason.HardDeleting]
    failed, repeated = (
        operator(one, deleted=True, labels={"force-delete": "true"}, annotations=notes) for one in shown
    )

    assert plan.next_step(seen(failed, blockers=USED)) == plan.SetStatus(Reason.HardDeleting)
    assert plan.next_step(seen(repeated, blockers=USED)) == plan.SetStatus(Reason.SoftDeleting)


@pytest.mark.req("R-413")
@pytest.mark.parametrize("tampered", TAMPERED, ids=lambda text: text[:30])
def test_a_note_of_a_soft_deletion_that_is_not_ours_cuts_no_time_short(tampered: str) -> None:
    noted = operator(Reason.HardDeleting, deleted=True, labels={"force-delete": "true"}, annotations={SOFT: tampered})

    assert plan.next_step(seen(noted, blockers=USED)) == hard_delete(20, bindings_alone=10)


def test_soft_deletion_goes_on_until_nothing_is_left() -> None:
    assert plan.next_step(seen(forced(Reason.SoftDeleting), blockers=USED)) == plan.SoftDelete()
    assert plan.next_step(seen(forced(Reason.SoftDeleting))) == plan.RemoveModule()


def test_the_deletion_does_not_need_the_required_secret() -> None:
    leaving = operator(Reason.HardDeleting, deleted=True)

    assert plan.next_step(seen(leaving, required_secret=MISSING, comparison=None)) == plan.RemoveModule()


@given(
    reason=st.none() | st.sampled_from(list(Reason)),
    deleted=st.booleans(),
    held=st.booleans(),
    is_forced=st.booleans(),
    used=st.booleans(),
    leads=st.booleans(),
)
def test_users_objects_are_never_at_risk_without_the_force_label(
    reason: Reason | None, deleted: bool, held: bool, is_forced: bool, used: bool, leads: bool
) -> None:
    one = operator(
        reason,
        deleted=deleted,
        finalizers=(FINALIZER,) if held else (),
        labels={"force-delete": "true"} if is_forced else {},
    )
    other = operator(name="other")

    step = plan.next_step(seen(one, leader=one if leads else other, blockers=USED if used else Blockers()))

    if isinstance(step, plan.HardDelete | plan.SoftDelete | plan.RemoveModule):
        assert deleted
        assert held
        assert leads
        assert is_forced or not used
    if isinstance(step, plan.RemoveModule):
        assert not used


# ---- a removal that failed


def failed_removal(of: BtpOperator, *, users_had_objects: bool) -> FailedRemoval:
    return FailedRemoval(
        failure=RemovalFailed("because"), due=0, operator=of, users_had_objects=users_had_objects, brings_back=True
    )


def soft(reason: Reason, **changes: Any) -> BtpOperator:
    return operator(reason, deleted=True, **{"labels": {"force-delete": "true"}, **changes})


@pytest.mark.req("R-112")
@pytest.mark.parametrize("reason", [Reason.SoftDeleting, Reason.ResourceRemovalFailed])
@pytest.mark.parametrize("blockers", [Blockers(), USED])
def test_a_removal_that_failed_pauses_though_its_own_writes_wake_the_cr(reason: Reason, blockers: Blockers) -> None:
    failed = failed_removal(soft(Reason.SoftDeleting), users_had_objects=bool(blockers))

    assert plan.next_step(seen(soft(reason), blockers=blockers, failed_removal=failed)) == plan.Pause(failed)


@pytest.mark.req("R-112")
def test_the_end_of_some_of_the_users_objects_leaves_the_others_to_the_operand() -> None:
    failed = failed_removal(soft(Reason.SoftDeleting), users_had_objects=True)
    instance_left = replace(USED, bindings=())

    assert plan.next_step(
        seen(soft(Reason.ResourceRemovalFailed), blockers=instance_left, failed_removal=failed)
    ) == plan.Pause(failed)


@pytest.mark.req("R-112")
def test_users_whose_objects_are_not_seen_any_more_have_not_ended_the_pause_of_a_removal() -> None:
    now = soft(Reason.ResourceRemovalFailed)
    failed = failed_removal(now, users_had_objects=True)

    assert plan.next_step(seen(now, hides_users=True, failed_removal=failed)) == plan.Pause(failed)


@pytest.mark.req("R-112")
@pytest.mark.parametrize(
    ("changed", "blockers", "why"),
    [
        ({}, Blockers(), "the last service instance and binding went"),
        ({"labels": {}}, USED, "block it, and no label forces it"),
        ({"annotations": {"a": "b"}}, USED, "was changed (annotations)"),
        ({}, USED, ""),
    ],
)
def test_what_ended_the_pause_of_a_removal_is_named(changed: dict[str, Any], blockers: Blockers, why: str) -> None:
    failed = failed_removal(soft(Reason.SoftDeleting), users_had_objects=True)
    told = plan.end_of_pause(seen(soft(Reason.ResourceRemovalFailed, **changed), blockers=blockers), failed)

    assert (why in told) if why else not told


@pytest.mark.req("R-112")
@pytest.mark.parametrize(
    ("changed", "blockers"),
    [
        pytest.param({}, Blockers(), id="users have nothing left"),
        pytest.param({"labels": {}}, USED, id="the force label was taken off"),
        pytest.param({"labels": {"force-delete": "true", "other": "label"}}, USED, id="another label"),
        pytest.param({"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}, USED, id="asked for"),
        pytest.param({"finalizers": (FINALIZER, "example.com/mine")}, USED, id="another finalizer"),
    ],
)
def test_a_user_who_acts_ends_the_pause_of_a_removal(changed: dict[str, Any], blockers: Blockers) -> None:
    failed = failed_removal(soft(Reason.SoftDeleting), users_had_objects=True)
    now = soft(Reason.ResourceRemovalFailed, **changed)

    assert plan.next_step(seen(now, blockers=blockers, failed_removal=failed)) == plan.SetStatus(Reason.HardDeleting)


@pytest.mark.req("R-112")
def test_a_service_instance_that_comes_while_a_removal_pauses_blocks_the_deletion_at_once() -> None:
    going = operator(Reason.ResourceRemovalFailed, deleted=True)
    failed = failed_removal(going, users_had_objects=False)

    assert plan.next_step(seen(going, blockers=USED, failed_removal=failed)) == plan.SetStatus(Reason.HardDeleting)


@pytest.mark.req("R-112")
def test_without_the_memory_of_a_failed_removal_as_after_a_restart_it_is_tried_again_at_once() -> None:
    assert plan.next_step(seen(soft(Reason.ResourceRemovalFailed), blockers=USED)) == plan.SetStatus(
        Reason.HardDeleting
    )
