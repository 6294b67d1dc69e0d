"""Which tenants follow to a new version, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.operators.cap import names
from stellwerk.operators.cap.application.waves import Wave, is_still_chosen, next_wave, still_follows
from stellwerk.operators.cap.kinds.application import CAPApplication, TenantUpgrade
from stellwerk.operators.cap.kinds.tenant import CAPTenant, UpgradeStrategy
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

SATURDAY = datetime(2026, 1, 3, 12, tzinfo=UTC)
OLD, NEW = "1.0.0", "2.0.0"
VERSION = given.version(name="bookshop-v2", version=NEW)
UNTRIED = (
    "spec.tenantUpgrade.canaryTenants names only tenants that are being deleted, stay above version 2.0.0 or never "
    "follow"
)


def a_tenant(name: str, version: str = OLD, state: str = "Ready", current: str = "bookshop-v1") -> CAPTenant:
    found = given.tenant(name)
    spec = msgspec.structs.replace(found.spec, version=version)
    status = msgspec.structs.replace(found.status, state=state, current_version=current)
    return msgspec.structs.replace(found, spec=spec, status=status)


def seen(tenant: CAPTenant) -> CAPTenant:
    """The tenant after a pass of its own."""
    metadata = msgspec.structs.replace(tenant.metadata, finalizers=(names.TENANT_FINALIZER,))
    return msgspec.structs.replace(tenant, metadata=metadata)


def upgraded(name: str) -> CAPTenant:
    return a_tenant(name, NEW, current="bookshop-v2")


def failed(name: str) -> CAPTenant:
    return a_tenant(name, NEW, "UpgradeError")


def upgrading(name: str) -> CAPTenant:
    return a_tenant(name, NEW, "Upgrading")


class CountedName(str):
    """A name that counts how often names like it are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counted(tenant: CAPTenant) -> CAPTenant:
    metadata = msgspec.structs.replace(tenant.metadata, name=CountedName(tenant.metadata.name))
    return msgspec.structs.replace(tenant, metadata=metadata)


def leaving(tenant: CAPTenant, state: str = "Deleting") -> CAPTenant:
    """The tenant while its deprovisioning runs, or after it has failed."""
    metadata = msgspec.structs.replace(tenant.metadata, deletion_timestamp=SATURDAY)
    status = msgspec.structs.replace(tenant.status, state=state)
    return msgspec.structs.replace(tenant, metadata=metadata, status=status)


def ready(version: CAPApplicationVersion) -> CAPApplicationVersion:
    status = msgspec.convert({"conditions": [{"type": "Ready", "status": "True"}]}, type(version.status))
    return msgspec.structs.replace(version, status=status)


def never_following(tenant: CAPTenant) -> CAPTenant:
    spec = msgspec.structs.replace(tenant.spec, version_upgrade_strategy=UpgradeStrategy.NEVER)
    return msgspec.structs.replace(tenant, spec=spec)


def wave(
    *tenants: CAPTenant,
    now: datetime = SATURDAY,
    resumed: str = "",
    staying: Sequence[CAPTenant] = (),
    **policy: Any,
) -> Wave:
    application: CAPApplication = given.application()
    spec = msgspec.structs.replace(application.spec, tenant_upgrade=msgspec.convert(policy, TenantUpgrade))
    annotations = {names.RESUME_ANNOTATION: resumed} if resumed else {}
    metadata = msgspec.structs.replace(application.metadata, annotations=annotations)
    application = msgspec.structs.replace(application, spec=spec, metadata=metadata)
    return next_wave(application, tenants, VERSION, now, staying=[each.key for each in staying])


def chosen(found: Wave) -> list[str]:
    return [tenant.metadata.name for tenant in found.tenants]


def phase(found: Wave) -> str:
    return found.progress.phase if found.progress is not None else ""


