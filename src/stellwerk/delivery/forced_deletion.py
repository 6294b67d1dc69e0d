"""How a user forces the deletion of an object that an operator keeps by its finalizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stellwerk.delivery.insight import Unstickable
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client


def without(finalizer: str, *, consequence: str) -> Unstickable:
    """The API server deletes the object as soon as the operator's finalizer is removed, whatever is left of it."""

    def force(obj: Unstructured) -> JsonObject:
        kept: list[JsonValue] = [name for name in obj.metadata.finalizers if name != finalizer]
        return {"metadata": {"finalizers": kept, "resourceVersion": obj.metadata.resource_version}}

    async def obstacle(client: Client, obj: Unstructured) -> tuple[str, str] | None:
        others = ", ".join(obj.metadata.finalizers)
        if finalizer in obj.metadata.finalizers:
            return None
        return (
            f"the operator has removed its finalizer already, and others are left: {others}",
            "see why the controllers of these finalizers do not remove them",
        )

    return Unstickable(force=force, consequence=consequence, obstacle=obstacle)
