"""Where the objects of a Component go: this cluster or another one, and as whom.

Targets are shared: all Components that go to the same cluster share its watches, and those that also act as the same
user share its client. A remote cluster has connections, watches and a lifetime of its own: it opens when the first
Component needs it and ends when the last one has gone, and a slow or broken one delays nobody else.

The local cluster is watched with the operator's own identity, whoever a Component acts as: what is watched is what
carries our label, and is compared, never handed out. Every write, and every question of a template, goes out under the
tenant's name.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from yarl import URL

from stellwerk.api.core import Namespace
from stellwerk.kube.client import Client
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.errors import Forbidden, LoginFailed
from stellwerk.kube.model import metadata_of
from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component import tenancy
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.errors import InvalidKubeConfig
from stellwerk.operators.component.lanes import HOME
from stellwerk.operators.component.references import NamedText
from stellwerk.operators.component.settings import Tenancy
from stellwerk.operators.component.tenancy import Account
from stellwerk.operators.owned import OwnedObjects
from stellwerk.render import request
from stellwerk.render.served import facts_of
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.clusters import Cluster
from stellwerk.runtime.tasks import Background, background

_log = logging.getLogger(__name__)

_FACTS_SECONDS = 60.0
"""For how long it is believed what a cluster serves; templates ask for it in every rendering."""
_DOUBT_SECONDS = 10.0
"""For how long nothing of that is believed after a definition has changed. An API server takes a moment to serve what
it has accepted, and whoever waited for the kind is rendered in that very moment."""

Connect = Callable[[ClusterConfig], Client]


@dataclass(slots=True)
class Kinds:
    """Whether what one cluster serves may be another than a moment ago."""

    clock: Clock
    were_asked_for: bool = False
    doubted_until: float = float("-inf")

    def changed(self) -> None:
        """A definition of kinds came, changed or went. What a cache tells as it fills is no news to anybody yet."""
        if self.were_asked_for:
            self.doubted_until = self.clock.monotonic() + _DOUBT_SECONDS


@dataclass(slots=True)
class Target:
    """One cluster under one identity."""

    client: Client
    owned: OwnedObjects
    kinds: Kinds
    clock: Clock
    lane: str = HOME
    """The address of another cluster."""
    acts_as: str = ""
    """Whose rights bound it, for messages; empty: the operator's own."""
    _uid: str = ""
    _uid_at: float = float("-inf")
    _facts: request.Cluster | None = None
    _facts_at: float = 0.0

    @property
    def is_remote(self) -> bool:
        """Whether it is another cluster than the operator's."""
        return self.lane != HOME

    async def uid(self) -> str:
        """What tells the cluster from all others, at most a minute old; empty where we may not ask. Raises ApiError."""
        now = self.clock.monotonic()
        if now - self._uid_at >= _FACTS_SECONDS:
            self._uid = await _uid_of(self.client)
            self._uid_at = now
        return self._uid

    async def facts(self) -> request.Cluster:
        """What the cluster serves, at most a minute old, and asked for anew where it may just have changed.

        Raises ApiError.
        """
        now, doubted_until = self.clock.monotonic(), self.kinds.doubted_until
        if now < doubted_until:
            self.client.mapper.doubt()
        elif self._facts is not None and doubted_until <= self._facts_at and now - self._facts_at < _FACTS_SECONDS:
            return self._facts
        self.kinds.were_asked_for = True
        self._facts = await facts_of(self.client)
        self._facts_at = now
        return self._facts


@dataclass(slots=True)
class _Remote:
    """A cluster that Components bring along."""

    target: Target
    task: asyncio.Task[None]
    users: set[ObjectKey] = field(default_factory=set)