def test_without_a_policy_all_follow_at_once_and_nothing_is_shown() -> None:
    tenants = [a_tenant(name) for name in "abc"]
    found = next_wave(given.application(), tenants, VERSION, SATURDAY)
    assert chosen(found) == ["a", "b", "c"]
    assert found.progress is None


def test_no_more_tenants_are_upgraded_at_once_than_the_policy_allows() -> None:
    found = wave(upgrading("a"), a_tenant("b"), a_tenant("c"), maxParallel=2)
    assert chosen(found) == ["b"]
    assert found.progress is not None
    assert (found.progress.upgrading, found.progress.waiting) == (2, 1)
    assert chosen(wave(upgrading("a"), upgrading("b"), a_tenant("c"), maxParallel=2)) == []


def test_a_tenant_whose_change_is_refused_takes_the_room_of_no_other() -> None:
    application = given.application(tenantUpgrade={"maxParallel": 1})
    stays, other = a_tenant("a"), a_tenant("b")
    assert chosen(next_wave(application, [stays, other], VERSION, SATURDAY, refused=[stays.key])) == ["b"]
    found = next_wave(application, [stays], VERSION, SATURDAY, refused=[stays.key])
    assert (chosen(found), found.due) == ([], [stays])
    assert found.progress is not None
    assert found.progress.waiting == 1
    without = next_wave(given.application(), [stays, other], VERSION, SATURDAY, refused=[stays.key])
    assert (chosen(without), without.due) == (["b"], [stays, other])


def test_a_tenant_counts_as_busy_from_the_moment_it_was_chosen() -> None:
    """Its state changes a moment later, when its own controller has seen the version."""
    assert chosen(wave(a_tenant("a", NEW), a_tenant("b"), maxParallel=1)) == []


@pytest.mark.parametrize("state", ["Deleting", "UpgradeError", "Upgrading"])
def test_a_tenant_that_is_being_deleted_takes_the_room_of_no_other(state: str) -> None:
    found = wave(leaving(failed("t"), state), a_tenant("a"), maxParallel=1)
    assert (chosen(found), found.pause_cause) == (["a"], "")
    assert wave(leaving(failed("t"), state), upgraded("a"), maxParallel=1) == Wave(tenants=[], due=[])


def test_a_tenant_that_never_follows_takes_room_only_while_its_operation_runs() -> None:
    before = never_following(a_tenant("t", NEW))
    assert chosen(wave(before, a_tenant("a"), maxParallel=1)) == ["a"], "no operation of it has begun"
    assert chosen(wave(never_following(upgrading("t")), a_tenant("a"), maxParallel=1)) == []
    assert wave(before, upgraded("a"), maxParallel=1) == Wave(tenants=[], due=[])
    found = wave(never_following(failed("t")), a_tenant("a"), maxFailurePercent=0)
    assert (chosen(found), phase(found)) == ([], "Paused"), "it has failed all the same"


def test_canaries_that_are_all_being_deleted_pause_the_upgrade_and_are_named() -> None:
    for canary in (a_tenant("c"), failed("c"), upgrading("c")):
        paused = wave(leaving(canary), a_tenant("a"), canaryTenants=["c"])
        assert (chosen(paused), phase(paused)) == ([], "Paused")
        assert paused.pause_cause == f"{UNTRIED}: c"
        assert chosen(wave(leaving(canary), a_tenant("a"), canaryTenants=["c"], resumed=NEW)) == ["a"]
        assert chosen(wave(leaving(canary), a_tenant("a"), a_tenant("b"), canaryTenants=["b", "c"])) == ["b"]
        assert chosen(wave(leaving(canary), a_tenant("a"), upgraded("b"), canaryTenants=["b", "c"])) == ["a"]
    assert chosen(wave(leaving(upgraded("c")), a_tenant("a"), canaryTenants=["c"])) == ["a"], "the trial is over"


