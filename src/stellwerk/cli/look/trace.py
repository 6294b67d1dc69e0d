"""`stellwerk trace`: any object back to the custom resource that it comes from, and to the source of that.

Three things lead from an object to its origin: owner references, the marks of our operators, and their inventories. The
trace follows owners first, because a pod has the labels of its template, which are not always those of its own manager.
Inventories come last: they take a listing of each kind that has one, and show the origin of an object that has lost its
marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import health, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import NotReady
from stellwerk.cli.shell.output import print_result
from stellwerk.cli.shell.text import Style, escaped
from stellwerk.kube.types.errors import Forbidden, NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.releases import related_objects as release_objects
from stellwerk.releases.release_store import ReleaseStore
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, ReachesElsewhere

_FARTHEST = 20


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One object of the trace."""

    relation: str
    """Its relation to the object before it; empty for the first."""
    ref: ObjectRef
    health: ObjectHealth | None
    """None where the object is not there, or not in this cluster."""
    facts: tuple[Fact, ...] = ()
    note: str = ""
    beyond: tuple[TraceStep, ...] = ()
    """Further steps, of which only the names are known from here."""

    @property
    def is_ours(self) -> bool:
        """Whether it is a custom resource of ours, or a release."""
        return self.relation == "managed by"


@with_cluster
async def trace(cluster: ClusterSession, subject: ObjectArgument) -> None:
    """Print the way from an object up to its custom resource or release. Raises NotReady where there is none."""
    reader = ClusterReader(cluster.client)
    steps = await way_up(reader, await cluster.object(subject))
    print_result(lambda style: shown(steps, style), lambda: as_json(steps))
    is_ours = any(step.is_ours or kinds.by_gvk(step.ref.gvk) for step in steps)
    if not is_ours:
        settings.say("No owner reference, no mark and no inventory leads to a custom resource of ours.")
    for line in object_summary.left_out(reader.hidden):
        settings.say(line)
    if not is_ours:
        raise NotReady


# ---- the steps


async def way_up(reader: ClusterReader, obj: Unstructured) -> list[TraceStep]:
    """The steps from an object up to what it comes from. Raises ApiError."""
    steps = [TraceStep("", obj.ref, health.of(obj))]
    here: Unstructured | None = obj
    while here is not None and len(steps) < _FARTHEST:
        found = await _owner(reader, here) or await _manager(reader, here)
        if found is None or found[0].ref in {step.ref for step in steps}:
            break
        step, here = found
        steps += (step, *step.beyond)
    if not any(step.is_ours or kinds.by_gvk(step.ref.gvk) for step in steps):
        steps += await _by_inventory(reader, steps)
    return steps


async def _by_inventory(reader: ClusterReader, steps: Sequence[TraceStep]) -> list[TraceStep]:
    """The custom resource or release whose inventory has one of the objects."""
    refs = [step.ref for step in reversed(steps)]
    note = "by its inventory; the object has lost the marks of its owner"
    for row in kinds.OWN:
        kinship = row.insight().kinship
        if kinship is None or isinstance(kinship, ReachesElsewhere):  # what those list is in other clusters
            continue
        for live in await reader.list(row.resource):
            if live.at("spec", "kubeConfig") is None and any(_holds(live, ref) for ref in refs):
                return [TraceStep("managed by", live.ref, health.of(live), note=note)]
    try:
        releases = (await ReleaseStore(reader.client).all()).releases
    except Forbidden:
        return []
    for release in releases:
        if any(_is(entry.ref, ref) for entry in release.inventory for ref in refs):
            seen = ObjectHealth("True" if release.state == "Ready" else "False", release.state)
            return [TraceStep("managed by", ObjectRef(release_objects.KIND, release.key), seen, note=note)]
    return []


def _holds(owner: Unstructured, ref: ObjectRef) -> bool:
    """Whether an inventory has an object. One that another client has edited may have anything in it."""
    items = owner.at("status", "inventory")
    return any(
        (dig(item, "group") or "", dig(item, "kind"), dig(item, "namespace") or "", dig(item, "name"))
        == (ref.gvk.group, ref.gvk.kind, ref.key.namespace, ref.key.name)
        for item in (items if isinstance(items, list) else ())
    )


