"""What `stellwerk check` concludes."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stellwerk.cli.objects import check_rules
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.btp.api import DEFINITION

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
INSTALL = "stellwerk install btp"


def test_a_kind_that_is_not_there_is_bad_and_says_what_to_type() -> None:
    found = check_rules.of_definition(DEFINITION.body(), None, INSTALL)
    assert (found.verdict, found.subject, found.fix) == ("bad", "kind BtpOperator", INSTALL)


def test_a_definition_of_the_same_fields_is_good_and_one_that_lacks_some_is_named_with_them() -> None:
    wanted = DEFINITION.body()
    assert check_rules.of_definition(wanted, copy.deepcopy(wanted), INSTALL).verdict == "good"
    older: Any = copy.deepcopy(wanted)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["lastHandledReconcileAt"]
    found = check_rules.of_definition(wanted, older, INSTALL)
    assert found.verdict == "warning"
    assert found.detail.endswith("lacks status.lastHandledReconcileAt")


def lease(namespace: str, seconds_ago: int, holder: str = "one") -> Unstructured:
    renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat().replace("+00:00", "Z")
    spec: JsonObject = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return Unstructured.of({"metadata": {"name": "l", "namespace": namespace}, "spec": spec})


@pytest.mark.parametrize(
    ("leases", "verdict", "words"),
    [
        ([], "unsure", "no process holds the Lease"),
        ([lease("a", 1, holder="")], "unsure", "no process holds the Lease"),
        ([lease("a", 5)], "good", "one, renewed 5s ago"),
        ([lease("a", 120)], "warning", "one has not renewed the Lease for 2m"),
        ([lease("a", 1), lease("b", 1)], "warning", "a, b"),
    ],
)
def test_a_leader_is_one_that_renews(leases: list[Unstructured], verdict: str, words: str) -> None:
    found = check_rules.of_leases(leases, NOW)
    assert found.verdict == verdict
    assert words in found.detail


def test_a_fix_stands_below_what_needs_it() -> None:
    found = [
        check_rules.of_rights([], 7, INSTALL),
        check_rules.of_objects("Component", "comp", ["a", "b", "c", "d"], 9),
    ]
    assert check_rules.shown(found, Style(symbols=False)) == [
        "+ rights             7 objects",
        "x Component objects  4 of 9 not ready: a, b, c and 1 more",
        "                     Fix: stellwerk get comp -A --not-ready",
    ]


def test_what_could_not_be_looked_at_is_no_good_news() -> None:
    assert check_rules.of_unread([]) == []
    (found,) = check_rules.of_unread(["secrets in a"])
    assert (found.verdict, found.detail) == ("warning", "you may not read secrets in a")
