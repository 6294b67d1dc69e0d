"""Operators that start in a moment: children of a process that has imported everything already.

A sweep kills its operator at every write and starts it again each time; three quarters of such a start is Python
reading modules. Here a process of its own (the nursery) does that once and then forks: what runs afterwards is the same
program with the same arguments, in a process of its own, which dies of SIGKILL like any other. It forks before any
thread, loop or socket exists, and each child gets its own environment, session and log.

    with ForkServer(["stellwerk.operators.btp.controllers"]) as nursery:
        process = OperatorProcess(["run", "btp"], log=log, nursery=nursery)

The arguments are those of `stellwerk`, or `-m`, a module and what its `main` is called with.

The orders are a line of JSON each on the server's standard input; on its standard output it reports which child started
and how each one ended. It ends with the test process, and its children with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType

_DIE_WITH_PARENT = 1  # prctl(2), PR_SET_PDEATHSIG


class ForkServer:
    """The test's side: starts children and waits for their ends. Blocking; every answer takes milliseconds."""

    def __init__(self, modules: Sequence[str]) -> None:
        """`modules` are imported before the first child, besides the command line."""
        self._modules = modules
        self._process: subprocess.Popen[str] | None = None
        self._children: dict[int, ForkedProcess] = {}

    def __enter__(self) -> ForkServer:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "stellwerk.testing.processes.fork_server", str(os.getpid()), *self._modules],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, *, errors: Path | None = None
    ) -> ForkedProcess:
        """A new child that runs the program of these arguments and appends to the log.

        What it writes to its standard error goes to `errors`, where that is given.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        files = {"log": str(log), "errors": str(errors or log)}
        order = {"arguments": [*arguments], "environment": dict(environment), **files}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        child = ForkedProcess(self, int(self._heard("born")))
        self._children[child.pid] = child
        return child

    def hear_end(self) -> None:
        """Wait for the end of a child, whichever comes first."""
        self._heard("ended")

    def _heard(self, what: str) -> str:
        """The next news of a kind; ends of children that come before it are kept."""
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            word, _, rest = self._process.stdout.readline().strip().partition(" ")
            if not word:
                raise RuntimeError(f"the nursery has ended with {self._process.wait()}")
            if word == "ended":
                pid, _, code = rest.partition(" ")
                self._children.pop(int(pid)).code = int(code)  # another child may have this number soon
            if word == what:
                return rest


class ForkedProcess:
    """One run, as much like a `subprocess.Popen` as an `OperatorProcess` needs."""

    def __init__(self, nursery: ForkServer, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        """The exit code; None until the fork server has reported it."""
        self._nursery = nursery

    def poll(self) -> int | None:
        """The exit code, or minus the signal's number; None while it runs."""
        return self.wait() if self.code is None and _is_over(self.pid) else self.code

    def wait(self) -> int:
        """The same, once it has ended."""
        while self.code is None:
            self._nursery.hear_end()
        return self.code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end at this very moment
                os.kill(self.pid, number)


def _is_over(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before, or between opening and reading
        return True
    return state == "Z"


# ---- the nursery's side


def main(arguments: Sequence[str]) -> None:
    """Import, and fork on order until the input ends."""
    _die_with(int(arguments[0]))
    from stellwerk.cli.main import run

    for module in ("stellwerk.cli.verbs.run", *arguments[1:]):
        import_module(module)
    gc.collect()
    gc.freeze()  # children share these pages as long as no reference count changes
    _tell("ready")
    order = _serve()
    if order is not None:
        if order[0] == "-m":
            sys.exit(import_module(order[1]).main(*order[2:]))
        sys.exit(run(order))


def _serve() -> list[str] | None:
    """Carry out orders. Returns in each child with its arguments, and in the nursery when there are no more orders."""
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ, None)
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                waiting.unregister(key.fd)
                os.close(key.fd)
                _reap(key.data)
                continue
            line = sys.stdin.readline()
            if not line:
                return None
            order = json.loads(line)
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                waiting.close()
                _settle(parent, order["environment"], order["log"], order["errors"])
                arguments: list[str] = order["arguments"]
                return arguments
            waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)


def _reap(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    _tell(f"ended {pid} {os.waitstatus_to_exitcode(status)}")


def _settle(parent: int, environment: Mapping[str, str], log: str, errors: str) -> None:
    """In the child: a session, an environment and files of its own."""
    os.setsid()
    _die_with(parent)
    _tell(f"born {os.getpid()}")  # by itself, and not before it leads its own group
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in ((1, log), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), number)
    os.closerange(3, 256)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
