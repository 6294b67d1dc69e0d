"""One local cluster: a folder, six processes, one port.

The folder is the whole truth: the locks in it show what runs, and everything else is next to them (see
`folder`). So a second `up` finds the first, an `up` after a crash adopts what still runs and starts what does not, and
`down` leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.local import components, startup
from stellwerk.local.build import control_plane
from stellwerk.local.build.control_plane import Binaries, Say
from stellwerk.local.components import API_SERVER, ETCD, PROVISIONER, Options
from stellwerk.local.errors import BadName, LocalError, PortTaken, ProcessStartFailed, RemovalFailed, RunsElsewhere
from stellwerk.local.folder import LOGS, ClusterFolder
from stellwerk.local.host import locks, ports, processes
from stellwerk.local.host.names import is_name, state_folder
from stellwerk.local.host.ports import HOST
from stellwerk.local.host.processes import Process
from stellwerk.local.startup import Startup
from stellwerk.local.wire import Wire

DEFAULT = "local"
"""The default name of the cluster."""
_TRIES_FOR_A_PORT = 3
_GRACE_SECONDS = 10.0
_RESTART_GRACE_SECONDS = 2.0
_SOURCE = "STELLWERK_LOCAL_SOURCE"
"""The variable in the environment of a companion that identifies its code."""
_NOT_RENAMED = (errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST)
"""A layer of a container's file system, a mount, and a former folder of which a part cannot be removed."""
_WAITS = "waiting for another stellwerk command on this system"


