"""How a start and the local system look to a person."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stellwerk import assembly
from stellwerk.cli.local import system, up
from stellwerk.cli.local.system import StartStep, StepResult, done_line, part_of, status_lines
from stellwerk.cli.objects import served_addresses
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.text import Style
from stellwerk.cli.verbs import local, look
from stellwerk.local.cluster import ClusterStatus, ProcessStatus
from stellwerk.local.errors import PortTaken
from stellwerk.local.host.ports import free_port

LOGS = Path("/clusters/local/log")


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (
            StepResult("control plane ready", "API server 1.36.3 on 127.0.0.1:40123"),
            "✔ control plane ready              3.1 s   API server 1.36.3 on 127.0.0.1:40123",
        ),
        (StepResult("CRDs installed (17)"), "✔ CRDs installed (17)              3.1 s"),
        (
            StepResult("dashboard", "http://127.0.0.1:40125/#token=...", timed=False),
            "✔ dashboard                        http://127.0.0.1:40125/#token=...",
        ),
    ],
)
def test_a_finished_step_is_one_line(done: StepResult, line: str) -> None:
    assert done_line(done, 3.14, Style()) == line


def test_a_failed_step_is_named_and_nothing_follows_it() -> None:
    begun: list[str] = []

    def refuse(say: object) -> StepResult:
        raise PortTaken("127.0.0.1:40123")

    def begin(say: object) -> StepResult:
        begun.append("operators")
        return StepResult("operators running")

    steps = [StartStep("control plane", refuse), StartStep("operators", begin)]
    answer = CliRunner().invoke(click.Command("start", callback=lambda: system.carry_out(steps)))
    assert isinstance(answer.exception, PortTaken)
    assert (answer.stdout, answer.stderr) == ("", "✗ control plane\n")
    assert begun == []


def test_the_status_of_a_ready_system_names_its_address_and_processes() -> None:
    parts = [ProcessStatus("etcd", 41, LOGS / "etcd.log"), ProcessStatus("kube-apiserver", 42, LOGS / "x.log")]
    seen = ClusterStatus(Path("/clusters/local"), "https://127.0.0.1:40123", "v1.36.3", True, parts)
    assert status_lines(seen, [part_of(part) for part in parts], Style()) == [
        "✔ control plane ready              API server 1.36.3 on 127.0.0.1:40123",
        "✔ etcd                             process 41",
        "✔ kube-apiserver                   process 42",
        "  logs                             /clusters/local/log",
    ]


def test_the_status_of_a_broken_system_says_where_to_look() -> None:
    parts = [ProcessStatus("etcd", None, LOGS / "etcd.log")]
    seen = ClusterStatus(Path("/clusters/local"), "https://127.0.0.1:40123", "", False, parts)
    assert status_lines(seen, [part_of(part) for part in parts], Style(symbols=False)) == [
        "x control plane not ready          /clusters/local",
        "x etcd                             not running, see /clusters/local/log/etcd.log",
        "  logs                             /clusters/local/log",
    ]


def test_the_status_names_a_process_that_runs_in_another_container() -> None:
    log = LOGS / "etcd.log"
    seen = part_of(ProcessStatus("etcd", None, log, runs_elsewhere=True))
    assert not seen.is_well
    assert seen.detail == f"runs in another container or on another machine, see {log}"


def test_an_operator_that_runs_and_does_not_answer_is_not_called_well() -> None:
    probes = f"127.0.0.1:{free_port()}"
    flags = [f"--health-probe-bind-address={probes}", "--metrics-bind-address=127.0.0.1:29999"]
    seen = part_of(ProcessStatus("operator-btp", 43, LOGS / "operator-btp.log", ["stellwerk", "run", *flags]))
    assert not seen.is_well
    where = f"probes on {probes}, metrics on 127.0.0.1:29999"
    assert seen.detail == f"process 43 is not ready, {where}, see /clusters/local/log/operator-btp.log"


def test_the_ports_of_servers_and_webhooks_are_shown() -> None:
    for process in assembly.PROCESSES.values():
        probes = "--health-probe-bind-address=127.0.0.1:20001"
        ports = process.installation().ports
        flags = [f"--{port.flag}={20_002 + number}" for number, port in enumerate(ports)]
        served = served_addresses.served(["stellwerk", "run", probes, *flags])
        assert served is not None
        assert len(served.addresses) == 1 + len(ports), f"each port of {process.name} has a purpose"
    flags = ["--webhook-port=20002", "--health-probe-bind-address=127.0.0.1:20001"]
    shown = part_of(ProcessStatus("operator-cap-webhooks", 43, LOGS / "x.log", ["stellwerk", "run", *flags]))
    assert "webhooks on 127.0.0.1:20002, probes on 127.0.0.1:20001" in shown.detail


def test_the_status_for_programs_has_each_process() -> None:
    parts = [ProcessStatus("etcd", 41, LOGS / "etcd.log"), ProcessStatus("kwok", None, LOGS / "kwok.log")]
    seen = ClusterStatus(Path("/clusters/local"), "https://127.0.0.1:40123", "v1.36.3", True, parts)
    assert system.as_json(seen, [part_of(part) for part in parts]) == {
        "ready": False,
        "controlPlaneReady": True,
        "version": "v1.36.3",
        "url": "https://127.0.0.1:40123",
        "folder": "/clusters/local",
        "logs": "/clusters/local/log",
        "processes": [
            {"name": "etcd", "pid": 41, "ready": True, "log": "/clusters/local/log/etcd.log", "serves": {}},
            {"name": "kwok", "pid": None, "ready": False, "log": "/clusters/local/log/kwok.log", "serves": {}},
        ],
    }


def test_status_prints_an_object_for_programs_and_names_the_system_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STELLWERK_STATE", str(tmp_path))
    (tmp_path / "local").mkdir()
    answer = CliRunner().invoke(look.status, ["-o", "json"])
    assert json.loads(answer.stdout)["folder"] == str(tmp_path / "local")
    answer = CliRunner().invoke(look.status, ["--name", "nix"])
    assert answer.stderr == "There is no local system 'nix'. Start it: stellwerk up --name nix\n"


def test_samples_without_operators_are_a_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STELLWERK_STATE", str(tmp_path))
    answer = CliRunner().invoke(local.up, ["--bare", "--samples"])
    assert isinstance(answer.exception, Failure)
    assert answer.exception.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kubeconfig", "programs", "path", "line"),
    [
        ("/a/kubeconfig", "/v/bin", "/usr/bin", 'export PATH=/v/bin:"$PATH" KUBECONFIG=/a/kubeconfig'),
        ("/a/kubeconfig", "/v/bin", "/usr/bin:/v/bin", "export KUBECONFIG=/a/kubeconfig"),
        ("/my a/k", "/v b/bin", "/v b", "export PATH='/v b/bin':\"$PATH\" KUBECONFIG='/my a/k'"),
    ],
)
def test_the_line_that_chooses_programs_and_cluster_can_be_copied(
    kubeconfig: str, programs: str, path: str, line: str
) -> None:
    assert up.environment_line(Path(kubeconfig), Path(programs), path) == line


@pytest.mark.req("R-901")
@pytest.mark.parametrize("port", ["80", "1023", "70000"])
def test_a_privileged_or_impossible_port_is_refused(port: str) -> None:
    answer = CliRunner().invoke(local.up, ["--port", port])
    assert answer.exit_code == 2
    assert port in answer.stderr
