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
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from yarl import URL

from stellwerk.api.core import Namespace
from stellwerk.delivery.watched_objects import OwnedObjects, TooMuch
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Forbidden, LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.errors import ClusterTooLarge, InvalidKubeConfig, TooManyClusters
from stellwerk.operators.component.references.references import NamedText
from stellwerk.operators.component.settings import Tenancy
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.cluster_concurrency import HOME
from stellwerk.operators.component.targets.seals import KUBECONFIG, OPERATOR
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.errors import EgressRefused
from stellwerk.render.request import request
from stellwerk.render.request.capabilities import facts_of
from stellwerk.render.sources.egress import EgressRules, parsed
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.supervision.tasks import Background, Border, background

_log = logging.getLogger(__name__)

_FACTS_SECONDS = 60.0
"""For how long it is believed what a cluster serves; templates ask for it in every rendering."""
_UNKNOWN_SECONDS = 5.0
"""The same while an API service of the cluster does not answer, so that some of its kinds are unknown."""
_DOUBT_SECONDS = 10.0
"""For how long nothing of that is believed after a definition has changed. An API server takes a moment to serve what
it has accepted, and whoever waited for the kind is rendered in that very moment."""

_SYSTEM = "kube-system"
_AUTHORITY = "ca:"
"""No name of a namespace has a colon."""

MOST_ACCOUNTS = 1_000
"""Targets that are kept, one for each account of the operator's own cluster; the one unused for longest goes."""

MOST_OWNED_BYTES = 64 * 2**20
"""Of the objects that carry our label in one other cluster, as JSON. A Component has a MiB for its inventory."""
MOST_OWNED_BYTES_OF_ALL = 512 * 2**20
"""The same of all other clusters together; those of one namespace have half of it."""
_REFUSED_SECONDS = 600.0
"""For how long a cluster that shows more than that is left alone."""

Connect = Callable[[ClusterConfig], Client]


@dataclass(slots=True)
class Kinds:
    """Whether what one cluster serves may be another than a moment ago."""

    clock: Clock
    were_asked_for: bool = False
    doubted_until: float = float("-inf")
    facts: request.ClusterApis | None = None
    """What the cluster serves: the same for every identity, and held once."""
    facts_at: float = 0.0

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
    _uids: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By namespace, its uid and when it was read; an empty one where there is no such namespace that we may read."""

    @property
    def is_remote(self) -> bool:
        """Whether it is another cluster than the operator's."""
        return self.lane != HOME

    @property
    def identity(self) -> str:
        """The identity that applies and deletes there, as seals know it."""
        return KUBECONFIG if self.is_remote else self.acts_as or OPERATOR

    async def uid(self, former: str = "", namespace: str = "") -> str:
        """What distinguishes the cluster from all others, at most a minute old. Raises ApiError.

        It is the uid of kube-system; where that may not be read, `NAMESPACE/UID` of the namespace default or of
        `namespace`, where the objects go; else `ca:` and the digest of the authority of its certificate, empty without
        one. What `former` was taken from is looked at first, because two different things cannot be compared.
        """
        authority = self._authority()
        if former.startswith(_AUTHORITY) and authority:
            return authority
        known = former.rpartition("/")[0] if former and not former.startswith(_AUTHORITY) else ""
        for place in dict.fromkeys((known or _SYSTEM, _SYSTEM, "default", namespace)):
            if place and (uid := await self._uid_of(place)):
                return uid if place == _SYSTEM else f"{place}/{uid}"
        return authority

    async def _uid_of(self, namespace: str) -> str:
        now = self.clock.monotonic()
        uid, read_at = self._uids.get(namespace, ("", float("-inf")))
        if now - read_at >= _FACTS_SECONDS:
            uid = await _uid_of(self.client, namespace)
            self._uids[namespace] = (uid, now)
        return uid

    def _authority(self) -> str:
        certificates = self.client.config.authority.read()
        return f"{_AUTHORITY}{hashlib.sha256(certificates).hexdigest()[:32]}" if certificates else ""

    async def facts(self) -> request.ClusterApis:
        """What the cluster serves, at most a minute old, and asked for anew where it may just have changed.

        Raises ApiError.
        """
        kinds, now = self.kinds, self.clock.monotonic()
        if now < kinds.doubted_until:
            self.client.mapper.doubt()
        elif kinds.facts is not None and kinds.doubted_until <= kinds.facts_at:
            life = _UNKNOWN_SECONDS if kinds.facts.unknown else _FACTS_SECONDS
            if now - kinds.facts_at < life:
                return kinds.facts
        kinds.were_asked_for = True
        found = await facts_of(self.client)
        kinds.facts, kinds.facts_at = found, now
        return found


