"""A process is known by the lock it holds, not by a number in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.local.host.processes import Process, kill_all, recorded, stop_all


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process("helper", tmp_path, tmp_path / "helper.log")
    yield made
    made.kill()


def start(process: Process, script: str) -> int:
    return process.start(["/bin/sh", "-c", script], working_folder=process.folder, environment=dict(os.environ))


def test_a_second_start_finds_the_first(process: Process) -> None:
    assert start(process, "sleep 1000; true") == start(process, "sleep 1000; true") == process.pid


def test_a_stale_record_with_the_number_of_a_living_process_is_no_process(process: Process) -> None:
    (process.folder / "helper.pid").write_text(f"{os.getpid()}\n")
    assert not process.is_running()
    assert process.pid is None
    process.kill()  # It would end this test, were the number believed.


def test_a_process_that_ends_by_itself_is_noticed_and_its_words_are_kept(process: Process) -> None:
    start(process, "echo first; echo last >&2; exit 3")
    assert process.exited_within(10)
    assert not process.is_running()
    assert process.log_tail() == "first\nlast"


def test_the_log_of_the_run_before_is_kept_apart(process: Process) -> None:
    for word in ("old", "new"):
        start(process, f"echo {word}")
        assert process.exited_within(10)
    assert process.log_tail() == "new"
    assert (process.folder / "helper.previous.log").read_text() == "old\n"


def test_one_that_does_not_listen_is_killed_after_its_grace(process: Process) -> None:
    start(process, "trap '' TERM; echo armed; while true; do read line; done < /dev/zero")
    while process.log_tail() != "armed":
        assert not process.exited_within(0.01)
    process.stop(grace_seconds=0.05)
    assert not process.is_running()
    assert recorded(process.folder, process.folder) == []


def test_a_stopped_child_leaves_no_zombie(process: Process) -> None:
    pid = start(process, "sleep 1000; true")
    process.stop()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("end", [kill_all, lambda many: stop_all(many, grace_seconds=5)])
def test_several_end_together(tmp_path: Path, end: object) -> None:
    many = [Process(name, tmp_path, tmp_path / f"{name}.log") for name in ("one", "two")]
    for process in many:
        start(process, "sleep 1000; true")
    assert {process.name for process in recorded(tmp_path, tmp_path)} == {"one", "two"}
    assert callable(end)
    end(many)
    assert [process for process in many if process.is_running()] == []


def test_it_is_reachable_by_nobody_else(process: Process) -> None:
    start(process, "touch made; sleep 1000; true")
    while not (process.folder / "made").exists():
        assert not process.exited_within(0.01)
    for name in ("made", "helper.log", "helper.pid"):
        assert (process.folder / name).stat().st_mode & 0o077 == 0
