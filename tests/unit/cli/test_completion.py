"""What shells are told when TAB is pressed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stellwerk.cli.main import run


def completed(*words: str, typing: str) -> list[str]:
    """The answer to PowerShell, a line each."""
    environment = {
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_gets_a_script_that_asks_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_STELLWERK_COMPLETE" in script
    assert f"{shell}_complete" in script
    assert "%(" not in script


def test_powershell_is_told_verbs_with_what_they_do() -> None:
    assert completed(typing="wh") == ["why\tTell why an object is not ready, down to the root cause."]


def test_powershell_is_told_options_topics_and_kinds() -> None:
    assert completed("down", typing="--y") == ["--yes\tDo not ask whether the data may go."]
    assert completed("explain", typing="credentials") == [
        "credentials\tBtpOperator",
        "CredentialsNamespaceChanged\tBtpOperator",
    ]
    assert "btp\tBtpOperator" in completed("get", typing="")


def test_powershell_is_told_nothing_where_there_is_nothing() -> None:
    assert completed("why", "btp/x", "-n", typing="") == []
