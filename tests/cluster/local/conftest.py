"""A cluster handled as a person does it: by a command of its own, which can be killed."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import MEMORY_FOR_TIME, Options
from stellwerk.testing import cluster as clusters


class ByHand:
    """`python -m stellwerk.local` with one cluster: durable, etcd and API server only."""

    def __init__(self, folder: Path) -> None:
        self.name = f"by-hand-{secrets.token_hex(4)}"
        self.cluster = LocalCluster(folder / self.name, Options(controllers=False, pods=False))
        self.environment: Mapping[str, str] = {**os.environ, **MEMORY_FOR_TIME, "STELLWERK_STATE": str(folder)}

    def arguments(self, verb: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "stellwerk.local", verb, "--name", self.name, "--bare", *more]

    def run(self, verb: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Do one verb to its end."""
        return subprocess.run(
            self.arguments(verb, *more),
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def begin(self, verb: str) -> subprocess.Popen[str]:
        """Begin one verb, for a test that disturbs it, where Ctrl-C works also if it does not where we run."""
        interruptible = ["env", "--default-signal=INT", *self.arguments(verb)]
        return subprocess.Popen(
            interruptible, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def pids(self) -> dict[str, int]:
        """What runs of the cluster."""
        return {name: pid for name in ("etcd", "kube-apiserver") if (pid := self.cluster.process(name).pid)}


@pytest.fixture
def by_hand() -> Iterator[ByHand]:
    """A cluster that does not exist yet, and is gone after the test."""
    made = ByHand(clusters.session_folder())
    yield made
    made.cluster.down()


def wait_until(reached: Callable[[], bool], within_seconds: float = 60.0) -> None:
    """Poll a foreign process until it is as wished."""
    deadline = time.monotonic() + within_seconds
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.005)
