"""An operator as what it is in a cluster: a process of its own, which can be killed, frozen and started again.

It runs in a process group of its own, and the kernel ends it when the test's process dies, so nothing is left of a test
that was itself killed. The end of the block asks it to stop, insists after a while, and fails the test when a child of
the operator lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import aiohttp

import stellwerk
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.processes.fork_server import ForkedProcess, ForkServer

_FAULTS_IN_LOGS = (
    "Traceback (most recent call last)",
    "was never awaited",
    "exception was never retrieved",
    "Task was destroyed but it is pending",
    "ResourceWarning",
)
_TAIL_LINES = 40
# Asks the kernel for a SIGKILL at the parent's death (prctl 1), checks that it has not died yet, becomes the program.
_BECOME = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
)


class OperatorFailed(AssertionError):
    """The operator did not do as a process what was expected. The message ends with the tail of its log."""


class OperatorProcess:
    """One operator, in one run after the other. Opened by `async with`, which starts nothing yet.

    `arguments[0]` is the program. `environment` is added to a bare one (PATH, HOME, LANG), so a developer's own
    KUBECONFIG never leaks in; `kubeconfig` is given as KUBECONFIG. `health_url` answers 200 when the operator is ready.
    All runs append to `log`. With a `nursery` it starts in a moment; `arguments` are then what a `ForkServer` takes. It
    has the grace that a kubelet gives, and its children `children_seconds` more to notice that it is gone.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
        health_url: str = "",
        grace_seconds: float = 30.0,
        children_seconds: float = 15.0,
        nursery: ForkServer | None = None,
    ) -> None:
        self.arguments = arguments
        self._nursery = nursery
        self.log = log
        self._environment = _bare_environment() | dict(environment or {})
        if kubeconfig is not None:
            self._environment["KUBECONFIG"] = str(kubeconfig)
        self._health_url = health_url
        self._grace_seconds = grace_seconds
        self._children_seconds = children_seconds
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._groups: list[int] = []

    async def __aenter__(self) -> OperatorProcess:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self.is_running:
                self.thaw()
                await self._stop_or_kill()
        finally:
            survivors = await self._end_children()
        if survivors and kind is None:
            raise self._failure(f"children of the operator lived on (process ids {survivors})")

    async def _end_children(self) -> list[int]:
        """Wait a moment for what the operator started, and kill what is left; returns the ids of these."""
        with contextlib.suppress(StillUntrue):
            await eventually(lambda: not _members(self._groups), within=self._children_seconds)
        survivors = _members(self._groups)
        for pid in survivors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return survivors

    @property
    def pid(self) -> int:
        """The process id of the present or last run."""
        return self._run.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives; a frozen one does."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the last run ended: its code, or minus the signal's number. None while it runs."""
        return self._run.poll()

    @property
    def _run(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None, "the operator has not been started"
        return self._process

    @property
    def health_url(self) -> str:
        """The address of its readiness; empty without one."""
        return self._health_url

    async def start(self, *, ready_within: float = 60.0, awaits_readiness: bool = True) -> None:
        """Start it and wait until it is ready; without a health URL it counts as ready at once.

        Raises OperatorFailed when it ends before, or is not ready in time.
        """
        assert not self.is_running, "the operator runs already"
        if self._nursery is not None:
            self._process = self._nursery.start(self.arguments, self._environment, self.log)
        else:
            with self.log.open("ab") as log:
                self._process = self._spawn(log)
        self._groups.append(self._process.pid)
        if self._health_url and awaits_readiness:
            await self.wait_until_ready(within=ready_within)

    def _spawn(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid())]
        return subprocess.Popen(  # noqa: S603 - the program is the test's choice
            [*launcher, *self.arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    async def wait_until_ready(self, *, within: float = 60.0) -> None:
        """Wait for 200 from the health URL. Raises OperatorFailed."""
        last = "nothing"
        timeout = aiohttp.ClientTimeout(total=1.0)

        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def ready() -> bool:
                nonlocal last
                if not self.is_running:
                    raise OperatorFailedEarly
                try:
                    async with session.get(self._health_url) as response:
                        last = f"{response.status} {(await response.text())[:500]}"
                        return response.status == 200
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    last = repr(error)
                    return False

            try:
                await eventually(ready, within=within)
            except OperatorFailedEarly:
                raise self._failure(f"the operator ended with {self.exit_code} before it was ready") from None
            except StillUntrue:
                raise self._failure(f"not ready after {within:g} s: {self._health_url} answers {last}") from None

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to do anything. Its children are not killed. Returns when it has ended."""
        self._signal(signal.SIGKILL)
        await self.wait()

    async def terminate(self, *, within: float | None = None) -> int:
        """SIGTERM; returns the exit code. Raises OperatorFailed when it runs on longer than the grace time."""
        self._signal(signal.SIGTERM)
        return await self.wait(within=within)

    async def restart(self, *, ready_within: float = 60.0) -> None:
        """End it in order if it runs, and start it."""
        if self.is_running:
            await self.terminate()
        await self.start(ready_within=ready_within)

    async def freeze(self) -> None:
        """SIGSTOP: it stops and keeps its connections, as on a machine that is suspended or starved."""
        self._signal(signal.SIGSTOP)
        await eventually(lambda: _facts(self.pid)[0] == "T", describe="the operator is stopped")

    def thaw(self) -> None:
        """SIGCONT: it goes on, unaware of the time that passed."""
        self._signal(signal.SIGCONT)

    async def wait(self, *, within: float | None = None) -> int:
        """Wait for its end, by default as long as the grace time; returns the exit code. Raises OperatorFailed."""
        seconds = self._grace_seconds if within is None else within
        try:
            async with asyncio.timeout(seconds):
                await _ended(self.pid)
        except TimeoutError:
            raise self._failure(f"the operator still runs after {seconds:g} s") from None
        return self._run.wait()

    def log_text(self) -> str:
        """All that it has written, in all runs."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    async def logged(self, pattern: str, *, within: float = 30.0) -> re.Match[str]:
        """Wait until the log has this regular expression; returns its first match. Raises OperatorFailed."""
        try:
            found = await eventually(lambda: re.search(pattern, self.log_text(), re.MULTILINE), within=within)
        except StillUntrue:
            raise self._failure(f"{pattern!r} is not in the log after {within:g} s") from None
        assert found is not None
        return found

    def assert_clean_log(self, *, expected: Sequence[str] = ()) -> None:
        """No traceback, forgotten coroutine or leaked resource is in the log. Raises OperatorFailed.

        A line that contains one of `expected` is left out.
        """
        lines = [line for line in self.log_text().splitlines() if not any(part in line for part in expected)]
        for number, line in enumerate(lines):
            if fault := next((fault for fault in _FAULTS_IN_LOGS if fault in line), None):
                around = "\n  ".join(lines[max(0, number - 3) : number + _TAIL_LINES])
                raise OperatorFailed(f"the operator's log has {fault!r}:\n  {around}")

    async def _stop_or_kill(self) -> None:
        try:
            await self.terminate()
        except OperatorFailed:
            await self.kill()
            raise

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            self._run.send_signal(number)

    def _failure(self, message: str) -> OperatorFailed:
        return OperatorFailed(f"{message}{self._tail()}")

    def _tail(self) -> str:
        lines = self.log_text().splitlines()[-_TAIL_LINES:]
        return "\nits log ends with:\n  " + "\n  ".join(lines) if lines else "\nits log is empty"


class OperatorFailedEarly(Exception):
    """Ends the wait for readiness: there is nothing left to become ready."""


def _bare_environment() -> dict[str, str]:
    """What a program needs, and our own source: another copy may be installed, and would be tested in its place."""
    names = ("PATH", "HOME", "LANG", "TMPDIR", "STELLWERK_CACHE")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"PYTHONPATH": str(Path(stellwerk.__file__).parents[1])}


def _members(groups: Sequence[int]) -> list[int]:
    """The living processes of these process groups."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, group = _facts(int(folder.name))[:3]
            if int(group) in groups and state != "Z":
                found.append(int(folder.name))
    return found


def _facts(pid: int) -> list[str]:
    """State, parent, process group and more (proc(5)); the name before them may hold anything but ends with `)`."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def _ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
