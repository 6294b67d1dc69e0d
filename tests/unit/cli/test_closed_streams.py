"""How the program ends: a reader that has left, and a stream that the caller has closed, are silent successes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stellwerk.cli.shell import closed_streams

PROGRAM = [sys.executable, "-m", "stellwerk.cli.main"]
CALLS = [["--version"], ["--help"], ["get", "--help"], ["explain"], ["completion", "bash"], ["version", "--client"]]


def ended_without_reader(*words: str, errors: bool = False) -> tuple[int, bytes]:
    """The exit code and standard error of a call at whose output, or errors, nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        streams = {"stdout": subprocess.DEVNULL, "stderr": writer} if errors else {"stdout": writer, "stderr": -1}
        done = subprocess.run([*PROGRAM, *words], **streams, check=False, timeout=60)  # type: ignore[call-overload]
    finally:
        os.close(writer)
    return done.returncode, done.stderr or b""


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_reader_that_has_left_is_a_silent_success(words: list[str]) -> None:
    assert ended_without_reader(*words) == (0, b"")


def test_a_failure_that_nobody_reads_keeps_its_exit_code() -> None:
    assert ended_without_reader("nonsense", errors=True)[0] == 2


@pytest.mark.parametrize("words", [["--version"], ["version", "--client"]], ids=" ".join)
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(words: list[str], closed: str) -> None:
    command = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_registered_for_the_end_of_the_program_is_done() -> None:
    program = "import atexit; from stellwerk.cli.main import main; atexit.register(print, 'the end'); main()"
    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["the end"]


def test_only_a_pipe_without_a_reader_has_none() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        assert not closed_streams.has_no_reader(stream)
        os.close(reader)
        assert closed_streams.has_no_reader(stream)
    with open(os.devnull, "w") as nowhere:
        assert not closed_streams.has_no_reader(nowhere)
