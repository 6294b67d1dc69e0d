"""What a tenant needs next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.tenant.former import (
    AwaitOperation,
    AwaitVersion,
    Decision,
    Prepare,
    Record,
    Refuse,
    Release,
    Rest,
    ShowDuplicate,
    ShowFailure,
    ShowReady,
    Start,
    TenantSnapshot,
    after_failure,
)
from tests.unit.cap.tenant.given import (
    NOW,
    UNREADY,
    V1,
    V2,
    a_tenant,
    an_application,
    an_operation,
    ready,
    that_wants,
)
from tests.unit.cap.tenant.worlds import decide_both

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable, dig
from stellwerk.operators.cap import duplicates, retries
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, Operation, TenantState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.preparation import prepared
from stellwerk.operators.cap.tenant import plan


def decided(
    tenant: CAPTenant,
    *operations: CAPTenantOperation,
    versions: tuple[CAPApplicationVersion, ...] = (V1, V2),
    application: CAPApplication | None = None,
) -> Decision:
    return decide_both(
        TenantSnapshot(
            tenant=tenant,
            application=application or given.application(),
            versions=versions,
            operations=operations,
        )
    )


# ---- before anything is done


def test_a_tenant_without_its_application_is_refused() -> None:
    decision = decide_both(TenantSnapshot(tenant=a_tenant()))

    assert isinstance(decision, Refuse)
    assert "CAPApplication bookshop of CAPTenant shop/acme does not exist" in decision.message


def at_rest(version: str, current: str) -> CAPTenant:
    """A tenant that its last pass has left as it should be."""
    tenant = a_tenant(version, current)
    status = msgspec.structs.replace(tenant.status, state=TenantState.READY, observed_generation=1)
    return msgspec.structs.replace(tenant, status=status)


def test_an_application_that_cannot_be_read_is_not_taken_for_absent() -> None:
    waits = decide_both(TenantSnapshot(tenant=a_tenant(), is_application_hidden=True))
    assert waits == Refuse(
        "CAPApplication bookshop of CAPTenant shop/acme cannot be read; next: stellwerk why ca/bookshop -n shop"
    )
    rests = TenantSnapshot(tenant=at_rest("1.0.0", "bookshop-v1"), is_application_hidden=True)
    assert decide_both(rests) == Rest()


def test_a_version_that_cannot_be_read_is_not_taken_for_absent() -> None:
    seen = TenantSnapshot(
        tenant=at_rest("2.0.0", "bookshop-v2"),
        application=given.application(),
        versions=(V1,),
        hidden_versions=(ObjectKey("shop", "bookshop-v2"),),
    )
    assert decide_both(seen) == Rest()
    waits = decide_both(replace(seen, tenant=a_tenant("2.0.0", "bookshop-v1")))
    assert isinstance(waits, AwaitVersion)
    assert waits.message.endswith(
        "and version 2.0.0; waiting for versions that cannot be read: shop/bookshop-v2; "
        "next: stellwerk why cav/bookshop-v2 -n shop"
    )
    leaves = decide_both(replace(seen, tenant=a_tenant("2.0.0", "bookshop-v2", deleted=True)))
    assert leaves == Refuse(
        "CAPApplicationVersion bookshop-v2, which CAPTenant shop/acme uses, cannot be read, and without its Jobs the "
        "tenant cannot be deprovisioned; next: stellwerk why cav/bookshop-v2 -n shop"
    )


def test_finalizer_owner_labels_and_annotations_come_in_one_write() -> None:
    decision = decided(given.tenant())

    assert isinstance(decision, Prepare)
    metadata = decision.lacking
    assert metadata["finalizers"] == ["sme.sap.com/captenant"]
    assert {"sme.sap.com/app-identifier-hash", "sme.sap.com/owner-identifier-hash"} <= {*dig(metadata, "labels")}  # type: ignore[misc]
    assert "sme.sap.com/btp-tenant-id" not in dig(metadata, "labels")  # type: ignore[operator]
    assert dig(metadata, "annotations", "sme.sap.com/app-identifier") == "subaccount.bookshop"


def test_a_new_tenant_of_a_consistent_application_gets_the_latest_ready_version_in_the_same_write() -> None:
    decision = decided(given.tenant(), versions=(V1, V2, UNREADY), application=an_application("Consistent"))

    assert isinstance(decision, Prepare)
    assert decision.version == "2.0.0"


@pytest.mark.parametrize(
    ("application", "tenant"),
    [
        ("Processing", given.tenant()),
        ("Consistent, of a former generation", given.tenant()),
        ("Consistent, for services only", given.tenant()),
        ("Consistent", that_wants(version="1.0.0")),
        ("Consistent", that_wants(version_upgrade_strategy="never")),
    ],
)
def test_otherwise_its_version_is_left_to_the_application_or_to_who_wrote_it(
    application: str, tenant: CAPTenant
) -> None:
    decision = decided(tenant, application=an_application(application))

    assert isinstance(decision, Prepare)
    assert decision.version == ""


def test_a_subscription_that_only_a_label_names_is_named_by_an_annotation_as_well() -> None:
    tenant = a_tenant()
    labels = {**tenant.metadata.labels, "sme.sap.com/subscription-guid": "guid"}
    labelled = msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, labels=labels))

    decision = decided(labelled)

    assert decision == Prepare({"annotations": {"sme.sap.com/subscription-guid": "guid"}})


@pytest.mark.parametrize(
    ("tenant", "message"),
    [
        (a_tenant(), "waiting for a version: the CAPApplication sets it"),
        (a_tenant(strategy="never"), "so no version is set: set spec.version"),
        (
            a_tenant("3.0.0"),
            "with status Ready for CAPApplication shop.bookshop and version 3.0.0",
        ),
    ],
    ids=["no version", "never", "an unknown version"],
)
def test_a_tenant_without_a_ready_version_waits_and_shows_for_what(tenant: CAPTenant, message: str) -> None:
    decision = decided(tenant)

    assert isinstance(decision, AwaitVersion)
    assert message in decision.message


# ---- provisioning and upgrades


def test_a_new_tenant_is_provisioned_with_the_ready_version_that_it_names() -> None:
    decision = decided(a_tenant("1.0.0"))

    assert decision == Start(Operation.PROVISIONING, V1, [])


def test_an_operation_under_way_is_awaited_whatever_else_is_wanted() -> None:
    running = an_operation("provisioning")

    assert decided(a_tenant("2.0.0"), running) == AwaitOperation(running)
    assert decided(a_tenant("2.0.0", deleted=True), running) == AwaitOperation(running)


def test_an_operation_that_runs_again_on_request_is_under_way() -> None:
    failed = an_operation("upgrade", "Failed", "bookshop-v2")
    annotations = {"sme.sap.com/retry": "1"}
    asked = msgspec.structs.replace(failed, metadata=msgspec.structs.replace(failed.metadata, annotations=annotations))
    handled = msgspec.structs.replace(asked, status=msgspec.structs.replace(asked.status, last_handled_retry="1"))

    assert decided(a_tenant("2.0.0", "bookshop-v1"), failed) == ShowFailure(failed)
    assert decided(a_tenant("2.0.0", "bookshop-v1"), asked) == AwaitOperation(asked)
    assert decided(a_tenant("2.0.0", "bookshop-v1"), handled) == ShowFailure(handled)


@pytest.mark.parametrize("request_of_tenant", ["one", "x" * 500])
def test_a_request_of_a_tenant_is_a_new_one_of_its_operation_each_time(request_of_tenant: str) -> None:
    tenant, failed = a_tenant("2.0.0", "bookshop-v1"), an_operation("upgrade", "Failed", "bookshop-v2")
    annotations = {"sme.sap.com/retry": request_of_tenant}
    tenant = msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, annotations=annotations))

    def asked(version: str) -> CAPTenantOperation:
        at = msgspec.structs.replace(failed.metadata, resource_version=version)
        before = msgspec.structs.replace(failed, metadata=at)
        return prepared(before, plan.forwarded(tenant, before))

    first, second = asked("7"), asked("9")
    handled = retries.acknowledged(first, first.status)
    assert retries.is_under_way(first)
    assert not retries.is_under_way(msgspec.structs.replace(first, status=handled))
    assert retries.is_under_way(msgspec.structs.replace(second, status=handled))
    assert retries.request(first).startswith(f"tenant:7:{request_of_tenant[:100]}")


def test_an_operation_that_succeeded_is_recorded_though_the_status_never_showed_it() -> None:
    done = an_operation("provisioning", "Completed")

    assert decided(a_tenant("1.0.0"), done) == Record(done)


def test_a_tenant_with_its_version_rests() -> None:
    done = an_operation("provisioning", "Completed")

    assert decided(a_tenant("1.0.0", "bookshop-v1"), done) == Rest()


def test_a_new_version_is_an_upgrade_that_replaces_earlier_ones() -> None:
    earlier = an_operation("upgrade", "Completed")
    first = an_operation("provisioning", "Completed")

    decision = decided(a_tenant("2.0.0", "bookshop-v1"), first, earlier)

    assert decision == Start(Operation.UPGRADE, V2, [earlier])


@pytest.mark.req("R-102")
def test_the_name_of_an_operation_is_that_of_its_type_and_its_version() -> None:
    tenant = a_tenant("2.0.0", "bookshop-v1")
    name = plan.new_operation(tenant, Operation.UPGRADE, V2).key.name
    assert plan.new_operation(tenant, Operation.UPGRADE, V2).key.name == name
    assert plan.new_operation(tenant, Operation.UPGRADE, V1).key.name != name
    assert plan.new_operation(tenant, Operation.PROVISIONING, V2).key.name != name


@pytest.mark.parametrize("is_reversed", [False, True])
def test_of_two_versions_with_the_same_number_a_tenant_keeps_the_one_it_has(is_reversed: bool) -> None:
    copy = ready("bookshop-v2-copy", "2.0.0")
    twins = (copy, V2) if is_reversed else (V2, copy)

    for current in ("bookshop-v2", "bookshop-v2-copy"):
        assert decided(a_tenant("2.0.0", current), versions=twins) == Rest()
    assert decided(a_tenant("2.0.0", "bookshop-v1"), versions=twins) == Start(Operation.UPGRADE, V2, [])


def test_an_upgrade_that_succeeded_is_recorded_before_the_next_one() -> None:
    upgraded = an_operation("upgrade", "Completed", "bookshop-v2")

    assert decided(a_tenant("3.0.0", "bookshop-v1"), upgraded) == Record(upgraded)
    assert decided(a_tenant("1.0.0", "bookshop-v2"), upgraded) == Start(Operation.UPGRADE, V1, [upgraded])


def test_a_tenant_that_never_follows_stays_where_it_is() -> None:
    assert decided(a_tenant("2.0.0", "bookshop-v1", strategy="never")) == Rest()


@pytest.mark.parametrize("state", ["Upgrading", "UpgradeError"])
@pytest.mark.parametrize("strategy", ["", "never"])
def test_a_tenant_that_is_back_at_its_version_is_ready_whatever_became_of_an_upgrade(state: str, strategy: str) -> None:
    back = a_tenant("1.0.0", "bookshop-v1", strategy, state=state)
    failed = an_operation("upgrade", "Failed", "bookshop-v2")
    asked = an_operation("upgrade", version="bookshop-v2")
    done = an_operation("upgrade", "Completed", "bookshop-v2")

    assert decided(back, failed) == ShowReady()
    assert decided(back, failed, versions=(V1,)) == ShowReady(), "the version of the upgrade is gone"
    assert decided(back) == ShowReady(), "its operation was deleted"
    assert decided(back, asked) == AwaitOperation(asked)
    assert decided(back, done) == Record(done)
    assert decided(a_tenant("1.0.0", "bookshop-v1", strategy), failed) == Rest()


@pytest.mark.parametrize("state", ["Upgrading", "UpgradeError"])
def test_a_tenant_that_never_follows_shows_the_failure_of_an_upgrade_to_the_version_that_it_names(state: str) -> None:
    stays = a_tenant("2.0.0", "bookshop-v1", "never", state=state)
    failed = an_operation("upgrade", "Failed", "bookshop-v2")

    assert decided(stays, failed) == ShowFailure(failed)
    assert decided(stays, failed, versions=(V1,)) == ShowFailure(failed), "no version with this number is Ready"
    assert decided(stays, an_operation("upgrade", "Failed", "bookshop-v3")) == ShowReady()
    assert decided(stays) == ShowReady(), "its operation was deleted"


@pytest.mark.parametrize("versions", [(V2,), (UNREADY,), ()], ids=["v2 Ready", "v2 not Ready", "no version"])
@pytest.mark.parametrize("is_there", [True, False], ids=["v1 not Ready", "v1 gone"])
def test_a_tenant_that_is_back_at_its_version_shows_no_failure_of_another_one_while_its_own_is_not_ready(
    versions: tuple[CAPApplicationVersion, ...], is_there: bool
) -> None:
    own = (given.version(name="bookshop-v1"),) if is_there else ()
    failed = an_operation("upgrade", "Failed", "bookshop-v2")

    assert isinstance(decided(at_rest("1.0.0", "bookshop-v1"), failed, versions=(*own, *versions)), AwaitVersion)


@pytest.mark.parametrize("versions", [(V1, UNREADY), (V1,)], ids=["not Ready", "gone"])
def test_a_failed_upgrade_is_shown_though_its_version_is_not_ready_any_more(
    versions: tuple[CAPApplicationVersion, ...],
) -> None:
    failed = an_operation("upgrade", "Failed", "bookshop-v2")
    tenant = a_tenant("2.0.0", "bookshop-v1", state="UpgradeError")

    assert decided(tenant, failed, versions=versions) == ShowFailure(failed)


def released(operation: CAPTenantOperation) -> CAPTenantOperation:
    """The operation, which is being deleted and kept by the finalizer of someone else only."""
    metadata = msgspec.structs.replace(operation.metadata, deletion_timestamp=NOW, finalizers=("example.com/audit",))
    return msgspec.structs.replace(operation, metadata=metadata)


def test_an_operation_that_is_released_decides_nothing_though_newer_ones_are_gone() -> None:
    done = released(an_operation("upgrade", "Completed", "bookshop-v2"))
    failed = released(an_operation("upgrade", "Failed", "bookshop-v2"))
    newer = an_operation("upgrade", "Completed", "bookshop-v3", at=2)
    back = a_tenant("2.0.0", "bookshop-v3")

    assert decided(back, done, newer) == Start(Operation.UPGRADE, V2, [done, newer])
    assert decided(back, done) == Start(Operation.UPGRADE, V2, [done]), "it has no name to start under until it is gone"
    assert decided(back, failed) == Start(Operation.UPGRADE, V2, [failed])
    assert decided(a_tenant("3.0.0", "bookshop-v3"), done, versions=(ready("bookshop-v3", "3.0.0"),)) == Rest()


def test_an_upgrade_waits_for_its_version() -> None:
    assert isinstance(decided(a_tenant("2.0.0", "bookshop-v1"), versions=(V1, UNREADY)), AwaitVersion)


@pytest.mark.parametrize("kind", ["provisioning", "upgrade"])
def test_a_failed_operation_is_repeated_for_another_version_only(kind: str) -> None:
    current = "" if kind == "provisioning" else "bookshop-v0"
    failed = an_operation(kind, "Failed", "bookshop-v1")

    assert decided(a_tenant("1.0.0", current), failed) == ShowFailure(failed)
    assert decided(a_tenant("2.0.0", current), failed) == Start(Operation(kind), V2, [failed])
    assert decided(a_tenant("1.0.0", current)) == Start(Operation(kind), V1, [])


def test_the_newest_operation_decides() -> None:
    old, new = (
        an_operation("upgrade", "Failed", "bookshop-v2", at=1),
        an_operation("upgrade", "Completed", "bookshop-v2", at=2),
    )

    assert decided(a_tenant("2.0.0", "bookshop-v1"), new, old) == Record(new)


# ---- deletion


def test_a_tenant_that_never_had_a_version_is_released_at_once() -> None:
    assert decided(a_tenant(deleted=True)) == Release()
    assert decided(a_tenant("1.0.0", deleted=True), an_operation("provisioning", "Failed")) == Release()


def test_a_tenant_whose_provisioning_succeeded_is_deprovisioned_though_that_was_never_recorded() -> None:
    done = an_operation("provisioning", "Completed")

    assert decided(a_tenant("1.0.0", deleted=True), done) == Record(done)


def test_a_deleted_tenant_is_deprovisioned_with_its_version_even_if_that_is_not_ready() -> None:
    decision = decided(a_tenant("1.0.0", "bookshop-v2", deleted=True), versions=(V1, UNREADY))

    assert decision == Start(Operation.DEPROVISIONING, UNREADY, ())


def test_a_deprovisioned_tenant_is_released_and_a_failed_deprovisioning_stays() -> None:
    done, failed = an_operation("deprovisioning", "Completed"), an_operation("deprovisioning", "Failed")

    assert decided(a_tenant("1.0.0", "bookshop-v1", deleted=True), done) == Release(done)
    assert decided(a_tenant("1.0.0", "bookshop-v1", deleted=True), failed) == ShowFailure(failed)


def test_a_tenant_whose_version_is_gone_shows_what_is_absent() -> None:
    decision = decided(a_tenant("1.0.0", "bookshop-v0", deleted=True))

    assert isinstance(decision, Refuse)
    assert "CAPApplicationVersion bookshop-v0" in decision.message


def test_a_tenant_without_our_finalizer_is_left_alone() -> None:
    deleted = a_tenant("1.0.0", "bookshop-v1", deleted=True)
    bare = msgspec.structs.replace(deleted, metadata=msgspec.structs.replace(deleted.metadata, finalizers=()))

    assert decided(bare) == Rest()


# ---- the status


def test_a_tenant_stays_ready_during_an_upgrade_and_after_a_failed_one() -> None:
    tenant = a_tenant("2.0.0", "bookshop-v1")

    for phases, state in ((plan.UNDER_WAY, "Upgrading"), (plan.FAILED, "UpgradeError"), (plan.SUCCEEDED, "Ready")):
        status = plan.status_of(tenant, phases[Operation.UPGRADE], "", NOW)
        assert (status.state, status.conditions[0].status) == (state, "True")


def test_a_tenant_that_is_back_at_its_version_shows_how_it_came_to_it() -> None:
    provisioned = a_tenant("1.0.0", "bookshop-v1", state="UpgradeError")
    upgraded = msgspec.structs.replace(provisioned.status, previous_versions=("bookshop-v0",))

    for tenant, reason in (
        (provisioned, "ProvisioningCompleted"),
        (msgspec.structs.replace(provisioned, status=upgraded), "UpgradeCompleted"),
    ):
        status = plan.at_rest(tenant, NOW)
        assert (status.state, status.observed_generation, status.current_version) == ("Ready", 1, "bookshop-v1")
        (ready,) = status.conditions
        assert (ready.status, ready.reason) == ("True", reason)
        assert ready.message == "CAPApplicationVersion bookshop-v1 is in use, and no operation is under way"


@pytest.mark.parametrize(
    ("state", "current", "shown"),
    [
        ("Upgrading", "bookshop-v1", "Ready"),
        ("UpgradeError", "bookshop-v1", "UpgradeError"),
        ("Ready", "bookshop-v1", "Ready"),
        ("Provisioning", "", ""),
        ("ProvisioningError", "", "ProvisioningError"),
        ("", "", ""),
    ],
)
def test_a_tenant_that_waits_for_a_version_shows_no_operation_as_under_way(
    state: str, current: str, shown: str
) -> None:
    tenant = a_tenant("3.0.0", current, state=state)
    phase = plan.UNDER_WAY[Operation.UPGRADE if current else Operation.PROVISIONING]
    status = plan.status_of(tenant, phase, "under way", NOW)
    tenant = msgspec.structs.replace(tenant, status=msgspec.structs.replace(status, state=state))

    status = plan.waiting(tenant, "waits", NOW)

    assert (status.state, status.conditions[0].is_true, status.conditions[0].message) == (shown, bool(current), "waits")


def test_the_former_version_joins_the_previous_ones_of_which_the_oldest_goes() -> None:
    tenant = a_tenant("2.0.0", "bookshop-v1")
    many = msgspec.structs.replace(tenant.status, previous_versions=tuple(f"v{number}" for number in range(10)))
    tenant = msgspec.structs.replace(tenant, status=many)

    status = plan.recorded(tenant, an_operation("upgrade", "Completed", "bookshop-v2"), NOW)

    assert status.current_version == "bookshop-v2"
    assert status.previous_versions == (*(f"v{number}" for number in range(1, 10)), "bookshop-v1")


def test_a_tenant_that_is_ready_by_an_operation_shows_since_when_it_is_complete() -> None:
    tenant = a_tenant("1.0.0")
    status = plan.recorded(tenant, an_operation("provisioning", "Completed"), NOW)

    assert (status.state, status.last_full_reconciliation_time) == ("Ready", NOW)
    failed = plan.status_of(tenant, plan.FAILED[Operation.PROVISIONING], "", NOW)
    assert failed.last_full_reconciliation_time is None


def test_recording_a_version_twice_changes_nothing() -> None:
    tenant = a_tenant("1.0.0", "bookshop-v1")
    once = plan.recorded(tenant, an_operation("upgrade", "Completed", "bookshop-v1"), NOW)

    assert once.previous_versions == ()


def test_a_failure_shows_its_cause_and_how_to_run_it_again() -> None:
    seen = TenantSnapshot(tenant=a_tenant("1.0.0"), versions=(V1,))
    failed = an_operation("upgrade", "Failed")
    message = plan.failure_message(failed, after_failure(seen, failed))

    assert message.startswith("CAPTenantOperation shop.op-upgrade-1 failed: the cause.")
    assert "stellwerk cap retry ctop/op-upgrade-1 -n shop" in message


def test_a_failure_whose_version_is_gone_offers_no_repetition_that_cannot_succeed() -> None:
    seen = TenantSnapshot(tenant=a_tenant("2.0.0", "bookshop-v1"), versions=(V1,))

    def step(kind: str, seen: TenantSnapshot = seen) -> str:
        message = plan.failure_message(
            an_operation(kind, "Failed", "bookshop-v2"),
            after_failure(seen, an_operation(kind, "Failed", "bookshop-v2")),
        )
        return message.removeprefix(f"CAPTenantOperation shop.op-{kind}-1 failed: the cause. ")

    gone = "Its CAPApplicationVersion bookshop-v2 does not exist"
    patch = """kubectl patch cat acme -n shop --type merge -p '{"spec":{"version":"1.0.0"}}'"""
    assert step("upgrade") == f"{gone}: set another with: {patch}"
    assert step("provisioning") == f"{gone}: set another with: {patch}"
    retry = "stellwerk cap retry ctop/op-deprovisioning-1 -n shop"
    assert step("deprovisioning") == f"{gone}: create it again, then run the step again with: {retry}"
    assert step("upgrade", replace(seen, versions=())) == (
        f"{gone}: create it again, or another one. See those that exist: kubectl get cav -n shop"
    )
    hidden = replace(seen, hidden_versions=(ObjectKey("shop", "bookshop-v2"),))
    assert "stellwerk cap retry" in step("upgrade", hidden)


# ---- two tenants with the same data


def one_of_two(age: int, *, current: str = "bookshop-v1", deleted: bool = False, label: str = "acme-id") -> CAPTenant:
    """A tenant of two with one id; `age` is the second in which it was created."""
    tenant, name = a_tenant("1.0.0", current, deleted=deleted), f"acme-{age}"
    moment = datetime(2026, 1, 1, 0, 0, age, tzinfo=UTC)
    labels = {**tenant.metadata.labels, "sme.sap.com/btp-tenant-id": label}
    metadata = msgspec.structs.replace(tenant.metadata, name=name, uid=name, creation_timestamp=moment, labels=labels)
    return msgspec.structs.replace(tenant, metadata=metadata)


def decided_with(tenant: CAPTenant, other: CAPTenant) -> Decision:
    application = given.application()
    found = duplicates.of_tenant(tenant, (tenant, other), {application.key: application}.get)
    return decide_both(TenantSnapshot(tenant=tenant, application=application, versions=(V1, V2), duplicates=found))


@pytest.mark.req("R-918")
def test_of_two_tenants_with_one_id_the_younger_runs_no_job_and_names_the_older() -> None:
    older, younger = one_of_two(1), one_of_two(2)
    for current in ("", "bookshop-v1"):
        decision = decided_with(one_of_two(2, current=current), older)
        assert decision == ShowDuplicate(older)
    status = plan.duplicate(younger, older, NOW)
    assert status.state == TenantState.PROVISIONING_ERROR
    assert status.current_version == "bookshop-v1"
    assert "CAPTenant shop/acme-1 is older" in status.conditions[0].message
    assert "kubectl delete cat acme-2 -n shop" in status.conditions[0].message
    assert decided_with(older, younger) == Rest()
    assert isinstance(decided_with(one_of_two(1, current=""), younger), Start)


@pytest.mark.req("R-918")
def test_the_deletion_of_one_of_two_tenants_never_deprovisions_what_the_other_uses() -> None:
    older, younger = one_of_two(1), one_of_two(2)
    assert decided_with(one_of_two(2, deleted=True), older) == Release()
    assert decided_with(one_of_two(2, deleted=True), one_of_two(1, deleted=True)) == Release()
    assert decided_with(one_of_two(1, deleted=True), younger) == Release(), "the younger one takes over"
    unused = one_of_two(2, current="")
    for other in (unused, one_of_two(2, deleted=True)):
        decision = decided_with(one_of_two(1, deleted=True), other)
        assert isinstance(decision, Start)
        assert decision.operation == Operation.DEPROVISIONING


@pytest.mark.req("R-918")
def test_a_younger_tenant_takes_over_when_the_older_is_gone() -> None:
    taken_over = msgspec.structs.replace(one_of_two(2), status=plan.duplicate(one_of_two(2), one_of_two(1), NOW))
    assert decided(taken_over) == ShowReady()


@pytest.mark.req("R-918")
def test_an_older_tenant_whose_id_was_changed_to_that_of_another_counts_as_the_younger() -> None:
    changed, other = one_of_two(1, label="former-id"), one_of_two(2)
    assert decided_with(changed, other) == ShowDuplicate(other)
    assert decided_with(other, changed) == Rest()
    assert decided_with(one_of_two(1, label="former-id", deleted=True), other) == Release()


@pytest.mark.req("R-918")
def test_tenants_are_duplicates_only_with_one_id_one_provider_and_one_namespace() -> None:
    tenant = one_of_two(1)
    applications = {each.key: each for each in (given.application(),)}

    def duplicate_of(application: CAPApplication, **spec: Any) -> bool:
        key = application.key
        spec = {"cap_application_instance": key.name, **spec}
        other = msgspec.structs.replace(one_of_two(2), spec=msgspec.structs.replace(tenant.spec, **spec))
        metadata = msgspec.structs.replace(other.metadata, namespace=key.namespace)
        other = msgspec.structs.replace(other, metadata=metadata)
        return bool(duplicates.of_tenant(tenant, (tenant, other), {**applications, key: application}.get))

    def named(name: str, namespace: str = "shop", **spec: Any) -> CAPApplication:
        found = given.application(**spec)
        metadata = msgspec.structs.replace(found.metadata, name=name, namespace=namespace)
        return msgspec.structs.replace(found, metadata=metadata)

    assert duplicate_of(given.application())
    assert duplicate_of(named("second"))
    assert not duplicate_of(given.application(), tenant_id="other-id")
    assert not duplicate_of(named("second", providerSubaccountId="another"))
    assert not duplicate_of(named("second", btpAppName="another"))
    assert not duplicate_of(named("bookshop", namespace="elsewhere"))


def unreadable(age: int, **labels: str) -> Unreadable:
    """A tenant of the namespace that cannot be read; `age` is the second in which it was created."""
    metadata = one_of_two(age).metadata
    shown = {f"sme.sap.com/{key.replace('_', '-')}": value for key, value in labels.items()}
    return Unreadable(CAPTenant.resource, msgspec.structs.replace(metadata, labels=shown), "spec: too large")


def decided_beside(tenant: CAPTenant, odd: Unreadable) -> Decision:
    application = given.application()
    hidden = duplicates.hidden_from(tenant, [odd], {application.key: application}.get)
    seen = TenantSnapshot(tenant=tenant, application=application, versions=(V1, V2), hidden_duplicates=hidden)
    return decide_both(seen)


@pytest.mark.req("R-918", "R-941")
@pytest.mark.parametrize("labels", [{}, {"btp_tenant_id": "acme-id"}])
def test_a_tenant_starts_no_job_while_an_older_one_that_cannot_be_read_may_have_its_data(
    labels: dict[str, str],
) -> None:
    decision = decided_beside(one_of_two(2, current=""), unreadable(1, **labels))
    assert isinstance(decision, Refuse)
    assert "CAPTenant shop/acme-1, which cannot be read" in decision.message
    assert isinstance(decided_beside(one_of_two(1, current=""), unreadable(2, **labels)), Start)
    assert decided_beside(one_of_two(2), unreadable(1, **labels)) == Rest(), "at rest it stays as it is"


@pytest.mark.req("R-510")
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("version", ["", "bookshop-v1"])
def test_no_operation_starts_and_no_tenant_goes_while_one_of_its_operations_cannot_be_read(
    version: str, leaves: bool
) -> None:
    tenant, hidden = a_tenant("2.0.0", version, deleted=leaves), ObjectKey("shop", "odd")
    seen = TenantSnapshot(tenant=tenant, application=given.application(), versions=(V1, V2))
    assert isinstance(decide_both(seen), Release if leaves and not version else Start)

    decision = decide_both(replace(seen, hidden_operations=(hidden,)))

    assert isinstance(decision, Refuse)
    assert "CAPTenantOperation shop/odd, which cannot be read and may run Jobs of CAPTenant" in decision.message
    assert decision.message.endswith("stellwerk why ctop/odd -n shop")
    rests = TenantSnapshot(tenant=at_rest("1.0.0", "bookshop-v1"), application=given.application(), versions=(V1,))
    assert decide_both(replace(rests, hidden_operations=(hidden,))) == Rest(), "at rest it stays as it is"
    active = an_operation("upgrade")
    assert decide_both(replace(seen, operations=(active,), hidden_operations=(hidden,))) == AwaitOperation(active)


@pytest.mark.req("R-918", "R-941")
@pytest.mark.parametrize("age", [1, 3])
def test_a_deleted_tenant_is_not_deprovisioned_while_one_that_cannot_be_read_may_have_its_data(age: int) -> None:
    deleted = one_of_two(2, deleted=True)
    assert isinstance(decided_beside(deleted, unreadable(age)), Refuse)
    assert isinstance(decided_beside(deleted, unreadable(age, btp_tenant_id="acme-id")), Refuse)
    assert isinstance(decided_beside(deleted, unreadable(age, btp_tenant_id="other-id")), Start)
    other_provider = unreadable(
        age, btp_tenant_id="acme-id", app_identifier_hash="another", btp_app_identifier_hash="another"
    )
    assert isinstance(decided_beside(deleted, other_provider), Start)
    elsewhere = msgspec.structs.replace(unreadable(age).metadata, namespace="elsewhere")
    assert isinstance(decided_beside(deleted, replace(unreadable(age), metadata=elsewhere)), Start)
