"""Who writes an object, and how all of it becomes ours.

Forced server-side apply wins every field that we name, and leaves alone what others added. A whole-object PUT would
remove the additions, too, but is a write in every pass, and it fights those who legitimately own a field. So we look at
managedFields (Kubernetes docs, "Server-Side Apply": transferring ownership): an entry of somebody else means that he
wrote to the object. Such entries are folded into ours, under our name; the apply that follows then removes every field
that we own and do not name.

That also takes over what an earlier operator wrote with plain POST and PUT under our own name: to the server that
`Update` entry is a different writer, and to us a stranger.

Entries of subresources (status, scale) are not touched. Writers of the control plane are tolerated: they add what
Kubernetes itself needs (bound volumes, load balancers) and would add it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from stellwerk.kube.meta import FieldManager
from stellwerk.kube.model import JsonObject, JsonValue

CONTROL_PLANE = frozenset(
    {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "cloud-controller-manager", "kubelet"}
)

BEFORE_FIRST_APPLY = "before-first-apply"
"""The name the server gives to the owner of all fields of an object that had no managedFields when it was applied."""


Claims: TypeAlias = Callable[[str], bool]
"""Whether the fields of a manager become ours."""


def all_but(tolerated: Collection[str]) -> Claims:
    """Claims on the fields of everybody who is not tolerated."""
    return lambda manager: manager not in tolerated


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
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    claims = claims or all_but(CONTROL_PLANE)
    mine: JsonObject | None = None
    kept: list[JsonObject] = []
    for entry in listed:
        who = FieldManager(
            manager=str(entry.get("manager") or ""),
            operation=str(entry.get("operation") or ""),
            subresource=str(entry.get("subresource") or ""),
        )
        if not _is_foreign(who, ours, claims) and not _is_ours(who, ours):
            kept.append(entry)
        elif mine is None or _is_ours(who, ours):
            mine = _joined(entry, mine, ours)
        else:
            mine = _joined(mine, entry, ours)
    return kept if mine is None else [mine, *kept]


def _is_ours(entry: FieldManager, ours: str) -> bool:
    return entry.manager == ours and entry.operation == "Apply" and not entry.subresource


def _is_foreign(entry: FieldManager, ours: str, claims: Claims) -> bool:
    return not entry.subresource and not _is_ours(entry, ours) and claims(entry.manager)


def _joined(base: JsonObject, other: JsonObject | None, ours: str) -> JsonObject:
    fields = _union(base.get("fieldsV1"), other.get("fieldsV1") if other else None)
    return {**base, "manager": ours, "operation": "Apply", "fieldsV1": fields}


def _union(one: JsonValue, other: JsonValue) -> JsonObject:
    """Two field sets as one: keys are fields, values the sets below them."""
    left = one if isinstance(one, dict) else {}
    right = other if isinstance(other, dict) else {}
    return {**left, **{key: _union(left.get(key), value) for key, value in right.items()}}
