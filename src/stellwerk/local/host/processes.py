"""Child processes that outlive their parent, and are found again.

A component runs in a session of its own, so Ctrl-C at the terminal does not reach it. Its identity is in `NAME.pid`;
a lock on that file shows that it is alive, which the component itself holds through an inherited descriptor.
The kernel gives a lock back when its holder dies, however it dies, so a stale file is never mistaken for a live
process. We refused the usual pair of process id and start time: it has a gap between fork and write, in which a killed
parent leaves an unknown child.

A lock is seen in every container that shares the folder, a process id means something only in one. So the id is trusted
only while that process here has NAME.pid open at the descriptor of the lock; otherwise nothing is signalled or removed.
A container with the process ids of its host (toolbox, distrobox) may not see which file that is: there the id is
trusted while the arguments of the process have a path in the folder of this cluster.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local.errors import ProcessStopFailed, RunsElsewhere

# The shell writes its own id and becomes the component: same process, and no moment in which it runs unrecorded.
_RECORD_AND_BECOME = 'umask 077; cd "$0" && echo $$ >&9 && exec "$@"'
_LOCK_DESCRIPTOR = 9
_RELEASE_SECONDS = 1.0
"""How long the kernel may take from the end of a process to the release of its lock."""


@dataclass(frozen=True, slots=True)
class Process:
    """One named child of a folder: running or not, ours or adopted.

    `folder` holds NAME.pid; `log` receives standard output and standard error of this run, and the one before is kept
    next to it.
    """

    name: str
    folder: Path
    log: Path

    @property
    def pid(self) -> int | None:
        """The process id, or None when it does not run. Raises RunsElsewhere."""
        deadline: float | None = None
        while self._is_locked():
            text = _read(self._file)
            # Between fork and the shell's first line the lock is held and the id not yet written.
            if text.endswith("\n"):
                if self._is_held_by(text.strip()):
                    return int(text)
                if self._is_held_by_children():
                    return None
                deadline = deadline or time.monotonic() + _RELEASE_SECONDS
                if time.monotonic() > deadline:
                    raise RunsElsewhere(self.name, self._file, text.strip())
            select.select([], [], [], 0.001)
        return None

    def _is_held_by(self, pid: str) -> bool:
        # A process that ends closes its files thread by thread, and the lock goes with the last one.
        process = Path("/proc", pid)
        return (
            self._has_open(process)
            or any(self._has_open(thread) for thread in process.glob("task/*"))
            or (_hides_its_lock(process) and self._is_of_our_folder(process))
        )

    def _is_held_by_children(self) -> bool:
        """Whether the process has ended and left children of its own that hold the lock.

        The processes of a container are seen from outside of it, too; only one that shares our ids counts.
        """
        return any(self._has_open(process) and _shares_our_ids(process) for process in Path("/proc").glob("[0-9]*"))

    def _has_open(self, process: Path) -> bool:
        try:
            return os.path.samestat((process / "fd" / str(_LOCK_DESCRIPTOR)).stat(), self._file.stat())
        except OSError:
            return False

    def _is_of_our_folder(self, process: Path) -> bool:
        """Whether an argument of the process is a path in the folder of the cluster, which has ours in it."""
        start = f"{self.folder.parent}/"
        words = _command_line(int(process.name))
        return any(f"{word}/".startswith(start) or f"={start}" in word for word in words)

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def is_running(self) -> bool:
        """Whether the process lives. Raises RunsElsewhere."""
        return self.pid is not None

    def _is_locked(self) -> bool:
        try:
            descriptor = os.open(self._file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who ask at once do not take each other for the process.
            return not _lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def runs(self, program: Path) -> bool:
        """Whether the process is this program, and not another one or one that was replaced on the disk since."""
        if (pid := self.pid) is None:
            return False
        try:
            return Path(f"/proc/{pid}/exe").readlink() == program.resolve()
        except OSError:
            return False

    def arguments(self) -> list[str]:
        """The words that the process was started with, its program first; none when it does not run."""
        while (pid := self.pid) is not None:
            words = _command_line(pid)
            # For a moment it is the shell that becomes it, and in the midst of becoming it has no words at all.
            if words and _RECORD_AND_BECOME not in words:
                return words
            select.select([], [], [], 0.001)
        return []

    def variable(self, name: str) -> str:
        """A variable of its environment at the start; empty without it, or when the process does not run."""
        if not self.arguments():  # which waits until the process has become its program
            return ""
        return _environment(self.pid).get(name, "")

    def began_before(self, moment: float) -> bool:
        """Whether the process runs and was started before a moment, in seconds of the epoch."""
        # The id file is written at the start and never again.
        return self.is_running() and self._file.stat().st_mtime < moment

    def start(self, arguments: Sequence[str], *, working_folder: Path, environment: Mapping[str, str]) -> int:
        """Start the process unless it runs already, and return its id. `arguments[0]` is the path of the program."""
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _lock(descriptor, fcntl.LOCK_EX):
                if (pid := self.pid) is not None:
                    return pid
                if self._is_locked():  # by children that have outlived it, which do not matter
                    self._file.unlink(missing_ok=True)
                return self.start(arguments, working_folder=working_folder, environment=environment)
            os.ftruncate(descriptor, 0)
            return self._spawn(descriptor, [str(working_folder), *arguments], environment)
        finally:
            os.close(descriptor)

    def _spawn(self, lock: int, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".previous.log"))
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", _RECORD_AND_BECOME, *arguments],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                    (os.POSIX_SPAWN_DUP2, lock, _LOCK_DESCRIPTOR),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
                setsigmask=[],
            )
        finally:
            os.close(log)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process does not run."""
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def exited_within(self, seconds: float) -> bool:
        """Wait for the end of the process, at most so long. True when it does not run any more."""
        if (pid := self.pid) is not None and not ended_within(pid, seconds):
            return False
        _reap(_read(self._file))
        return True

    def stop(self, *, grace_seconds: float = 10.0) -> None:
        """Ask the process to end, wait so long, then kill it. Its id file is removed. Raises ProcessStopFailed."""
        self.signal(signal.SIGTERM)
        if not self.exited_within(grace_seconds):
            self.kill()
        self._file.unlink(missing_ok=True)

    def kill(self, *, within_seconds: float = 10.0) -> None:
        """End the process at once, as a power cut would, and wait until it is gone. Raises ProcessStopFailed."""
        self.signal(signal.SIGKILL)
        if not self.exited_within(within_seconds):
            raise ProcessStopFailed(self.name, self._file)
        self._file.unlink(missing_ok=True)

    def log_tail(self, lines: int = 5) -> str:
        """The last lines that this run wrote, for messages."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 65_536))
            return "\n".join(log.read().decode(errors="replace").strip().splitlines()[-lines:])
        return ""


def keep_lock_from_children() -> None:
    """Keep the lock of this process, where it is one of a folder, from the programs that it starts itself.

    uvloop starts programs with every descriptor that can be inherited, and such a program would show an ended process
    as running.
    """
    try:
        file = Path(f"/proc/self/fd/{_LOCK_DESCRIPTOR}").readlink()
        if file.suffix == ".pid" and file.read_text() == f"{os.getpid()}\n":
            os.set_inheritable(_LOCK_DESCRIPTOR, False)
    except (OSError, ValueError):  # another file, a socket, or no /proc
        return


def recorded(folder: Path, log_folder: Path) -> list[Process]:
    """Every process that was started in this folder and not stopped since, dead or alive."""
    return [Process(file.stem, folder, log_folder / f"{file.stem}.log") for file in sorted(folder.glob("*.pid"))]


def stop_all(processes: Sequence[Process], *, grace_seconds: float) -> None:
    """Ask all at once, so that the slowest one sets the time and not the sum."""
    for process in processes:
        process.signal(signal.SIGTERM)
    for process in processes:
        process.stop(grace_seconds=grace_seconds)


def kill_all(processes: Sequence[Process]) -> None:
    """End all at once."""
    for process in processes:
        process.signal(signal.SIGKILL)
    for process in processes:
        process.kill()


def ended_within(pid: int, seconds: float) -> bool:
    """Whether a process of any parent ends within a time in seconds; also if its id was never given."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()  # select() refuses descriptors over 1,023, which a busy program may have.
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _shares_our_ids(process: Path) -> bool:
    try:
        return (process / "ns" / "pid").readlink() == Path("/proc/self/ns/pid").readlink()
    except OSError:
        return False


def _hides_its_lock(process: Path) -> bool:
    """Whether the process has a file open at the descriptor of the lock, and we may not see which one."""
    descriptor = process / "fd" / str(_LOCK_DESCRIPTOR)
    try:
        descriptor.lstat()
    except OSError:
        return False
    try:
        descriptor.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def _command_line(pid: int) -> list[str]:
    return _words(pid, "cmdline")


def _environment(pid: int | None) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in _words(pid, "environ"))


def _words(pid: int | None, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _reap(recorded_id: str) -> None:
    """A dead child of ours stays a zombie until it is waited for; an adopted one is not ours to wait for."""
    if recorded_id:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(recorded_id), os.WNOHANG)
