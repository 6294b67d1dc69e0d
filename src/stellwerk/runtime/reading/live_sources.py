"""Answers from requests, with the rights of a user: for `stellwerk diff` and whatever looks without caches.

`decide` is synchronous. So it runs on what is loaded, what it asked for beyond that is loaded, and it runs again, until
it asks for nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Collection as Several
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    REFUSED,
    ApiError,
    Forbidden,
    LoginFailed,
    NotServed,
    Undiscovered,
    UnreadableObject,
)
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.reading.known import ABSENT, Known, Listing, NotKnown, Present, Refused, Unknown
from stellwerk.runtime.reading.loads import Load, ServedKind
from stellwerk.runtime.reading.questions import Collection, Index, Lookup, PlainSource, Question, Source

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V")

_NOT_LOADED = "it is not loaded yet"
CALL_SECONDS = 10.0
"""How long another cluster may take for an answer."""


class LiveSources:
    """What a user may read around an object. Nothing is watched."""

    def __init__(self, client: Client, namespace: str, *, everywhere: Several[Collection[Any]] = ()) -> None:
        """Listings are of one namespace; those of `everywhere` are of all namespaces, if the user may list them."""
        self._client, self._namespace, self._everywhere = client, namespace, {*everywhere}
        self._sources: dict[Collection[Any], _LiveSource[Any]] = {}
        self.loads = _LiveLoads(client)
        """Values that need a request."""

    def of(self, collection: Collection[T]) -> Source[T]:
        """As `Sources.of`; each collection counts as declared."""
        if collection not in self._sources:
            namespaces = ("", self._namespace) if collection in self._everywhere else (self._namespace,)
            wanted = namespaces if collection.resource.namespaced else ("",)
            self._sources[collection] = _LiveSource(self._client, collection, wanted)
        return self._sources[collection]

    async def load(self) -> bool:
        """Load what was asked for and is not here. False if that was nothing. Raises ApiError."""
        loaded = [await each.load() for each in tuple(self._sources.values())]
        return any((*loaded, await self.loads.load()))

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the user may not read, as sentences: the answers about it are Unknown."""
        return tuple(dict.fromkeys(why for each in self._sources.values() for why in each.refusals.values()))

    @property
    def hidden(self) -> tuple[str, ...]:
        """The same as places: `secrets in kyma-system`."""
        return tuple(sorted({place for each in self._sources.values() for place in each.refusals}))


class LiveClusters:
    """Other clusters, by logins that the user may read. What is opened stays so until `connections` are closed."""

    def __init__(self, connections: AsyncExitStack) -> None:
        self._connections = connections
        self._opened: dict[Kubeconfig, LiveCluster | str] = {}
        self._wanted: dict[Kubeconfig, None] = {}

    def on(self, cluster: Kubeconfig) -> LiveCluster:
        """As `Clusters.on`."""
        found = self._opened.get(cluster, _NOT_LOADED)
        if isinstance(found, LiveCluster):
            return found
        if cluster not in self._opened:
            self._wanted[cluster] = None
        raise NotKnown(f"the cluster of Secret {cluster.secret}", found)

    @property
    def opened(self) -> Mapping[Kubeconfig, LiveCluster]:
        """Those that were opened."""
        return {key: found for key, found in self._opened.items() if isinstance(found, LiveCluster)}

    async def load(self) -> bool:
        """As `LiveSources.load`. A cluster that cannot be used is an answer."""
        wanted, self._wanted = self._wanted, {}
        for each in wanted:
            self._opened[each] = await self._open(each)
        return any([bool(wanted), *[await each.load() for each in self.opened.values()]])

    async def _open(self, cluster: Kubeconfig) -> LiveCluster | str:
        try:
            config = ClusterConfig.from_kubeconfig_text(cluster.content.decode())
        except UnicodeDecodeError:
            return "its login is not text"
        except LoginFailed as error:
            return str(error)
        opening = Client.connect(config, user_agent="stellwerk-cli", call_seconds=CALL_SECONDS)
        return LiveCluster(await self._connections.enter_async_context(opening))


