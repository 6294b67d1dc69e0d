"""One start: what is missing is started, in parallel where it can be, and waited for.

etcd first, because an API server that does not find it asks again only after a second. Then everything at once: the
others wait for the API server by themselves. If it takes them too long (they give up after ten seconds, which a busy
machine can need), they are started once more when it is ready.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from stellwerk.local import components, volumes
from stellwerk.local.build import control_plane
from stellwerk.local.build.control_plane import Binaries
from stellwerk.local.components import API_SERVER, ETCD, Options
from stellwerk.local.errors import BrokenData, LocalError, PortTaken, ProcessStartFailed, WrongBinary
from stellwerk.local.folder import LOGS, ClusterFolder
from stellwerk.local.host import processes
from stellwerk.local.host.ports import HOST
from stellwerk.local.host.processes import Process
from stellwerk.local.last_words import complaint, names_damage
from stellwerk.local.wire import Wire, WireAnswer

READY_SECONDS = 60.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Startup:
    """The start of one cluster, whose folder is prepared."""

    folder: ClusterFolder
    options: Options
    binaries: Binaries
    port: int
    started: list[Process] = field(default_factory=list)
    """What this start has started; what it found running is not in here."""

    def run(self) -> None:
        """Start what is missing and wait until the cluster is ready for work. Raises the LocalError that fits."""
        self.begin(ETCD)
        self._wait_for_etcd()
        self._begin_others()
        self.wait_until_ready()
        control_plane.check_version(reported_version(self.folder, self.port), self.binaries)
        self._begin_others()
        self._wait_for_work()

    def undo(self) -> None:
        """End what this start has started."""
        processes.kill_all(self.started)

    def begin(self, name: str) -> None:
        """Start one component unless it runs, and do not wait for it."""
        process = self.folder.process(name)
        if process.is_running():
            return
        self.started.append(process)
        arguments = components.command(name, self.folder.path, self.port, self.options, self.binaries)
        environment = components.environment(name, self.options, os.environ)
        process.start(arguments, working_folder=self.folder.path, environment=environment)

    def wait_until_ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until the API server reports that it is ready. Raises ProcessStartFailed."""
        deadline = time.monotonic() + timeout_seconds
        while not is_ready(self.folder, self.port):
            self._pause([self.folder.process(ETCD), self.folder.process(API_SERVER)], deadline)

    def _begin_others(self) -> None:
        for name in self.options.components[1:]:
            self.begin(name)

    def _wait_for_etcd(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not _listens(self.folder):
            self._pause([self.folder.process(ETCD)], deadline)

    def _wait_for_work(self) -> None:
        """Wait until the other components work: service accounts are made, the node is ready."""
        deadline = time.monotonic() + READY_SECONDS
        wire = wire_of(self.folder, self.port)
        if self.options.pods:
            self._make_node(wire)
            wire.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", volumes.storage_class())
        everything = [self.folder.process(name) for name in self.options.components]
        while not (self._controllers_work(wire) and self._node_is_ready(wire)):
            self._pause(everything, deadline)

    def _make_node(self, wire: Wire) -> None:
        node = components.node()
        answer = wire.ask("POST", "/api/v1/nodes", node)
        if answer is not None and answer.status == 409:  # from a start before, perhaps of a version that offered less
            wire.ask("PATCH", f"/api/v1/nodes/{components.NODE}/status", {"status": node["status"]})

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

    def _pause(self, expected: Sequence[Process], deadline: float) -> None:
        """Let a moment pass. Raises ProcessStartFailed, or what fits better, when a process ended or time is up."""
        for process in expected:
            if process.exited_within(_POLL_SECONDS / len(expected)):
                raise self._reason_of_end(process)
        if time.monotonic() > deadline:
            raise ProcessStartFailed(
                "the local control plane does not become ready",
                cause="\n         ".join(
                    f"{process.name}: {complaint(process.log_tail(20), 2)}" for process in expected
                ),
                fix=f"see {self.folder.path / LOGS}; `stellwerk down --keep-data` and `stellwerk up` start it again",
            )

    def _reason_of_end(self, process: Process) -> LocalError:
        tail = process.log_tail(400)
        last = complaint(tail)
        cause = last.replace("\n", "\n         ")
        if "no space left on device" in tail:
            return self.folder.no_space()
        if "address already in use" in tail:
            return PortTaken(f"{HOST}:{self.port}")
        # Not a word, or a complaint of the shell, which names itself or the program it could not become.
        if not tail or tail.startswith(("sh:", str(control_plane.cache_folder()))):
            summary = f"{process.name} cannot be started on this machine"
            return WrongBinary(summary, cause=cause or "it logged nothing", folder=control_plane.cache_folder())
        if process.name == ETCD and names_damage(last):
            return BrokenData("etcd cannot read its data", cause=cause)
        return ProcessStartFailed(f"{process.name} ended while starting", cause=cause, fix=f"see {process.log}")


def wire_of(folder: ClusterFolder, port: int) -> Wire:
    """Requests as the administrator. Raises OSError when the folder has no certificates."""
    return Wire(port, authority=folder.authority, identity=folder.identity)


def is_ready(folder: ClusterFolder, port: int) -> bool:
    """Whether the API server reports that it is ready."""
    answer = _ask(folder, port, "/readyz")
    return answer is not None and answer.status == 200


def reported_version(folder: ClusterFolder, port: int) -> str:
    """The version that the API server gives; empty when it gives none."""
    answer = _ask(folder, port, "/version")
    return str(answer.json().get("gitVersion", "")) if answer else ""


def _ask(folder: ClusterFolder, port: int, path: str) -> WireAnswer | None:
    try:
        return wire_of(folder, port).ask("GET", path, timeout_seconds=5.0)
    except OSError:  # No certificates yet, or none any more.
        return None


def _listens(folder: ClusterFolder) -> bool:
    here = os.open(folder.path, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            # By way of the folder's descriptor, because a socket's path has at most 107 bytes.
            connection.connect(f"/proc/self/fd/{here}/{components.ETCD_SOCKET}")
    except OSError:
        return False
    finally:
        os.close(here)
    return True