def test_canaries_that_never_follow_pause_the_upgrade_and_are_named() -> None:
    others = (a_tenant("a"), a_tenant("b"))
    for canary in (a_tenant("c"), a_tenant("c", NEW), a_tenant("c", "1.5.0", "UpgradeError")):
        paused = wave(never_following(canary), *others, canaryTenants=["c"])
        assert (chosen(paused), phase(paused), paused.pause_cause) == ([], "Paused", f"{UNTRIED}: c")
        assert chosen(wave(never_following(canary), *others, canaryTenants=["c"], resumed=NEW)) == ["a", "b"]
        assert chosen(wave(never_following(canary), *others, canaryTenants=["b", "c"])) == ["b"]
    both = wave(leaving(failed("c")), never_following(a_tenant("d")), *others, canaryTenants=["c", "d"])
    assert (chosen(both), both.pause_cause) == ([], f"{UNTRIED}: c, d")
    for canary in (upgrading("c"), a_tenant("c", "1.5.0", "Upgrading")):
        awaited = wave(never_following(canary), *others, canaryTenants=["c"])
        assert (chosen(awaited), phase(awaited)) == ([], "Canary"), "its operation has begun"
    assert chosen(wave(never_following(upgraded("c")), *others, canaryTenants=["c"])) == ["a", "b"], "the trial is over"
    assert wave(never_following(failed("c")), *others, canaryTenants=["c"]).pause_cause == "1 tenant has failed"
    assert wave(never_following(a_tenant("c")), upgraded("a"), canaryTenants=["c"]) == Wave(tenants=[], due=[])


FAILURE = "1 tenant has failed"
LOST = f"{UNTRIED}: c"
ABOVE = a_tenant("c", "3.0.0", current="bookshop-v3")
TRIALS: dict[str, tuple[CAPTenant, str, list[str], str]] = {
    # what the canary is like: the canary, the phase, which of a, b and c begin, and why the upgrade is paused
    "not begun": (a_tenant("c"), "Canary", ["c"], ""),
    "failed at an earlier version": (a_tenant("c", "1.5.0", "UpgradeError"), "Canary", ["c"], ""),
    "chosen": (a_tenant("c", NEW), "Canary", [], ""),
    "upgraded now": (upgrading("c"), "Canary", [], ""),
    "upgraded now, and never follows": (never_following(upgrading("c")), "Canary", [], ""),
    "upgraded to an earlier version": (a_tenant("c", "1.5.0", "Upgrading"), "Canary", [], ""),
    "before its first pass": (a_tenant("c", "", "", current=""), "Canary", [], ""),
    "without a version": (seen(a_tenant("c", "", "", current="")), "Canary", ["c"], ""),
    "about to be provisioned": (a_tenant("c", NEW, "", current=""), "Canary", [], ""),
    "about to be provisioned, and never follows": (
        never_following(a_tenant("c", NEW, "", current="")),
        "Canary",
        [],
        "",
    ),
    "provisioned now": (a_tenant("c", NEW, "Provisioning", current=""), "Canary", [], ""),
    "provisioned now, and never follows": (
        never_following(a_tenant("c", NEW, "Provisioning", current="")),
        "Canary",
        [],
        "",
    ),
    "provisioned with an earlier version": (a_tenant("c", "1.5.0", "Provisioning", current=""), "Canary", [], ""),
    "arrived": (upgraded("c"), "Rolling", ["a", "b"], ""),
    "arrived, and never follows": (never_following(upgraded("c")), "Rolling", ["a", "b"], ""),
    "arrived, and leaves": (leaving(upgraded("c")), "Rolling", ["a", "b"], ""),
    "failed": (failed("c"), "Paused", [], FAILURE),
    "failed, and never follows": (never_following(failed("c")), "Paused", [], FAILURE),
    "failed at its provisioning": (a_tenant("c", NEW, "ProvisioningError", current=""), "Paused", [], FAILURE),
    "failed, and leaves": (leaving(failed("c")), "Paused", [], LOST),
    "leaves": (leaving(a_tenant("c")), "Paused", [], LOST),
    "leaves while it is provisioned": (leaving(a_tenant("c", NEW, "", current="")), "Paused", [], LOST),
    "never follows": (never_following(a_tenant("c")), "Paused", [], LOST),
    "never gets a version": (never_following(seen(a_tenant("c", "", "", current=""))), "Paused", [], LOST),
    "stays above": (ABOVE, "Paused", [], LOST),
    "stays above, and never follows": (never_following(ABOVE), "Paused", [], LOST),
    "on its way further up": (a_tenant("c", "4.0.0", "Upgrading", current="bookshop-v3"), "Canary", [], ""),
}


