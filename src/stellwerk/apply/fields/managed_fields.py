"""Who writes an object, and how all of it becomes ours.

Forced server-side apply wins every field that we name, and leaves alone what others added. A whole-object PUT would
remove the additions, too, but is a write in every pass, and it fights those who legitimately own a field. So we look at
managedFields (Kubernetes docs, "Server-Side Apply": transferring ownership): an entry of another manager means that it
wrote to the object. Such entries are folded into ours, under our name; the apply that follows then removes every field
that we own and do not name.

That also takes over what an earlier operator wrote with plain POST and PUT under our own name: to the server that
`Update` entry is a different writer, and to us a stranger.

Entries of subresources (status, scale) are not touched. Writers of the control plane are tolerated: they add what
Kubernetes itself needs (bound volumes, load balancers) and would add it again. And who claims the fields of everybody
leaves them their finalizers and owner references: a finalizer is a promise that its owner will do something before the
object goes, and to take it away breaks the promise while it repairs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.apply.objects.desired import HOLDS
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.kube.types.object_meta import FieldManager

CONTROL_PLANE = frozenset(
    {
        "cloud-controller-manager",
        "clusterrole-aggregation-controller",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
    }
)

BEFORE_FIRST_APPLY = "before-first-apply"
"""The name the server gives to the owner of all fields of an object that had no managedFields when it was applied."""


_HOLDS = tuple(f"f:{key}" for key in HOLDS)


@dataclass(frozen=True, slots=True)
class Claims:
    """Whose fields become ours. Holds are finalizers and owner references."""

    managers: Callable[[str], bool]
    holds: bool = True


def all_but(tolerated: Collection[str]) -> Claims:
    """Claims on the fields of everybody who is not tolerated, holds excepted."""
    return Claims(lambda manager: manager not in tolerated, holds=False)


def beginning_with(*prefixes: str) -> Claims:
    """Claims on the fields of managers whose names begin with one of these words."""
    return Claims(lambda manager: manager.startswith(prefixes))


def strangers(managers: Iterable[FieldManager], ours: str, tolerated: Collection[str] = CONTROL_PLANE) -> list[str]:
    """The names of those who wrote to the object besides us, each once. An entry under our name that is not an apply
    counts, as `name (Update)`."""
    return claimed(managers, ours, all_but(tolerated))


def claimed(managers: Iterable[FieldManager], ours: str, claims: Claims) -> list[str]:
    """The names of those whose fields are to become ours, as `strangers` gives them."""
    found: dict[str, None] = {}
    for entry in managers:
        if not _is_foreign(entry, ours, claims):
            continue
        found[f"{ours} ({entry.operation})" if entry.manager == ours else entry.manager] = None
    return list(found)


def applied_by(managers: Iterable[FieldManager], ours: str) -> bool:
    """Whether an apply of ours owns anything of the object."""
    return any(entry.manager == ours and entry.operation == "Apply" and not entry.subresource for entry in managers)


def is_unrecorded(managers: Iterable[FieldManager]) -> bool:
    """Whether the server does not know whose fields some of the object's are, so that no apply can take them away."""
    return any(entry.manager == BEFORE_FIRST_APPLY for entry in managers)


def reclaimed(entries: JsonValue | Sequence[JsonValue], ours: str, claims: Claims | None = None) -> list[JsonObject]:
    """managedFields with everything that we claim moved into our own apply entry; without `claims`, everything but
    what the control plane wrote.

    `entries` are as the server sent them, field lists included.
    """
    claims = claims or all_but(CONTROL_PLANE)
    mine: JsonObject | None = None
    kept: list[JsonObject] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        who = msgspec.convert(entry, FieldManager)
        taken, left = _divided(entry, who, ours, claims)
        if left is not None:
            kept.append(left)
        if taken is not None:
            first, second = (taken, mine) if mine is None or _is_ours(who, ours) else (mine, taken)
            mine = _joined(first, second, ours)
    return kept if mine is None else [mine, *kept]


def with_owned(entries: Sequence[JsonObject], ours: str, fields: JsonObject) -> list[JsonObject]:
    """managedFields with these fields in our own apply entry as well: an apply that does not name them removes them."""
    return [
        _joined(entry, {"fieldsV1": fields}, ours) if _is_ours(msgspec.convert(entry, FieldManager), ours) else entry
        for entry in entries
    ]


def _divided(
    entry: JsonObject, who: FieldManager, ours: str, claims: Claims
) -> tuple[JsonObject | None, JsonObject | None]:
    """What becomes ours of an entry, and what stays as it is."""
    if _is_ours(who, ours):
        return entry, None
    if not _is_foreign(who, ours, claims):
        return None, entry
    fields = entry.get("fieldsV1")
    metadata = fields.get("f:metadata") if isinstance(fields, dict) else None
    if claims.holds or not isinstance(fields, dict) or not isinstance(metadata, dict):
        return entry, None
    holds = {key: value for key, value in metadata.items() if key in _HOLDS}
    if not holds:
        return entry, None
    rest = {key: value for key, value in metadata.items() if key not in holds}
    # An empty set of fields would not be none: it would be metadata itself.
    others = {key: value for key, value in {**fields, "f:metadata": rest}.items() if value or key != "f:metadata"}
    return {**entry, "fieldsV1": others}, {**entry, "fieldsV1": {"f:metadata": holds}}


def _is_ours(entry: FieldManager, ours: str) -> bool:
    return entry.manager == ours and entry.operation == "Apply" and not entry.subresource


def _is_foreign(entry: FieldManager, ours: str, claims: Claims) -> bool:
    if entry.subresource or _is_ours(entry, ours) or not claims.managers(entry.manager):
        return False
    return claims.holds or not entry.only_holds


def _joined(base: JsonObject, other: JsonObject | None, ours: str) -> JsonObject:
    fields = _union(base.get("fieldsV1"), other.get("fieldsV1") if other else None)
    return {**base, "manager": ours, "operation": "Apply", "fieldsV1": fields}


def _union(one: JsonValue, other: JsonValue) -> JsonObject:
    """Two field sets as one: keys are fields, values the sets below them."""
    left = one if isinstance(one, dict) else {}
    right = other if isinstance(other, dict) else {}
    return {**left, **{key: _union(left.get(key), value) for key, value in right.items()}}
