"""A started cluster is private to its user, and a second start finds it."""

from __future__ import annotations

import http.client
import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cluster.local.conftest import ByHand

from stellwerk.local.cluster import LocalCluster

LOOPBACK = "0100007F"  # as /proc writes it


@pytest.mark.req("R-901")
def test_it_listens_on_one_unprivileged_port_of_loopback_only(cluster: LocalCluster) -> None:
    listening = {address for part in cluster.status().components if part.pid for address in listeners(part.pid)}
    assert listening == {f"{LOOPBACK}:{cluster.port:04X}"}
    assert cluster.port >= 1024


@pytest.mark.req("R-901")
def test_no_file_is_open_to_others(cluster: LocalCluster) -> None:
    everything = [cluster.folder, *cluster.folder.rglob("*")]
    assert len(everything) > 20
    assert [str(path) for path in everything if mode(path) & (stat.S_IRWXG | stat.S_IRWXO)] == []


@pytest.mark.req("R-901")
def test_credentials_differ_from_cluster_to_cluster(cluster: LocalCluster, remote_cluster: LocalCluster) -> None:
    for name in ("ca.crt", "ca.key", "server.key", "service-accounts.key"):
        assert (cluster.folder / "pki" / name).read_bytes() != (remote_cluster.folder / "pki" / name).read_bytes()


@pytest.mark.req("R-901")
def test_nobody_gets_in_without_credentials(cluster: LocalCluster) -> None:
    context = ssl.create_default_context(cafile=str(cluster.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=context, timeout=10)
    connection.request("GET", "/api/v1/secrets")
    assert connection.getresponse().status == 401
    connection.close()


def test_two_clusters_live_side_by_side(cluster: LocalCluster, remote_cluster: LocalCluster) -> None:
    assert cluster.port != remote_cluster.port
    path = "/api/v1/namespaces/default/configmaps"
    created = cluster.wire().ask("POST", path, {"metadata": {"name": "only-here"}})
    assert created is not None
    assert created.status in (201, 409)
    elsewhere = remote_cluster.wire().ask("GET", f"{path}/only-here")
    assert elsewhere is not None
    assert elsewhere.status == 404


@pytest.mark.req("R-901")
def test_starts_at_the_same_time_and_later_ones_all_find_one_cluster(by_hand: ByHand) -> None:
    with ThreadPoolExecutor(2) as both:
        answers = [future.result() for future in [both.submit(by_hand.run, "up") for _ in range(2)]]
    assert [(answer.returncode, answer.stdout.strip()) for answer in answers] == [
        (0, str(by_hand.cluster.kubeconfig))
    ] * 2, answers
    running = by_hand.pids()
    assert by_hand.run("up").returncode == 0
    assert by_hand.pids() == running
    assert len(running) == 2


def mode(path: Path) -> int:
    """A file's mode; nothing, for one that is gone: others use the cluster, which writes files beside their place."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def target(link: Path) -> str:
    """Where a link leads; nowhere, if it is gone: a busy server opens and closes all the time."""
    try:
        return link.readlink().name
    except FileNotFoundError:
        return ""


def listeners(pid: int) -> set[str]:
    """Local addresses of the TCP sockets that a process listens on, as /proc writes them."""
    sockets = {target(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                found.add(local)
    return found
