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


def actions(obj: Unstructured, function: str, verb: str) -> ModuleType:
    """What can be done to objects of this kind, `function` among it. Raises Failure where that is not so."""
    row = kinds.by_gvk(obj.gvk)
    known = _known(row.operator) if row else None
    if known is not None and hasattr(known, function):
        return known
    able = [one.short for one in kinds.OWN if hasattr(_known(one.operator), function)]
    raise Failure(
        f"{obj.ref} cannot be {verb}",
        cause=f"the kind {obj.gvk.kind} knows no such request" if row else "no operator of ours looks after it",
        fix=f"of our kinds this can be done with: {', '.join(able)}",
        subject=str(obj.ref),
        code=Exit.USAGE,
    )


def _known(operator: str) -> ModuleType | None:
    module = f"stellwerk.operators.{operator}.actions"
    return import_module(module) if find_spec(module) else None


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
