"""Where the objects of a Component go: this cluster or another one, and the identity that writes them.

Targets are shared: all Components that go to the same cluster share its watches, and those that also act as the same
user share its client. For remote clusters see `runtime.cache.remote_clusters`.

The local cluster is watched with the operator's own identity, whichever identity a Component acts as: watched objects
are those with our label; they are only compared. Every write, and every question of a template, goes out under the
tenant's name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.delivery.watched_objects import OwnedObjects, TooMuch
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.errors import ClusterTooLarge, InvalidKubeConfig, TooManyClusters
from stellwerk.operators.component.references.references import NamedText
from stellwerk.operators.component.settings import Mode, Settings
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.seals import KUBECONFIG, OPERATOR
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.errors import EgressRefused
from stellwerk.render.sources.egress import parsed
from stellwerk.runtime.cache import remote_clusters
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.server_concurrency import HOME
from stellwerk.runtime.supervision.tasks import Border

MOST_ACCOUNTS = 1_000
"""Targets that are kept, one for each account of the operator's own cluster; the one unused for longest goes."""

MOST_OWNED_BYTES = 64 * 2**20
"""Of the objects that carry our label in one other cluster, as JSON. A Component has a MiB for its inventory."""


@dataclass(slots=True)
class Target:
    """One cluster under one identity."""

    client: Client
    owned: OwnedObjects
    kinds: ServedApis
    lane: str = HOME
    """The address of another cluster."""
    acts_as: str = ""
    """Whose rights bound it, for messages; empty: the operator's own."""

    @property
    def is_remote(self) -> bool:
        """Whether it is another cluster than the operator's."""
        return self.lane != HOME

    @property
    def identity(self) -> str:
        """The identity that applies and deletes there, as seals know it."""
        return KUBECONFIG if self.is_remote else self.acts_as or OPERATOR


class Targets:
    """All clusters that Components are deployed to. `run` must be running."""

    def __init__(
        self,
        home: Cluster,
        *,
        connect: remote_clusters.Connect,
        wake: Callable[[str], None],
        clock: Clock,
        border: Border,
        settings: Settings,
        on_client: Callable[[int], None] = lambda active: None,
        on_gone: Callable[[str], None] = lambda host: None,
        most_owned_bytes: int = MOST_OWNED_BYTES,
        limits: remote_clusters.RemoteLimits = remote_clusters.RemoteLimits(),  # noqa: B008  # immutable
    ) -> None:
        """`connect` opens a client whose writes pass the leader's fence. `wake` gets an owner's label when one of its
        objects changed. `on_client` gets the number of clients, `on_gone` a host that no target uses any more.
        """
        self._home = home
        self._wake = wake
        self._clock = clock
        self.settings = settings
        self._on_client = on_client
        self._most_owned_bytes = most_owned_bytes
        self._kinds = ServedApis(clock)
        self._owned = OwnedObjects(home, RECONCILER, wake, self._kinds.changed)
        self._local: OrderedDict[ActingAccount | None, Target] = OrderedDict()
        self._remotes = remote_clusters.RemoteClusters(
            home,
            connect=connect,
            build=self._remote_target,
            clock=clock,
            border=border,
            field_manager=RECONCILER,
            limits=limits,
            restrict=self._within_rules,
            weight=lambda target: target.owned.weight,
            on_count=self._count,
            on_gone=on_gone,
        )

    async def run(self) -> None:
        """Keep remote clusters alive until cancelled."""
        await self._remotes.run()

    def remote(self, component: Component, kube_config: NamedText) -> Target:
        """The cluster of a kubeconfig, for a Component. Raises InvalidKubeConfig, ClusterTooLarge, TooManyClusters."""
        secret = component.spec.kube_config.secret_ref.name if component.spec.kube_config else ""
        key = ObjectKey(component.metadata.namespace, secret)
        try:
            return self._remotes.remote(component.key, remote_clusters.Kubeconfig(key, kube_config.text))
        except LoginFailed as error:
            raise InvalidKubeConfig(key, str(error)) from None
        except remote_clusters.RemoteClusterClosed as error:
            raise ClusterTooLarge(str(error)) from None
        except remote_clusters.TooManyRemoteClusters as error:
            raise TooManyClusters(error.namespace, error.most) from None

    def home(self, component: Component, account: ActingAccount | None) -> Target:
        """The operator's own cluster for a Component. Raises ServiceAccountRequired."""
        self.forget(component.key)
        return self.local(account)

    def local(self, acting_as: ActingAccount | None) -> Target:
        """The operator's own cluster under an account; None: as the operator itself. Raises ServiceAccountRequired."""
        tenancy.require_account(acting_as, self.settings)
        if acting_as not in self._local:
            client = self._home.client
            if acting_as is not None:
                client = client.acting_as(acting_as.user)
            self._local[acting_as] = Target(
                client.with_field_manager(RECONCILER),
                self._owned,
                self._kinds,
                acts_as=acting_as.user if acting_as is not None else "",
            )
            if len(self._local) > MOST_ACCOUNTS:
                self._local.popitem(last=False)
            self._count()
        self._local.move_to_end(acting_as)
        return self._local[acting_as]

    def passing(self, kube_config: str) -> AbstractAsyncContextManager[Client]:
        """A client for one question, in the block. Raises LoginFailed."""
        return self._remotes.client(kube_config)

    def kinds_changed(self) -> None:
        """A definition of kinds came, changed or went in this cluster."""
        self._kinds.changed()

    def forget(self, key: ObjectKey) -> None:
        """A Component is gone, or uses no remote cluster any more."""
        self._remotes.leave(key)

    def _remote_target(self, cluster: Cluster, secret: ObjectKey) -> Target:
        kinds = ServedApis(self._clock)
        owned = OwnedObjects(
            cluster,
            RECONCILER,
            self._wake,
            kinds.changed,
            most_bytes=self._most_owned_bytes,
            too_much=lambda: self._remotes.close(cluster, str(TooMuch(cluster.name, self._most_owned_bytes))),
            grown=self._remotes.check_weight,
        )
        return Target(
            cluster.client,
            owned,
            kinds,
            lane=cluster.client.config.server,
            acts_as=f"the kubeconfig of secret {secret}",
        )

    def _within_rules(self, config: ClusterConfig) -> ClusterConfig:
        """The login under the egress rules. A proxy is not used, because addresses behind it cannot be checked.

        Raises LoginFailed.
        """
        if self.settings.tenancy is not Mode.STRICT:
            return config
        egress = self.settings.egress
        try:
            egress.check_url(parsed(config.server))
        except EgressRefused as error:
            raise LoginFailed(str(error)) from None
        return replace(config, may_connect=egress.allows, proxy="")

    def _count(self) -> None:
        self._on_client(len(self._local) + len(self._remotes))
