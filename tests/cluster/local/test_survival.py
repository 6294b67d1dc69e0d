"""What a cluster survives, and what it leaves behind when it is told to go."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cluster.local.conftest import ByHand, wait_until

from stellwerk.local.build import control_plane
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.testing.cluster import restore_data, save_data, session_folder

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.req("R-902")
@pytest.mark.parametrize(("latest", "number"), [("etcd", signal.SIGKILL), ("kube-apiserver", signal.SIGTERM)])
def test_a_start_after_a_killed_one_adopts_what_runs(by_hand: ByHand, latest: str, number: signal.Signals) -> None:
    first = by_hand.begin("up")
    wait_until(lambda: latest in by_hand.pids())
    first.send_signal(number)
    first.communicate()
    orphans = by_hand.pids()
    second = by_hand.run("up")
    assert second.returncode == 0, second.stderr
    assert by_hand.pids() | orphans == by_hand.pids()


@pytest.mark.req("R-902")
def test_an_interrupted_start_ends_what_it_had_started(by_hand: ByHand) -> None:
    first = by_hand.begin("up")
    wait_until(lambda: "kube-apiserver" in by_hand.pids())
    first.send_signal(signal.SIGINT)
    first.communicate()
    assert first.returncode != 0
    assert by_hand.pids() == {}


@pytest.mark.req("R-902")
def test_data_and_address_survive_a_power_cut(by_hand: ByHand) -> None:
    assert by_hand.run("up").returncode == 0
    before = by_hand.cluster.url
    create(by_hand.cluster, "precious")
    for pid in by_hand.pids().values():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: by_hand.pids() == {})
    assert by_hand.run("up").returncode == 0
    assert by_hand.cluster.url == before
    assert exists(by_hand.cluster, "precious")


@pytest.mark.req("R-902")
def test_data_survives_a_stop_and_down_leaves_nothing(by_hand: ByHand) -> None:
    assert by_hand.run("up").returncode == 0
    create(by_hand.cluster, "precious")
    assert by_hand.run("stop").returncode == 0
    assert by_hand.pids() == {}
    assert by_hand.run("up").returncode == 0
    assert exists(by_hand.cluster, "precious")
    companion = by_hand.cluster.start_companion("helper", lambda: ["/bin/sleep", "1000"], dict(os.environ))
    assert "helper" in {part.name for part in by_hand.cluster.status().components}
    port, folder = by_hand.cluster.port, by_hand.cluster.folder
    assert by_hand.run("down").returncode == 0
    assert processes_that_mention(str(folder)) == []
    assert not companion.is_running()
    assert not is_open(port)
    assert [path for path in folder.parent.iterdir() if by_hand.name in path.name] == []


def test_one_component_can_be_restarted_alone_and_time_turned_back(by_hand: ByHand) -> None:
    cluster = by_hand.cluster
    cluster.up()
    before = by_hand.pids()
    cluster.restart("kube-apiserver")
    after = by_hand.pids()
    assert after["etcd"] == before["etcd"]
    assert after["kube-apiserver"] != before["kube-apiserver"]
    create(cluster, "old")
    save_data(cluster, "backup")
    create(cluster, "new")
    restore_data(cluster, "backup")
    assert exists(cluster, "old")
    assert not exists(cluster, "new")


def test_programs_of_an_older_build_give_way_and_leave_their_data(by_hand: ByHand, tmp_path: Path) -> None:
    older = control_plane.ensure().folder
    shutil.copytree(older, tmp_path / older.name, copy_function=os.link if same_disk(older, tmp_path) else shutil.copy2)
    assert by_hand.run("up", STELLWERK_CACHE=str(tmp_path)).returncode == 0
    create(by_hand.cluster, "precious")
    before = set(by_hand.pids().values())
    assert by_hand.run("up").returncode == 0
    assert before.isdisjoint(by_hand.pids().values())
    assert exists(by_hand.cluster, "precious")


def test_a_component_with_other_flags_is_started_again_and_no_other(by_hand: ByHand) -> None:
    by_hand.cluster.up()
    before = by_hand.pids()
    by_hand.cluster.up()
    assert by_hand.pids() == before
    flags = {"etcd": ["--quota-backend-bytes=1000000000"]}
    LocalCluster(by_hand.cluster.folder, Options(controllers=False, pods=False, extra_flags=flags)).up()
    after = by_hand.pids()
    assert after["etcd"] != before["etcd"]
    assert after["kube-apiserver"] == before["kube-apiserver"]


def same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def test_who_gave_up_waiting_for_the_api_server_is_started_again() -> None:
    cluster = LocalCluster(session_folder() / "slow", Options(pods=False, durable=False))
    try:
        with ThreadPoolExecutor(1) as starter:
            start = starter.submit(cluster.up)
            wait_until(lambda: cluster.process("kube-controller-manager").is_running())
            cluster.process("kube-apiserver").signal(signal.SIGSTOP)
            gave_up = cluster.process("kube-controller-manager").pid
            cluster.process("kube-controller-manager").signal(signal.SIGKILL)
            cluster.process("kube-apiserver").signal(signal.SIGCONT)
            start.result(timeout=100)
        assert cluster.process("kube-controller-manager").pid not in (None, gave_up)
    finally:
        cluster.down()


def test_who_knows_the_api_server_by_a_port_that_was_lost_is_told_the_new_one() -> None:
    cluster = LocalCluster(session_folder() / "moved", Options(pods=False, durable=False))
    try:
        cluster.up()
        lost, manager = cluster.port, cluster.process("kube-controller-manager")
        misled = manager.pid
        companion = cluster.start_companion("helper", lambda: ["/bin/sleep", "1000"], dict(os.environ))
        cluster.process("kube-apiserver").kill()
        with socket.create_server(("127.0.0.1", lost)):
            cluster.up()
        assert cluster.port != lost
        assert manager.pid not in (None, misled)
        assert not companion.is_running(), "whoever started it starts it again"
    finally:
        cluster.down()


SESSION = """
import os, sys
from stellwerk.local.components import Options
from stellwerk.testing import cluster
cluster.open_session()
made = cluster.started("one", Options(controllers=False, pods=False, durable=False))
print(made.folder, flush=True)
sys.stdin.read()
"""


def test_a_killed_test_session_leaves_nothing() -> None:
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert session.stdout is not None
    folder = Path(session.stdout.readline().strip())
    port = LocalCluster(folder).port
    assert is_open(port)
    session.kill()
    session.communicate()
    wait_until(lambda: not folder.parent.exists())
    wait_until(lambda: processes_that_mention(str(folder.parent)) == [])
    assert not is_open(port)


def create(cluster: LocalCluster, name: str) -> None:
    """Without controllers, `up` does not wait for the namespace."""
    wait_until(lambda: status_of(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": name}}) in (201, 409))


def exists(cluster: LocalCluster, name: str) -> bool:
    """As the API server says when it has found its store again."""
    said: list[int] = []

    def knows() -> bool:
        said.append(status_of(cluster, "GET", f"{CONFIG_MAPS}/{name}"))
        return said[-1] in (200, 404)

    wait_until(knows)
    return said[-1] == 200


def status_of(cluster: LocalCluster, method: str, path: str, body: Mapping[str, object] | None = None) -> int:
    answer = cluster.wire().ask(method, path, body)
    return answer.status if answer is not None else 0


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def processes_that_mention(text: str) -> list[str]:
    """Command lines of live processes with this text; a zombie has none."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in command:
            found.append(command)
    return found
