"""Components as the API server would hand them over."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stellwerk.kube.types.model import JsonValue, view
from stellwerk.operators.component.api import Component

ITEM: dict[str, JsonValue] = {
    "group": "",
    "version": "v1",
    "kind": "ConfigMap",
    "name": "one",
    "adoptionPolicy": "IfUnowned",
    "reconcilePolicy": "OnObjectChange",
    "updatePolicy": "SsaOverride",
    "deletePolicy": "Delete",
    "applyOrder": 0,
    "deleteOrder": 0,
    "digest": "d",
}
"""A ConfigMap in the inventory of a status."""


def component(
    name: str = "web",
    namespace: str = "shop",
    *,
    spec: Mapping[str, JsonValue] | None = None,
    status: Mapping[str, JsonValue] | None = None,
    generation: int = 1,
    deleting: bool = False,
    **metadata: JsonValue,
) -> Component:
    """A Component from the JSON of its spec and status."""
    body = {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": generation,
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
            **metadata,
        },
        "spec": {"sourceRef": {"fluxGitRepository": {"name": "repo"}}, **(spec or {})},
        "status": {"observedGeneration": -1, **(status or {})},
    }
    return view(Component).decode(msgspec.json.encode(body))


def depending(name: str, *dependencies: str, deleting: bool = False, **status: JsonValue) -> Component:
    """A Component of the namespace shop that depends on others of it."""
    listed: list[JsonValue] = [{"name": other} for other in dependencies]
    return component(name, spec={"dependencies": listed}, status=status, deleting=deleting)
