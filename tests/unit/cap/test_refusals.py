"""Tenants whose change is refused are tried again now and then."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.types.errors import Status, refusal
from stellwerk.operators.cap.application.refusals import RETRY_SECONDS, Refusals, is_refusal
from stellwerk.operators.cap.application.waves import next_wave
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

SATURDAY = datetime(2026, 1, 3, 12, tzinfo=UTC)

MOVE, DELETE = "moved to version 2.0.0", "deleted"
ACME, BEST = given.tenant("acme"), given.tenant("best")


def changed(tenant: CAPTenant) -> CAPTenant:
    return msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, resource_version="2"))


def at(tenant: CAPTenant, version: CAPApplicationVersion) -> CAPTenant:
    """The tenant, Ready with a version."""
    spec = msgspec.structs.replace(tenant.spec, version=version.spec.version)
    status = msgspec.structs.replace(tenant.status, state="Ready", current_version=version.metadata.name)
    return msgspec.structs.replace(tenant, spec=spec, status=status)


def refused() -> Refusals:
    """The move of a tenant was refused at the moment 0."""
    found = Refusals()
    found.note(MOVE, BEST, "a policy denies it", 0.0)
    return found


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (404, 'captenants "best" not found', False),
        (409, "the object has been modified", False),
        (409, 'admission webhook "policy" denied the request', True),
        (403, "a policy denies it", True),
        (429, "too many requests", True),
        (500, 'failed calling webhook "policy"', True),
    ],
)
def test_any_answer_but_that_of_a_tenant_that_has_changed_is_a_refusal(code: int, message: str, expected: bool) -> None:
    assert is_refusal(refusal(Status(code=code, message=message))) is expected


def test_a_refused_tenant_waits_for_a_minute_and_is_shown_until_it_is_tried_again() -> None:
    found = refused()
    assert found.waiting([ACME, BEST], 1.0) == {BEST.key: MOVE}
    assert found.delay_seconds(1.0) == RETRY_SECONDS - 1.0
    assert found.waiting([ACME, BEST], RETRY_SECONDS) == {}
    assert found.delay_seconds(RETRY_SECONDS) is None
    found.keep(MOVE, [ACME, BEST])
    assert found.message() == "1 tenant cannot be moved to version 2.0.0: best; a policy denies it"
    found.forget(BEST)
    assert found.message() == ""


def test_a_refused_tenant_that_has_changed_does_not_wait() -> None:
    assert refused().waiting([changed(BEST)], 1.0) == {}


@pytest.mark.parametrize(("change", "tenants"), [(MOVE, [ACME]), (MOVE, [changed(BEST)]), (DELETE, [BEST])])
def test_a_tenant_that_is_gone_or_changed_or_needs_another_change_is_not_shown_as_refused(
    change: str, tenants: list[CAPTenant]
) -> None:
    found = refused()
    found.keep(change, tenants)
    assert found.message() == ""


@pytest.mark.parametrize(("most", "refused"), [(1, {"t0", "t1"}), (2, {"t0", "t1", "t2", "t3"}), (1, {"t2"})])
def test_refused_tenants_take_the_room_of_no_others_and_are_shown_all_the_time(most: int, refused: set[str]) -> None:
    application, now = given.application(tenantUpgrade={"maxParallel": most}), 0.0
    old, version = given.version(), given.version(name="bookshop-v2", version="2.0.0")
    tenants = {f"t{number}": at(given.tenant(f"t{number}"), old) for number in range(6)}
    found, moved, was_shown = Refusals(), set[str](), False
    for _ in range(20):
        waits = found.waiting([*tenants.values()], now)
        wave = next_wave(application, [*tenants.values()], version, SATURDAY, refused=waits)
        assert len(wave.tenants) <= most
        for tenant in wave.tenants:
            name = tenant.metadata.name
            found.forget(tenant)
            if name in refused:
                found.note(MOVE, tenant, "a policy denies it", now)
            else:
                tenants[name] = at(tenant, version)
                moved.add(name)
        found.keep(MOVE, wave.due)
        was_shown = was_shown or bool(found.message())
        assert bool(found.message()) == was_shown, "the condition does not flap"
        now += 7.0
    assert moved == {*tenants} - refused
    assert found.message().startswith(f"{len(refused)} tenant")
