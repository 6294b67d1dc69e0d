"""Tenants whose change is refused are tried again now and then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.types.errors import Busy, ServerFault, Status, refusal
from stellwerk.operators.cap.application.refusals import RETRY_SECONDS, Refusals, Tried, is_refusal
from stellwerk.operators.cap.application.waves import next_wave
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.clock import FakeClock

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
        (400, "the body is wrong", True),
        (422, "ValidatingAdmissionPolicy 'acme-stays' denied request: no", True),
        (413, "ValidatingAdmissionPolicy 'acme-stays' with binding 'all' denied request: no", True),
        (401, "Unauthorized", False),
        (429, "too many requests", False),
        (500, "etcdserver: no leader", False),
        (500, "conversion webhook for sme.sap.com/v1 failed", False),
        (500, 'Internal error occurred: failed calling webhook "policy": context deadline exceeded', True),
        (503, "the server is currently unable to handle the request", False),
    ],
)
def test_only_an_answer_that_is_about_one_tenant_is_a_refusal(code: int, message: str, expected: bool) -> None:
    assert is_refusal(refusal(Status(code=code, message=message))) is expected


async def test_what_is_no_refusal_ends_the_pass_after_what_was_refused_is_noted() -> None:
    found, clock = Refusals(), FakeClock()

    async def act(tenant: CAPTenant) -> None:
        code = 403 if tenant == ACME else 503
        raise refusal(Status(code=code, message="a policy denies it"))

    with pytest.raises(ServerFault):
        await found.attempt(MOVE, [ACME, BEST], act, clock)
    assert found.message() == "1 tenant cannot be moved to version 2.0.0: acme; a policy denies it"


async def test_a_tenant_that_is_gone_is_no_refusal_and_keeps_no_other_one() -> None:
    found, changed = Refusals(), list[CAPTenant]()

    async def act(tenant: CAPTenant) -> None:
        if tenant == ACME:
            raise refusal(Status(code=404, message='captenants "acme" not found'))
        changed.append(tenant)

    assert await found.attempt(MOVE, [ACME, BEST], act, FakeClock()) == Tried(is_changed=True)
    assert (changed, found.message()) == ([BEST], "")


async def test_a_busy_server_keeps_no_other_tenant_and_ends_the_pass_so_that_another_one_follows() -> None:
    found, changed = Refusals(), list[CAPTenant]()

    async def act(tenant: CAPTenant) -> None:
        if tenant == ACME:
            raise Busy(Status(code=409, message="the object has been modified"))
        changed.append(tenant)

    with pytest.raises(Busy):
        await found.attempt(DELETE, [ACME, BEST], act, FakeClock())
    assert (changed, found.message()) == ([BEST], "")


async def test_a_webhook_that_does_not_answer_makes_no_long_pass_and_new_tenants_are_tried_first() -> None:
    tenants, tried, clock = [given.tenant(f"t{number}") for number in range(20)], list[str](), FakeClock()
    found = Refusals()
    found.note(MOVE, tenants[0], "a policy denies it", clock.monotonic())

    async def act(tenant: CAPTenant) -> None:
        tried.append(tenant.metadata.name)
        await clock.advance(10.0)
        raise refusal(Status(code=500, message='failed calling webhook "policy"'))

    assert await found.attempt(MOVE, tenants, act, clock) == Tried(is_refused=True)
    assert tried == [f"t{number}" for number in range(1, 7)]


async def test_each_tenant_is_asked_for_again_when_its_turn_comes() -> None:
    tenants, tried = [given.tenant(f"t{number}") for number in range(4)], list[str]()

    async def act(tenant: CAPTenant) -> None:
        tried.append(tenant.metadata.name)

    def still_due(tenants: Iterable[CAPTenant]) -> Iterator[CAPTenant]:
        for tenant in tenants:
            if len(tried) == 2:
                return
            if tenant.metadata.name != "t1":
                yield tenant

    assert await Refusals().attempt(MOVE, tenants, act, FakeClock(), still_due=still_due) == Tried(is_changed=True)
    assert tried == ["t0", "t2"]


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
