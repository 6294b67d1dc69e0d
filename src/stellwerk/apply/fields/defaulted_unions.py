"""Members of a union that the API server has set by itself, and that hinder another member.

A Deployment without a strategy gets `rollingUpdate` by default. No manager owns a default, so that a server-side apply
with `type: Recreate` leaves it, and the API server refuses the two together. `kubectl apply` removes it (retainKeys of
its strategic merge). The member becomes ours instead, and the next apply, which does not name it, removes it.

The unions are listed here because no schema has them; other members of unions have no default.
"""

from __future__ import annotations

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, dig

_STRATEGIES = {"Deployment": "strategy", "StatefulSet": "updateStrategy", "DaemonSet": "updateStrategy"}
_MEMBER, _FIELDS = "rollingUpdate", ("maxSurge", "maxUnavailable", "partition")


def hindering(desired: Desired, error: Invalid) -> JsonObject:
    """The fields of the member that made the API server refuse an object, as managedFields have them; empty if the
    object names that member itself, or was refused for another cause."""
    resource = desired.resource
    strategy = _STRATEGIES.get(resource.kind, "") if resource.group == "apps" else ""
    member = f"spec.{strategy}.{_MEMBER}"
    if not strategy or dig(desired.body, "spec", strategy, _MEMBER) is not None:
        return {}
    if not any(cause.field == member for cause in error.status.details.causes):
        return {}
    owned: JsonObject = {".": {}, **{f"f:{name}": {} for name in _FIELDS}}
    return {"f:spec": {f"f:{strategy}": {f"f:{_MEMBER}": owned}}}


def without_null(desired: Desired) -> JsonObject:
    """The object without the member, where its manifest has null there."""
    strategy = _STRATEGIES[desired.resource.kind]
    return json_edit.without(desired.body, "spec", strategy, _MEMBER)
