"""The operators' processes beside the local control plane: started, found again, replaced when their code has changed.

What a process was started with is asked of the process itself, and not written down a second time: so whoever finds an
operator that somebody else has just started waits for it at the right port. One that is older than the code on the disk
gives way, as the programs of the control plane do, because after an update `up` would else show last week's behaviour.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import stellwerk
from stellwerk.cli.shell.errors import Failure
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.ports import HOST, free_port
from stellwerk.local.processes import Process

START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_PROBES = "--health-probe-bind-address="
_METRICS = "--metrics-bind-address="


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One operator: `title` is what people read, `process` its name in the cluster's folder.

    `account` is namespace and name of the service account that it is to the API server; `flags` is asked only when it
    is started.
    """

    title: str
    process: str
    operator: str
    account: tuple[str, str]
    flags: Callable[[], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)


def process_name(operator: str) -> str:
    """The name of an operator's process in the folder of the local system."""
    return f"operator-{operator}"


@dataclass(frozen=True, slots=True)
class Starting:
    """An operator's process on its way to being ready, or ready since long."""

    title: str
    process: Process

    def wait_ready(self, within_seconds: float = START_SECONDS) -> None:
        """Return when it is ready. Raises Failure with what it said last."""
        deadline = time.monotonic() + within_seconds
        while not _is_ready(self.process):
            if self.process.exited_within(_POLL_SECONDS) or time.monotonic() > deadline:
                raise Failure(
                    f"the {self.title} did not start",
                    cause=self.process.log_tail(3) or "it said nothing",
                    fix=f"see {self.process.log}",
                )


def started(cluster: LocalCluster, one: Companion, renderer: Path) -> Starting:
    """Start an operator, or find it running with the code that is on the disk."""
    process = cluster.start_companion(
        one.process,
        lambda: _arguments(cluster, one),
        {**os.environ, **one.environment},
        outdated_before=_code_changed(renderer),
    )
    return Starting(one.title, process)


def _arguments(cluster: LocalCluster, one: Companion) -> list[str]:
    return [
        *(sys.executable, "-m", "stellwerk.cli.main", "run", one.operator),
        f"--kubeconfig={cluster.kubeconfig_of_account(*one.account)}",
        f"{_PROBES}{HOST}:{free_port()}",
        f"{_METRICS}{HOST}:{free_port()}",
        "--zap-encoder=console",
        *one.flags(),
    ]


def _code_changed(renderer: Path) -> float:
    """When what an operator runs was last written, in seconds of the epoch."""
    package = Path(stellwerk.__file__).parent
    return max(file.stat().st_mtime for file in (*package.rglob("*.py"), renderer))


@dataclass(frozen=True, slots=True)
class Served:
    """Where an operator that runs tells about itself: host and port each, empty where it does not."""

    probes: str = ""
    metrics: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether it says now that it can do its work."""
        return bool(self.probes) and _answers(f"http://{self.probes}/readyz")


def served(arguments: Sequence[str]) -> Served | None:
    """What a process serves that was started with these words; None where it is no operator."""
    found = {
        flag: word.removeprefix(flag) for word in arguments for flag in (_PROBES, _METRICS) if word.startswith(flag)
    }
    return Served(found.get(_PROBES, ""), found.get(_METRICS, "")) if found else None


def _is_ready(process: Process) -> bool:
    operator = served(process.arguments())
    return operator is not None and operator.is_ready


def _answers(url: str) -> bool:
    # Without this a proxy that the environment names would be asked for an address of this machine.
    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
