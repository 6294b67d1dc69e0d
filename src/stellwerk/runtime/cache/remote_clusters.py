"""Clusters that objects name by a kubeconfig in a Secret: each is opened on demand, and closed when nothing needs it.

A remote cluster has the same readers as the operator's own (`home`): a client, and informers that its users share. The
caller builds a view around each cluster (`build`), for example the caches that it needs; `remote` returns the view. All
users of the same kubeconfig share one cluster, with its connections and watches, whatever Secrets it is in.

A slow, silent or broken cluster delays no other one. A tenant chooses the kubeconfig, so everything is bounded:

    clusters  in all and for each namespace; only views hold bytes, and a cluster that shows too much is closed for ten
              minutes
    calls     under way at each (`ServerBounds`); a server that does not answer is left alone (`circuit_breaker`)
    bytes     of the answers of each, and of all together (`memory_budget`)
    passes    of a tenant at each server (`server_concurrency`), which the controller counts, by addresses

Without a watch, and without a call for a quarter of an hour, a cluster is closed as idle. Its users stay noted, and the
next call of `remote` opens it again. Two kubeconfigs that lead to the same cluster share nothing but its fingerprint
(`cluster_fingerprint`), and one kubeconfig that leads to another cluster than before shows another fingerprint.
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
from stellwerk.kube.http.circuit_breaker import CircuitBreaker
from stellwerk.kube.http.transport import CALLS, ServerBounds
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.supervision.tasks import Background, Border, background

V = TypeVar("V")

CLOSED_SECONDS = 600.0
"""For how long a cluster that showed too much stays closed."""
_LOOKS = 4
"""How often idle clusters are looked for in the time after which they are closed."""

Connect = Callable[[ClusterConfig, ServerBounds], Client]

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
    """Bounds of all remote clusters together, and of each."""

    clusters: int = 2_000
    clusters_of_namespace: int = 500
    bytes: int = 512 * 2**20
    """Of the views, as `weight` counts them; the clusters of one namespace may have half of it."""
    calls: int = CALLS
    """Under way at one cluster."""
    idle_seconds: float = 900.0
    """After how long without a watch and without a call a cluster is closed."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig, and the Secret that it is in."""

    secret: ObjectKey
    content: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """What distinguishes it from others."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class _Opened(Generic[V]):
    """The connections and caches of a cluster."""

    cluster: Cluster
    view: V
    task: asyncio.Task[bool]
    breaker: CircuitBreaker


@dataclass(slots=True)
class _Remote(Generic[V]):
    """A kubeconfig and its users. `opened` is None while the cluster is idle, or closed for `refused`."""

    opened: _Opened[V] | None = None
    asked_at: float = 0.0
    """When `remote` was called last."""
    refused: str = ""
    refused_at: float = 0.0
    users: set[ObjectKey] = field(default_factory=set)
    namespaces: Counter[str] = field(default_factory=Counter)
    """Of the users, and how many each has."""

    def is_idle(self, now: float, seconds: float) -> bool:
        """Whether it was not asked for, not watched and not called for so long."""
        return (
            self.opened is not None
            and not self.opened.cluster.informers
            and min(now - self.asked_at, self.opened.breaker.idle_seconds) >= seconds
        )


class RemoteClusters(Generic[V]):
    """All clusters of kubeconfigs. `run` must be running."""

    def __init__(
        self,
        home: Cluster,
        *,
        connect: Connect,
        build: Callable[[Cluster, ObjectKey], V],
        clock: Clock,
        border: Border,
        field_manager: str,
        limits: RemoteLimits = RemoteLimits(),  # immutable
        restrict: Callable[[ClusterConfig], ClusterConfig] = lambda config: config,
        weight: Callable[[V], int] = lambda _: 0,
        wake: Callable[[ObjectKey], None] = lambda _: None,
        on_trouble: Callable[[V, str], None] = lambda view, why: None,
        on_count: Callable[[], None] = lambda: None,
        on_gone: Callable[[str], None] = lambda host: None,
    ) -> None:
        """`connect` opens a client whose writes pass the leader's fence; `restrict` changes or refuses a login.

        `build` gets the cluster and the Secret of its first user. `weight` returns the bytes of a view. `wake` is
        called for each user of a cluster whose caches are filled or that answers again, and by `wake_users`.
        `on_trouble` is called with a view when its cluster does not answer or refuses the login, and why, and with an
        empty text when that is over; again if the cause is known better. `on_count` is called when the number of
        kubeconfigs changed, `on_gone` with the
        host and port of a server that no cluster uses any more.
        """
        self.home = home
        self._connect = connect
        self._build = build
        self._clock = clock
        self._border = border
        self._field_manager = field_manager
        self._limits = limits
        self._restrict = restrict
        self._weight = weight
        self._wake = wake
        self._on_trouble = on_trouble
        self._on_count = on_count
        self._on_gone = on_gone
        self._remotes: dict[str, _Remote[V]] = {}
        self._of_user: dict[ObjectKey, str] = {}
        """The digest of the kubeconfig that a user has."""
        self._of_namespace = Counter[str]()
        """How many kubeconfigs the users of a namespace have."""
        self._of_cluster: dict[Cluster, _Remote[V]] = {}
        self._tasks: Background | None = None

    def __len__(self) -> int:
        return len(self._remotes)

    async def run(self) -> None:
        """Keep the clusters alive until cancelled."""
        async with background() as self._tasks:
            await self._border.keep("remote cluster", "the search for idle clusters", self._close_idle)

    def remote(self, user: ObjectKey, kubeconfig: Kubeconfig) -> V:
        """The view of the cluster of a kubeconfig. `user` leaves any other cluster.

        Raises LoginFailed, what `restrict` raises, TooManyRemoteClusters, RemoteClusterClosed.
        """
        digest, now = kubeconfig.digest, self._clock.monotonic()
        remote = self._remotes.get(digest) or _Remote[V]()
        if remote.refused and now - remote.refused_at >= CLOSED_SECONDS:
            remote.refused = ""
        if not remote.namespaces[user.namespace]:
            self._check_number(user, digest)
        if remote.opened is None and not remote.refused:
            remote.opened = self._open(kubeconfig)
            self._of_cluster[remote.opened.cluster] = remote
        remote.asked_at = now
        self._join(user, digest, remote)
        if remote.opened is None:
            raise RemoteClusterClosed(remote.refused)
        return remote.opened.view

    def leave(self, user: ObjectKey) -> None:
        """`user` needs no cluster any more."""
        digest = self._of_user.pop(user, None)
        if digest is None:
            return
        remote = self._remotes[digest]
        remote.users.discard(user)
        remote.namespaces[user.namespace] -= 1
        if not remote.namespaces[user.namespace]:
            del remote.namespaces[user.namespace]
            self._of_namespace[user.namespace] -= 1
            if not self._of_namespace[user.namespace]:
                del self._of_namespace[user.namespace]
        if not remote.users:
            self._shut(remote)
            del self._remotes[digest]
            self._on_count()

    def wake_users(self, cluster: Cluster) -> None:
        """Wake all users of a cluster: something there changed."""
        if (remote := self._of_cluster.get(cluster)) is not None:
            for user in remote.users:
                self._wake(user)

    @asynccontextmanager
    async def client(self, kubeconfig: str) -> AsyncIterator[Client]:
        """A client for single requests in the block. Raises LoginFailed, and what `restrict` raises."""
        config = self._restrict(ClusterConfig.from_kubeconfig_text(kubeconfig))
        client = self._connect(config, ServerBounds(calls=self._limits.calls))
        try:
            yield client
        finally:
            await self._close(client)

    def close(self, cluster: Cluster, why: str) -> None:
        """Close a cluster that shows too much for ten minutes. Its caches go with the last pass that uses them."""
        if (remote := self._of_cluster.get(cluster)) is not None:
            _log.warning("%s; it is left alone for %d s", why, CLOSED_SECONDS)
            remote.refused, remote.refused_at = why, self._clock.monotonic()
            self._shut(remote)

    def check_weight(self) -> None:
        """Close the largest cluster of the namespace that holds most, where that one or all of them hold too much."""
        weights = [
            (remote, remote.opened.cluster, self._weight(remote.opened.view))
            for remote in self._of_cluster.values()
            if remote.opened is not None
        ]
        of_namespaces = Counter[str]()
        for remote, _, weight in weights:
            of_namespaces.update(dict.fromkeys(remote.namespaces, weight))
        if not of_namespaces:
            return
        namespace, weight = max(of_namespaces.items(), key=lambda item: item[1])
        most, total = self._limits.bytes, sum(weight for *_, weight in weights)
        if weight <= most // 2 and total <= most:
            return
        _, largest, _ = max((each for each in weights if each[0].namespaces[namespace]), key=lambda each: each[2])
        whose = f"namespace {namespace} deploys to" if weight > most // 2 else "all namespaces deploy to"
        limit = most // 2 if weight > most // 2 else most
        self.close(
            largest,
            f"the clusters that {whose} show more than {limit >> 10} KiB of objects with our label, and the one at "
            f"{largest.name} shows most of them",
        )

    def _check_number(self, user: ObjectKey, digest: str) -> None:
        """May the user have one more cluster? One that only the user itself uses is about to close."""
        limits, left = self._limits, self._remotes.get(self._of_user.get(user, ""))
        others = len(self._remotes) - (left is not None and left.users == {user})
        if digest not in self._remotes and others >= limits.clusters:
            raise TooManyRemoteClusters("", limits.clusters)
        ours = self._of_namespace[user.namespace] - (left is not None and left.namespaces[user.namespace] == 1)
        if ours >= limits.clusters_of_namespace:
            raise TooManyRemoteClusters(user.namespace, limits.clusters_of_namespace)

    def _join(self, user: ObjectKey, digest: str, remote: _Remote[V]) -> None:
        if self._of_user.get(user) == digest:
            return
        is_new = digest not in self._remotes
        self._remotes[digest] = remote
        self.leave(user)
        self._of_user[user] = digest
        remote.users.add(user)
        if not remote.namespaces[user.namespace]:
            self._of_namespace[user.namespace] += 1
        remote.namespaces[user.namespace] += 1
        if is_new:
            self._on_count()

    def _open(self, kubeconfig: Kubeconfig) -> _Opened[V]:
        try:
            config = self._restrict(ClusterConfig.from_kubeconfig_text(kubeconfig.content.decode()))
        except UnicodeDecodeError:
            raise LoginFailed("it is not text") from None
        assert self._tasks is not None, "run() must be running"
        name = f"cluster {config.server}"
        breaker = CircuitBreaker(self._clock.monotonic, on_change=lambda breaker: self._note(cluster, breaker))
        client = self._connect(config, ServerBounds(calls=self._limits.calls, breaker=breaker))
        client = client.with_field_manager(self._field_manager)
        cluster = Cluster(client, clock=self._clock, name=config.server, border=self._border)
        running = self._border.once("remote cluster", name, partial(self._running, cluster))
        return _Opened(cluster, self._build(cluster, kubeconfig.secret), self._tasks.start(running, name), breaker)

    def _note(self, cluster: Cluster, breaker: CircuitBreaker) -> None:
        """The cluster does not answer, or refuses the login, or answers again."""
        remote = self._of_cluster.get(cluster)
        if remote is not None and remote.opened is not None:
            self._on_trouble(remote.opened.view, breaker.trouble)
        if breaker.trouble:
            _log.warning("%s is of no use, and tried now and then: %s", cluster.name, breaker.trouble)
        else:
            _log.info("%s answers again", cluster.name)
            self.wake_users(cluster)

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

    async def _close_idle(self) -> None:
        limit = self._limits.idle_seconds
        while True:
            await self._clock.sleep(limit / _LOOKS)
            for remote in [*self._of_cluster.values()]:
                if remote.is_idle(self._clock.monotonic(), limit):
                    self._shut(remote)

    def _shut(self, remote: _Remote[V]) -> None:
        """End the connections and caches of a cluster."""
        if remote.opened is not None:
            remote.opened.task.cancel()
            del self._of_cluster[remote.opened.cluster]
            remote.opened = None

    async def _close(self, client: Client) -> None:
        await client.close()
        server = client.config.server
        if server not in [used.client.config.server for used in (self.home, *self._of_cluster)]:
            self._on_gone(URL(server).authority)
