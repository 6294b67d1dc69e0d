"""Which tenants `stellwerk cap upgrade` moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.delivery.verb_plans import Change, VerbPlan, VerbRefused
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.verbs.upgrade import Asked, decided

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_version(number: str, *, deleted: bool = False) -> CAPApplicationVersion:
    found = given.version(name=f"bookshop-v{number}", version=number)
    shown: JsonObject = {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": ""}]}
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp=NOW if deleted else None)
    return msgspec.structs.replace(found, metadata=metadata, status=msgspec.convert(shown, type(found.status)))


def a_tenant(name: str, number: str) -> CAPTenant:
    """A tenant that has a version and its finalizer."""
    found = given.tenant(name)
    status = msgspec.structs.replace(found.status, state="Ready", current_version=f"bookshop-v{number}")
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, version=number), status=status)


WITHDRAWN = (a_version("1"), a_version("2", deleted=True))
HIGH = tuple(a_tenant(f"t{number}", "2") for number in range(5))
IN_WAVES = given.application(tenantUpgrade={"maxParallel": 2})


def planned(
    *tenants: CAPTenant, to: str = "", application: CAPApplication | None = None, are_named: bool = False
) -> VerbPlan:
    asked = Asked(
        application=application or given.application(),
        versions=WITHDRAWN,
        tenants=tenants,
        are_named=are_named,
        number=to,
    )
    return decided(asked, NOW)


def moved(found: VerbPlan) -> list[str]:
    return [write.key.name for write in found.writes if isinstance(write, Change)]


def test_tenants_above_the_newest_version_move_only_where_a_user_names_it() -> None:
    found = planned(*HIGH, a_tenant("low", "0"))
    assert moved(found) == ["low"]
    assert len(found.notes) == 5
    assert found.notes[0] == (
        "CAPTenant shop/t0 stays above version 1: CAPApplicationVersion shop/bookshop-v2 is being deleted. "
        "Move it with --to 1"
    )
    assert len(planned(*HIGH, to="1").writes) == 5


def test_no_more_tenants_move_down_at_once_than_a_wave_takes_unless_they_are_named() -> None:
    low = a_tenant("low", "0")
    found = planned(*HIGH, low, to="1", application=IN_WAVES)
    assert moved(found) == ["t0", "t1"]
    assert [each.key.name for each in found.awaited] == ["low", "t0", "t1"]
    assert "3 of 5 tenants above version 1 wait for a later wave (spec.tenantUpgrade): t2, t3, t4" in found.notes[1]
    assert len(planned(*HIGH, to="1", application=IN_WAVES, are_named=True).writes) == 5


def test_a_version_that_cannot_be_read_keeps_no_tenant_from_moving() -> None:
    hidden = [ObjectKey("shop", "bookshop-v2")]
    asked = Asked(application=given.application(), versions=WITHDRAWN[:1], hidden=hidden, tenants=HIGH[:1], number="1")
    assert len(decided(asked, NOW).writes) == 1
    with pytest.raises(VerbRefused) as refused:
        decided(replace(asked, number="2"), NOW)
    assert refused.value.fix == "shop/bookshop-v2 cannot be read; next: stellwerk why cav/bookshop-v2 -n shop"
