"""One local cluster: a folder, five processes, one port.

The folder is the whole truth: what runs is told by the locks in `run/`, and everything else lies beside them. So a
second `up` finds the first, an `up` after a crash adopts what still runs and starts what does not, and `down` leaves
nothing behind.

    cluster.json      port, version, options            kubeconfig       the administrator's
    pki/              authority, server, token key      credentials/     one kubeconfig per identity
    data/             etcd                              log/ audit.log   what was said and asked
    run/              process ids, held by locks
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stellwerk.local import build, certs, components, processes
from stellwerk.local.components import API_SERVER, ETCD, HOST, Options
from stellwerk.local.errors import BrokenData, LocalError, NoSpace, PortTaken, StartFailed, TooOld, WrongBinary
from stellwerk.local.processes import Process
from stellwerk.local.wire import Answer, Wire

_ADMINISTRATORS = "system:masters"
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_FREE_BYTES = 300 * 1024**2
_FOLDERS = ("pki", "credentials", "log", "run")


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One process of the cluster. `pid` is None when it does not run."""

    name: str
    pid: int | None
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What is known of a cluster. `ready` is the API server's own answer; `version` is empty when it gives none."""

    folder: Path
    url: str
    version: str
    ready: bool
    components: Sequence[ComponentStatus]

    @property
    def address(self) -> str:
        """Host and port of the API server."""
        return self.url.removeprefix("https://")

    @property
    def is_complete(self) -> bool:
        """Whether everything that belongs to the cluster runs."""
        return all(component.pid for component in self.components)


def state_folder() -> Path:
    """Where clusters live: $STELLWERK_STATE, or `stellwerk` in the user's state folder."""
    if own := os.environ.get("STELLWERK_STATE"):
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "stellwerk"


def named(name: str = "local", options: Options | None = None) -> LocalCluster:
    """The cluster of this name, running or not."""
    return LocalCluster(state_folder() / name, options or Options())


def default_kubeconfig() -> Path | None:
    """The administrator's kubeconfig of the cluster that `stellwerk up` made, if there is one."""
    file = state_folder() / "local" / "kubeconfig"
    return file if file.is_file() else None


