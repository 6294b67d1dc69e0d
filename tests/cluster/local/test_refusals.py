"""When a cluster cannot start: one message, with the cause and the fix, and nothing left running."""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.local.conftest import ByHand

from stellwerk.local.build import control_plane
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import API_SERVER, Options
from stellwerk.local.errors import PortTaken
from stellwerk.testing import cluster as clusters

Answer = subprocess.CompletedProcess[str]


def assert_refused(answer: Answer, by_hand: ByHand, *, because: str, fix: str) -> None:
    """One message with its parts in order, a failing exit code, no process."""
    assert answer.returncode == 1, answer
    message = answer.stderr[answer.stderr.index("Error:") :]
    assert message.count("Error:") == 1
    assert "Traceback" not in answer.stderr
    assert because in message[: message.index("Fix:")], message
    assert fix in message[message.index("Fix:") :], message
    assert by_hand.pids() == {}


@pytest.mark.req("R-903")
def test_a_taken_port_is_named(by_hand: ByHand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = by_hand.run("up", "--port", str(port))
        assert_refused(answer, by_hand, because=f"127.0.0.1:{port}", fix="choose another port")


@pytest.mark.req("R-903")
def test_a_port_that_is_taken_while_the_api_server_starts_is_named(by_hand: ByHand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        flags = {API_SERVER: [f"--secure-port={other.getsockname()[1]}"]}
        options = Options(controllers=False, pods=False, extra_flags=flags)
        with pytest.raises(PortTaken):
            LocalCluster(by_hand.cluster.folder, options).up()
    assert by_hand.pids() == {}


@pytest.mark.req("R-903")
def test_a_full_disk_is_named(by_hand: ByHand, tmp_path: Path) -> None:
    full = f"mount -t tmpfs -o size=4m none {tmp_path} && exec {' '.join(by_hand.arguments('up'))}"
    answer = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", full],
        env={**by_hand.environment, "STELLWERK_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if "Error:" not in answer.stderr and ("unshare" in answer.stderr or "mount" in answer.stderr):
        pytest.skip(f"this machine lets nobody mount a small disk: {answer.stderr.strip()}")
    assert_refused(answer, by_hand, because="too little disk space", fix="STELLWERK_STATE")


@pytest.mark.req("R-903")
def test_a_machine_that_cannot_speak_to_itself_is_named(by_hand: ByHand) -> None:
    answer = subprocess.run(
        ["unshare", "--map-root-user", "--net", *by_hand.arguments("up")],
        env=dict(by_hand.environment),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if "Error:" not in answer.stderr and "unshare" in answer.stderr:
        pytest.skip(f"this machine lets nobody have a network of their own: {answer.stderr.strip()}")
    assert_refused(answer, by_hand, because="unreachable", fix="ip link set lo up")


@pytest.mark.req("R-903")
def test_a_binary_of_another_version_is_named(by_hand: ByHand, tmp_path: Path) -> None:
    cache = cache_with_control_plane(tmp_path, lambda right: right.replace(b"v1.36.3", b"v1.35.9"))
    answer = by_hand.run("up", STELLWERK_CACHE=str(cache))
    assert_refused(answer, by_hand, because="Kubernetes v1.35.9", fix=f"remove {cache}")


@pytest.mark.req("R-903")
@pytest.mark.parametrize("damage", [lambda right: b"", lambda right: right[:4096], lambda right: b"not a program"])
def test_a_binary_that_does_not_run_is_named(by_hand: ByHand, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = cache_with_control_plane(tmp_path, damage)
    answer = by_hand.run("up", STELLWERK_CACHE=str(cache))
    assert_refused(answer, by_hand, because="etcd cannot be started", fix=f"remove {cache}")


def cache_with_control_plane(cache: Path, change: Callable[[bytes], bytes]) -> Path:
    """A cache folder like the real one but for the control plane's program."""
    right = control_plane.ensure()
    copy = cache / right.folder.name
    shutil.copytree(right.folder, copy, copy_function=lambda source, target: Path(target).symlink_to(source))
    program = copy / "localkube"
    program.unlink()
    program.write_bytes(change(right.control_plane.read_bytes()))
    program.chmod(0o755)
    return cache


def garble_etcd(folder: Path) -> None:
    database = folder / "data/member/snap/db"
    database.write_bytes(b"garbage" * 4096)


def garble_record(folder: Path) -> None:
    (folder / "cluster.json").write_text("{")


def garble_authority(folder: Path) -> None:
    (folder / "pki/ca.key").write_text("garbage")


def lose_authority_key(folder: Path) -> None:
    (folder / "pki/ca.key").unlink()


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """The folder of a cluster that ran and was stopped."""
    made = ByHand(clusters.session_folder())
    made.cluster.up()
    made.cluster.stop()
    yield made.cluster.folder
    made.cluster.down()


@pytest.mark.req("R-903")
@pytest.mark.parametrize("damage", [garble_etcd, garble_record, garble_authority, lose_authority_key])
def test_broken_data_is_named(by_hand: ByHand, stopped: Path, damage: Callable[[Path], None]) -> None:
    shutil.copytree(stopped, by_hand.cluster.folder, ignore=shutil.ignore_patterns("*.sock"))
    damage(by_hand.cluster.folder)
    answer = by_hand.run("up")
    assert_refused(answer, by_hand, because="cannot be read" if damage != garble_etcd else "cannot read", fix="down")


@pytest.mark.req("R-903")
@pytest.mark.parametrize("version", ["v1.99.0", "v1.30.0", "nonsense"])
def test_data_of_a_kubernetes_too_far_away_is_named(by_hand: ByHand, version: str) -> None:
    by_hand.cluster.folder.mkdir()
    (by_hand.cluster.folder / "cluster.json").write_text(json.dumps({"version": version, "port": 0}))
    assert_refused(by_hand.run("up"), by_hand, because=version, fix="down")


@pytest.mark.req("R-903")
def test_a_port_that_was_chosen_for_the_user_gives_way(by_hand: ByHand) -> None:
    assert by_hand.run("up").returncode == 0
    assert by_hand.run("stop").returncode == 0
    taken = by_hand.cluster.port
    with socket.create_server(("127.0.0.1", taken)):
        assert by_hand.run("up").returncode == 0
        assert by_hand.cluster.port != taken
        assert by_hand.cluster.status().ready


def test_a_stop_does_not_wait_for_a_build(by_hand: ByHand, tmp_path: Path) -> None:
    by_hand.environment = {**by_hand.environment, "STELLWERK_CACHE": str(tmp_path)}
    with (tmp_path / "building.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        up = by_hand.begin("up")
        try:
            assert up.stdout is not None
            assert up.stdout.readline() == "waiting for a build that runs already\n"
            printed: list[str] = []
            by_hand.cluster.stop(printed.append)
            assert printed == []
        finally:
            up.kill()
            up.communicate()
