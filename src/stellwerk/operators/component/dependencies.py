"""Which Components must be ready before this one, and which keep it from being deleted (pure).

Dependencies hold in both directions: a Component is applied after those that it lists, and deleted before them. That
makes circles deadly: nobody in them can be first, nor last. A circle is therefore named, on each of its members, before
anything else is said about dependencies. And it must not outlive its Components: those on a circle that are to be
deleted do not wait for each other, nor does a Component wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component import ready_expressions, sources
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import DependencyCycle, DependencyNotReady, InvalidSpec, StillNeeded
from stellwerk.operators.component.ready_expressions import Asked

Find: TypeAlias = Callable[[ObjectKey], Component | None]
"""A Component by its key, as the cache holds it; None where there is none."""

Dependants: TypeAlias = Callable[[ObjectKey], Iterable[Component]]
"""The Components that list one, as an index of the cache holds them."""


def index_by_dependency(component: Component) -> Iterable[str]:
    """For an index of a store: under each Component that it lists, as `namespace/name`."""
    return map(str, component.dependencies)


# ---- before applying


def check(component: Component, find: Find, artifact: Artifact | None) -> tuple[Asked, ...]:
    """May the Component be applied? `artifact`: what its source offers now. Comes to what expressions have yet to say.

    Raises `DependencyCycle`; `DependencyNotReady` for the first that is absent, has not taken over the artifact of the
    common source yet, or is not ready.
    """
    if circle := circle_through(component, find):
        raise DependencyCycle(circle)
    open_: list[Asked] = []
    for number, one in enumerate(component.spec.dependencies):
        key = one.key(component.metadata.namespace)
        if (dependency := find(key)) is None:
            raise DependencyNotReady(key, "not found")
        if one.ready_expr:
            open_.append(ready_expressions.asked(component, number, dependency))
        else:
            _check_one(component, key, dependency, artifact)
    return tuple(open_)


def _check_one(component: Component, key: ObjectKey, dependency: Component, artifact: Artifact | None) -> None:
    if artifact is not None and _share_source(component, dependency) and not _has_taken(dependency, artifact):
        raise DependencyNotReady(key, f"not synced: it has not taken over revision {artifact.revision} yet")
    if not dependency.is_ready:
        raise DependencyNotReady(key, f"not ready{_state(dependency)}")


def _share_source(one: Component, other: Component) -> bool:
    try:
        return sources.named(one) == sources.named(other)
    except InvalidSpec:
        return False


def _has_taken(component: Component, artifact: Artifact) -> bool:
    status = component.status
    return (status.last_attempted_digest, status.last_attempted_revision) == (artifact.digest, artifact.revision)


def _state(dependency: Component) -> str:
    if dependency.status.state is None:
        return ""
    if dependency.status.observed_generation != dependency.metadata.generation:
        return ": its latest change has not been looked at yet"
    return f": its state is {dependency.status.state}"


def circle_through(component: Component, find: Find) -> tuple[ObjectKey, ...]:
    """The shortest circle of dependencies that the Component is in, beginning with it; empty where there is none."""
    came_from: dict[ObjectKey, ObjectKey] = {}
    waiting = [component.key]
    for key in waiting:  # grows while it is walked: breadth first
        one = component if key == component.key else find(key)
        for dependency in one.dependencies if one is not None else ():
            if dependency == component.key:
                return _way(component.key, key, came_from)
            if dependency not in came_from:
                came_from[dependency] = key
                waiting.append(dependency)
    return ()


def _way(start: ObjectKey, last: ObjectKey, came_from: dict[ObjectKey, ObjectKey]) -> tuple[ObjectKey, ...]:
    way = [last]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))


# ---- before deleting


def check_deletion(component: Component, dependants: Dependants) -> None:
    """May the objects of the Component be deleted? Raises `StillNeeded` while others depend on it."""
    if waiting := blocking(component, dependants):
        raise StillNeeded(waiting)


def blocking(component: Component, dependants: Dependants) -> Sequence[ObjectKey]:
    """The Components that the deletion has to wait for, sorted.

    Components on a circle of which all are to be deleted count as one: they wait together for those outside.
    """
    together = _going_together(component, dependants)
    return sorted({one.key for member in together for one in dependants(member) if one.key not in together})


def _going_together(component: Component, dependants: Dependants) -> set[ObjectKey]:
    """The Component and all that are to be deleted and are on a circle with it."""
    needing = {component.key: component}
    waiting = [component.key]
    while waiting:
        for one in dependants(waiting.pop()):
            if one.metadata.is_terminating and one.key not in needing:
                needing[one.key] = one
                waiting.append(one.key)
    return _needed_among(component, needing)


def _needed_among(component: Component, among: Mapping[ObjectKey, Component]) -> set[ObjectKey]:
    found = {component.key}
    waiting = [component]
    while waiting:
        for key in waiting.pop().dependencies:
            if key in among and key not in found:
                found.add(key)
                waiting.append(among[key])
    return found


# ---- who is woken


def woken_by_readiness(component: Component, dependants: Dependants) -> Iterable[ObjectKey]:
    """Whose pass may come further because the Component became ready, or took over a new artifact."""
    return (one.key for one in dependants(component.key))


def woken_by_any_change(component: Component, dependants: Dependants) -> Iterable[ObjectKey]:
    """Whose pass may come further, or no longer, because something of the Component changed: an expression may be about
    anything."""
    return (one.key for one in dependants(component.key) if _has_expression_about(one, component.key))


def judged(component: Component) -> frozenset[ObjectKey]:
    """The Components of which an expression alone says whether they are ready: their state tells nothing."""
    listed = [(one.key(component.metadata.namespace), one.ready_expr) for one in component.spec.dependencies]
    return frozenset(key for key, _ in listed) - {key for key, expression in listed if not expression}


def has_expressions(component: Component) -> bool:
    """Whether an expression of the Component may be about itself, labels included."""
    return any(one.ready_expr for one in component.spec.dependencies)


def _has_expression_about(component: Component, key: ObjectKey) -> bool:
    listed = component.spec.dependencies
    return any(one.ready_expr and one.key(component.metadata.namespace) == key for one in listed)


def woken_by_rewiring(component: Component, dependants: Dependants) -> Iterable[ObjectKey]:
    """Who has to look again because the Component lists others than before: all above it, who may be in a circle with
    it now, or no longer."""
    return sorted(_above(component, dependants) - {component.key})


def _above(component: Component, dependants: Dependants) -> set[ObjectKey]:
    found = {component.key}
    waiting = [component.key]
    while waiting:
        for one in dependants(waiting.pop()):
            if one.key not in found:
                found.add(one.key)
                waiting.append(one.key)
    return found


def woken_by_departure(component: Component) -> Iterable[ObjectKey]:
    """Whose deletion may come further because the Component is gone, or lists them no longer."""
    return component.dependencies
