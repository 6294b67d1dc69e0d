"""The objects of a verb that changes something, and the operator's word on how that is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stellwerk.apply.objects import json_edit
from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects.cluster import Absent, ClusterSession
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.text import escaped
from stellwerk.delivery.insight import KindInsight
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class ActionTarget(Generic[A]):
    """An object, and the action that its operator offers for it."""

    resource: Resource
    obj: Unstructured
    action: A


async def targets(
    cluster: ClusterSession, choice: ObjectSelection, of: Callable[[KindInsight], A | None], verb: str
) -> list[ActionTarget[A]]:
    """The chosen objects. Raises Failure where one is absent or offers no such action, before anything is written."""
    return [ActionTarget(resource, obj, action(obj, of, verb)) for resource, obj in await chosen(cluster, choice)]


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


def action(obj: Unstructured, of: Callable[[KindInsight], A | None], verb: str) -> A:
    """The action that the kind's operator offers. Raises Failure where it offers none."""
    row = kinds.by_gvk(obj.gvk)
    if row and (offered := of(row.insight())):
        return offered
    able = [one.short for one in kinds.OWN if of(one.insight())]
    raise Failure(
        f"{obj.ref} cannot be {verb}",
        cause=f"the kind {obj.gvk.kind} knows no such request" if row else "no operator of ours looks after it",
        fix=f"of our kinds this can be done with: {', '.join(able)}",
        subject=str(obj.ref),
        code=Exit.USAGE,
    )


def put_back_now(obj: Unstructured) -> str:
    """How what others have changed is put back before its reapply interval."""
    kind, key = obj.gvk.kind.lower(), obj.key
    return f"Put it back now: stellwerk reconcile {kind}/{key.name} -n {key.namespace} --force"


async def patched(
    cluster: ClusterSession, resource: Resource, obj: Unstructured, patch: JsonObject, *, dry_run: bool
) -> Unstructured:
    """Patch the object. Raises Conflict where another object was created under its name."""
    body = MergePatch(json_edit.merged(patch, {"uid": obj.metadata.uid}, "metadata"))
    return await cluster.client.patch(unstructured(resource), obj.key.name, obj.key.namespace, body, dry_run=dry_run)
