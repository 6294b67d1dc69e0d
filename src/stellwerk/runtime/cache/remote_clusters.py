"""Clusters that objects name by a kubeconfig: each is opened for its first user and closed after its last one.

All users of the same kubeconfig share one cluster, with its connections and watches. A slow or broken cluster delays no
other one. The caller builds a view around each cluster (`build`), for example the caches that it needs; `use` returns
the view.

A tenant chooses the kubeconfig, so everything is bounded: the number of clusters in all and for each namespace, and the
bytes that the views hold. A cluster that shows more is closed, and stays closed for ten minutes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from yarl import URL

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.supervision.tasks import Background, Border, background

V = TypeVar("V")

CLOSED_SECONDS = 600.0
"""For how long a cluster that showed too much stays closed."""

Connect = Callable[[ClusterConfig], Client]

_log = logging.getLogger(__name__)


class TooManyRemoteClusters(Exception):
    """A user may not have one more cluster. `namespace` is empty where all namespaces together have too many."""

    def __init__(self, namespace: str, most: int) -> None:
        super().__init__(f"more than {most} clusters")
        self.namespace = namespace
        self.most = most


class RemoteClusterClosed(Exception):
    """The cluster showed too much and is closed for a while; the message is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """Bounds of all remote clusters together."""

    clusters: int = 2_000
    clusters_of_namespace: int = 500
    bytes: int = 512 * 2**20
    """Of the views, as `weight` counts them; the clusters of one namespace may have half of it."""


@dataclass(slots=True)
class _Remote(Generic[V]):
    """A cluster and its users. `view` is None while the cluster is closed for `refused`."""

    cluster: Cluster
    view: V | None
    task: asyncio.Task[bool]
    changed_at: float
    refused: str = ""
    users: set[ObjectKey] = field(default_factory=set)

    def namespaces(self) -> set[str]:
        return {user.namespace for user in self.users}

    def serves(self, namespace: str = "", *, but: ObjectKey | None = None) -> bool:
        """Whether a user other than `but`, of a namespace or of any, uses the cluster."""
        return any(user != but and namespace in ("", user.namespace) for user in self.users)


