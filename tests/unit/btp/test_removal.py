"""Which Secrets go with a user's binding, and how long users' objects are asked for."""

from __future__ import annotations

from inspect import signature

import pytest

from stellwerk.apply.objects import name_validation
from stellwerk.kube.http.transport import CALL_SECONDS
from stellwerk.kube.types import duration
from stellwerk.kube.types.object_meta import ObjectMeta, OwnerReference
from stellwerk.operators.btp.btpoperator import deprovisioning
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.control.controller import Controller


def owner(uid: str, *, controller: bool | None) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Any", name="any", uid=uid, controller=controller)


@pytest.mark.req("R-505")
@pytest.mark.parametrize(
    ("owners", "owned"),
    [
        ((), False),
        ((owner("u-1", controller=True),), True),
        ((owner("u-1", controller=False),), False),
        ((owner("u-1", controller=None),), False),
        ((owner("u-2", controller=True),), False),
        ((owner("u-2", controller=True), owner("u-1", controller=False)), False),
    ],
)
def test_a_secret_belongs_to_a_binding_that_is_its_controller(owners: tuple[OwnerReference, ...], owned: bool) -> None:
    assert deprovisioning.owns("u-1", ObjectMeta(name="s", owner_references=owners)) is owned


@pytest.mark.req("R-408")
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A", "a b", "x%2fy", "a..b", "-a", "a" * 254, "ä"])
def test_what_is_no_name_of_a_secret_leads_nowhere(name: str) -> None:
    assert not name_validation.is_subdomain(name)


@pytest.mark.parametrize("name", ["a", "db-credentials", "a.b-c.d", "0", "a" * 253])
def test_names_of_secrets_are_known(name: str) -> None:
    assert name_validation.is_subdomain(name)


@pytest.mark.parametrize(("configured", "used"), [("30s", 30.0), ("5m", 120.0), ("24h", 120.0)])
def test_a_sweep_ends_before_the_pass_that_it_belongs_to(configured: str, used: float) -> None:
    settings = Settings(delete_request_timeout=duration.parse(configured))
    pass_seconds = signature(Controller).parameters["pass_timeout_seconds"].default

    assert deprovisioning.sweep_seconds(settings) == used
    assert used + 2 * CALL_SECONDS < pass_seconds, "two calls come before it"
