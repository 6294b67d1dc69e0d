"""One cluster as an operator sees it: a client, and the watches that its readers share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar, cast

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client, Target, view_of
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, Unreadable, View, metadata_of
from stellwerk.kube.watch.watch import SILENCE_SECONDS
from stellwerk.runtime.cache.cache_budget import CacheBudget
from stellwerk.runtime.cache.cluster_fingerprint import ClusterFingerprint
from stellwerk.runtime.cache.common_history import CommonHistory
from stellwerk.runtime.cache.definitions import Definitions
from stellwerk.runtime.cache.informer import VERIFY_SECONDS, Informer
from stellwerk.runtime.cache.joined_informer import JoinedInformer
from stellwerk.runtime.cache.namespace_presence import NamespacePresence
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics

T = TypeVar("T", bound=HasMetadata)

STALE_SECONDS = 180.0
"""After so long without a word from the server a cache is not to be trusted."""


class Cluster:
    """A client and its informers, one for each (resource, shape, namespace, selectors), started when asked for."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        verify_seconds: float = VERIFY_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        name: str = "",
        on_unreadable: Callable[[Unreadable], None] = lambda obj: None,
        on_repair: Callable[[], None] = lambda: None,
        border: Border | None = None,
        budget: CacheBudget | None = None,
        namespaces: Sequence[str] = (),
    ) -> None:
        """`namespaces`: objects of others are not watched, and `informer` is forbidden to ask for all; empty: it may.

        `on_unreadable` is called with each version of an object that cannot be decoded, `on_repair` when a watch
        works again after an unexpected exception. `budget`: of memory for the objects; without one all are held."""
        self.namespaces = tuple(namespaces)
        self._presence: NamespacePresence | None = None
        self._budget = budget
        self._on_repair = on_repair
        self._on_unreadable = on_unreadable
        self._required: set[Informer[HasMetadata]] = set()
        self._awaited: set[Informer[HasMetadata]] = set()
        self._verify_seconds = verify_seconds
        self._silence_seconds = silence_seconds
        self.client = client
        self._metrics = metrics or Metrics()
        self.name = name
        self.clock = clock or SystemClock()
        self.fingerprint = ClusterFingerprint(client, self.clock)
        self._history = CommonHistory(self.clock)
        self._border = border or Border(self._metrics, self.clock)
        self._informers: dict[tuple[View[HasMetadata], str, str, str], Informer[HasMetadata]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._watches: dict[Informer[HasMetadata], asyncio.Task[None]] = {}
        self._optional: set[Informer[HasMetadata]] = set()
        self._definitions: Definitions | None = None

    def informer(
        self,
        target: Target[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        required: bool = False,
        awaited: bool = True,
        optional: bool = False,
        places: Iterable[str] = (),
    ) -> Informer[T]:
        """The informer over these objects, shared by all who ask for the same. It runs while the cluster runs.

        If the cluster is limited to `namespaces`, all namespaces are these, or the `places` that are given instead.

        `required`: the operator cannot do its work without it, so a parked watch is reported as unready, and no
        controller starts before it was full once or its kind is not served; unless it is not `awaited`, because
        controllers ask whether it is full and report the cause. `optional`: the cluster may not have the kind, which a
        CustomResourceDefinition defines; see `definitions`.
        """
        view = view_of(target)
        if self.namespaces and view.resource.namespaced and not namespace:
            parts = {
                place: self.informer(
                    view,
                    namespace=place,
                    labels=labels,
                    fields=fields,
                    required=required,
                    awaited=awaited,
                    optional=optional,
                )
                for place in places or self.namespaces
            }
            return JoinedInformer(view, parts, self._history, self.is_ending)
        identity = (cast("View[HasMetadata]", view), namespace, labels, fields)
        informer = self._informers.get(identity)
        if informer is None:
            informer = self._informers[identity] = Informer(
                self.client,
                cast("View[HasMetadata]", view),
                namespace=namespace,
                labels=labels,
                fields=fields,
                clock=self.clock,
                metrics=self._metrics,
                verify_seconds=self._verify_seconds,
                silence_seconds=self._silence_seconds,
                on_repair=self._on_repair,
                history=self._history,
                budget=self._budget,
            )
            informer.on_unreadable(self._announce)
            if self.namespaces and namespace and self._presence is None:
                self._presence = NamespacePresence(self.informer(metadata_of(Namespace)))
            if optional:
                self._optional.add(informer)
                self._definitions = self._definitions or Definitions(
                    self.informer(metadata_of(CustomResourceDefinition.resource))
                )
            self._start(informer)
        if required:
            self._required.add(informer)
        if required and awaited:
            self._awaited.add(informer)
        return cast("Informer[T]", informer)

    def release(self, informer: Informer[T]) -> None:
        """End the watch of this informer, which nothing needs any more. Asked for again, it is a new one.

        For selections that come and go without bound, such as one namespace. Its handlers are not called any more.
        """
        if isinstance(informer, JoinedInformer):
            for part in informer.parts.values():
                self.release(part)
            return
        ended = cast("Informer[HasMetadata]", informer)
        identity = (ended.view, *ended.selection)
        if self._informers.get(identity) is not ended:
            return
        del self._informers[identity]
        self._required.discard(ended)
        self._awaited.discard(ended)
        self._optional.discard(ended)
        if self._presence is not None:
            self._presence.forget(ended)
        if (watch := self._watches.pop(ended, None)) is not None:
            watch.cancel()
        informer.close()

    @property
    def informers(self) -> tuple[Informer[HasMetadata], ...]:
        """All informers asked for so far."""
        return tuple(self._informers.values())

    async def run(self) -> None:
        """Run all informers, also those asked for later, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for informer in self._informers.values():
                    self._start(informer)
                await asyncio.Event().wait()  # for later informers; only cancelling ends it
            finally:
                self._tasks = None
                self._watches.clear()

    async def wait_settled(self) -> None:
        """Return when every informer is full, or parked with a reason; an awaited one has to show all objects.

        To controllers, a cache that was never filled is a cluster without such objects: they would remove the finalizer
        of an object because no dependents are listed, and delete what no listed object uses. Where the kind is not
        served, that is so.
        """
        for informer in self.informers:
            await informer.wait_settled()
        while behind := [
            informer
            for informer in self._awaited
            if not (informer.shows_all or self.is_ending(informer.selection.namespace))
        ]:
            await behind[0].wait_complete()  # others may be served by then

    def unready(self) -> list[str]:
        """What is wrong with the caches, one sentence each. Empty: each is full and fresh, or parked for a reason."""
        found = (
            _problem(each, required=each in self._required)
            for each in self._informers.values()
            if each.parked is None or not self.is_ending(each.selection.namespace)
        )
        return [problem for problem in found if problem]

    def unreadable(self) -> list[Unreadable]:
        """The objects that cannot be decoded at the moment."""
        return [obj for informer in self._informers.values() for obj in informer.unreadable.values()]

    def _announce(self, key: ObjectKey, obj: Unreadable | None) -> None:
        if obj is not None:
            self._on_unreadable(obj)

    def _start(self, informer: Informer[HasMetadata]) -> None:
        if self._tasks is not None:
            name = f"the watch of {informer.name}{f' at {self.name}' if self.name else ''}"
            watching = self._border.keep("informer", name, partial(self._watch, informer), parked=informer.broke)
            self._watches[informer] = self._tasks.create_task(watching, name=f"watch {informer.name}")

    def is_ending(self, namespace: str) -> bool:
        """Whether a namespace is known to be absent, or is being deleted. False if `namespaces` are no limit."""
        return self._presence is not None and bool(namespace) and self._presence.is_ending(namespace)

    async def _watch(self, informer: Informer[HasMetadata]) -> None:
        if self._presence is not None and informer.selection.namespace:
            await self._presence.follow(informer)
        if self._definitions is not None and informer in self._optional:
            await self._definitions.follow(informer)
        await informer.run()


def _problem(informer: Informer[HasMetadata], *, required: bool) -> str:
    if informer.parked is not None:
        # Other absent kinds and missing rights concern only the objects that need them, and their conditions report it.
        return f"{informer.name} cannot be watched: {informer.parked.why}" if required else ""
    if not informer.has_synced:
        return f"the cache of {informer.name} is not filled yet"
    stale = informer.stale_seconds() if required else informer.silent_seconds()
    if stale > STALE_SECONDS:
        return f"the cache of {informer.name} is stale: no event for {stale:.0f} s"
    return ""
