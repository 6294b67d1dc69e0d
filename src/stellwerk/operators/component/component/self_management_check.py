"""Components that bring Components: a Component may not bring itself, nor one that brought it (pure).

Such a Component would wait for its own readiness, and would change at each pass, because its message names the
one it waits for. The labels of a Component name its owner, as those of every dependent object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import OWNER_ID, Component

_KIND = (Component.resource.group, Component.resource.kind)


def check(
    component: Component,
    brings: Iterable[ObjectIdentity],
    find: Callable[[ObjectKey], Component | None],
    cluster_uid: str,
) -> None:
    """May the Component bring these objects into its own cluster? Raises `InvalidSet`."""
    inner = {identity.key for identity in brings if (identity.group, identity.kind) == _KIND}
    if not inner:
        return
    problems = [Problem(f"Component {key}", why) for key, why in _above(component, find, cluster_uid) if key in inner]
    if problems:
        raise InvalidSet(problems)


def _above(
    component: Component, find: Callable[[ObjectKey], Component | None], cluster_uid: str
) -> Iterator[tuple[ObjectKey, str]]:
    """The Component and all on which it hangs, nearest first, each with why it must not be brought."""
    yield component.key, "is the Component itself, which cannot bring itself"
    passed = {component.key}
    while (key := _owner(component, cluster_uid)) is not None and key not in passed:
        yield key, "cannot be brought, because it is what brings this Component"
        passed.add(key)
        found = find(key)
        if found is None:
            return
        component = found


def _owner(component: Component, cluster_uid: str) -> ObjectKey | None:
    """Which Component of the same cluster has brought this one."""
    uid, _, key = component.metadata.annotations.get(OWNER_ID, "").partition("/")
    namespace, slash, name = key.partition("/")
    return ObjectKey(namespace, name) if slash and uid == cluster_uid else None
