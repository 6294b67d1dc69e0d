"""What a server remarks is shown short and once, and of a Secret nothing that could be a value."""

from __future__ import annotations

import pytest

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set import server_warnings
from stellwerk.kube.types.identifiers import ObjectKey, Resource

CONFIG = Address(Resource("", "v1", "ConfigMap", "configmaps", namespaced=True), ObjectKey("home", "one"))
SECRET = Address(Resource("", "v1", "Secret", "secrets", namespaced=True), ObjectKey("home", "one"))


def test_a_remark_is_one_line_of_bounded_length_and_told_once() -> None:
    told = server_warnings.shown(CONFIG, ["two\n  lines", "two lines", "x" * 1_000])

    assert told[0] == "two lines"
    assert [len(one) for one in told[1:]] == [server_warnings.MOST_WORDS]


@pytest.mark.req("R-801")
def test_of_a_secret_only_names_of_fields_are_told() -> None:
    told = server_warnings.shown(SECRET, ['unknown field "datum"', 'data.password: "canary" is too short', "canary"])

    assert told == ('unknown field "datum"', server_warnings.HIDDEN)
