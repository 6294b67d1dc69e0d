"""Which Components must be ready before this one, and which keep it from being deleted (pure).

Dependencies hold in both directions: a Component is applied after those that it lists, and deleted before them. That
makes cycles fatal: no Component in them can be first, nor last. A cycle is therefore named, on each of its members,
before anything else is reported about dependencies. And it must not outlive its Components: those in a cycle that are
to be deleted do not wait for each other, nor does a Component wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import MOST_DEPENDENCIES, Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.dependencies import ready_expressions
from stellwerk.operators.component.dependencies.dependency_graph import Dependants, DependencyGraph
from stellwerk.operators.component.dependencies.ready_expressions import ReadyRequirement
from stellwerk.operators.component.errors import DependencyCycle, DependencyNotReady, InvalidSpec, StillNeeded
from stellwerk.operators.component.reasons import reason_of
from stellwerk.operators.component.sources import sources

Find: TypeAlias = Callable[[ObjectKey], Component | None]
"""A Component by its key, as the cache holds it; None where there is none."""


def index_by_dependency(component: Component) -> Iterable[str]:
    """For an index of a store: under each Component that it lists, as `namespace/name`."""
    return map(str, component.dependencies)


# ---- before applying


def check(
    component: Component, find: Find, graph: DependencyGraph, artifact: Artifact | None, *, is_new: bool = False
) -> tuple[ReadyRequirement, ...]:
    """May the Component be applied? `artifact`: what its source offers now. `is_new`: whether it is to get another
    content than before. Returns the expressions that are still to be evaluated.

    Raises `InvalidSpec` where it lists too many; `DependencyCycle`; `DependencyNotReady` for the first that is absent,
    has not taken over the artifact of the common source yet, or is not ready.
    """
    if len(component.spec.dependencies) > MOST_DEPENDENCIES:
        count = len(component.spec.dependencies)
        raise InvalidSpec("dependencies", f"lists {count} components; at most {MOST_DEPENDENCIES} are allowed")
    if circle := graph.cycle_through(component.key):
        raise DependencyCycle(circle)
    open_: list[ReadyRequirement] = []
    for number, one in enumerate(component.spec.dependencies):
        key = one.key(component.metadata.namespace)
        if (dependency := find(key)) is None:
            raise DependencyNotReady(key, "not found")
        if one.ready_expr:
            open_.append(ready_expressions.asked(component, number, dependency))
        else:
            _check_one(component, key, dependency, artifact, is_new=is_new)
    return tuple(open_)


def _check_one(
    component: Component, key: ObjectKey, dependency: Component, artifact: Artifact | None, *, is_new: bool
) -> None:
    if artifact is not None and _share_source(component, dependency) and not dependency.status.has_attempted(artifact):
        raise DependencyNotReady(key, f"not synced: it has not taken over revision {artifact.revision} yet")
    if not dependency.is_ready and (is_new or not _may_rest(component, dependency, artifact)):
        raise DependencyNotReady(key, f"not ready{_state(dependency)}")


def _may_rest(component: Component, dependency: Component, artifact: Artifact | None) -> bool:
    """Whether a Component that is ready stays ready: the dependency is suspended, and nothing new is to apply."""
    return (
        dependency.spec.suspend
        and component.is_ready
        and (artifact is None or component.status.has_attempted(artifact))
    )


def _share_source(component: Component, other: Component) -> bool:
    try:
        return sources.named(component) == sources.named(other)
    except InvalidSpec:
        return False


def _state(dependency: Component) -> str:
    if dependency.spec.suspend:
        return ": it is suspended"
    if dependency.status.state is None:
        return ""
    if dependency.status.observed_generation != dependency.metadata.generation:
        return ": its latest change has not been looked at yet"
    if (failure := _failure(dependency)) is not None:
        return f": its state is {State.Error} ({failure})" if failure else f": its state is {State.Error}"
    return f": its state is {dependency.status.state}"


def _failure(dependency: Component) -> str | None:
    """The precise reason of a Component in Error; empty where it shows none; None where it is in another state."""
    status = dependency.status
    return str(reason_of(status) or "") if status.state is State.Error else None


def named_state(dependency: Component) -> tuple[str | None, bool]:
    """What the status of a dependant shows about a dependency, as far as it is corrected at each change."""
    return _failure(dependency), dependency.spec.suspend


# ---- before deleting


def check_deletion(component: Component, graph: DependencyGraph, *, cross_namespace: bool = True) -> None:
    """May the objects of the Component be deleted? Raises `StillNeeded` while others depend on it."""
    if waiting := blocking(component, graph, cross_namespace=cross_namespace):
        raise StillNeeded(waiting)


def blocking(component: Component, graph: DependencyGraph, *, cross_namespace: bool = True) -> Sequence[ObjectKey]:
    """The Components that the deletion has to wait for, sorted.

    Without `cross_namespace`, Components of other namespaces may not list it, and do not count.

    Components in a cycle of which all are to be deleted count as one: they wait together for those outside.
    """
    together = graph.deleted_together(component.key)
    listing = {
        key
        for member in together
        for key in graph.listing(member)
        if cross_namespace or key.namespace == member.namespace
    }
    return sorted(listing - together)


# ---- who is woken


class _Obstacle(NamedTuple):
    """Why a Component waits."""

    named: ObjectKey
    """The dependency that its status names: the first one that is not ready."""
    last: ObjectKey
    """The one that is probably ready last: of all that are not ready, the one with the most dependencies."""


@dataclass(slots=True)
class Waiting:
    """For which dependency each Component waits, so that it is woken when that is ready, and not for each before it.

    A thousand Components that depend on all before them have half a million dependencies. If each one that becomes
    ready woke all its dependants at once, there would be half a million passes, nearly all of them in vain.
    """

    dependants: Dependants
    _obstacles: dict[ObjectKey, _Obstacle] = field(default_factory=dict)

    def forget(self, key: ObjectKey) -> None:
        """A pass on a Component begins, or it is gone: it is not known to wait."""
        self._obstacles.pop(key, None)

    def note(self, component: Component, named: ObjectKey, find: Find) -> None:
        """The Component waits until `named` is ready, or has taken over an artifact."""
        by_expression = judged(component)
        plain = (find(key) for key in component.dependencies if key not in by_expression)
        open_ = [(len(one.spec.dependencies), one.key) for one in plain if one is not None and not one.is_ready]
        self._obstacles[component.key] = _Obstacle(named, max(open_)[1] if open_ else named)

    def woken_by_readiness(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Whose pass may come further because the Component became ready, or took over a new artifact."""
        return (one for one, obstacle in self._above(key) if obstacle is None or obstacle.last == key)

    def woken_by_any_change(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Whose pass may come further, or no longer, because something of the Component changed: an expression may be
        about anything."""
        return (dependant.key for dependant in self.dependants(key) if _has_expression_about(dependant, key))

    def naming(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Components whose status names this one as the dependency that they wait for."""
        return (one for one, obstacle in self._above(key) if obstacle is not None and obstacle.named == key)

    def renamed_by_readiness(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Who waits for another one, too, but names the Component in its status."""
        return (
            one for one, obstacle in self._above(key) if obstacle is not None and obstacle.named == key != obstacle.last
        )

    def _above(self, key: ObjectKey) -> Iterable[tuple[ObjectKey, _Obstacle | None]]:
        """The Components that list this one, each with why it waits."""
        return ((dependant.key, self._obstacles.get(dependant.key)) for dependant in self.dependants(key))


def judged(component: Component) -> frozenset[ObjectKey]:
    """The Components whose readiness only an expression decides: their state does not count."""
    listed = [
        (dependency.key(component.metadata.namespace), dependency.ready_expr)
        for dependency in component.spec.dependencies
    ]
    return frozenset(key for key, _ in listed) - {key for key, expression in listed if not expression}


def has_expressions(component: Component) -> bool:
    """Whether an expression of the Component may be about itself, labels included."""
    return any(dependency.ready_expr for dependency in component.spec.dependencies)


def _has_expression_about(component: Component, key: ObjectKey) -> bool:
    listed = component.spec.dependencies
    return any(one.ready_expr and one.key(component.metadata.namespace) == key for one in listed)
