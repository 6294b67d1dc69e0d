"""What keeps a set from being applied, before its first object is touched (pure).

check_cycle    a Component brings itself, or one that brought it
check_kinds    templates ask about kinds of which it is not known whether the cluster serves them
check_size     the inventory does not fit into the status
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.desired_set import API_SERVICE
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, dig, encode_json
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.operators.component.errors import KindsUnknown
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered

_KIND = (Component.resource.group, Component.resource.kind)

_ASKING = rb"(?:APIVersions|apiResources)[^\n]{0,200}"
"""How templates ask, as far as the group is on the same line."""
_LONGEST_ASKING = 212
_PIECE = 64 * 2**10
"""So many bytes are searched at a time: a search holds the interpreter, also in a thread, and a file may be large."""

LARGEST_BYTES = 1_400_000
"""Leaves a tenth for managedFields and for the words of conditions."""
_FEW = 500
"""So many objects are not worth the reckoning."""
ENTRY_BYTES = 400
"""What an object takes in an inventory, as JSON."""
_LATER_BYTES = 110
"""What an entry gets when its object is written: uid, time and a longer phase."""


# ---- Components that bring Components


def check_cycle(
    component: Component,
    brings: Iterable[ObjectIdentity],
    find: Callable[[ObjectKey], Component | None],
    cluster_uid: str,
) -> None:
    """May the Component bring these objects into its own cluster? Raises `InvalidSet`.

    It may not bring itself, nor one that brought it: it would wait for its own readiness, and would change at each
    pass, because its message names the one it waits for. The labels of a Component name its owner, as those of every
    dependent object.
    """
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


# ---- kinds that are not known


def check_kinds(rendered: Rendered, files: Files, unknown: Sequence[str]) -> None:
    """Raises `KindsUnknown`. `unknown`: groups with their versions, such as `metrics.k8s.io/v1beta1`.

    An API service that does not answer, and that this process has never seen, has unknown kinds. To a template they
    look absent, so that it leaves out what it would deploy otherwise, and what is deployed would be pruned. So a
    rendering whose templates ask about such a group does not count. One that brings the API service itself does: it may
    be what is missing. `files` are those that the rendering could read: what else is in an artifact had no part in it.
    """
    if "cluster" not in rendered.uses:
        return
    brought = {str(dig(body, "spec", "group") or "") for body in rendered.objects if _is_service(body)}
    for version in unknown:
        group = version.rpartition("/")[0]
        if group not in brought and _is_asked(group, files.values()):
            raise KindsUnknown(version)


def _is_asked(group: str, texts: Iterable[bytes]) -> bool:
    name = group.encode()
    asking, reach = re.compile(_ASKING + re.escape(name)), _LONGEST_ASKING + len(name)
    return any(
        text.find(name, start, start + _PIECE + reach) >= 0 and asking.search(text, start, start + _PIECE + reach)
        for text in texts
        for start in range(0, len(text), _PIECE)
    )


def _is_service(body: JsonObject) -> bool:
    return (str(body.get("apiVersion") or "").rpartition("/")[0], body.get("kind")) == API_SERVICE


# ---- the size of the status


def check_size(component: Component, inventory: Inventory) -> None:
    """Raises InvalidSet where the inventory does not fit.

    etcd takes 1.5 MiB for one object. A set whose inventory does not fit could neither be saved nor reported, because a
    status that is too large is not written at all. A store of its own for large inventories was refused: the originals
    could not go on from it.
    """
    if len(inventory) < _FEW:
        return
    status = msgspec.structs.replace(component.status, inventory=inventory_codec.write(inventory))
    later = sum(not entry.uid for entry in inventory) * _LATER_BYTES
    size = len(encode_json(msgspec.structs.replace(component, status=status))) + later
    if size > LARGEST_BYTES:
        why = (
            f"with {len(inventory)} objects it would take {size >> 10} KiB, and {LARGEST_BYTES >> 10} KiB fit into the "
            "API server's store; divide them among several Components"
        )
        raise InvalidSet([Problem(str(component.ref), why)])
