"""Whatever a server answers, a person gets four parts and an exit code, and never a fault of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stellwerk.cli.main import run

pytestmark = pytest.mark.heavy

ANSWERS = {
    "a page": "<html>Welcome</html>",
    "half of an object": '{"items": [{"meta',
    "a list where an object is expected": "[]",
    "an empty object": "{}",
    "metadata that is none": '{"metadata": 5, "items": 7}',
    "objects without a name": '{"kind": "List", "metadata": {}, "items": [{}, {"spec": 1, "status": "x"}]}',
    "a spec and a status that are none": json.dumps(
        {
            "apiVersion": "core.cs.sap.com/v1alpha1",
            "kind": "Component",
            "metadata": {"name": "x", "namespace": "y", "uid": "z", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"path": 7, "suspend": [], "dependencies": "none"},
            "status": {"conditions": [{"type": "Ready", "status": 1}], "inventory": {"a": 1}, "state": ["Ready"]},
        }
    ),
    "a Status without words": '{"kind": "Status"}',
    "bytes": "\x00\x01\x02",
    "nothing": "",
}
VERBS = {
    "get": ["get", "comp", "x", "-n", "y"],
    "get all": ["get", "-A"],
    "status": ["status", "comp/x", "-n", "y"],
    "status of a release": ["status", "x"],
    "why": ["why", "comp/x", "-n", "y"],
    "why of a module": ["why", "btp/x", "-n", "y"],
    "tree": ["tree", "comp/x", "-n", "y"],
    "trace": ["trace", "cm/x", "-n", "y"],
    "trace a ConfigMap": ["trace", "configmap/x", "-n", "y"],
    "diff": ["diff", "comp/x", "-n", "y"],
    "values": ["values", "comp/x", "-n", "y"],
    "events": ["events", "-A"],
    "reconcile": ["reconcile", "comp/x", "-n", "y", "--with-source"],
    "suspend": ["suspend", "comp/x", "-n", "y"],
    "resume": ["resume", "comp/x", "-n", "y"],
    "wait": ["wait", "comp/x", "-n", "y", "--timeout", "0"],
    "list": ["list", "-A"],
    "delete": ["delete", "x", "--yes", "--timeout", "1"],
    "version": ["version"],
}


class _Strange(BaseHTTPRequestHandler):
    answer = b""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    do_PATCH = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  # the names are the library's

    def log_message(self, format: str, *args: object) -> None: ...


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Callers may leave in the middle of an answer; nobody needs to read about it."""


@pytest.fixture(params=[*ANSWERS.values()], ids=[*ANSWERS], scope="module")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Leads to a server that gives one and the same answer to whatever it is asked."""
    handler = type("Strange", (_Strange,), {"answer": request.param.encode()})
    with _Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path_factory.mktemp("strange") / "kubeconfig"
        file.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                    "current-context": "c",
                }
            )
        )
        yield file
        server.shutdown()


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_no_answer_is_taken_for_a_fault_of_ours(
    verb: list[str], kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*verb, "--kubeconfig", str(kubeconfig), "-v"])
    told = capsys.readouterr()
    assert "itself is at fault" not in told.err, told.err
    assert "Traceback" not in told.err
    assert code in (0, 1, 2, 3, 4)
    if "Error:" in told.err and code:
        assert "Cause:" in told.err