def _say_nothing(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of the cluster. `pid` is None when it does not run; `arguments` are what it was started with.

    Nothing else is known of a process that `runs_elsewhere`: in another container or on another machine.
    """

    name: str
    pid: int | None
    log: Path
    arguments: Sequence[str] = ()
    runs_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What is known of a cluster. `ready` is the API server's own answer; `version` is empty when it gives none."""

    folder: Path
    url: str
    version: str
    ready: bool
    components: Sequence[ProcessStatus]

    @property
    def logs(self) -> Path:
        """The folder with the log of each process."""
        return self.folder / LOGS

    @property
    def address(self) -> str:
        """Host and port of the API server."""
        return self.url.removeprefix("https://")


def named(name: str = DEFAULT, options: Options | None = None) -> LocalCluster:
    """The cluster of this name, running or not. Raises BadName."""
    if not is_name(name):
        raise BadName(name)
    return LocalCluster(state_folder() / name, options or Options())


def at_address(server: str) -> LocalCluster | None:
    """The cluster of this machine whose API server has this address, running or not; None where there is none."""
    for record in sorted(state_folder().glob("*/cluster.json")):
        found = LocalCluster(record.parent)
        with contextlib.suppress(LocalError):  # a damaged record hides its cluster and no other
            if found.url == server:
                return found
    return None


def command_line(verb: str, name: str) -> str:
    """What a user types to have `stellwerk` do something with the cluster of this name."""
    return f"stellwerk {verb}" if name == DEFAULT else f"stellwerk {verb} --name {name}"


def default_kubeconfig() -> Path | None:
    """The administrator's kubeconfig of the cluster that `stellwerk up` made, if there is one.

    Another context than that of the cluster may be current in it: see `folder.CONTEXT`.
    """
    file = state_folder() / DEFAULT / "kubeconfig"
    return file if file.is_file() else None


class LocalCluster:
    """A Kubernetes control plane on this machine. All methods block; all may be called from several processes."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder.absolute()
        self.options = options or Options()
        self._inside = ClusterFolder(self.folder)

    # Facts

    @property
    def exists(self) -> bool:
        """Whether there is a cluster, running or not, or what an incomplete `down` left of it."""
        return self.folder.exists() or self._removed.exists()

    @property
    def _removed(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.removed")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, in which another context than that of the cluster may be current."""
        return self._inside.kubeconfig

    @property
    def authority(self) -> Path:
        """The certificate that the API server's own is checked against, as PEM."""
        return self._inside.authority

    @property
    def audit_log(self) -> Path:
        """Every finished request but the control plane's own: a line of JSON each (audit.k8s.io/v1, Metadata)."""
        return self.folder / "audit.log"

    @property
    def port(self) -> int:
        """The API server's port on loopback, 0 before the first start. Raises BrokenData."""
        record = self._inside.record()
        return record.port if record else 0

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.port}"

    def wire(self) -> Wire:
        """Plain requests as the administrator. Raises OSError when there is no cluster."""
        return startup.wire_of(self._inside, self.port)

    def process(self, name: str) -> Process:
        """A component or companion by name (see `components`), for signals and logs."""
        return self._inside.process(name)

    def companion(self, name: str) -> ProcessStatus | None:
        """A process that was started besides the control plane, running or not; None where it never was."""
        return next((_status_of(each) for each in self._inside.processes() if each.name == name), None)

    def status(self) -> ClusterStatus:
        """What runs, and whether the API server is ready."""
        expected = [self.process(name) for name in self.options.components]
        known = {process.name: process for process in [*expected, *self._inside.processes()]}
        parts = [_status_of(process) for process in known.values()]
        version = startup.reported_version(self._inside, self.port)
        return ClusterStatus(self.folder, self.url, version, startup.is_ready(self._inside, self.port), parts)

    # Life

    def up(self, say: Say = _say_nothing) -> None:
        """Start the cluster, or find it running; returns when it is ready for work.

        Raises the LocalError that fits; what this call had started is then ended again. A system whose data this
        version cannot use continues to run.
        """
        binaries = control_plane.ensure(say)
        with self._alone(say):
            with self._explained():
                self._inside.check()
            self._end_outdated(binaries)
            if not all(self.process(name).is_running() for name in self.options.components):
                say("starting the control plane")
            self._start_on_some_port(binaries)

    def down(self, say: Say = _say_nothing) -> None:
        """End every process and remove everything, data included. Nothing happens when there is nothing.

        Raises RemovalFailed where files stay; the next call removes those, too.
        """
        with self._alone(say):
            everything = self._inside.processes()
            components = set(Options().components)
            companions = [process for process in everything if process.name not in components]
            processes.stop_all(companions, grace_seconds=_GRACE_SECONDS)
            processes.kill_all(everything)
            self._remove_data()

    def stop(self, say: Say = _say_nothing) -> None:
        """End every process and keep the data for the next `up`."""
        with self._alone(say):
            _stop_in_order(self._inside.processes())

    def start(self, name: str) -> None:
        """Start one component that was stopped or killed. Returns at once; see `wait_until_ready`."""
        Startup(self._inside, self.options, control_plane.ensure(), self.port).begin(name)

    def wait_until_ready(self, timeout_seconds: float = startup.READY_SECONDS) -> None:
        """Wait until the API server reports that it is ready. Raises ProcessStartFailed."""
        Startup(self._inside, self.options, control_plane.ensure(), self.port).wait_until_ready(timeout_seconds)

    def restart(self, name: str) -> None:
        """Stop and start one component, and wait until the API server is ready again.

        An API server with open watches never ends by itself, so it is killed after two seconds. No write is lost.
        """
        self.process(name).stop(grace_seconds=_RESTART_GRACE_SECONDS)
        self.start(name)
        self.wait_until_ready()

    def start_companion(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        environment: Mapping[str, str],
        *,
        source: str = "",
    ) -> Process:
        """Start a process that belongs to the cluster: shown by `status`, ended by `down`.

        Finds a running one, unless that was started with another `source`, which identifies its code: then it is
        replaced. `command` is called only when there is something to start.
        """
        process = self.process(name)
        with self._alone():
            if process.is_running() and process.variable(_SOURCE) != source:
                process.stop(grace_seconds=_GRACE_SECONDS)
            if not process.is_running():
                process.start(command(), working_folder=self.folder, environment={**environment, _SOURCE: source})
        return process

    # Credentials

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), *, namespace: str = "default") -> Path:
        """A kubeconfig whose bearer is this user in these groups and may what RBAC grants them."""
        return self._inside.issue(user, groups, self.port, namespace)

    def kubeconfig_of_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig whose bearer is this service account, whether or not the account exists, in its namespace."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return self.kubeconfig_for(f"system:serviceaccount:{namespace}:{name}", groups, namespace=namespace)

    def renew_serving_certificate(self) -> None:
        """Give the API server a new certificate; it notices by itself within a minute, or at a restart."""
        self._inside.renew_serving_certificate()

    # How

    def _remove_data(self) -> None:
        """Remove the folder under another name, so that half of it is never taken for a cluster.

        Where it cannot be renamed, it is removed in its place. Raises RemovalFailed.
        """
        failures = _remove_tree(self._removed)
        place = self._removed
        try:
            self.folder.rename(place)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in _NOT_RENAMED:
                raise RemovalFailed(self.folder, error.strerror or str(error)) from error
            failures = [*_remove_tree(self.folder), *failures]
        else:
            failures = _remove_tree(place)
        if failures:
            first = failures[0]
            raise RemovalFailed(Path(first.filename), first.strerror or str(first)) from first

    def _end_outdated(self, binaries: Binaries) -> None:
        """After an update of ours, what runs is last week's program or has its flags: it ends, and its data stays."""
        running = [process for name in self.options.components if (process := self.process(name)).is_running()]
        _stop_in_order([process for process in running if self._is_outdated(process, binaries)])

    def _is_outdated(self, process: Process, binaries: Binaries) -> bool:
        command = components.command(process.name, self.folder, self.port, self.options, binaries)
        if process.arguments() != command or any(
            process.began_before(file.stat().st_mtime) for file in components.files(process.name, binaries)
        ):
            return True
        # A program that was built again has the same path. The provisioner's is Python, which may be a link.
        return process.name != PROVISIONER and not process.runs(Path(command[0]))

    def _end_misled(self, port: int) -> None:
        """A client of another port would not find the API server again: it is restarted, or ended."""
        if self.port not in (0, port):
            _stop_in_order([process for process in self._inside.processes() if process.name != ETCD])

    def _start_on_some_port(self, binaries: Binaries) -> None:
        for _ in range(_TRIES_FOR_A_PORT - 1):
            try:
                self._start(binaries)
            except PortTaken:
                # Another process took the port that was free. Where no port was requested, another one is chosen.
                if self.options.port:
                    raise
            else:
                return
        self._start(binaries)

    def _start(self, binaries: Binaries) -> None:
        port = self._choose_port()
        self._end_misled(port)
        with self._explained():
            self._inside.prepare(port)
            start = Startup(self._inside, self.options, binaries, port)
            try:
                start.run()
            except BaseException:
                start.undo()
                raise

    def _choose_port(self) -> int:
        kept = self.port
        if self.process(API_SERVER).is_running():
            return kept
        if self.options.port:
            if not ports.is_free(self.options.port):
                raise PortTaken(f"{HOST}:{self.options.port}")
            return self.options.port
        return kept if kept and ports.is_free(kept) else ports.free_port()

    @contextlib.contextmanager
    def _alone(self, say: Say = _say_nothing) -> Iterator[None]:
        """Only one process at a time changes the cluster."""
        with contextlib.ExitStack() as held:
            with self._explained():
                self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                lock = self.folder.with_name(f".{self.folder.name}.lock")
                held.enter_context(locks.alone(lock, lambda: say(_WAITS)))
            yield

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the file system refuses into words."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._inside.no_space() from error
            raise ProcessStartFailed(
                "cannot prepare the local control plane",
                cause=f"{error.filename}: {error.strerror}",
                fix=f"make {self.folder.parent} writable, or set STELLWERK_STATE to another folder",
            ) from error


