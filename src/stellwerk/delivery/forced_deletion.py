"""How a user ends the deletion of an object that a finalizer keeps, of its operator or of another client."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from stellwerk.delivery.insight import Unstickable
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.runtime.insight.diagnosis import Diagnosis, Finding
from stellwerk.runtime.insight.reason_catalog import YOURS

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client


def without(*finalizers: str, consequence: str | Callable[[Unstructured], str]) -> Unstickable:
    """The API server deletes the object as soon as the operator's finalizers are removed, whatever is left of it."""

    def force(obj: Unstructured) -> JsonObject:
        kept: list[JsonValue] = [name for name in obj.metadata.finalizers if name not in finalizers]
        return {"metadata": {"finalizers": kept, "resourceVersion": obj.metadata.resource_version}}

    async def obstacle(client: Client, obj: Unstructured) -> tuple[str, str] | None:
        held = held_by_others(obj, finalizers)
        return (held.findings[0].text, held.next_step) if held is not None else None

    return Unstickable(force=force, consequence=consequence, obstacle=obstacle)


_COLLECTOR = {
    "foregroundDeletion": "the garbage collector deletes the objects that belong to it first",
    "orphan": "the garbage collector releases the objects that belong to it first",
}
"""What a finalizer of Kubernetes itself waits for. Its removal by hand would leave objects behind."""


def held_by_others(obj: Unstructured, own: Collection[str]) -> Diagnosis | None:
    """Who keeps an object that is being deleted and has none of its operator's `own` finalizers; None if it has (pure).

    Its status then shows the last that the operator did, which is not what the deletion waits for.
    """
    kept = obj.metadata.finalizers
    if not obj.metadata.is_terminating or not kept or any(name in kept for name in own):
        return None
    names = ", ".join(kept)
    of_collector = [_COLLECTOR[name] for name in kept if name in _COLLECTOR]
    if of_collector:
        text = f"its operator has finished the deletion; {of_collector[0]} (finalizers: {names})"
        step = f"see what is left: stellwerk tree {_words(obj)}"
        return Diagnosis((Finding(text, is_root_cause=True),), step)
    text = f"its operator has finished the deletion; finalizers of other clients keep the object: {names}"
    patch = json.dumps({"metadata": {"finalizers": None, "resourceVersion": obj.metadata.resource_version}})
    step = (
        f"see why the controller of {kept[0]} does not remove its finalizer; if that controller exists no more, "
        f"remove it by hand: kubectl patch {_words(obj)} --type merge -p '{patch}'"
    )
    return Diagnosis((Finding(text, is_root_cause=True),), step, YOURS)


def _words(obj: Unstructured) -> str:
    place = f" -n {obj.key.namespace}" if obj.key.namespace else ""
    return f"{obj.gvk.kind.lower()}/{obj.key.name}{place}"
