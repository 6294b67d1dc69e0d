"""What shells are told when TAB is pressed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.cli.main import run


def completed(*words: str, typing: str, **more: str) -> list[str]:
    """The answer to PowerShell, a line each."""
    environment = {
        **more,
        "_STELLWERK_COMPLETE": "powershell_complete",
        "COMP_WORDS": "\n".join(["stellwerk", *words, *([typing] if typing else [])]),
        "COMP_INCOMPLETE": typing,
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        [sys.executable, "-m", "stellwerk.cli.main"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_a_call_does_its_work_where_the_variable_of_completion_is_empty() -> None:
    command = [sys.executable, "-m", "stellwerk.cli.main", "completion", "bash"]
    done = subprocess.run(command, env={"_STELLWERK_COMPLETE": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bash_complete" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_gets_a_script_that_asks_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_STELLWERK_COMPLETE" in script
    assert f"{shell}_complete" in script
    assert "%(" not in script


def test_powershell_is_told_verbs_with_what_they_do() -> None:
    assert completed(typing="wh") == ["why\tShow why an object is not ready, down to the root cause."]


def test_powershell_is_told_options_topics_and_kinds() -> None:
    assert completed("down", typing="--y") == ["--yes\tDo not ask whether the data may go."]
    assert completed("explain", typing="credentials") == [
        "credentials\tBtpOperator",
        "CredentialsNamespaceChanged\tBtpOperator",
    ]
    assert "btp\tBtpOperator" in completed("get", typing="")


def test_forms_of_output_are_proposed() -> None:
    assert completed("get", "-o", typing="j") == ["json", "jsonpath="]
    assert "custom-columns=" in completed("get", "-o", typing="")


def test_contexts_of_the_kubeconfig_are_proposed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: prod-eu}, {name: prod-us}, {name: test}, 7]\n")
    assert completed("get", "--context", typing="prod", KUBECONFIG=str(file)) == ["prod-eu", "prod-us"]
    assert completed("--kubeconfig", str(file), "get", "--context", typing="t") == ["test"]
    assert completed("get", "--context", typing="", KUBECONFIG=str(tmp_path / "absent")) == []


def test_local_systems_are_proposed(tmp_path: Path) -> None:
    for name in ("local", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kubeconfig").touch()
    assert completed("down", "--name", typing="s", STELLWERK_STATE=str(tmp_path)) == ["second"]


def test_kinds_are_proposed_also_after_a_comma() -> None:
    assert completed("get", typing="bt") == ["btp\tBtpOperator", "btpoperators"]
    assert completed("get", typing="depl") == ["deployments"]
    assert completed("get", typing="btp,co") == ["btp,comp\tComponent", "btp,components", "btp,configmaps"]


def test_powershell_is_told_nothing_where_there_is_nothing() -> None:
    assert completed("why", "btp/x", "-n", typing="") == []