def _remove_tree(folder: Path) -> list[OSError]:
    """Remove a folder, which may not exist, with all that can be removed of it. Returns the failures.

    `shutil.rmtree` ends at the first failure, or names it in a way that depends on the version of Python.
    """
    failures: list[OSError] = []
    if not os.path.lexists(folder):
        return failures
    for parent, folders, files in os.walk(folder, topdown=False, onerror=failures.append):
        for name in (*files, *folders):
            _remove(Path(parent, name), failures)
    _remove(folder, failures)
    if [error.errno for error in failures] == [errno.EBUSY]:  # a mount: it stays, and is empty
        return []
    return failures


def _remove(path: Path, failures: list[OSError]) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    except OSError as error:
        failures.append(error)


def _status_of(process: Process) -> ProcessStatus:
    # Only what still runs has arguments, so a process that ends meanwhile is never one that runs without any.
    try:
        arguments = process.arguments()
        return ProcessStatus(process.name, process.pid if arguments else None, process.log, arguments)
    except RunsElsewhere:
        return ProcessStatus(process.name, None, process.log, runs_elsewhere=True)


def _stop_in_order(running: Sequence[Process]) -> None:
    """The clients of etcd first, so that none waits for answers that cannot come; then etcd."""
    processes.stop_all([process for process in running if process.name != ETCD], grace_seconds=_GRACE_SECONDS)
    processes.stop_all([process for process in running if process.name == ETCD], grace_seconds=_GRACE_SECONDS)
