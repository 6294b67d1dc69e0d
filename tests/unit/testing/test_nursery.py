"""An operator from the nursery is a process of its own: with its environment and log, killed like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.fork_server import ForkedProcess, ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess


@pytest.fixture(scope="module")
def nursery() -> Iterator[ForkServer]:
    with ForkServer(["stellwerk.assembly"]) as nursery:
        yield nursery


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A kubeconfig of a server that is not there: an operator waits for it as long as it lives."""
    cluster = {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}
    users = [{"name": "nobody", "user": {}}]
    body = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "nowhere"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(body))
    return tmp_path / "kubeconfig"


def operator(nursery: ForkServer, kubeconfig: Path, environment: dict[str, str] | None = None) -> OperatorProcess:
    return OperatorProcess(
        ["run", "btp", "--metrics-bind-address=0", "--health-probe-bind-address=0"],
        log=kubeconfig.parent / "log",
        kubeconfig=kubeconfig,
        environment={"SAP_BTP_SERVICE_OPERATOR": "image"} if environment is None else environment,
        nursery=nursery,
    )


async def test_it_runs_the_program_with_its_own_environment_and_log(nursery: ForkServer, nowhere: Path) -> None:
    async with operator(nursery, nowhere, {}) as process:
        await process.start()
        assert await process.wait() == 1
        assert process.exit_code == 1
        assert "SAP_BTP_SERVICE_OPERATOR is not set" in process.log_text()


def test_what_a_program_writes_to_its_errors_has_a_file_of_its_own(nursery: ForkServer, tmp_path: Path) -> None:
    output, errors = tmp_path / "output", tmp_path / "errors"
    assert nursery.start(["no-such-verb"], {}, output, errors=errors).wait() == 2
    assert output.read_text() == ""
    assert "no-such-verb" in errors.read_text()


def main(*words: str) -> None:
    """A program of a test."""
    print(*words)


def test_a_program_of_a_test_is_run_by_its_module(nursery: ForkServer, tmp_path: Path) -> None:
    assert nursery.start(["-m", __name__, "one", "two"], {}, tmp_path / "log").wait() == 0
    assert (tmp_path / "log").read_text() == "one two\n"


def test_a_child_with_the_number_of_a_former_one_has_not_ended(nursery: ForkServer, tmp_path: Path) -> None:
    former = nursery.start(["-m", __name__, "one"], {}, tmp_path / "log")
    assert former.wait() == 0
    later = _started_as(nursery, former.pid, ["no-such-verb"], tmp_path / "log")
    assert (later.wait(), former.wait()) == (2, 0)


def _started_as(nursery: ForkServer, pid: int, arguments: list[str], log: Path) -> ForkedProcess:
    """A child with this number, which other processes of the machine may take first."""
    for _ in range(100):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            pytest.skip("the kernel lets only privileged users choose the number of a process")
        child = nursery.start(arguments, {}, log)
        if child.pid == pid:
            return child
        child.wait()
    pytest.skip("other processes took the number each time")


async def test_it_is_killed_and_starts_again_as_another_process(nursery: ForkServer, nowhere: Path) -> None:
    async with operator(nursery, nowhere) as process:
        await process.start()
        await process.logged("btp-manager starts")
        first = process.pid
        await process.kill()
        assert process.exit_code == -9
        await process.start()
        assert process.pid != first
        assert os.getpgid(process.pid) == process.pid, "it leads a group of its own"
        await process.terminate()


async def test_two_at_a_time_end_each_for_itself(nursery: ForkServer, nowhere: Path) -> None:
    async with operator(nursery, nowhere) as one, operator(nursery, nowhere) as other:
        await one.start()
        await other.start()
        await one.kill()
        assert other.is_running
        assert one.exit_code == -9


@pytest.fixture
def orphan(nowhere: Path) -> int:
    """A child whose test process was killed."""
    arguments = ["run", "btp", "--metrics-bind-address=0", "--health-probe-bind-address=0"]
    environment = {"KUBECONFIG": str(nowhere), "SAP_BTP_SERVICE_OPERATOR": "image"}
    program = f"""
import pathlib, sys
from stellwerk.testing.processes.fork_server import ForkServer
nursery = ForkServer([]).__enter__()
print(nursery.start({arguments}, {environment}, pathlib.Path({str(nowhere.parent / "log")!r})).pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    return child


def is_alive(pid: int) -> bool:
    """Whether it runs; whoever inherits an orphan may leave it unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_children_die_with_the_test_process(orphan: int) -> None:
    await eventually(lambda: not is_alive(orphan), describe="the child is gone")