@dataclass(slots=True)
class _Remote:
    """A cluster that Components bring along."""

    target: Target
    task: asyncio.Task[bool]
    opened_at: float
    refused: str = ""
    """Why it is not watched for a while; empty: it is."""
    users: set[ObjectKey] = field(default_factory=set)

    def namespaces(self) -> set[str]:
        return {user.namespace for user in self.users}

    def serves(self, namespace: str = "", *, but: ObjectKey | None = None) -> bool:
        """Whether a Component `but` one, of a namespace or of any, uses it."""
        return any(user != but and namespace in ("", user.namespace) for user in self.users)


class Targets:
    """All clusters that Components are deployed to. `run` must be running."""

    def __init__(
        self,
        home: Cluster,
        *,
        connect: Connect,
        wake: Callable[[str], None],
        clock: Clock,
        border: Border,
        rules: Tenancy,
        egress: EgressRules | None = None,
        on_client: Callable[[int], None] = lambda active: None,
        on_gone: Callable[[str], None] = lambda host: None,
        most_owned_bytes: int = MOST_OWNED_BYTES,
        most_owned_bytes_of_all: int = MOST_OWNED_BYTES_OF_ALL,
        most_remote: int = 2_000,
        most_remote_of_namespace: int = 500,
    ) -> None:
        """`egress`: which servers kubeconfigs may name; None: any.

        `connect` opens a client whose writes pass the leader's fence. `wake` gets an owner's label when one of his
        objects changed. `on_client` is told how many clients there are, `on_gone` with which host nobody deals any
        more."""
        self._home = home
        self._connect = connect
        self._wake = wake
        self._clock = clock
        self._border = border
        self.rules = rules
        self._egress = egress
        self._on_client = on_client
        self._on_gone = on_gone
        self._most_owned_bytes = most_owned_bytes
        self._most_owned_bytes_of_all = most_owned_bytes_of_all
        self._most_remote = most_remote
        self._most_remote_of_namespace = most_remote_of_namespace
        self._kinds = Kinds(clock)
        self._owned = OwnedObjects(home, RECONCILER, wake, self._kinds.changed)
        self._local: OrderedDict[ActingAccount | None, Target] = OrderedDict()
        self._remote: dict[str, _Remote] = {}
        self._tasks: Background | None = None

    async def run(self) -> None:
        """Keep remote clusters alive until cancelled."""
        async with background() as self._tasks:
            await asyncio.Event().wait()

    def remote(self, component: Component, kube_config: NamedText) -> Target:
        """The cluster of a kubeconfig, for a Component. Raises InvalidKubeConfig, ClusterTooLarge, TooManyClusters."""
        digest = hashlib.sha256(kube_config.text).hexdigest()
        remote = self._remote.get(digest)
        if remote is not None and remote.refused and self._clock.monotonic() - remote.opened_at >= _REFUSED_SECONDS:
            del self._remote[digest]
            remote = None
        if remote is None or not remote.serves(component.metadata.namespace):
            self._check_number(component.key, digest)
        if remote is None:
            remote = self._remote[digest] = self._open(component, kube_config, digest)
            self._count()
        if component.key not in remote.users:
            remote.users.add(component.key)
            self._leave(component.key, but=remote)
        if remote.refused:
            raise ClusterTooLarge(remote.refused)
        return remote.target

    def _check_number(self, user: ObjectKey, digest: str) -> None:
        """May the Component have one more cluster? Raises TooManyClusters. One that only it uses is about to end."""
        others = [one for name, one in self._remote.items() if name != digest and one.serves(but=user)]
        if digest not in self._remote and len(others) >= self._most_remote:
            raise TooManyClusters("all components together", self._most_remote, "max-remote-clusters")
        if sum(one.serves(user.namespace, but=user) for one in others) >= self._most_remote_of_namespace:
            raise TooManyClusters(
                f"the components of namespace {user.namespace}",
                self._most_remote_of_namespace,
                "max-remote-clusters-per-namespace",
            )

    def home(self, component: Component, account: ActingAccount | None) -> Target:
        """The operator's own cluster for a Component. Raises ServiceAccountRequired."""
        self._leave(component.key)
        return self.local(account)

    def local(self, acting_as: ActingAccount | None) -> Target:
        """The operator's own cluster under an account; None: as the operator itself. Raises ServiceAccountRequired."""
        tenancy.require_account(acting_as, self.rules)
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
            if len(self._local) > MOST_ACCOUNTS:
                self._local.popitem(last=False)
            self._count()
        self._local.move_to_end(acting_as)
        return self._local[acting_as]

    def passing(self, kube_config: str) -> Client:
        """A client for one question; the caller closes it. Raises LoginFailed."""
        config = ClusterConfig.from_kubeconfig_text(kube_config)
        try:
            return self._connect(self._within_rules(config))
        except EgressRefused as error:
            raise LoginFailed(str(error)) from None

    def kinds_changed(self) -> None:
        """A definition of kinds came, changed or went in this cluster."""
        self._kinds.changed()

    def forget(self, key: ObjectKey) -> None:
        """A Component is gone."""
        self._leave(key)

    def _open(self, component: Component, kube_config: NamedText, digest: str) -> _Remote:
        secret = component.spec.kube_config.secret_ref.name if component.spec.kube_config else ""
        key = ObjectKey(component.metadata.namespace, secret)
        try:
            config = self._within_rules(ClusterConfig.from_kubeconfig_text(kube_config.text.decode()))
        except UnicodeDecodeError:
            raise InvalidKubeConfig(key, "it is not text") from None
        except (LoginFailed, EgressRefused) as error:
            raise InvalidKubeConfig(key, str(error)) from None
        assert self._tasks is not None, "run() must be running"
        client = self._connect(config).with_field_manager(RECONCILER)
        cluster = Cluster(client, clock=self._clock, name=config.server, border=self._border)
        kinds = Kinds(self._clock)
        owned = OwnedObjects(
            cluster,
            RECONCILER,
            self._wake,
            kinds.changed,
            most_bytes=self._most_owned_bytes,
            too_much=lambda: self._refuse(digest, cluster, str(TooMuch(cluster.name, self._most_owned_bytes))),
            grown=self._bound_all,
        )
        target = Target(
            client, owned, kinds, self._clock, lane=config.server, acts_as=f"the kubeconfig of secret {key}"
        )
        name = f"cluster {config.server}"
        running = self._border.once("remote cluster", name, partial(self._running, cluster))
        return _Remote(target, self._tasks.start(running, name), self._clock.monotonic())

    def _bound_all(self) -> None:
        """Refuse the largest cluster of the namespace that holds most, where it or all of them hold too much."""
        watched = [(digest, remote) for digest, remote in self._remote.items() if not remote.refused]
        of_namespaces = Counter[str]()
        for _, remote in watched:
            of_namespaces.update(dict.fromkeys(remote.namespaces(), remote.target.owned.weight))
        if not of_namespaces:
            return
        namespace, weight = max(of_namespaces.items(), key=lambda item: item[1])
        most, of_all = self._most_owned_bytes_of_all, sum(remote.target.owned.weight for _, remote in watched)
        if weight <= most // 2 and of_all <= most:
            return
        digest, largest = max(
            ((digest, remote) for digest, remote in watched if namespace in remote.namespaces()),
            key=lambda each: each[1].target.owned.weight,
        )
        cluster = largest.target.owned.cluster
        whose = f"namespace {namespace} deploys to" if weight > most // 2 else "all namespaces deploy to"
        limit = most // 2 if weight > most // 2 else most
        self._refuse(
            digest,
            cluster,
            f"the clusters that {whose} show more than {limit >> 10} KiB of objects with our label, and the one at "
            f"{cluster.name} shows most of them",
        )

    def _refuse(self, digest: str, cluster: Cluster, why: str) -> None:
        """Hold nothing more of a cluster that shows too much, and leave it alone for a while."""
        remote = self._remote.get(digest)
        if remote is None or remote.refused or remote.target.owned.cluster is not cluster:
            return
        remote.refused = why
        _log.warning("%s; it is left alone for %d s", remote.refused, _REFUSED_SECONDS)
        remote.opened_at = self._clock.monotonic()
        remote.task.cancel()
        # The caches go with the cluster as soon as no pass uses them any more.
        remote.target = replace(remote.target, owned=OwnedObjects(self._home, RECONCILER, self._wake, lambda: None))

    def _within_rules(self, config: ClusterConfig) -> ClusterConfig:
        """The login, held to the egress rules. Behind a proxy an address cannot be checked, so that none is used.

        Raises EgressRefused.
        """
        if self._egress is None:
            return config
        self._egress.check_url(parsed(config.server))
        return replace(config, may_connect=self._egress.allows, proxy="")

    async def _running(self, cluster: Cluster) -> None:
        try:
            await self._border.keep("remote cluster", f"cluster {cluster.name}", cluster.run)
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


async def _uid_of(client: Client, namespace: str) -> str:
    try:
        found = await client.find(metadata_of(Namespace), namespace)
    except Forbidden:
        return ""
    return found.metadata.uid if found is not None else ""
