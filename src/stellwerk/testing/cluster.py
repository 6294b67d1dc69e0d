"""Clusters for a test session: started once, shared by its processes, gone when the session is.

All clusters of a session lie in one folder, whose name the session's first process hands to the others by an
environment variable. The process `stellwerk.testing.cluster_cleanup` watches that first process and takes everything
down when it ends, also when it was killed; a session that ends in order does not wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import CONTROLLER_MANAGER, ETCD, Options
from stellwerk.local.host import processes
from stellwerk.local.host.processes import Process

_PATIENCE_SECONDS = 60
"""For what takes milliseconds, on a machine that may have others to serve first."""
_AT_WORK = ("batch/v1/cronjobs", "batch/v1/jobs", "apps/v1/deployments", "apps/v1/statefulsets", "v1/pods")
_IN_EVERY_LIST = ("v1/configmaps", "v1/secrets")
_FOLDER = "STELLWERK_TEST_CLUSTERS"
_OWNER = "STELLWERK_TEST_OWNER"
_KEPT = ".audit"


def open_session() -> None:
    """Make this process the owner of a test session's clusters. Nothing is started yet."""
    os.environ[_FOLDER] = str(Path(tempfile.gettempdir()) / f"stellwerk-test-{os.getpid()}-{secrets.token_hex(4)}")
    os.environ[_OWNER] = str(os.getpid())


def close_session() -> None:
    """End all clusters of the session that this process owns."""
    if os.environ.get(_OWNER) == str(os.getpid()):
        folder = Path(os.environ.pop(_FOLDER))
        del os.environ[_OWNER]
        end_all(folder)


def end_all(folder: Path) -> None:
    """End every cluster in a session's folder, and the reaper, and remove the folder."""
    if not folder.exists():
        return
    for cluster in [*folder.iterdir()]:
        if cluster.is_dir():
            LocalCluster(cluster).down()
    reaper = _reaper(folder)
    if reaper.pid != os.getpid():
        reaper.kill()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def started(name: str, options: Options | None = None) -> LocalCluster:
    """A running cluster of this session; started by the first who asks, found by the others."""
    cluster = LocalCluster(session_folder() / name, options or Options(durable=False))
    cluster.up()
    _keep_audit_log(cluster)
    return cluster


def _keep_audit_log(cluster: LocalCluster) -> None:
    """Give the log of what was asked a second name, under which it outlives the cluster."""
    serial = cluster.audit_log.stat().st_ino
    with contextlib.suppress(FileExistsError):
        os.link(cluster.audit_log, session_folder() / f"{cluster.folder.name}-{serial}{_KEPT}")


def kept_audit_logs() -> list[Path]:
    """What was asked of every cluster of the session so far, those that have ended included."""
    return sorted(Path(os.environ[_FOLDER]).glob(f"*{_KEPT}"))


def session_folder() -> Path:
    """The folder of the session's clusters, watched by the reaper: whatever runs here ends with the session."""
    folder = Path(os.environ[_FOLDER])
    folder.mkdir(mode=0o700, exist_ok=True)
    _watch_over(folder)
    return folder


def _watch_over(folder: Path) -> None:
    _reaper(folder).start(
        [sys.executable, "-m", "stellwerk.testing.cluster_cleanup", os.environ[_OWNER], str(folder)],
        working_folder=Path("/"),
        environment=dict(os.environ),
    )


def _reaper(folder: Path) -> Process:
    return processes.Process("reaper", folder, folder / "reaper.log")


def collects_new_kinds(cluster: LocalCluster) -> None:
    """Have objects of kinds that were installed just now take their dependents along at once.

    The garbage collector looks for new kinds at its start and every 30 seconds, so it is started again.
    """
    cluster.process(CONTROLLER_MANAGER).kill()
    cluster.start(CONTROLLER_MANAGER)


def save_data(cluster: LocalCluster, name: str) -> None:
    """Keep what etcd holds now under a name; the cluster pauses for a moment."""
    _while_stopped(cluster, [ETCD], lambda: shutil.copytree(cluster.folder / "data", cluster.folder / "saved" / name))


def restore_data(cluster: LocalCluster, name: str) -> None:
    """Turn the cluster's time back to what was saved, as from a backup: newer revisions never happened."""
    data = cluster.folder / "data"

    def swap() -> None:
        shutil.rmtree(data)
        shutil.copytree(cluster.folder / "saved" / name, data)

    # All others start again as well. The API server's cache would go on serving the newer view, and a client that
    # resumes a watch from a version that does not exist yet (a controller, the scheduler) sees nothing until it does.
    _while_stopped(cluster, [*reversed(cluster.options.components)], swap)


def _while_stopped(cluster: LocalCluster, names: Sequence[str], act: Callable[[], object]) -> None:
    # Killed, because etcd would wait seconds for its clients; what it has acknowledged is in its log all the same.
    for name in names:
        cluster.process(name).kill()
    act()
    cluster.up()


