"""Tenants whose change is refused are tried again now and then."""

from __future__ import annotations

import msgspec
from tests.unit.cap import given

from stellwerk.operators.cap.application.refusals import RETRY_SECONDS, Refusals
from stellwerk.operators.cap.kinds.tenant import CAPTenant

MOVE, DELETE = "moved to version 2.0.0", "deleted"
ACME, BEST = given.tenant("acme"), given.tenant("best")


def changed(tenant: CAPTenant) -> CAPTenant:
    return msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, resource_version="2"))


def refused() -> Refusals:
    """The move of a tenant was refused at the moment 0."""
    found = Refusals()
    found.note(MOVE, BEST, "a policy denies it", 0.0)
    return found


def test_a_refused_tenant_is_tried_again_once_a_minute_and_shown_meanwhile() -> None:
    found = refused()
    assert found.due(MOVE, [ACME, BEST], 1.0) == [ACME]
    assert found.message() == "1 tenant cannot be moved to version 2.0.0: best; a policy denies it"
    assert found.delay_seconds(1.0) == RETRY_SECONDS - 1.0
    assert found.due(MOVE, [ACME, BEST], RETRY_SECONDS) == [ACME, BEST]
    assert found.message() == ""


def test_a_refused_tenant_is_tried_at_once_when_it_has_changed_or_needs_another_change() -> None:
    assert refused().due(MOVE, [changed(BEST)], 1.0) == [changed(BEST)]
    assert refused().due(DELETE, [BEST], 1.0) == [BEST]


def test_a_tenant_that_needs_no_change_any_more_is_not_shown_as_refused() -> None:
    found = refused()
    assert found.due(MOVE, [ACME], 1.0) == [ACME]
    assert found.message() == ""
