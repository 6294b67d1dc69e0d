"""A process is known by the lock it holds, not by a number in a file."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stellwerk.local.errors import LocalError, RunsElsewhere
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


def test_a_process_is_waited_for_by_a_program_with_very_many_open_files(process: Process) -> None:
    with ExitStack() as files:
        for _ in range(1100):
            files.enter_context(open(os.devnull))
        start(process, "exit 3")
        assert process.exited_within(10)


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


IN_A_CONTAINER = """
import sys
from pathlib import Path
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.errors import LocalError
try:
    seen = getattr(LocalCluster(Path(sys.argv[1])), sys.argv[2])()
    for part in seen.components if seen else ():
        print(part.name, part.pid, part.runs_elsewhere)
except LocalError as error:
    print(error)
"""
ENDS: list[Callable[[Process], object]] = [
    Process.stop,
    Process.kill,
    lambda process: stop_all([process], grace_seconds=1),
]


@pytest.mark.parametrize("end", ENDS)
def test_an_unrelated_process_with_the_recorded_id_is_never_signalled(
    process: Process, end: Callable[[Process], object]
) -> None:
    """The lock is held, as from another container, and the id belongs to a process that has no part in it."""
    file = process.folder / "helper.pid"
    with subprocess.Popen(["/bin/sleep", "1000"]) as unrelated:
        file.write_text(f"{unrelated.pid}\n")
        opened = os.open(file, os.O_RDWR)
        lock = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 20)  # not the descriptor at which a child has it
        os.close(opened)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(RunsElsewhere, match="another container or on another machine"):
                end(process)
            assert unrelated.poll() is None
            assert file.exists()
        finally:
            os.close(lock)
            unrelated.kill()


@pytest.mark.parametrize("verb", ["down", "stop", "status"])
def test_a_system_that_runs_outside_of_a_container_is_left_alone_inside(tmp_path: Path, verb: str) -> None:
    system = tmp_path / "local"
    (system / "run").mkdir(parents=True)
    helper = Process("etcd", system / "run", system / "etcd.log")
    started = start(helper, "sleep 1000; true")
    inside = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    answer = subprocess.run(
        [*inside, sys.executable, "-c", IN_A_CONTAINER, str(system), verb],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    try:
        if answer.stderr.startswith("unshare"):
            pytest.skip(f"this machine offers no process ids of their own: {answer.stderr.strip()}")
        if verb == "status":
            assert "etcd None True\nkube-apiserver None False\n" in answer.stdout, answer
        else:
            assert "etcd of this local system runs in another container" in answer.stdout, answer
        assert helper.pid == started
    finally:
        helper.kill()


@pytest.mark.parametrize("verb", ["down", "stop", "status"])
@pytest.mark.parametrize("argument", ["{folder}/data", "--data-dir={folder}/data"])
def test_a_container_with_the_process_ids_of_its_host_finds_the_processes(
    tmp_path: Path, verb: str, argument: str
) -> None:
    """It has the rights of its user there, and may not see the open files of processes outside of it."""
    system = tmp_path / "local"
    (system / "run").mkdir(parents=True)
    helper = Process("etcd", system / "run", system / "etcd.log")
    command = ["/bin/sh", "-c", "sleep 1000; true", argument.format(folder=system)]
    started = helper.start(command, working_folder=system, environment=dict(os.environ))
    assert helper.arguments() == command
    try:
        answer = in_a_container(system, verb)
        assert answer.returncode == 0, answer
        assert f"etcd {started} False\n" in answer.stdout or verb != "status", answer
        assert helper.is_running() == (verb == "status"), answer
    finally:
        helper.kill()


@pytest.mark.parametrize("argument", ["", "{folder}2/data", "--data-dir={folder}2/data"])
def test_a_container_with_the_process_ids_of_its_host_leaves_other_processes_alone(
    tmp_path: Path, argument: str
) -> None:
    system = tmp_path / "local"
    (system / "run").mkdir(parents=True)
    helper = Process("etcd", system / "run", system / "etcd.log")
    command = ["/bin/sh", "-c", "sleep 1000; true", argument.format(folder=system)]
    helper.start(command, working_folder=tmp_path, environment=dict(os.environ))
    assert helper.arguments() == command
    try:
        assert "etcd of this local system runs in another container" in in_a_container(system, "down").stdout
        assert helper.is_running()
    finally:
        helper.kill()


def in_a_container(system: Path, verb: str) -> subprocess.CompletedProcess[str]:
    """Do one verb in a container that shares the process ids of this one."""
    answer = subprocess.run(
        ["unshare", "--map-root-user", sys.executable, "-c", IN_A_CONTAINER, str(system), verb],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if answer.stderr.startswith("unshare"):
        pytest.skip(f"this machine offers no users of their own: {answer.stderr.strip()}")
    return answer


STARTED_IN_A_CONTAINER = """
import os, sys
from pathlib import Path
from stellwerk.local.host.processes import Process
folder = Path(sys.argv[1])
process = Process("helper", folder, folder / "helper.log")
process.start(["/bin/sleep", "1000"], working_folder=folder, environment=dict(os.environ))
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", ENDS)
def test_a_process_of_a_container_is_left_alone_outside(process: Process, end: Callable[[Process], object]) -> None:
    """From outside its processes are seen, with other ids than those that were recorded inside."""
    inside = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*inside, sys.executable, "-c", STARTED_IN_A_CONTAINER, str(process.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as container:
        assert container.stdin is not None
        assert container.stdout is not None
        if not container.stdout.readline():
            pytest.skip("this machine offers no process ids of their own")
        try:
            with pytest.raises(RunsElsewhere):
                end(process)
            assert (process.folder / "helper.pid").exists()
        finally:
            container.stdin.close()


def test_a_child_that_outlives_a_process_is_not_taken_for_it(process: Process) -> None:
    start(process, "sleep 1000 & echo $! > child; wait")
    while not (process.folder / "child").exists() or not (process.folder / "child").read_text():
        assert not process.exited_within(0.01)
    child = int((process.folder / "child").read_text())
    first = process.pid
    assert first is not None
    os.kill(first, 9)
    try:
        assert process.exited_within(10)
        assert not process.is_running()
        assert start(process, "sleep 1000; true") not in (first, child)
        assert process.is_running()
    finally:
        os.kill(child, 9)


WITH_A_CHILD = """
import subprocess, sys
from stellwerk.local.host import processes
if sys.argv[1] == "keep":
    processes.keep_lock_from_children()
child = subprocess.Popen(["/bin/sleep", "1000"], close_fds=False)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize(("argument", "is_inherited"), [("keep", False), ("pass", True)])
def test_the_programs_that_an_operator_starts_do_not_hold_its_lock(
    process: Process, argument: str, is_inherited: bool
) -> None:
    command = [sys.executable, "-c", WITH_A_CHILD, argument]
    process.start(command, working_folder=process.folder, environment=dict(os.environ))
    while not (child := process.log_tail()):
        assert not process.exited_within(0.01)
    try:
        assert Path(f"/proc/{child}/fd/9").exists() is is_inherited
        assert process.is_running()
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_descriptor_that_is_no_lock_stays_as_it_is() -> None:
    """In a pod, or behind another program, the descriptor may be anything."""
    script = (
        "import os; from stellwerk.local.host import processes; "
        "os.dup2(1, 9); processes.keep_lock_from_children(); print(os.get_inheritable(9))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


class Unkillable(Process):
    """A process in a system call that never returns."""

    def signal(self, number: signal.Signals) -> None:
        pass


def test_the_record_of_a_process_that_does_not_end_stays(process: Process) -> None:
    start(process, "sleep 1000; true")
    with pytest.raises(LocalError, match="helper does not end"):
        Unkillable(process.name, process.folder, process.log).kill(within_seconds=0.05)
    assert process.is_running()
