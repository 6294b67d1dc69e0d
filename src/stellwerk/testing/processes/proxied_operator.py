"""An operator as a process of its own that sees its API server through a fault proxy: for sweeps and random faults."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local.host.ports import free_port
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess


@dataclass(frozen=True, slots=True)
class ProxiedOperator:
    """The process, and the proxy through which it sees its API server."""

    process: OperatorProcess
    proxy: FaultProxy


@asynccontextmanager
async def proxied_operator(
    name: str,
    *flags: str,
    login: Path,
    folder: Path,
    nursery: ForkServer | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[ProxiedOperator]:
    """The operator that `stellwerk run NAME` starts, not started yet; `folder` takes its log.

    `login`: its kubeconfig. `environment`: variables that it sees besides.
    """
    health = free_port()
    arguments = [
        *(() if nursery else (sys.executable, "-m", "stellwerk.cli.main")),
        *("run", name, f"--health-probe-bind-address=127.0.0.1:{health}", *flags),
    ]
    async with (
        FaultProxy(login) as proxy,
        OperatorProcess(
            arguments,
            log=folder / "operator.log",
            kubeconfig=proxy.kubeconfig,
            environment=environment,
            health_url=f"http://127.0.0.1:{health}/readyz",
            nursery=nursery,
        ) as process,
    ):
        yield ProxiedOperator(process, proxy)