class LiveCluster(LiveSources):
    """The sources of another cluster. Everything is listed in all namespaces."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, "")
        self.client = client
        self.trouble = ""
        """As `OtherSources.trouble`."""
        self.state = Question(self)

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Load[Resource]:
        """As `OtherSources.kind`."""
        return ServedKind(self.client.config.server, gvk, self.client.mapper, any_version)

    def drop(self, question: Question) -> None:
        """As `Answering.drop`: there is nothing to do."""

    async def load(self) -> bool:
        """As `LiveSources.load`. What goes wrong is the trouble of the cluster, of which nothing is asked then."""
        if self.trouble:
            return False
        try:
            return await super().load()
        except (ApiError, LoginFailed) as error:
            self.trouble = str(error)
            return True


class _LiveLoads:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Load[Any], Known[Any]] = {}
        self._wanted: dict[Load[Any], None] = {}

    def get(self, load: Load[V]) -> Known[V]:
        """As `LoadSource.get`."""
        return self._known.get(load, Unknown(_NOT_LOADED))

    def question(self, load: Load[Any]) -> Question:
        """As `LoadSource.question`."""
        if load not in self._known:
            self._wanted[load] = None
        return Question(self)

    def drop(self, question: Question) -> None:
        """As `Source.drop`: there is nothing to do."""

    async def load(self) -> bool:
        """As `_LiveSource.load`, with failures as answers."""
        wanted, self._wanted = self._wanted, {}
        for each in wanted:
            try:
                value = await each.fetch(self._client)
            except (ApiError, LoginFailed, NotKnown) as error:
                self._known[each] = Unknown(str(error), isinstance(error, (Refused, *REFUSED)))
            else:
                self._known[each] = ABSENT if value is None else Present(value)
        return bool(wanted)


class _LiveSource(Generic[T]):
    def __init__(self, client: Client, collection: Collection[T], namespaces: tuple[str, ...]) -> None:
        """`namespaces`: the first that may be listed is; an empty one means all."""
        self._client, self._collection, self._namespaces = client, collection, namespaces
        self._listed: PlainSource[T] | None = None
        self._scope: str | None = None
        """The namespace that was listed."""
        self._found: dict[ObjectKey, Known[T]] = {}
        self._is_served = True
        self._wanted: set[ObjectKey] = set()
        self._wants_list = False
        self.refusals: dict[str, str] = {}
        """Why a place may not be read."""

    def get(self, key: ObjectKey) -> Known[T]:
        """As `Source.get`."""
        if self._listed is not None and self._scope in ("", key.namespace):
            return self._listed.get(key)
        if key not in self._found:
            self._wanted.add(key)
        return self._found.get(key, Unknown(_NOT_LOADED))

    def by(self, index: Index[T], value: str) -> Listing[T]:
        """As `Source.by`."""
        if self._listed is None:
            self._wants_list = True
            return Listing((), (), "they are not loaded yet")
        return self._listed.by(index, value)

    def serves(self) -> bool:
        """As `Source.serves`: what was not asked for so far is asked by a list."""
        self._wants_list = self._wants_list or self._listed is None
        return self._is_served

    def question(self, index: Index[T], value: str, aspect: Callable[[Any], Any] | None) -> Lookup:
        """As `Source.question`; no one is awakened here."""
        return Lookup(self, index, value, aspect)

    def drop(self, question: Question) -> None:
        """As `Source.drop`: there is nothing to do."""

    async def load(self) -> bool:
        """Load what was asked for since the last call; false if that was nothing. Raises ApiError."""
        wanted, self._wanted = self._wanted, set()
        wants_list, self._wants_list = self._wants_list and self._listed is None, False
        if wants_list:
            self._listed = await self._list()
        for key in sorted(wanted):
            if self._scope not in ("", key.namespace):
                self._found[key] = await self._find(key)
        return wants_list or bool(wanted)

    async def _list(self) -> PlainSource[T]:
        collection, why = self._collection, ""
        for namespace in self._namespaces:
            try:
                found = await self._client.list(
                    collection.target,
                    namespace,
                    labels=collection.labels,
                    fields=collection.fields,
                    skip_unreadable=True,
                )
            except NotServed:
                self._is_served, self._scope = False, ""
                return PlainSource(is_served=False)
            except (Forbidden, Undiscovered) as error:
                why = self._refuse(namespace, error)
                continue
            self._scope = namespace
            return PlainSource(found.items, found.unreadable)
        return PlainSource(why=why)

    async def _find(self, key: ObjectKey) -> Known[T]:
        collection = self._collection
        try:
            found = await self._client.find(collection.target, key.name, key.namespace)
        except NotServed:
            self._is_served = False
            return ABSENT
        except UnreadableObject as error:
            return Unknown(f"it cannot be read: {error.why}")
        except (Forbidden, Undiscovered) as error:
            return Unknown(self._refuse(key.namespace, error))
        return PlainSource((found,)).get(key) if found is not None else ABSENT

    def _refuse(self, namespace: str, error: Exception) -> str:
        where = namespace or "all namespaces"
        return self.refusals.setdefault(f"{self._collection.resource.plural} in {where}", str(error))
