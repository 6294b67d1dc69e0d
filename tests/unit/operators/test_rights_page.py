"""The page of rights has a row for each grant and each object, and says what is granted beyond the table."""

from __future__ import annotations

import re

import pytest
from tests.toy_operator.operator import OPERATOR as TOY

from stellwerk.assembly import OPERATORS
from stellwerk.delivery import rights_page
from stellwerk.delivery.operator_spec import ProcessSpec

SPECS = [process for operator in (*OPERATORS.values(), TOY) for process in operator.processes]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.name))
def test_each_right_has_its_purpose_and_each_object_its_content(spec: ProcessSpec) -> None:
    page, installation = rights_page.page(spec.title, spec.installation()), spec.installation()

    assert installation.grants
    for grant in installation.every_grant:
        assert grant.purpose in page
        assert all(occasion in page for occasion in grant.seldom.values())
    objects = re.findall(r"^\| (\w+) `(.+?)` \|(.*)\|$", page.partition("## Objects")[2], re.MULTILINE)
    assert len(objects) == len([*installation.accounts(), *installation.roles_of_users()])
    for kind, name, content in objects:
        assert content.strip() or kind in ("ServiceAccount", "PriorityClass"), name


def test_rights_beyond_the_table_are_listed() -> None:
    page = rights_page.page("BTP Manager", OPERATORS["btp"].installation())

    assert "`get` on `secrets` with the names `sap-btp-manager`, `sap-btp-service-operator`" in page
    assert "`get` on `/metrics`" in page
    assert "part of the role `edit`" in page
