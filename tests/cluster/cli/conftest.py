"""A cluster of its own for the command line: it lists all namespaces and looks into kyma-system, as people do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.render.binary import cache_folder
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import POLL_SECONDS
from tests.cluster.own_cluster import own_cluster
from tests.cluster.program import CommandLine, Ended

DEFINITION = Path(__file__).parents[3] / "deploy" / "crds" / "btpoperators.operator.kyma-project.io.yaml"
BTP = BtpOperator.resource
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # the sources under test, where those are a copy
    "PYTHONUTF8": "1",
    "HOME": "/nonexistent",
    "STELLWERK_CACHE": str(cache_folder()),  # with the renderer
}


@dataclass(frozen=True, slots=True)
class Given:
    """What a test puts into the cluster."""

    cluster: LocalCluster

    def put(self, resource: Resource, namespace: str, name: str, **parts: object) -> None:
        """An object, and its status where one is given."""
        status = parts.pop("status", None)
        metadata = {"name": name, **_dict(parts.pop("metadata", {}))}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}
        self._ask("POST", resource.path(namespace), body)
        if status is not None:
            self.status(resource, namespace, name, _dict(status))

    def status(self, resource: Resource, namespace: str, name: str, status: Mapping[str, object]) -> None:
        """The status that an operator would have written."""
        live = self._ask("GET", resource.path(namespace, name))
        self._ask("PUT", resource.path(namespace, name, "status"), {**live, "status": status})

    def operator(
        self, namespace: str, name: str, reason: str, state: str, message: str, *, ready: bool = False
    ) -> None:
        """A BtpOperator in a state."""
        self.put(BTP, namespace, name, status=btp_status(reason, state, message, ready=ready))

    def namespace(self, name: str) -> None:
        """A namespace, unless it is there."""
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}, fine=(201, 409))

    def definition(self, body: Mapping[str, object]) -> None:
        """A CustomResourceDefinition, unless it is there; returns when its kind is served."""
        self._ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, fine=(201, 409))
        spec = _dict(body["spec"])
        versions = spec["versions"]
        assert isinstance(versions, list)
        path = f"/apis/{spec['group']}/{versions[0]['name']}/{_dict(spec['names'])['plural']}"
        wire, deadline = self.cluster.wire(), time.monotonic() + 60
        while (listed := wire.ask("GET", path)) is None or listed.status != 200:
            assert time.monotonic() < deadline, f"{path} is not served"
            time.sleep(POLL_SECONDS)

    def right(self, user: str, verb: str, resource: Resource, namespace: str) -> None:
        """Return when the API server knows of a right that was granted: it hears of roles a moment later."""
        attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        deadline = time.monotonic() + 60
        while not _dict(self._ask("POST", REVIEWS, body)["status"])["allowed"]:
            assert time.monotonic() < deadline, f"{user} may not {verb} {resource.plural} in {namespace}"
            time.sleep(POLL_SECONDS)

    def keep(self, namespace: str, name: str) -> None:
        """A BtpOperator in the state of a deletion that waits for somebody."""
        self._finalizers(namespace, name, ["tests.example.com/waits"])
        self.gone(BTP, namespace, name)

    def release(self, namespace: str, name: str) -> None:
        """The end of that deletion."""
        self._finalizers(namespace, name, [])

    def _finalizers(self, namespace: str, name: str, names: list[str]) -> None:
        live = self._ask("GET", BTP.path(namespace, name))
        metadata = {**_dict(live["metadata"]), "finalizers": names}
        self._ask("PUT", BTP.path(namespace, name), {**live, "metadata": metadata})

    def no_operators(self, namespace: str) -> None:
        """All BtpOperators of a namespace deleted."""
        self._ask("DELETE", BTP.path(namespace))

    def gone(self, resource: Resource, namespace: str, name: str) -> None:
        """The object deleted."""
        self._ask("DELETE", resource.path(namespace, name), fine=(200, 202))

    def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, fine: tuple[int, ...] = (200, 201)
    ) -> dict[str, object]:
        answer = self.cluster.wire().ask(method, path, body, timeout_seconds=60)
        assert answer is not None, f"the API server does not answer {method} {path}"
        assert answer.status in fine, answer.body
        return answer.json()


def btp_status(reason: str, state: str, message: str, *, ready: bool = False) -> JsonObject:
    """The status of a BtpOperator."""
    condition: JsonObject = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-05-01T12:00:00Z",
    }
    return {"state": state, "conditions": [condition]}


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="package")
def command_line_cluster() -> Iterator[LocalCluster]:
    """The cluster, with the definition of BtpOperator installed and served."""
    with own_cluster("cli", None, Options(durable=False, pods=False)) as cluster:
        Given(cluster).definition(yaml.safe_load(DEFINITION.read_text()))
        yield cluster


@pytest.fixture
def given(command_line_cluster: LocalCluster) -> Given:
    """Puts things into the cluster."""
    return Given(command_line_cluster)


@pytest.fixture
def place(command_line_cluster: LocalCluster, given: Given) -> Iterator[str]:
    """A namespace of its own for the test. Its BtpOperators go with the test: of all there are, the oldest counts."""
    name = clusters.create_namespace(command_line_cluster)
    yield name
    given.no_operators(name)


Stellwerk = Callable[..., Ended]


@pytest.fixture
def stellwerk(command_line_cluster: LocalCluster, command_line: CommandLine) -> Stellwerk:
    """Runs the program as a person does, as administrator unless told otherwise."""

    def run(*arguments: str, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
        login = kubeconfig or command_line_cluster.kubeconfig
        words = [*arguments, "--kubeconfig", str(login)]
        if environment is None:
            return command_line.run(words, ENVIRONMENT)
        return subprocess.run(  # the interpreter reads some variables at its start
            [sys.executable, "-m", "stellwerk.cli.main", *words],
            capture_output=True,
            encoding="utf-8",
            env={**ENVIRONMENT, **environment},
            timeout=60,
            check=False,
        )

    return run


Started = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def started(command_line_cluster: LocalCluster) -> Started:
    """Runs the program beside the test, for as long as a `with` block lasts and for a minute at most: a line that never
    comes is an empty one then."""

    @contextlib.contextmanager
    def start(*arguments: str) -> Iterator[subprocess.Popen[str]]:
        interruptible = ("env", "--default-signal=INT")  # a shell that runs tests in the background ignores Ctrl-C
        login = ("--kubeconfig", str(command_line_cluster.kubeconfig))
        process = subprocess.Popen(
            [*interruptible, sys.executable, "-m", "stellwerk.cli.main", *arguments, *login],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=ENVIRONMENT,
        )
        limit = threading.Timer(60, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()
            process.communicate()

    return start


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code after Ctrl-C, and what the program still wrote on standard error."""
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    return process.returncode, complaints.strip()


def parsed(text: str) -> JsonObject:
    """JSON that was printed."""
    value: JsonObject = json.loads(text)
    return value
