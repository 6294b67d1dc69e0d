"""The program, run as a person does, on the cluster of the Component operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from tests.cluster.program import CommandLine, Ended

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster

Stellwerk = Callable[..., Coroutine[None, None, Ended]]


@pytest.fixture
def stellwerk(component_cluster: LocalCluster, home: str, command_line: CommandLine) -> Stellwerk:
    """Runs the program as administrator, in the test's namespace; the operator of the test goes on meanwhile."""

    async def run(*arguments: str, namespace: str = home, kubeconfig: Path | None = None) -> Ended:
        login = kubeconfig or component_cluster.kubeconfig
        options = ["--kubeconfig", str(login), *(["-n", namespace] if namespace else [])]
        return await asyncio.to_thread(command_line.run, [*arguments, *options])

    return run


def narrow(text: str) -> str:
    """What was printed without the blanks that make columns: how wide those are is no promise."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def parsed(text: str) -> JsonObject:
    """JSON that was printed."""
    value: JsonObject = json.loads(text)
    return value
