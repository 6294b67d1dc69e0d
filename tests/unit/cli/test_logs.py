"""The logs of operators, read from files and pods."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click
import pytest

from stellwerk.cli.look import logs
from stellwerk.cli.look.logs import File, LogFilter, LoggedDeployment, LoggedPod, LogLine
from stellwerk.cli.main import run
from stellwerk.cli.shell.errors import Exit
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured

CONSOLE = """\
13:45:01.123 INFO    Component shop/web: reconciled revision=r1
13:45:02.000 ERROR   Component shop/db: cannot apply
Traceback (most recent call last):
  File "x"
13:45:03.000 INFO    Manager started
13:45:04.000 DEBUG   BtpOperator kyma-system/btpoperator: looked at it
"""
JSON = [
    {"ts": "t1", "level": "info", "logger": "x", "msg": "started"},
    {"ts": "t2", "level": "error", "msg": "failed", "kind": "Component", "namespace": "shop", "name": "web", "n": 3},
    {"ts": "t3", "level": "warn", "msg": "slow", "kind": "Component", "namespace": "shop", "name": "db"},
]


def test_lines_for_terminals_are_read_with_their_object_and_their_stack() -> None:
    found = list(logs.parsed(CONSOLE.splitlines(), "component"))
    assert [(line.level, line.kind, line.namespace, line.name) for line in found] == [
        ("info", "Component", "shop", "web"),
        ("error", "Component", "shop", "db"),
        ("info", "", "", ""),
        ("debug", "BtpOperator", "kyma-system", "btpoperator"),
    ]
    assert found[1].more == '\nTraceback (most recent call last):\n  File "x"'
    assert str(found[0]) == "13:45:01.123 INFO    [component] Component shop/web: reconciled revision=r1"


def test_lines_of_json_are_read_with_their_details() -> None:
    found = list(logs.parsed(map(json.dumps, JSON)))
    assert found[1] == LogLine("t2", "error", "failed", "Component", "shop", "web", " n=3")
    assert list(logs.parsed(["{broken", "no form at all"])) == [LogLine("", "", "{broken", more="\nno form at all")]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1795931009.0175514", "2026-11-29T05:43:29.017Z"),
        ("2026-11-29T05:43:29.017Z", "2026-11-29T05:43:29.017Z"),
        ("1e400", "1e400"),
        ("nan", "nan"),
        ("", ""),
    ],
)
def test_seconds_are_shown_as_a_moment(written: str, shown: str) -> None:
    (line,) = logs.parsed([json.dumps({"ts": written, "level": "info", "msg": "started"})])
    assert line.time == shown


def test_lines_of_several_processes_are_in_the_order_of_their_times() -> None:
    first = [LogLine(time, "info", "", source="a") for time in ("13:01", "13:04", "13:02")]
    second = [LogLine(time, "info", "", source="b") for time in ("13:00", "13:03")]
    assert [(line.source, line.time) for line in logs.merged([first, second])] == [
        ("b", "13:00"),
        ("a", "13:01"),
        ("b", "13:03"),
        ("a", "13:04"),
        ("a", "13:02"),
    ], "those of one process stay in their order"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (LogFilter(), ["web", "db", ""]),
        (LogFilter("debug"), ["web", "db", "", "btpoperator"]),
        (LogFilter("error"), ["db"]),
        (LogFilter(kind="Component", namespace="shop", name="web"), ["web"]),
        (LogFilter("debug", namespace="kyma-system"), ["btpoperator"]),
    ],
)
def test_lines_are_chosen_by_level_and_object(wanted: LogFilter, names: list[str]) -> None:
    assert [line.name for line in logs.parsed(CONSOLE.splitlines()) if wanted.takes(line)] == names


async def test_a_file_is_read_on_from_where_it_ended_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "operator.log"
    path.write_text("one\ntwo\nthr")
    file = File(path)
    assert await file.new() == "one\ntwo\n"
    assert await file.new() == ""
    path.write_text("one\ntwo\nthree\n")
    assert await file.new() == "three\n"
    path.write_text("new\n")
    assert await file.new() == "new\n", "a file that was begun again is read from its start"


DEPLOYMENTS: list[JsonObject] = [
    {
        "metadata": {"name": name, "namespace": "system"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "spec": {
                    "containers": [
                        {"name": "proxy", "command": ["proxy"]},
                        {"name": container, "command": [command], "args": ["run", "cap"]},
                    ]
                }
            },
        },
    }
    for name, container, command in (("operator", "manager", "stellwerk"), ("web", "web", "server"))
]


PODS: list[JsonObject] = [
    {
        "metadata": {"name": name, "namespace": "system"},
        "spec": {"containers": [{"name": "proxy"}, {"name": "manager", "command": [command], "args": ["run", "cap"]}]},
    }
    for name, command in (("operator-1", "stellwerk"), ("web-0", "server"))
]


class _Cluster(BaseHTTPRequestHandler):
    """The pods of an operator, as far as this verb asks for them. The first has not started."""

    refusals: Mapping[str, int] = {}
    """Codes by the ends of paths."""

    def do_GET(self) -> None:
        place, code = urlsplit(self.path), 200
        query = parse_qs(place.query)
        if refused := [each for end, each in self.refusals.items() if place.path.endswith(end)]:
            code = refused[0]
            body = json.dumps({"kind": "Status", "status": "Failure", "message": "it is refused", "code": code})
        elif place.path == "/api/v1/pods":
            body = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": PODS})
        elif place.path == "/api/v1/namespaces/system/pods":
            labels = query["labelSelector"][0]
            metadata = [{"name": name, "namespace": "system"} for name in ("operator-0", "operator-1")]
            items = [{"metadata": each} for each in metadata] if labels == "app=operator" else []
            body = json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})
        elif place.path == "/apis/apps/v1/deployments":
            body = json.dumps({"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {}, "items": DEPLOYMENTS})
        elif place.path == "/api/v1":
            resources = [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list"]}]
            body = json.dumps({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})
        elif place.path.endswith("/log") and ("operator-1" not in place.path or query.get("container") != ["manager"]):
            message, code = 'container "manager" in pod "operator-0" is waiting to start: ContainerCreating', 400
            body = json.dumps({"kind": "Status", "status": "Failure", "message": message, "code": code})
        elif place.path == "/api/v1/namespaces/system/pods/operator-1/log":
            body = "".join(f"2026-01-01T00:00:0{n}Z {json.dumps(line)}\n" for n, line in enumerate(JSON))
        else:
            body = json.dumps({"kind": "APIGroupList", "groups": []})
        data = body.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster; its parameter: what it refuses."""
    handler = type("Refusing", (_Cluster,), {"refusals": getattr(request, "param", {})})
    found = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{found.server_port}"
    finally:
        found.shutdown()
        found.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig and no local system of this machine."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STELLWERK_STATE", str(tmp_path / "state"))