@pytest.mark.parametrize("case", TRIALS)
def test_the_only_canary_decides_whether_others_begin_wait_or_are_paused(case: str) -> None:
    """They begin after it has arrived, wait while it may arrive, and are paused where it has failed or cannot."""
    canary, expected, begin, cause = TRIALS[case]
    others = (a_tenant("a"), a_tenant("b"))
    stays = [canary] if canary.status.current_version == "bookshop-v3" else []
    found = wave(*others, canary, canaryTenants=["c"], staying=stays)
    assert (phase(found), chosen(found), found.pause_cause) == (expected, begin, cause)
    resumed = wave(*others, canary, canaryTenants=["c"], staying=stays, resumed=NEW)
    rolls = expected in ("Rolling", "Paused")
    assert (phase(resumed), chosen(resumed)) == (("Rolling", ["a", "b"]) if rolls else (expected, begin))


def test_what_the_others_wait_for_is_counted_as_under_way() -> None:
    def counts(*tenants: CAPTenant, **policy: Any) -> tuple[int, int]:
        progress = wave(*tenants, **policy).progress
        assert progress is not None
        return progress.upgrading, progress.waiting

    others = (a_tenant("a"), a_tenant("b"))
    assert counts(a_tenant("x", "1.5.0", "Upgrading"), *others, maxParallel=1) == (1, 2)
    for canary in (a_tenant("c", NEW, "Provisioning", current=""), seen(a_tenant("c", "", "", current=""))):
        assert counts(canary, *others, canaryTenants=["c"]) == (1, 2)
        assert counts(canary, *others, maxParallel=1) == (1, 1), "the others do not wait for it: one of them has begun"
    assert counts(a_tenant("c", "1.5.0", "ProvisioningError", current=""), *others, canaryTenants=["c"]) == (1, 2)


def test_a_canary_that_fails_at_its_provisioning_pauses_nothing_where_none_is_to_begin() -> None:
    provisioned = a_tenant("c", NEW, "ProvisioningError", current="")
    assert wave(upgraded("a"), provisioned, canaryTenants=["c"]) == Wave(tenants=[], due=[])
    found = wave(a_tenant("a"), provisioned, canaryTenants=["c"])
    assert found.progress is not None
    assert found.progress.failed == 1


def test_of_several_canaries_a_failed_one_decides_first_then_one_that_may_still_arrive() -> None:
    other, lost = a_tenant("a"), leaving(a_tenant("l"))
    canaries = ["f", "w", "u", "l"]
    found = wave(other, failed("f"), upgrading("w"), upgraded("u"), lost, canaryTenants=canaries)
    assert (phase(found), found.pause_cause) == ("Paused", FAILURE)
    assert phase(wave(other, upgrading("w"), upgraded("u"), lost, canaryTenants=canaries)) == "Canary"
    assert phase(wave(other, upgraded("u"), lost, canaryTenants=canaries)) == "Rolling"


@pytest.mark.parametrize("canary", ["c", "c-id"])
def test_canaries_follow_first_and_the_others_when_all_of_them_are_upgraded(canary: str) -> None:
    others = (a_tenant("a"), a_tenant("b"))
    assert chosen(wave(*others, a_tenant("c"), canaryTenants=[canary])) == ["c"]
    waiting = wave(*others, upgrading("c"), canaryTenants=[canary])
    assert (chosen(waiting), phase(waiting)) == ([], "Canary")
    assert chosen(wave(*others, upgraded("c"), canaryTenants=[canary])) == ["a", "b"]