def create_namespace(cluster: LocalCluster, prefix: str = "test") -> str:
    """A new namespace with a random name, ready for pods. Returns its name."""
    name = f"{prefix}-{secrets.token_hex(5)}"
    with cluster.wire().connected(timeout_seconds=2 * _PATIENCE_SECONDS) as connection:
        answer = connection.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        if cluster.options.controllers:
            # Until the default service account is made, pods are refused. The watch ends at its first event.
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts?watch=1&timeoutSeconds={_PATIENCE_SECONDS}"
            made = next(connection.follow(accounts), None)
            assert made, f"namespace {name} has no default service account after {_PATIENCE_SECONDS} s"
    return name


def leave_namespace(cluster: LocalCluster, name: str) -> None:
    """Delete what would cost something after its test: what goes on working, and what many lists return.

    The namespace itself stays. To end it takes 150 requests of the control plane, which has hundreds of them in a
    session and ends itself soon.
    """
    with cluster.wire().connected(timeout_seconds=_PATIENCE_SECONDS) as connection:
        for collection in (*_AT_WORK, *_IN_EVERY_LIST):
            connection.ask("DELETE", f"{_path(collection, name)}?fieldSelector=metadata.name!=kube-root-ca.crt")


def delete_objects(cluster: LocalCluster, namespace: str, collections: Sequence[str]) -> None:
    """Delete all objects of these collections (`group/version/plural`), though no operator removes their finalizers."""
    with cluster.wire().connected(timeout_seconds=_PATIENCE_SECONDS) as connection:
        for collection in collections:
            path = _path(collection, namespace)
            deleted = connection.ask("DELETE", path).json()
            for item in cast(list[dict[str, dict[str, str]]], deleted.get("items", [])):
                if "finalizers" in item["metadata"]:
                    name = item["metadata"]["name"]
                    connection.ask("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}})


def _path(collection: str, namespace: str) -> str:
    version, _, plural = collection.rpartition("/")
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One finished request. `verb` is RBAC's (get, list, watch, create, update, patch, delete, deletecollection)."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    agent: str
    status: int
    path: str
    acting_as: str = ""
    """The user that `user` impersonated."""

    @property
    def is_write(self) -> bool:
        """Whether the request wanted to change something."""
        return self.verb not in ("get", "list", "watch")


class AuditLog:
    """What was asked of an API server since a point in time (`mark`)."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._position = 0
        self.mark()

    def mark(self) -> None:
        """Forget what was before now."""
        self._settle()
        self._position = self._cluster.audit_log.stat().st_size - 1  # a line's end, unless one is half written

    def entries(self, keep: Callable[[AuditEntry], bool] = lambda entry: True) -> list[AuditEntry]:
        """The requests since the mark, in the order of their answers; a watch counts when it starts."""
        self._settle()
        return [entry for entry in self._read() if keep(entry)]

    def count(
        self, *, verb: str | None = None, resource: str | None = None, user: str | None = None, agent: str | None = None
    ) -> int:
        """How many requests since the mark match; `agent` is the beginning of the user agent."""

        def matches(entry: AuditEntry) -> bool:
            return (
                verb in (None, entry.verb)
                and resource in (None, entry.resource)
                and user in (None, entry.user)
                and (agent is None or entry.agent.startswith(agent))
            )

        return len(self.entries(matches))

    def _settle(self) -> None:
        """Wait until the log has what was answered before: a request of ours is in it, so the older ones are."""
        marker = f"/version?marker={secrets.token_hex(8)}"
        start = self._cluster.audit_log.stat().st_size if self._cluster.audit_log.exists() else 0
        wire = self._cluster.wire()
        wire.ask("GET", marker)
        while marker.encode() not in self._bytes_since(start):
            wire.ask("GET", "/version")

    def _bytes_since(self, position: int) -> bytes:
        with self._cluster.audit_log.open("rb") as log:
            log.seek(position)
            return log.read()

    def _read(self) -> Iterator[AuditEntry]:
        # Others ask all the time: neither the line with the mark nor the last one needs to be whole.
        return entries_in(self._bytes_since(self._position).split(b"\n")[1:-1])


def entries_in(lines: Iterable[bytes]) -> Iterator[AuditEntry]:
    """The requests in lines of an audit log; a watch counts when it starts."""
    for line in lines:
        event = json.loads(line)
        if event["requestURI"].startswith("/version") or _is_end_of_watch(event):
            continue
        yield _entry(event)


def _is_end_of_watch(event: Mapping[str, object]) -> bool:
    return event["verb"] == "watch" and event["stage"] == "ResponseComplete"


def _entry(event: Mapping[str, object]) -> AuditEntry:
    subject = _object(event.get("objectRef"))
    return AuditEntry(
        verb=str(event["verb"]),
        group=str(subject.get("apiGroup", "")),
        resource=str(subject.get("resource", "")),
        subresource=str(subject.get("subresource", "")),
        namespace=str(subject.get("namespace", "")),
        name=str(subject.get("name", "")),
        user=str(_object(event.get("user")).get("username", "")),
        agent=str(event.get("userAgent", "")),
        status=int(str(_object(event.get("responseStatus")).get("code", 0))),
        path=str(event["requestURI"]),
        acting_as=str(_object(event.get("impersonatedUser")).get("username", "")),
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
