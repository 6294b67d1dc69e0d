"""The operators beside the local control plane: found again, replaced when they are old, waited for where they are."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from stellwerk.cli.local.operator_processes import Starting
from stellwerk.cli.shell.errors import Failure
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.errors import WrongVersion
from stellwerk.local.host import locks
from stellwerk.local.host.ports import free_port

SLEEP = ["/bin/sleep", "1000"]
ANSWERS = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
address = sys.argv[1].partition("=")[2].split(":")
http.server.HTTPServer((address[0], int(address[1])), Ready).serve_forever()
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LocalCluster]:
    """The folder of a cluster of which no component runs."""
    cluster = LocalCluster(tmp_path / "local")
    for name in ("run", "log"):
        (cluster.folder / name).mkdir(parents=True)
    yield cluster
    cluster.down()


def test_a_companion_that_runs_is_found_and_nothing_is_prepared_for_another(place: LocalCluster) -> None:
    first = place.start_companion("helper", lambda: SLEEP, dict(os.environ)).pid

    def never() -> list[str]:
        raise AssertionError("nothing is to be started")

    assert place.start_companion("helper", never, dict(os.environ)).pid == first


def test_a_companion_of_another_source_gives_way(place: LocalCluster) -> None:
    first = place.start_companion("helper", lambda: SLEEP, dict(os.environ), source="old").pid
    assert place.start_companion("helper", lambda: SLEEP, dict(os.environ), source="old").pid == first
    second = place.start_companion("helper", lambda: SLEEP, dict(os.environ), source="new")
    assert second.pid not in (None, first)
    assert second.arguments() == SLEEP


def test_a_refused_start_leaves_alone_what_runs(place: LocalCluster) -> None:
    (place.folder / "cluster.json").write_text(json.dumps({"version": "v1.99.0", "port": 20001}))
    older = place.process("etcd")
    older.start(SLEEP, working_folder=place.folder, environment=dict(os.environ))
    with pytest.raises(WrongVersion):
        place.up()
    assert older.is_running()


def test_a_command_that_waits_for_another_one_prints_it(place: LocalCluster) -> None:
    printed: Queue[str] = Queue()
    with ThreadPoolExecutor(1) as other:
        with locks.alone(place.folder.with_name(".local.lock")):
            stop = other.submit(place.stop, printed.put)
            assert printed.get(timeout=60) == "waiting for another stellwerk command on this system"
            assert not stop.done()
        stop.result(timeout=60)
    assert printed.empty()


def test_an_operator_is_waited_for_at_its_own_port_and_not_by_a_proxy(
    place: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    probes = f"--health-probe-bind-address=127.0.0.1:{free_port()}"
    process = place.start_companion("helper", lambda: [sys.executable, "-c", ANSWERS, probes], dict(os.environ))
    Starting("helper", process, "nix").wait_ready()
    assert process.is_running()


def test_an_operator_that_ends_is_told_with_its_last_words(place: LocalCluster) -> None:
    process = place.start_companion("helper", lambda: ["/bin/sh", "-c", "echo no login; exit 1"], dict(os.environ))
    with pytest.raises(Failure, match="the helper did not start") as failed:
        Starting("helper", process, "nix").wait_ready()
    assert failed.value.report.cause == "no login"
    assert str(process.log) in failed.value.report.fix


def test_an_operator_that_never_answers_is_told_after_a_while(place: LocalCluster) -> None:
    starting = Starting("helper", place.start_companion("helper", lambda: SLEEP, dict(os.environ)), "nix")
    with pytest.raises(Failure, match=r"is not ready after 0\.1 s") as failed:
        starting.wait_ready(within_seconds=0.1)
    assert "its readiness probe fails" in failed.value.report.cause
    assert "stellwerk down --keep-data --name nix && stellwerk up --name nix" in failed.value.report.fix
    assert starting.process.is_running()