def test_the_pods_of_a_cluster_are_asked(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--server", server, "--for", "comp/web", "-n", "shop"]) == 0
    assert capsys.readouterr().out == "t2 ERROR   [operator-1] Component shop/web: failed n=3\n"
    assert run(["logs", "--server", server, "--level", "warning", "--tail", "1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "db"


def left_out(server: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is written about the first pod, which is named, while the log of another is read."""
    assert run(["logs", "--server", server]) == 0
    captured = capsys.readouterr()
    assert "started" in captured.out
    assert captured.err.startswith("Left out, Pod system/operator-0: ")
    return captured.err


def test_a_pod_that_has_no_log_yet_is_named_and_the_others_are_read(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    remark = left_out(server, capsys)
    assert remark.rstrip().endswith("is waiting to start: ContainerCreating")


async def test_a_pod_that_has_no_log_yet_is_named_once(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with Client.connect(ClusterConfig(server=server)) as client:
        pod = LoggedPod(client, ObjectKey("system", "operator-0"), "manager")
        with click.Context(click.Command("logs")).scope():
            assert [await pod.new(), await pod.new()] == ["", ""]
    assert capsys.readouterr().err.count("ContainerCreating") == 1


@pytest.mark.parametrize("follow", [[], ["--follow"]])
@pytest.mark.parametrize("server", [{"/log": 401}, {"/log": 403}, {"operator-0/log": 401}], indirect=True, ids=repr)
def test_where_no_log_may_be_read_it_fails(server: str, follow: list[str]) -> None:
    assert run(["logs", "--server", server, *follow]) == Exit.FORBIDDEN


@pytest.mark.parametrize("server", [{"operator-0/log": 403}], indirect=True)
def test_a_pod_whose_log_may_not_be_read_is_named_and_the_others_are_read(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left_out(server, capsys)


@pytest.mark.parametrize("server", [{"/deployments": 403}], indirect=True)
def test_pods_are_found_by_their_command_where_no_deployment_may_be_listed(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "--server", server]) == 0
    captured = capsys.readouterr()
    assert "started" in captured.out
    assert captured.err == "", "the pod of another program is not asked"


@pytest.mark.parametrize("server", [{"/deployments": 403, "/pods": 403}], indirect=True)
def test_where_no_pod_may_be_listed_it_fails(server: str) -> None:
    assert run(["logs", "--server", server]) == Exit.FORBIDDEN


def _original(labels: JsonObject, annotations: JsonObject, *containers: str) -> Unstructured:
    named: list[JsonValue] = [{"name": name, "command": ["/manager"]} for name in containers]
    body: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "r-component-operator", "namespace": "home"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"annotations": annotations}, "spec": {"containers": named}},
        },
    }
    return Unstructured.of(body)


DEFAULT = "kubectl.kubernetes.io/default-container"


@pytest.mark.parametrize(
    ("annotations", "containers", "container"),
    [
        ({}, ["operator"], "operator"),
        ({}, ["proxy", "manager"], "manager"),
        ({DEFAULT: "operator"}, ["proxy", "manager", "operator"], "operator"),
        ({DEFAULT: "absent"}, ["proxy", "operator"], "proxy"),
    ],
)
def test_the_pods_of_an_original_are_found_by_the_name_of_its_deployment(
    annotations: JsonObject, containers: list[str], container: str
) -> None:
    original = _original({"app": "it"}, annotations, *containers)
    assert logs.logged([original]) == [LoggedDeployment("home", "app=it", container)]


def test_a_deployment_without_labels_of_its_pods_is_left_out() -> None:
    assert logs.logged([_original({}, {}, "operator")]) == []


def test_where_no_operator_is_found_that_is_said(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--server", server, "--for", "comp/nothing", "-n", "shop"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "No line is about that" in captured.err
