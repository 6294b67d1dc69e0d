"""The rights of all processes are compared with the audit logs of a whole run of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import rights as audited
from tests.cluster.suite_rights import of_run

from stellwerk.assembly import OPERATORS

CAP_SERVER = "system:serviceaccount:cap-operator-system:cap-operator-subscription-server"


def requests_of_the_cap_server() -> Iterator[dict[str, object]]:
    """One for each right of the subscription server."""
    (server,) = (each for each in OPERATORS["cap"].processes if each.name == "cap-server")
    installation = server.installation()
    granted = [each.rule for each in installation.every_grant]
    for group, resource, verb in sorted(audited.spelled_out(granted)):
        name, _, subresource = resource.partition("/")
        yield {
            "verb": verb,
            "stage": "ResponseComplete" if verb != "watch" else "ResponseStarted",
            "requestURI": "/apis/x",
            "user": {"username": CAP_SERVER},
            "objectRef": {"apiGroup": group, "resource": name, "subresource": subresource},
            "responseStatus": {"code": 200},
        }


def seen(log: Path, requests: list[dict[str, object]]) -> dict[str, list[tuple[str, str, str]]]:
    log.write_text("".join(f"{json.dumps(each)}\n" for each in requests))
    return {each.process: each.unexplained for each in of_run([log])}


def test_a_right_that_some_test_used_is_explained(tmp_path: Path) -> None:
    assert seen(tmp_path / "log", [*requests_of_the_cap_server()])["cap-server"] == []


def test_a_right_that_no_test_used_is_named_unless_it_has_a_rare_occasion(tmp_path: Path) -> None:
    found = seen(tmp_path / "log", [])
    assert ("", "secrets", "create") in found["cap-server"]
    assert ("authentication.k8s.io", "tokenreviews", "create") not in found["cap-server"]
    assert not [right for right in found["btp"] if right[1] == "servicebindings/status"], "the operand needs it"


def test_what_was_refused_or_done_as_another_uses_no_right(tmp_path: Path) -> None:
    refused = [{**each, "responseStatus": {"code": 403}} for each in requests_of_the_cap_server()]
    acting = [{**each, "impersonatedUser": {"username": "jane"}} for each in requests_of_the_cap_server()]
    assert seen(tmp_path / "log", refused) == seen(tmp_path / "log", []) == seen(tmp_path / "log", acting)


def test_a_run_ends_with_a_line_for_each_process_and_for_each_right_without_reason(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    (server,) = (each for each in of_run([tmp_path / "log"]) if each.process == "cap-server")
    lines = [*server.lines(verbose=False)]
    assert lines[0].startswith(f"cap-server: {len(server.granted)} rights, 0 used, 0 of the operand, ")
    assert "  granted and never used: create secrets" in lines
    assert [line for line in server.lines(verbose=True) if "tokenreviews.authentication.k8s.io: metrics" in line]
