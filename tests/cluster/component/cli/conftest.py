"""The program, run as a person does, on the cluster of the Component operator."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from stellwerk.kube.model import JsonObject
from stellwerk.local.cluster import LocalCluster

Ended = subprocess.CompletedProcess[str]
Stellwerk = Callable[..., Coroutine[None, None, Ended]]

_ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONUTF8": "1"}


@pytest.fixture
def stellwerk(component_cluster: LocalCluster, home: str) -> Stellwerk:
    """Runs the program as administrator, in the test's namespace; the operator of the test goes on meanwhile."""

    async def run(*arguments: str, namespace: str = home, kubeconfig: Path | None = None) -> Ended:
        login = kubeconfig or component_cluster.kubeconfig
        options = ["--kubeconfig", str(login), *(["-n", namespace] if namespace else [])]
        return await asyncio.to_thread(_run, [*arguments, *options])

    return run


def _run(arguments: list[str]) -> Ended:
    return subprocess.run(
        [sys.executable, "-m", "stellwerk.cli.main", *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**_ENVIRONMENT, **_kept()},
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def _kept() -> dict[str, str]:
    return {
        name: os.environ[name]
        for name in ("HOME", "XDG_CACHE_HOME", "PYTHONPATH", "COVERAGE_PROCESS_START")
        if name in os.environ
    }


def narrow(text: str) -> str:
    """What was printed without the blanks that make columns: how wide those are is no promise."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def parsed(text: str) -> JsonObject:
    """JSON that was printed."""
    value: JsonObject = json.loads(text)
    return value