class LocalCluster:
    """A Kubernetes control plane on this machine. All methods block; all may be called from several processes."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder.absolute()
        self.options = options or Options()

    # Facts

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate that the API server's own is checked against, as PEM."""
        return self.folder / "pki" / "ca.crt"

    @property
    def audit_log(self) -> Path:
        """Every finished request but the control plane's own: a line of JSON each (audit.k8s.io/v1, Metadata)."""
        return self.folder / "audit.log"

    @property
    def port(self) -> int:
        """The API server's port on loopback. Raises BrokenData when the cluster's record cannot be read."""
        record = self._record()
        port = record.get("port", 0) if record else 0
        return port if isinstance(port, int) else 0

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.port}"

    def process(self, name: str) -> Process:
        """A component or companion by name (see `components`), for signals and logs."""
        return Process(name, self.folder / "run", self.folder / "log" / f"{name}.log")

    def status(self) -> ClusterStatus:
        """What runs, and whether the API server is ready."""
        running = self._recorded()
        known = {process.name: process for process in [*map(self.process, self.options.components), *running]}
        parts = [ComponentStatus(name, process.pid, process.log) for name, process in known.items()]
        return ClusterStatus(self.folder, self.url, self._version(), self._is_ready(), parts)

    # Life

    def up(self, say: build.Say = lambda text: None) -> None:
        """Start the cluster, or find it running; returns when it is ready for work.

        Raises the LocalError that fits; what this call had started is then ended again.
        """
        with self._alone():
            binaries = build.ensure(say)
            started: list[Process] = []
            try:
                with self._needs_space():
                    self._end_outdated(binaries)
                    self._prepare()
                    self._start_all(binaries, started, say)
            except BaseException:
                processes.kill_all(started)
                raise

    def down(self) -> None:
        """End every process and remove everything, data included. Nothing happens when there is nothing."""
        with self._alone():
            everything = self._recorded()
            own = set(Options().components)
            processes.stop_all([process for process in everything if process.name not in own], grace_seconds=10.0)
            processes.kill_all(everything)
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """End every process and keep the data for the next `up`."""
        with self._alone():
            _stop_in_order(self._recorded())

    def start(self, name: str) -> None:
        """Start one component that was stopped or killed. Returns at once; see `wait_until_ready`."""
        self._start(name, build.ensure())

    def wait_until_ready(self, timeout_seconds: float = _READY_SECONDS) -> None:
        """Wait until the API server says it is ready. Raises StartFailed."""
        deadline = time.monotonic() + timeout_seconds
        while not self._is_ready():
            self._check_alive([self.process(ETCD), self.process(API_SERVER)], deadline)

    def restart(self, name: str) -> None:
        """Stop and start one component, and wait until the API server is ready again."""
        self.process(name).stop()
        self.start(name)
        self.wait_until_ready()

    def start_companion(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a process that belongs to the cluster: shown by `status`, ended by `down`. Finds a running one."""
        process = self.process(name)
        process.start(arguments, working_folder=self.folder, environment=environment)
        return process

    def wire(self) -> Wire:
        """Plain requests as the administrator. Raises OSError when there is no cluster."""
        return Wire(self.port, authority=self.authority, identity=self.folder / "pki" / "admin.pem")

    # Credentials

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig whose bearer is this user in these groups and may what RBAC grants them.

        A service account is the user `system:serviceaccount:NAMESPACE:NAME` in the groups `system:serviceaccounts`
        and `system:serviceaccounts:NAMESPACE`.
        """
        credential = certs.load_or_create_authority(self.folder / "pki").client(user, groups)
        name = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in user)
        target = self.folder / "credentials" / f"{name}-{os.urandom(4).hex()}.kubeconfig"
        self._write_kubeconfig(target, user, credential)
        return target

    def renew_serving_certificate(self) -> None:
        """Give the API server a new certificate; it notices by itself within a minute, or at a restart."""
        authority = certs.load_or_create_authority(self.folder / "pki")
        self._write_pair("server", authority.server([HOST]))

    # Start

    def _end_outdated(self, binaries: build.Binaries) -> None:
        """After an update of ours, what runs is last week's program: it ends, and its data is taken over."""
        programs = (binaries.control_plane, binaries.pod_runner)
        running = [process for name in self.options.components if (process := self.process(name)).is_running()]
        outdated = [process for process in running if not any(process.runs(program) for program in programs)]
        _stop_in_order(outdated)

    def _start_all(self, binaries: build.Binaries, started: list[Process], say: build.Say) -> None:
        if not self._run_state_complete():
            say("starting the control plane")
        self._start(ETCD, binaries, started)
        self._wait_for_etcd()
        for name in self.options.components[1:]:
            self._start(name, binaries, started)
        self.wait_until_ready()
        build.check_version(self._version(), binaries)
        self._wait_for_work()

    def _run_state_complete(self) -> bool:
        return all(self.process(name).is_running() for name in self.options.components)

    def _start(self, name: str, binaries: build.Binaries, started: list[Process] | None = None) -> None:
        process = self.process(name)
        if process.is_running():
            return
        if started is not None:
            started.append(process)
        arguments = components.command(name, self.folder, self.port, self.options, binaries)
        process.start(arguments, working_folder=self.folder, environment=dict(os.environ))

    def _wait_for_etcd(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not self._etcd_listens():
            self._check_alive([self.process(ETCD)], deadline)

    def _etcd_listens(self) -> bool:
        here = os.open(self.folder, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                # By way of the folder's descriptor, because a socket's path has at most 107 bytes.
                connection.connect(f"/proc/self/fd/{here}/{components.ETCD_SOCKET}")
        except OSError:
            return False
        finally:
            os.close(here)
        return True

    def _wait_for_work(self) -> None:
        """Wait until what runs beside the API server does its work: service accounts are made, the node is ready."""
        deadline = time.monotonic() + _READY_SECONDS
        wire = self.wire()
        if self.options.pods:
            wire.ask("POST", "/api/v1/nodes", components.node())
        while not (self._controllers_work(wire) and self._node_is_ready(wire)):
            self._check_alive([self.process(name) for name in self.options.components], deadline)

    def _controllers_work(self, wire: Wire) -> bool:
        if not self.options.controllers:
            return True
        answer = wire.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        return answer is not None and answer.status == 200

    def _node_is_ready(self, wire: Wire) -> bool:
        if not self.options.pods:
            return True
        answer = wire.ask("GET", f"/api/v1/nodes/{components.NODE}")
        return answer is not None and b'"KubeletReady"' in answer.body

    def _check_alive(self, expected: Sequence[Process], deadline: float) -> None:
        """Let a moment pass. Raises StartFailed, or what fits better, when a process ended or time is up."""
        for process in expected:
            if process.exited_within(_POLL_SECONDS / len(expected)):
                raise self._reason_of_end(process)
        if time.monotonic() > deadline:
            tails = "\n         ".join(f"{process.name}: {process.log_tail(2)}" for process in expected)
            raise StartFailed(
                f"the local control plane is not ready after {_READY_SECONDS:.0f} s",
                cause=tails,
                fix=f"look into {self.folder / 'log'}; `stellwerk down` and `stellwerk up` start afresh",
            )

    def _reason_of_end(self, process: Process) -> LocalError:
        tail = process.log_tail(400)
        last = "\n         ".join(tail.splitlines()[-4:])
        if "no space left on device" in tail:
            return self._no_space()
        if "address already in use" in tail:
            return self._port_taken(self.port)
        # Not a word, or a complaint of the shell, which names itself or the program it could not become.
        if not tail or tail.startswith(("sh:", str(build.cache_folder()))):
            return WrongBinary(
                f"{process.name} cannot be started on this machine",
                cause=last or "it ended without a word",
                fix=f"remove {build.cache_folder()} and start again; it is then built anew",
            )
        if process.name == ETCD:
            return self._broken("etcd cannot read its data", last)
        return StartFailed(
            f"{process.name} ended while starting", cause=last or "it said nothing", fix=f"see {process.log}"
        )

    # The folder

    def _recorded(self) -> list[Process]:
        return processes.recorded(self.folder / "run", self.folder / "log")

    def _prepare(self) -> None:
        if shutil.disk_usage(_existing_parent(self.folder)).free < _FREE_BYTES:
            raise self._no_space()
        for name in _FOLDERS:
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._settle_record()
        self._settle_credentials()
        certs.write_private(self.folder / "audit-policy.json", json.dumps(components.audit_policy()).encode())

    def _settle_record(self) -> None:
        record = self._record()
        if record:
            _check_upgrade(str(record.get("version")), self.folder)
        port = self._choose_port(record)
        new = {"version": build.KUBERNETES_VERSION, "port": port}
        if new != record:
            certs.write_private(self.folder / "cluster.json", json.dumps(new).encode())

    def _choose_port(self, record: Mapping[str, object] | None) -> int:
        kept = record.get("port", 0) if record else 0
        kept = kept if isinstance(kept, int) else 0
        if self.process(API_SERVER).is_running():
            return kept
        if self.options.port:
            if not _is_free(self.options.port):
                raise self._port_taken(self.options.port)
            return self.options.port
        return kept if kept and _is_free(kept) else _free_port()

    def _record(self) -> Mapping[str, object] | None:
        file = self.folder / "cluster.json"
        try:
            record = json.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._broken("the cluster's record cannot be read", f"{file}: {error}") from error
        if not isinstance(record, dict):
            raise self._broken("the cluster's record cannot be read", f"{file} is not an object")
        return record

    def _settle_credentials(self) -> None:
        keys = self.folder / "pki"
        try:
            authority = certs.load_or_create_authority(keys)
        except (ValueError, TypeError) as error:
            raise self._broken("the cluster's certificates cannot be read", f"{keys}: {error}") from error
        if not (keys / "service-accounts.key").exists():
            certs.write_private(keys / "service-accounts.key", certs.new_signing_key())
        if not certs.is_fresh(keys / "server.crt", authority):
            self._write_pair("server", authority.server([HOST]))
        self._settle_identities(authority)

    def _settle_identities(self, authority: certs.Authority) -> None:
        fresh = certs.is_fresh(self.folder / "pki" / "admin.pem", authority)
        # Kubeconfigs carry the port, which may have changed; they are as cheap to write as to compare.
        admin = authority.client("stellwerk:admin", [_ADMINISTRATORS])
        if not fresh:
            certs.write_private(self.folder / "pki" / "admin.pem", admin.certificate + admin.key)
        self._write_kubeconfig(self.kubeconfig, "stellwerk:admin", admin)
        for user, component in components.IDENTITIES.items():
            groups = [_ADMINISTRATORS] if component == components.POD_RUNNER else []
            target = self.folder / "credentials" / f"{component}.kubeconfig"
            self._write_kubeconfig(target, user, authority.client(user, groups))

    def _write_pair(self, name: str, credential: certs.Credential) -> None:
        certs.write_private(self.folder / "pki" / f"{name}.key", credential.key)
        certs.write_private(self.folder / "pki" / f"{name}.crt", credential.certificate)

    def _write_kubeconfig(self, target: Path, user: str, credential: certs.Credential) -> None:
        context = {"cluster": "local", "user": user, "namespace": "default"}
        secret = {
            "client-certificate-data": b64encode(credential.certificate).decode(),
            "client-key-data": b64encode(credential.key).decode(),
        }
        server = {"server": self.url, "certificate-authority-data": b64encode(self.authority.read_bytes()).decode()}
        # JSON is YAML, and the standard library writes it.
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": server}],
            "users": [{"name": user, "user": secret}],
            "contexts": [{"name": "local", "context": context}],
            "current-context": "local",
        }
        certs.write_private(target, json.dumps(document, indent=1).encode())

    # Questions

    def _is_ready(self) -> bool:
        answer = self._ask("/readyz")
        return answer is not None and answer.status == 200

    def _version(self) -> str:
        answer = self._ask("/version")
        return str(answer.json().get("gitVersion", "")) if answer else ""

    def _ask(self, path: str) -> Answer | None:
        try:
            return self.wire().ask("GET", path, timeout_seconds=5.0)
        except OSError:  # No certificates yet, or none any more.
            return None

    # Failures

    @contextlib.contextmanager
    def _needs_space(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (28, 122):  # ENOSPC, EDQUOT
                raise self._no_space() from error
            raise StartFailed(
                "cannot prepare the local control plane",
                cause=f"{error.filename}: {error.strerror}",
                fix=f"make {self.folder.parent} writable, or set STELLWERK_STATE to another folder",
            ) from error

    def _no_space(self) -> NoSpace:
        return NoSpace(
            "cannot start the local control plane: too little disk space",
            cause=f"it needs {_FREE_BYTES // 1024**2} MiB free at {self.folder}",
            fix="free some space, or set STELLWERK_STATE to a folder on a larger disk",
        )

    def _port_taken(self, port: int) -> PortTaken:
        return PortTaken(
            f"cannot start the API server on port {port}",
            cause=f"another process listens on {HOST}:{port}",
            fix="end that process, or choose another port (without --port a free one is chosen)",
        )

    def _broken(self, summary: str, cause: str) -> BrokenData:
        return BrokenData(summary, cause=cause, fix="`stellwerk down` removes the local cluster; then start it again")

    @cached_property
    def _lock_file(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.lock")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one process at a time changes the cluster. The lock's file does not outlive its last user."""
        with self._needs_space():
            self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _locked(self._lock_file)
        try:
            yield
        finally:
            self._lock_file.unlink(missing_ok=True)
            os.close(lock)


def _stop_in_order(running: Sequence[Process]) -> None:
    """Whoever uses etcd first, so that nobody waits for answers that cannot come; then etcd."""
    processes.stop_all([process for process in running if process.name != ETCD], grace_seconds=10.0)
    processes.stop_all([process for process in running if process.name == ETCD], grace_seconds=10.0)


def _locked(file: Path) -> int:
    """A descriptor that holds the lock of a file which may be removed by the one who held it before."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)


def _check_upgrade(written_by: str, folder: Path) -> None:
    """Raise TooOld unless the data may be read: by the same minor version, or the next.

    Source of the rule: Kubernetes documentation, "Version Skew Policy".
    """
    old, new = _minor(written_by), _minor(build.KUBERNETES_VERSION)
    if old is not None and new is not None and 0 <= new - old <= 1:
        return
    raise TooOld(
        f"Kubernetes {build.KUBERNETES_VERSION} cannot use this cluster's data",
        cause=f"{folder} was written by Kubernetes {written_by}",
        fix="`stellwerk down` removes the local cluster; then start it again",
    )


def _minor(version: str) -> int | None:
    parts = version.removeprefix("v").split(".")
    return int(parts[1]) if len(parts) > 2 and parts[0] == "1" and parts[1].isdigit() else None


def _existing_parent(folder: Path) -> Path:
    return folder if folder.exists() else _existing_parent(folder.parent)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