class RemoteClusters(Generic[V]):
    """All clusters of kubeconfigs. `run` must be running."""

    def __init__(
        self,
        home: Cluster,
        *,
        connect: Connect,
        build: Callable[[Cluster, str], V],
        clock: Clock,
        border: Border,
        field_manager: str,
        limits: RemoteLimits = RemoteLimits(),  # immutable
        restrict: Callable[[ClusterConfig], ClusterConfig] = lambda config: config,
        weight: Callable[[V], int] = lambda _: 0,
        wake: Callable[[ObjectKey], None] = lambda _: None,
        on_count: Callable[[], None] = lambda: None,
        on_gone: Callable[[str], None] = lambda host: None,
    ) -> None:
        """`connect` opens a client whose writes pass the leader's fence; `restrict` changes or refuses a login.

        `weight` returns the bytes of a view. `wake` is called for each user of a cluster whose caches are filled, and
        by `wake_users`. `on_count` is called when the number of clusters changed, `on_gone` with
        the host and port of a server that no cluster uses any more.
        """
        self._home = home
        self._connect = connect
        self._build = build
        self._clock = clock
        self._border = border
        self._field_manager = field_manager
        self._limits = limits
        self._restrict = restrict
        self._weight = weight
        self._wake = wake
        self._on_count = on_count
        self._on_gone = on_gone
        self._remotes: dict[str, _Remote[V]] = {}
        self._tasks: Background | None = None

    def __len__(self) -> int:
        return len(self._remotes)

    async def run(self) -> None:
        """Keep the clusters alive until cancelled."""
        async with background() as self._tasks:
            await asyncio.Event().wait()

    def use(self, user: ObjectKey, kubeconfig: bytes, origin: str) -> V:
        """The view of the cluster of a kubeconfig. `user` leaves any other cluster.

        `origin` names the place of the kubeconfig, for messages; `build` gets the one of the first user.

        Raises LoginFailed, what `restrict` raises, TooManyRemoteClusters, RemoteClusterClosed.
        """
        digest = hashlib.sha256(kubeconfig).hexdigest()
        remote = self._remotes.get(digest)
        if remote is not None and remote.refused and self._clock.monotonic() - remote.changed_at >= CLOSED_SECONDS:
            del self._remotes[digest]
            remote = None
        if remote is None or not remote.serves(user.namespace):
            self._check_number(user, digest)
        if remote is None:
            remote = self._remotes[digest] = self._open(kubeconfig, origin)
            self._on_count()
        if user not in remote.users:
            remote.users.add(user)
            self._leave(user, but=remote)
        if remote.view is None:
            raise RemoteClusterClosed(remote.refused)
        return remote.view

    def leave(self, user: ObjectKey) -> None:
        """`user` needs no cluster any more."""
        self._leave(user)

    def wake_users(self, cluster: Cluster) -> None:
        """Wake all users of a cluster: something there changed."""
        for remote in self._remotes.values():
            if remote.cluster is cluster:
                for user in remote.users:
                    self._wake(user)

    @asynccontextmanager
    async def client(self, kubeconfig: str) -> AsyncIterator[Client]:
        """A client for single requests in the block. Raises LoginFailed, and what `restrict` raises."""
        client = self._connect(self._restrict(ClusterConfig.from_kubeconfig_text(kubeconfig)))
        try:
            yield client
        finally:
            await self._close(client)

    def close(self, cluster: Cluster, why: str) -> None:
        """Close a cluster that shows too much for ten minutes. Its caches go with the last pass that uses them."""
        for remote in self._remotes.values():
            if remote.cluster is cluster and not remote.refused:
                _log.warning("%s; it is left alone for %d s", why, CLOSED_SECONDS)
                remote.refused = why
                remote.changed_at = self._clock.monotonic()
                remote.view = None
                remote.task.cancel()

    def check_weight(self) -> None:
        """Close the largest cluster of the namespace that holds most, where that one or all of them hold too much."""
        weights = [(remote, self._weight(remote.view)) for remote in self._remotes.values() if remote.view is not None]
        of_namespaces = Counter[str]()
        for remote, weight in weights:
            of_namespaces.update(dict.fromkeys(remote.namespaces(), weight))
        if not of_namespaces:
            return
        namespace, weight = max(of_namespaces.items(), key=lambda item: item[1])
        most, total = self._limits.bytes, sum(weight for _, weight in weights)
        if weight <= most // 2 and total <= most:
            return
        largest, _ = max((each for each in weights if namespace in each[0].namespaces()), key=lambda each: each[1])
        whose = f"namespace {namespace} deploys to" if weight > most // 2 else "all namespaces deploy to"
        limit = most // 2 if weight > most // 2 else most
        self.close(
            largest.cluster,
            f"the clusters that {whose} show more than {limit >> 10} KiB of objects with our label, and the one at "
            f"{largest.cluster.name} shows most of them",
        )

    def _check_number(self, user: ObjectKey, digest: str) -> None:
        """May the user have one more cluster? One that only the user itself uses is about to close."""
        others = [one for name, one in self._remotes.items() if name != digest and one.serves(but=user)]
        limits = self._limits
        if digest not in self._remotes and len(others) >= limits.clusters:
            raise TooManyRemoteClusters("", limits.clusters)
        if sum(other.serves(user.namespace, but=user) for other in others) >= limits.clusters_of_namespace:
            raise TooManyRemoteClusters(user.namespace, limits.clusters_of_namespace)

    def _open(self, kubeconfig: bytes, origin: str) -> _Remote[V]:
        try:
            config = self._restrict(ClusterConfig.from_kubeconfig_text(kubeconfig.decode()))
        except UnicodeDecodeError:
            raise LoginFailed("it is not text") from None
        assert self._tasks is not None, "run() must be running"
        client = self._connect(config).with_field_manager(self._field_manager)
        cluster = Cluster(client, clock=self._clock, name=config.server, border=self._border)
        name = f"cluster {config.server}"
        running = self._border.once("remote cluster", name, partial(self._running, cluster))
        return _Remote(cluster, self._build(cluster, origin), self._tasks.start(running, name), self._clock.monotonic())

    async def _running(self, cluster: Cluster) -> None:
        async def fill() -> None:
            await cluster.wait_settled()
            self.wake_users(cluster)

        filling = asyncio.create_task(fill(), name=f"caches of {cluster.name}")
        try:
            await self._border.keep("remote cluster", f"cluster {cluster.name}", cluster.run)
        finally:
            filling.cancel()
            await self._close(cluster.client)

    async def _close(self, client: Client) -> None:
        await client.close()
        server = client.config.server
        used = [self._home, *(remote.cluster for remote in self._remotes.values())]
        if server not in [other.client.config.server for other in used]:
            self._on_gone(URL(server).authority)

    def _leave(self, user: ObjectKey, *, but: _Remote[V] | None = None) -> None:
        for digest, remote in [*self._remotes.items()]:
            if remote is but:
                continue
            remote.users.discard(user)
            if not remote.users:
                remote.task.cancel()
                del self._remotes[digest]
                self._on_count()
