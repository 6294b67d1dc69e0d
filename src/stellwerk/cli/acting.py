"""The object of a verb that changes something, and the operator's word on how that is done."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from stellwerk.cli import kinds
from stellwerk.cli.errors import Exit, Failure
from stellwerk.kube.model import JsonObject, Unstructured, unstructured
from stellwerk.kube.patch import MergePatch

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster
    from stellwerk.kube.names import Resource


def actions(obj: Unstructured, verb: str) -> ModuleType:
    """What can be done to objects of this kind. Raises Failure where that is nothing."""
    row = kinds.by_gvk(obj.gvk)
    module = f"stellwerk.operators.{row.operator}.actions" if row else ""
    if not module or find_spec(module) is None:
        raise Failure(
            f"{obj.gvk.kind} objects cannot be {verb}",
            cause="their operator knows no such request" if row else "no operator of ours looks after them",
            fix="of our kinds these can: " + ", ".join(_capable()),
            subject=str(obj.ref),
            code=Exit.USAGE,
        )
    return import_module(module)


def _capable() -> list[str]:
    return [row.short for row in kinds.OWN if find_spec(f"stellwerk.operators.{row.operator}.actions")]


async def patched(
    cluster: Cluster, resource: Resource, obj: Unstructured, patch: JsonObject, *, dry_run: bool
) -> Unstructured:
    """The object with a change. It is meant for this very object: one made anew under its name is a Conflict."""
    metadata = patch.get("metadata")
    body: JsonObject = {
        **patch,
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), "uid": obj.metadata.uid},
    }
    return await cluster.client.patch(
        unstructured(resource), obj.key.name, obj.key.namespace, MergePatch(body), dry_run=dry_run
    )
