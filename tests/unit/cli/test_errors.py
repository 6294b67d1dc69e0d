"""What a person reads when something went wrong."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stellwerk.cli import call
from stellwerk.cli.main import run
from stellwerk.cli.shell import error_reports, settings
from stellwerk.cli.shell.errors import Exit, Failure, FailureReport
from stellwerk.kube.types.errors import NotServed, Status, Unreachable, refusal
from stellwerk.local.errors import BuildFailed
from stellwerk.local.folder import CONTEXT, ClusterFolder
from stellwerk.runtime.telemetry import logs


def test_the_four_parts_come_in_order_and_line_up() -> None:
    report = FailureReport("cannot provision", "Secret a/b lacks keys: x", "add the keys", "BtpOperator a/c")
    assert report.lines() == [
        "Error:   cannot provision",
        "Cause:   Secret a/b lacks keys: x",
        "Fix:     add the keys",
        "Object:  BtpOperator a/c",
    ]


def test_parts_that_are_not_known_are_left_out() -> None:
    assert FailureReport("cannot", fix="try again").lines() == ["Error:   cannot", "Fix:     try again"]


def test_further_lines_of_a_part_stand_below_its_first() -> None:
    assert FailureReport("e", "first\nsecond").lines() == ["Error:   e", "Cause:   first", "         second"]


def test_a_message_of_the_cluster_cannot_steer_the_terminal() -> None:
    assert FailureReport("e", "\x1b[2Jgone").lines()[1] == "Cause:   \\x1b[2Jgone"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreachable("no answer"), Exit.FAILED),
        (NotServed("no such kind"), Exit.FAILED),
        (refusal(Status(code=401)), Exit.FORBIDDEN),
        (refusal(Status(code=403, message="user may not")), Exit.FORBIDDEN),
        (refusal(Status(code=404)), Exit.FAILED),
        (refusal(Status(code=504)), Exit.TIMEOUT),
        (refusal(Status(code=500)), Exit.FAILED),
        (BuildFailed("no compiler", cause="c", fix="f"), Exit.FAILED),
        (TimeoutError("5 s"), Exit.TIMEOUT),
        (FileNotFoundError(2, "No such file", "/nowhere"), Exit.FAILED),
        (OSError(28, "No space left on device"), Exit.FAILED),
        (RuntimeError("Could not determine home directory."), Exit.FAILED),
        (Failure("e", code=Exit.USAGE), Exit.USAGE),
        (ExceptionGroup("tasks", [refusal(Status(code=403))]), Exit.FORBIDDEN),
    ],
)
def test_every_failure_that_somebody_can_mend_has_its_exit_code(error: Exception, code: Exit) -> None:
    known = error_reports.explained(error)
    assert known is not None
    assert known[1] == code
    assert known[0].error


def test_a_refusal_names_what_was_attempted_and_the_servers_word() -> None:
    refused = refusal(Status(code=403, message="user x may not"), attempted="list Secret in kyma-system")
    known = error_reports.explained(refused)
    assert known is not None
    assert known[0].lines()[:2] == ["Error:   cannot list Secret in kyma-system", "Cause:   user x may not"]


@pytest.mark.parametrize(
    ("webhook", "fix"),
    [
        ("cap-operator.sme.sap.com", "stellwerk check cap"),
        ("deletion.cap-operator.sme.sap.com", "stellwerk check cap"),
        ("policy.example.com", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
    ],
)
def test_a_webhook_that_does_not_answer_is_what_has_to_be_looked_at(webhook: str, fix: str) -> None:
    message = f'Internal error occurred: failed calling webhook "{webhook}": connection refused'
    known = error_reports.explained(refusal(Status(code=500, reason="InternalError", message=message)))
    assert known is not None
    assert fix in known[0].fix


def test_a_fault_of_our_own_is_not_explained_away() -> None:
    assert error_reports.explained(KeyError("x")) is None


def test_a_full_disk_is_not_told_as_a_file_that_is_missing() -> None:
    known = error_reports.explained(OSError(28, "No space left on device", "/state/module"))
    assert known is not None
    assert "free some space" in known[0].fix


@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (Status(code=400, reason="BadRequest", message="Name parameter invalid"), "correct what the cause names"),
        (
            Status(code=400, message="Client sent an HTTP request to an HTTPS server."),
            "with https where it serves that",
        ),
    ],
)
def test_a_request_that_an_api_server_refuses_is_told_from_one_to_another_web_site(status: Status, fix: str) -> None:
    known = error_reports.explained(refusal(status))
    assert known is not None
    assert fix in known[0].fix


@pytest.mark.req("R-804")
@pytest.mark.parametrize("verbose", [False, True])
def test_what_a_verb_has_read_from_a_secret_is_not_printed_by_its_failure(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.hide("canary-of-a-verb", tenant="shop", source="secret shop/a")
    error_reports.print_failure(RuntimeError("it quotes canary-of-a-verb"), verbose=verbose)
    printed = capsys.readouterr().err
    assert "***" in printed
    assert "canary" not in printed


def test_where_the_local_system_does_not_answer_the_fix_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STELLWERK_STATE", str(tmp_path))
    for name, port in (("local", 1), ("second", 2)):
        folder = ClusterFolder(tmp_path / name)
        folder.prepare(port)
        document = json.loads(folder.kubeconfig.read_bytes())
        folder.kubeconfig.write_text(json.dumps({**document, "current-context": ""}))
    for name, fix in (("local", "stellwerk up"), ("second", "stellwerk up --name second")):
        login = ["--kubeconfig", str(tmp_path / name / "kubeconfig"), "--context", CONTEXT]
        code = call.call(["get", "cat", *login], program="stellwerk")
        assert code == Exit.FAILED
        assert f"Fix:     start the local system: {fix}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "encoding"),
    [
        ({"LC_ALL": "C"}, "ascii"),
        ({"LC_ALL": "", "LANG": "POSIX"}, "ascii"),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, "utf-8"),
        ({"LC_ALL": "C", "PYTHONUTF8": "1"}, "utf-8"),
        ({}, "utf-8"),
    ],
)
def test_the_locale_c_gets_ascii_alone(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], encoding: str
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    assert run(["explain", "größer"]) == Exit.USAGE
    assert sys.stdout.encoding == encoding
    assert settings.style_of(sys.stdout).symbols is (encoding == "utf-8")
