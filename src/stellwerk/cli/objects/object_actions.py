"""The objects of a verb that changes something, and the operator's word on how that is done."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects.cluster import Absent, ClusterSession
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.text import escaped
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """An object, and what its operator knows to do with it."""

    resource: Resource
    obj: Unstructured
    actions: ModuleType


async def targets(cluster: ClusterSession, choice: ObjectSelection, function: str, verb: str) -> list[ActionTarget]:
    """The chosen objects. Raises Failure where one is absent or knows no such request, before anything is written."""
    return [
        ActionTarget(resource, obj, actions(obj, function, verb)) for resource, obj in await chosen(cluster, choice)
    ]


async def chosen(
    cluster: ClusterSession, choice: ObjectSelection, *, may_be_absent: bool = False
) -> list[tuple[Resource, Unstructured]]:
    """The chosen objects with their resources. Raises Absent, and Failure where none matches.

    With `may_be_absent` what is absent is reported as gone.
    """
    if choice.kind:
        return await _of_kind(cluster, choice, may_be_absent=may_be_absent)
    found: list[tuple[Resource, Unstructured]] = []
    for subject in choice.subjects:
        try:
            found.append((await cluster.resource(subject.kind), await cluster.object(subject)))
        except Absent as absent:
            if not may_be_absent:
                raise
            settings.say(f"  {escaped(absent.report.error)}: {escaped(absent.report.cause)}")
            settings.show([f"{subject.kind}/{subject.key} is gone"])
    return found


async def _of_kind(
    cluster: ClusterSession, choice: ObjectSelection, *, may_be_absent: bool
) -> list[tuple[Resource, Unstructured]]:
    resource = await cluster.resource(choice.kind)
    objects = await cluster.list(resource, cluster.namespace, labels=choice.labels)
    if not objects and not may_be_absent:
        where = f"namespace {cluster.namespace}" if resource.namespaced and cluster.namespace else "the cluster"
        what = f"{resource.kind} with labels {choice.labels}" if choice.labels else resource.kind
        fix = f"see what is there: stellwerk get {choice.kind} -A --show-labels"
        raise Failure(f"there is no {what} in {where}", fix=fix)
    return [(resource, obj) for obj in sorted(objects, key=lambda obj: obj.key)]


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
    module = f"stellwerk.operators.{operator}.insight.actions"
    return import_module(module) if find_spec(module) else None


async def patched(
    cluster: ClusterSession, resource: Resource, obj: Unstructured, patch: JsonObject, *, dry_run: bool
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