@pytest.mark.parametrize("resumed", ["", NEW])
def test_a_canary_on_its_way_to_an_earlier_version_keeps_the_others_waiting(resumed: str) -> None:
    def found(canary: CAPTenant) -> Wave:
        return wave(canary, a_tenant("a"), a_tenant("b"), canaryTenants=["c"], resumed=resumed)

    waiting = found(a_tenant("c", "1.5.0", "Upgrading"))
    assert (chosen(waiting), phase(waiting), waiting.pause_cause) == ([], "Canary", "")
    for ended in (a_tenant("c", "1.5.0", current="bookshop-v1.5"), a_tenant("c", "1.5.0", "UpgradeError")):
        assert chosen(found(ended)) == ["c"], "then it is its turn"
    moved_back = a_tenant("c", "1.5.0", "Upgrading", current="bookshop-v2")
    assert chosen(found(moved_back)) == ["a", "b"], "the trial is over"


def test_tenants_on_their_way_to_an_earlier_version_take_room() -> None:
    earlier = [a_tenant(name, "1.5.0", "Upgrading") for name in "xy"]
    others = (a_tenant("a"), a_tenant("b"))
    assert chosen(wave(*earlier, *others, maxParallel=1)) == []
    assert chosen(wave(*earlier, *others, maxParallel=3)) == ["a"]
    assert chosen(wave(*map(leaving, earlier), *others, maxParallel=1)) == ["a"]
    provisioned = a_tenant("x", "1.5.0", "Provisioning", current="")
    assert chosen(wave(provisioned, *others, maxParallel=1)) == ["a"]
    assert wave(*earlier, upgraded("a"), maxParallel=1) == Wave(tenants=[], due=[]), "none is to begin"


def test_a_canary_that_fails_pauses_the_upgrade_until_it_is_resumed() -> None:
    tenants = (a_tenant("a"), failed("c"))
    paused = wave(*tenants, canaryTenants=["c"])
    assert (chosen(paused), phase(paused)) == ([], "Paused")
    assert phase(wave(*tenants, canaryTenants=["c"], resumed="1.5.0")) == "Paused", "it was resumed for another version"
    resumed = wave(*tenants, canaryTenants=["c"], resumed=NEW)
    assert phase(resumed) == "Rolling"
    assert chosen(resumed) == ["a"]


def test_a_failure_at_an_earlier_version_pauses_nothing() -> None:
    """A tenant that was given the version just now shows the end of the former one until its own controller has run."""
    before = failed("c")
    metadata = msgspec.structs.replace(before.metadata, generation=3)
    status = msgspec.structs.replace(before.status, observed_generation=2)
    given_now = msgspec.structs.replace(before, metadata=metadata, status=status)
    found = wave(a_tenant("a"), given_now, canaryTenants=["c"])
    assert (phase(found), found.pause_cause) == ("Canary", "")
    seen_since = msgspec.structs.replace(given_now, status=msgspec.structs.replace(status, observed_generation=3))
    paused = wave(a_tenant("a"), seen_since, canaryTenants=["c"])
    assert (phase(paused), paused.pause_cause) == ("Paused", "1 tenant has failed")


def test_canaries_of_which_none_exists_pause_the_upgrade_and_are_named() -> None:
    paused = wave(a_tenant("acme"), canaryTenants=["acmee"])
    assert (chosen(paused), phase(paused)) == ([], "Paused")
    assert paused.pause_cause == "spec.tenantUpgrade.canaryTenants names no tenant that exists: acmee"
    assert chosen(wave(a_tenant("acme"), canaryTenants=["acmee"], resumed=NEW)) == ["acme"]
    assert chosen(wave(a_tenant("acme"), a_tenant("b"), canaryTenants=["gone", "b"])) == ["b"]
    assert wave(upgraded("acme"), canaryTenants=["acmee"]) == Wave(tenants=[], due=[])