def _is(one: ObjectRef, other: ObjectRef) -> bool:
    """Whether both are the same object, in whichever version."""
    return (one.gvk.group, one.gvk.kind, one.key) == (other.gvk.group, other.gvk.kind, other.key)


async def _owner(reader: ClusterReader, obj: Unstructured) -> tuple[TraceStep, Unstructured | None] | None:
    """The controller among the owners, else the first."""
    references = sorted(obj.metadata.owner_references, key=lambda one: not one.controller)
    for reference in references:
        gvk = GroupVersionKind.parse(reference.api_version, reference.kind)
        resource, live = await _read(reader, gvk, obj.key.namespace, reference.name)
        namespace = obj.key.namespace if resource is None or resource.namespaced else ""
        ref = ObjectRef(gvk, ObjectKey(namespace, reference.name))
        if live is None or live.metadata.uid != reference.uid:
            return TraceStep("owned by", ref, None, note="it does not exist"), None
        return TraceStep("owned by", ref, health.of(live)), live
    return None


async def _manager(reader: ClusterReader, obj: Unstructured) -> tuple[TraceStep, Unstructured | None] | None:
    for row in kinds.OWN:
        related_objects = row.insight().kinship
        if related_objects is None:
            continue
        manager = await related_objects.manager(reader, obj)
        if manager is None or manager.ref == obj.ref:
            continue
        if manager.is_elsewhere:
            above = () if manager.above is None else (_in_another_cluster(manager.above),)
            return _in_another_cluster(manager, above), None
        live = await reader.find(row.resource, manager.ref.key.name, manager.ref.key.namespace)
        if live is None:
            return TraceStep("managed by", manager.ref, None, note="it does not exist"), None
        facts = tuple(related_objects.origin(live, obj))
        return TraceStep("managed by", manager.ref, health.of(live), facts), live
    return await _release(reader, obj)


def _in_another_cluster(manager: ManagingObject, beyond: tuple[TraceStep, ...] = ()) -> TraceStep:
    return TraceStep("managed by", manager.ref, None, note="it is in another cluster", beyond=beyond)


async def _release(reader: ClusterReader, obj: Unstructured) -> tuple[TraceStep, Unstructured | None] | None:
    """The release that the object is of; nothing manages a release."""
    ref = release_objects.release_of(obj)
    if ref is None:
        return None
    try:
        release = await ReleaseStore(reader.client).find(ref.key)
    except Forbidden:
        return TraceStep("managed by", ref, None, note="you may not read it"), None
    if release is None:
        return TraceStep("managed by", ref, None, note="it does not exist"), None
    seen = ObjectHealth("True" if release.state == "Ready" else "False", release.state)
    return TraceStep("managed by", ref, seen, tuple(release_objects.origin(release, obj))), None


async def _read(
    reader: ClusterReader, gvk: GroupVersionKind, namespace: str, name: str
) -> tuple[Resource | None, Unstructured | None]:
    try:
        resource = await reader.client.mapper.resource(gvk)
    except NotServed:
        return None, None
    return resource, await reader.find(resource, name, namespace if resource.namespaced else "")


# ---- looks


def shown(steps: list[TraceStep], style: Style) -> list[str]:
    """The steps, beginning with the object, and the facts about its origin."""
    lines: list[str] = []
    for step in steps:
        mark = ""
        if step.health is not None:
            symbol, tone, _ = object_summary.in_words(step.health)
            mark = f"{style.painted(style.drawn(symbol), tone)} "
        note = f"   ({step.note})" if step.note else ""
        lines.append(f"{_label(step.relation or 'object')}{mark}{escaped(str(step.ref))}{note}")
        lines += [f"  {_label(label, 12)}{escaped(text)}" for label, text in step.facts]
    return lines


def _label(word: str, width: int = 14) -> str:
    """A word before its value; a longer word is followed by one blank."""
    return f"{word[:1].upper()}{word[1:]}:".ljust(width - 1) + " "


def as_json(steps: list[TraceStep]) -> JsonObject:
    """The same for programs."""
    return {
        "steps": [
            {
                "relation": step.relation,
                "object": object_summary.ref_json(step.ref),
                "ready": step.health.ready if step.health else "-",
                "origin": dict(step.facts),
                "note": step.note,
            }
            for step in steps
        ]
    }
