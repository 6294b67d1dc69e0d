"""Which Secrets go with a user's binding."""

from __future__ import annotations

import pytest

from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.object_meta import ObjectMeta, OwnerReference
from stellwerk.operators.btp.btpoperator import deprovisioning


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