class Targets:
    """All clusters that Components are deployed to. `run` must be running."""

    def __init__(
        self,
        home: Cluster,
        *,
        connect: Connect,
        wake: Callable[[str], None],
        clock: Clock,
        rules: Tenancy,
        on_client: Callable[[int], None] = lambda active: None,
        on_gone: Callable[[str], None] = lambda host: None,
    ) -> None:
        """`connect` opens a client whose writes pass the leader's fence. `wake` gets an owner's label when one of his
        objects changed. `on_client` is told how many clients there are, `on_gone` with which host nobody deals any
        more."""
        self._home = home
        self._connect = connect
        self._wake = wake
        self._clock = clock
        self._tenancy = rules
        self._on_client = on_client
        self._on_gone = on_gone
        self._kinds = Kinds(clock)
        self._owned = OwnedObjects(home, RECONCILER, wake, self._kinds.changed)
        self._local: dict[Account | None, Target] = {}
        self._remote: dict[str, _Remote] = {}
        self._tasks: Background | None = None

    async def run(self) -> None:
        """Keep remote clusters alive until cancelled."""
        async with background() as self._tasks:
            await asyncio.Event().wait()

    def of(self, component: Component, kube_config: NamedText | None) -> Target:
        """Where the objects of a Component go. Raises InvalidKubeConfig."""
        if kube_config is None:
            self._leave(component.key)
            return self.local(component)
        return self._remote_target(component, kube_config)

    def local(self, component: Component) -> Target:
        """This cluster, as whom the Component acts."""
        acting_as = tenancy.account(component, self._tenancy)
        if acting_as not in self._local:
            client = self._home.client
            if acting_as is not None:
                client = client.acting_as(acting_as.user)
            self._local[acting_as] = Target(
                client.with_field_manager(RECONCILER),
                self._owned,
                self._kinds,
                self._clock,
                acts_as=acting_as.user if acting_as is not None else "",
            )
            self._count()
        return self._local[acting_as]

    def passing(self, kube_config: str) -> Client:
        """A client for one question; the caller closes it. Raises LoginFailed."""
        return self._connect(ClusterConfig.from_kubeconfig_text(kube_config))

    def kinds_changed(self) -> None:
        """A definition of kinds came, changed or went in this cluster."""
        self._kinds.changed()

    def forget(self, key: ObjectKey) -> None:
        """A Component is gone."""
        self._leave(key)

    def _remote_target(self, component: Component, kube_config: NamedText) -> Target:
        digest = hashlib.sha256(kube_config.text).hexdigest()
        remote = self._remote.get(digest)
        if remote is None:
            remote = self._remote[digest] = self._open(component, kube_config)
            self._count()
        if component.key not in remote.users:
            remote.users.add(component.key)
            self._leave(component.key, but=remote)
        return remote.target

    def _open(self, component: Component, kube_config: NamedText) -> _Remote:
        secret = component.spec.kube_config.secret_ref.name if component.spec.kube_config else ""
        key = ObjectKey(component.metadata.namespace, secret)
        try:
            config = ClusterConfig.from_kubeconfig_text(kube_config.text.decode())
        except UnicodeDecodeError:
            raise InvalidKubeConfig(key, "it is not text") from None
        except LoginFailed as error:
            raise InvalidKubeConfig(key, str(error)) from None
        assert self._tasks is not None, "run() must be running"
        client = self._connect(config).with_field_manager(RECONCILER)
        cluster = Cluster(client, clock=self._clock, name=config.server)
        kinds = Kinds(self._clock)
        owned = OwnedObjects(cluster, RECONCILER, self._wake, kinds.changed)
        target = Target(
            client, owned, kinds, self._clock, lane=config.server, acts_as=f"the kubeconfig of secret {key}"
        )
        return _Remote(target, self._tasks.start(self._running(cluster), f"cluster {config.server}"))

    async def _running(self, cluster: Cluster) -> None:
        try:
            await cluster.run()
        finally:
            await cluster.client.close()
            server = cluster.client.config.server
            if server not in self._servers():
                self._on_gone(URL(server).authority)

    def _servers(self) -> set[str]:
        """Those that somebody deals with; one may be reached under several logins."""
        return {self._home.client.config.server, *(remote.target.lane for remote in self._remote.values())}

    def _leave(self, user: ObjectKey, *, but: _Remote | None = None) -> None:
        """End the clusters that nobody uses any more now that somebody has left all of them `but` one."""
        for digest, remote in [*self._remote.items()]:
            if remote is but:
                continue
            remote.users.discard(user)
            if not remote.users:
                remote.task.cancel()
                del self._remote[digest]
                self._count()

    def _count(self) -> None:
        self._on_client(len(self._local) + len(self._remote))


async def _uid_of(client: Client) -> str:
    try:
        found = await client.find(metadata_of(Namespace), "kube-system")
    except Forbidden:
        return ""
    return found.metadata.uid if found is not None else ""
