"""The program, run as a person does, by a process that has imported it already: nine tenths of a call are that."""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import stellwerk.cli
from stellwerk.local.host.processes import ended_within
from stellwerk.testing.processes.fork_server import ForkServer

Ended = subprocess.CompletedProcess[str]

_ENVIRONMENT = {"PATH": os.environ["PATH"]}
_SECONDS = 120
_MODULES = [
    module.name
    for module in pkgutil.walk_packages(stellwerk.cli.__path__, "stellwerk.cli.")
    if not module.name.endswith("__main__")
]


class CommandLine:
    """Runs calls of the program, each as a process of its own; several threads may do so at once."""

    def __init__(self, nursery: ForkServer) -> None:
        self._nursery = nursery
        self._lock = threading.Lock()

    def run(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Ended:
        """Returns when it has ended. Raises TimeoutExpired after two minutes."""
        variables = {**_ENVIRONMENT, **_kept()} if environment is None else environment
        with tempfile.TemporaryDirectory(prefix="stellwerk-call-") as folder:
            output, errors = Path(folder) / "output", Path(folder) / "errors"
            with self._lock:
                process = self._nursery.start(arguments, variables, output, errors=errors)
            if not ended_within(process.pid, _SECONDS):
                process.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, _SECONDS)
            with self._lock:
                code = process.wait()
            return Ended([*arguments], code, output.read_text("utf-8"), errors.read_text("utf-8"))


@contextmanager
def command_line() -> Iterator[CommandLine]:
    """To be opened by the thread that lives as long as its block."""
    with ForkServer(["stellwerk.assembly", *_MODULES]) as nursery:
        yield CommandLine(nursery)


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "PYTHONPATH") if name in os.environ}
