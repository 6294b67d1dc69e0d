"""What the Component operator watches, and which objects a change wakes.

Everything that a pass reads is watched: a source with a new artifact, an edited Secret, a dependency that became ready,
an object that another client deleted all arrive as events. Watches over kinds that only some clusters have (flux), or
that only some Components refer to (Secrets, ConfigMaps), open when the first Component needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from stellwerk.api import flux
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, View, metadata_of
from stellwerk.operators.component.api import FINALIZER, Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.component.missing_kinds import MissingKinds
from stellwerk.operators.component.dependencies import dependencies
from stellwerk.operators.component.dependencies.dependencies import Waiting
from stellwerk.operators.component.dependencies.dependency_graph import DependencyGraph
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import KINDS
from stellwerk.operators.component.sources import blueprints, sources
from stellwerk.operators.component.sources.blueprint_versions import BlueprintSummary, VersionSummary
from stellwerk.operators.component.sources.blueprints import BY_SOURCE
from stellwerk.operators.component.sources.sources import FLUX_KINDS, SourceKind
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import Priority
from stellwerk.runtime.process.manager import Manager

BY_DEPENDENCY = "dependency"

RENAMED_SECONDS = 2.0
"""How soon a status names the next dependency that its Component waits for."""

SERVED_SECONDS = 2.0
"""How soon what a definition brings is looked for: discovery shows it a moment after the change, and is read at most
every second."""

ComponentController = Controller[Component, ComponentStatus]


@dataclass(slots=True)
class Watches:
    """The informers of the home cluster. Those that open late are connected when they open."""

    manager: Manager
    components: Informer[Component]
    definitions: Informer[PartialObjectMetadata]
    blueprints: Informer[BlueprintSummary]
    blueprint_versions: Informer[VersionSummary]
    graph: DependencyGraph
    waiting: Waiting
    missing_kinds: MissingKinds = field(default_factory=MissingKinds)
    controllers: list[ComponentController] = field(default_factory=list)
    """The one controller, as soon as there is one."""
    _contents: dict[ReferenceKind, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    _sources: dict[SourceKind, Informer[flux.FluxSource]] = field(default_factory=dict)
    _heard: set[View[flux.FluxSource]] = field(default_factory=set)

    def contents(self, kind: ReferenceKind) -> Informer[PartialObjectMetadata]:
        """The metadata of all Secrets, or of all ConfigMaps."""
        if kind not in self._contents:
            cache = self._contents[kind] = self.manager.informer(metadata_of(KINDS[kind]))
            cache.on_change(lambda delta: self._wake_by(kind, str(delta.key)))
        return self._contents[kind]

    async def sources(self, kind: SourceKind) -> Informer[flux.FluxSource]:
        """The objects of a kind of flux, in the version that the cluster serves; parked where it serves none.

        While it is parked, each call reads the served versions again: discovery lists a version some time after its
        definition was created, and no event announces it.
        """
        cache = self._sources.get(kind)
        if cache is None or cache.parked is not None:
            shape = FLUX_KINDS[kind]
            resource = await flux.served(shape, self.manager.client.mapper) or shape.resource
            cache = self._sources[kind] = self._followed(kind, View(resource, shape))
        return cache

    def _followed(self, kind: SourceKind, view: View[flux.FluxSource]) -> Informer[flux.FluxSource]:
        cache = self.manager.informer(view)
        if view not in self._heard:
            self._heard.add(view)
            cache.on_change(lambda delta: self._on_source(kind, delta))
            cache.on_unreadable(lambda key, _: self.on_unreadable_source(kind, key))
        return cache

    def wake(self, keys: Iterable[ObjectKey]) -> None:
        """Have these Components looked at."""
        for controller in self.controllers:
            for key in keys:
                controller.queue.add(key)

    def _wake_by(self, index: str, value: str) -> None:
        self.wake([component.key for component in self.components.store.by(index, value)])

    def on_component(self, delta: Delta[Component]) -> None:
        """Components that are in a cycle with this one only now, or no longer, look again."""
        self.wake(self.graph.change(delta.old, delta.new))

    def on_blueprint(self, delta: Delta[BlueprintSummary]) -> None:
        """A new content, which a new generation has, is news to all; whatever else changes is to those not Ready."""
        if delta.new is None:
            return
        may_be_news = not delta.is_first and (delta.old is None or _generation(delta.old) != _generation(delta.new))
        found = self.components.store.by(BY_SOURCE, sources.index_value(SourceKind.Blueprint, delta.key))
        self.wake([one.key for one in found if may_be_news or one.status.state is not State.Ready])

    def _on_source(self, kind: SourceKind, delta: Delta[flux.FluxSource]) -> None:
        """Readiness, with an artifact, is news to those who have not taken that artifact yet.

        A pass that is under way may have taken another one, which the status does not show yet. To that Component, any
        change is news: the source may go back to the artifact of the status.
        """
        if delta.new is None or sources.not_ready(delta.new):
            return
        artifact = sources.offered_by_flux(sources.Source(kind, delta.key), delta.new).artifact
        assert artifact is not None  # it is ready
        found = self.components.store.by(BY_SOURCE, sources.index_value(kind, delta.key))
        under_way = {one.key for one in found if not delta.is_first and self._has_pass(one.key)}
        self.wake([one.key for one in found if one.key in under_way or sources.is_news(one, artifact)])

    def _has_pass(self, key: ObjectKey) -> bool:
        return any(controller.queue.is_running(key) for controller in self.controllers)

    def on_unreadable_source(self, kind: SourceKind, key: ObjectKey) -> None:
        """A source cannot be decoded, or no longer so."""
        self._wake_by(BY_SOURCE, sources.index_value(kind, key))

    def on_definition(self, delta: Delta[PartialObjectMetadata]) -> None:
        """A kind came, changed or went: watches that were waiting for it try again, and Components that missed it."""
        if delta.old is None or delta.new is None:
            self.manager.client.mapper.forget()
        for kind, cache in [*self._sources.items()]:
            if not cache.has_synced and cache.view.resource.group_resource == delta.key.name:
                self._reopen(kind)
        if delta.new is not None and not delta.is_first:
            is_news = delta.old is None or delta.old.metadata.generation != delta.new.metadata.generation
            missing = self.missing_kinds.in_group(delta.key.name.partition(".")[2])
            for controller, key in product(self.controllers, missing):
                if is_news:  # a pass that comes before discovery shows the kind is soon tried again
                    controller.queue.forget(key)
                controller.queue.add_after(key, SERVED_SECONDS, Priority.CHANGE)

    def _reopen(self, kind: SourceKind) -> None:
        """The kind may be served now, perhaps in another version than the one that was looked for."""
        self.manager.client.mapper.invalidate()
        self._sources[kind].wake()
        every = self.components.store.all()
        self.wake([one.key for one in every if any(source.kind is kind for source in sources.given(one))])


def watches(manager: Manager) -> Watches:
    """The watches that are open from the start, indexed."""
    components = manager.informer(Component, required=True)
    components.store.add_index(BY_DEPENDENCY, dependencies.index_by_dependency)
    for kind in ReferenceKind:
        components.store.add_index(kind, partial(references.index, kind))
    # Components without Blueprints need none of these: `BlueprintStore` and `BlueprintReconciler` ask whether they are
    # listed, and definitions only end waits sooner.
    versions = manager.informer(VersionSummary, required=True, awaited=False)
    blueprints.index(components, versions)
    definitions = manager.informer(metadata_of(CustomResourceDefinition), required=True, awaited=False)
    offered = manager.informer(BlueprintSummary, required=True, awaited=False)

    def dependants(key: ObjectKey) -> Iterable[Component]:
        return components.store.by(BY_DEPENDENCY, str(key))

    graph, waiting = DependencyGraph(dependants), Waiting(dependants)
    found = Watches(manager, components, definitions, offered, versions, graph, waiting)
    components.on_change(found.on_component)
    found.definitions.on_change(found.on_definition)
    found.blueprints.on_change(found.on_blueprint)
    found.blueprints.on_unreadable(lambda key, _: found.on_unreadable_source(SourceKind.Blueprint, key))
    return found


def wire(controller: ComponentController, seen: Watches) -> None:
    """Which change of a Component wakes itself, and which wakes others."""

    def rename_later(delta: Delta[Component]) -> None:
        for key in renamed(delta, seen.waiting):
            controller.queue.add_after(key, RENAMED_SECONDS)

    controller.ignore_updates(nothing_was_asked)
    controller.watches(seen.components, lambda delta: woken(delta, seen.waiting))
    seen.components.on_change(rename_later)
    seen.controllers.append(controller)


def nothing_was_asked(old: Component, new: Component) -> bool:
    """Whether an update is only what we wrote ourselves: the status, the finalizer. While it is deleted, everybody's
    finalizers matter. Before, ours must not stay away where a client has removed it: its objects would be orphaned."""
    return _asked(old) == _asked(new) and not finalizer.is_lost(old, new, FINALIZER)


def _asked(component: Component) -> tuple[object, ...]:
    metadata = component.metadata
    finalizers = metadata.finalizers if metadata.is_terminating else ()
    labels = metadata.labels if dependencies.has_expressions(component) else {}
    return metadata.generation, metadata.annotations, metadata.is_terminating, finalizers, labels


def renamed(delta: Delta[Component], waiting: Waiting) -> Iterable[ObjectKey]:
    """Components that come no further because this one changed, but name it, or its former state, in their status.

    Of the states only Error counts, and its reason: a dependant of a thousand Components that start would be looked at
    a thousand times for each state on the way.
    """
    old, new = delta.old, delta.new
    if delta.is_first or new is None:
        return
    if old is None or _progress(old) != _progress(new):
        yield from waiting.renamed_by_readiness(new.key)
    elif dependencies.named_state(old) != dependencies.named_state(new):
        yield from waiting.naming(new.key)


def woken(delta: Delta[Component], waiting: Waiting) -> Iterable[ObjectKey]:
    """Who may come further because a Component changed. At first, every Component is looked at anyway."""
    old, new = delta.old, delta.new
    if delta.is_first:
        return
    if old is not None and (new is None or old.spec.dependencies != new.spec.dependencies):
        yield from old.dependencies  # their deletion may come further
    if new is not None and (old is None or _progress(old) != _progress(new)):
        yield from waiting.woken_by_readiness(new.key)
    elif new is not None:
        yield from waiting.woken_by_any_change(new.key)


def _progress(component: Component) -> tuple[object, ...]:
    status = component.status
    return component.is_ready, status.last_attempted_digest, status.last_attempted_revision


def _generation(blueprint: BlueprintSummary) -> tuple[str, int]:
    return blueprint.metadata.uid, blueprint.metadata.generation