@pytest.mark.parametrize("state", ["Provisioning", "ProvisioningError", ""])
def test_a_tenant_that_is_provisioned_takes_no_room_of_the_upgrade(state: str) -> None:
    found = wave(a_tenant("new", NEW, state, current=""), a_tenant("a"), maxParallel=1)
    assert chosen(found) == ["a"]
    assert found.progress is not None
    assert (found.progress.upgrading, found.progress.failed) == (1, 0)


def test_too_many_failures_pause_the_upgrade() -> None:
    ended = (failed("a"), *map(upgraded, "bcde"))
    assert chosen(wave(*ended, a_tenant("x"), maxFailurePercent=20)) == ["x"]
    paused = wave(*ended, a_tenant("x"), maxFailurePercent=19)
    assert (chosen(paused), phase(paused)) == ([], "Paused")
    assert chosen(wave(*ended, a_tenant("x"))) == ["x"], "without a limit none is too many"


def test_a_tenant_that_no_pass_of_its_own_has_seen_gets_its_first_version_there() -> None:
    assert chosen(wave(a_tenant("new", ""))) == []
    assert chosen(wave(a_tenant("imported"))) == ["imported"], "it has a version, so this is an upgrade"


def test_upgrades_begin_in_the_window_alone_and_new_subscribers_at_any_time() -> None:
    window = {"start": "22:00", "hours": 4, "days": ["Sat"]}
    closed = wave(a_tenant("a"), seen(a_tenant("new", "")), window=window)
    assert (chosen(closed), phase(closed)) == (["new"], "Waiting")
    assert closed.again_seconds == 10 * 3600
    opened = datetime(2026, 1, 4, 1, 59, tzinfo=UTC)
    assert chosen(wave(a_tenant("a"), now=opened, window=window)) == ["a"], "it began on Saturday"
    assert phase(wave(a_tenant("a"), now=opened.replace(hour=2), window=window)) == "Waiting"


def test_a_choice_holds_until_the_application_or_its_newest_version_is_another_one() -> None:
    application, version = given.application(), ready(VERSION)
    older, newer = ready(given.version(version=OLD)), ready(given.version(name="bookshop-v3", version="3.0.0"))
    assert is_still_chosen(application, application, [older, version], NEW)
    leaving_version = msgspec.structs.replace(version.metadata, deletion_timestamp=SATURDAY)
    for versions in (
        [older],
        [older, VERSION],
        [older, version, newer],
        [older, msgspec.structs.replace(version, metadata=leaving_version)],
    ):
        assert not is_still_chosen(application, application, versions, NEW)
    for changed in ({"generation": 2}, {"uid": "another"}):
        latest = msgspec.structs.replace(application, metadata=msgspec.structs.replace(application.metadata, **changed))
        assert not is_still_chosen(application, latest, [version], NEW)
    assert not is_still_chosen(application, None, [version], NEW)


def test_a_tenant_that_has_changed_since_it_was_chosen_does_not_follow() -> None:
    tenant = a_tenant("a")
    assert still_follows(tenant, seen(a_tenant("a", state="UpgradeError")))
    replaced = msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, uid="another"))
    others = (None, replaced, a_tenant("a", "1.5.0"), never_following(tenant), leaving(tenant), upgrading("a"))
    assert not any(still_follows(tenant, latest) for latest in others)


def test_when_all_have_followed_nothing_is_shown() -> None:
    assert wave(upgraded("a"), upgraded("b"), maxParallel=1) == Wave(tenants=[], due=[])


def test_tenants_are_not_compared_with_each_other() -> None:
    """An application has thousands of them, and its passes share the event loop with all others."""
    makers = (a_tenant, upgraded, upgrading, failed)
    tenants = [counted(makers[number % 4](f"t{number}")) for number in range(400)]
    CountedName.compared = 0
    assert chosen(wave(*tenants, maxParallel=200))
    assert CountedName.compared <= 10 * len(tenants)
