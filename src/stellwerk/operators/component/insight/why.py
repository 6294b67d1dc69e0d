"""Why a Component is not ready: from its own words down to the object, source or Component that it waits for.

The Component's own message is the first line, whole. A step that failed (rendering, a reference, a write, a
right) is its own root cause: objects that are not ready then are a consequence, or have nothing to do with it. Only
where the Component waits does the cluster show more: its source, the Components that it depends on with their own
reasons, and, while it waits for objects to become ready or to go, those objects; of workloads the pods as well.
`observe` reads, `explain` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.api import flux
from stellwerk.api.events import Event
from stellwerk.apply.failures import advice_in
from stellwerk.apply.set.model.inventory import Phase
from stellwerk.delivery import workloads
from stellwerk.delivery.sets import unsettled_objects
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.unsettled_objects import NAMED, UnsettledObject, judged
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.component.api import EVENT_REVISION_ANNOTATION, Component
from stellwerk.operators.component.api_status import NEW
from stellwerk.operators.component.dependencies import dependencies as depending
from stellwerk.operators.component.errors import source_fix_in
from stellwerk.operators.component.insight import remedies
from stellwerk.operators.component.insight.help_topics import CATALOGUE
from stellwerk.operators.component.reasons import (
    CHART_WARNING,
    OBJECTS_NOT_WATCHED,
    Cause,
    PassReport,
    Reason,
    reason_of,
)
from stellwerk.operators.component.sources import sources
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding, root_causes

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

_DEPTH = 8
"""How far dependencies are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSurroundings:
    """All that the answer rests on."""

    component: Component
    dependencies: tuple[ComponentSurroundings | ObjectKey, ...] = ()
    """Those that are not ready; a key where there is no such Component."""
    source: Unstructured | None = None
    dependents: tuple[UnsettledObject, ...] = ()
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What the operator reported about the way in which it looks at the objects."""
    remarks: tuple[str, ...] = ()
    """What it reported about the chart."""
    now: datetime

    @property
    def ready(self) -> Condition | None:
        """The condition Ready; None before the first pass."""
        return conditions.find(self.component.status.conditions, READY)

    @property
    def word(self) -> Reason | Cause | None:
        """The most precise reason that the Component shows."""
        return reason_of(self.component.status)

    @property
    def text(self) -> str:
        """The Component's own message, whole."""
        ready = self.ready
        return (ready.message or ready.reason) if ready is not None else "no operator has looked at it yet"


_WAITS_FOR_OBJECTS = (Cause.ObjectsNotReady, Reason.Processing, Reason.Timeout)


def _looks_at_objects(component: Component) -> bool:
    """Whether objects can be the cause: the Component waits for them, and no step before that has failed."""
    word = reason_of(component.status)
    return word is Reason.DeletionProcessing if component.metadata.is_terminating else word in _WAITS_FOR_OBJECTS


class ComponentDiagnostician:
    """Explains why a Component is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read what is needed, and explain."""
        return explain(await observe(ClusterReader(client), subject, datetime.now(UTC)))


diagnostician = ComponentDiagnostician()


# ---- reading


async def observe(
    reader: ClusterReader, subject: Unstructured, now: datetime, depth: int = _DEPTH
) -> ComponentSurroundings:
    """Read the neighbourhood of a Component, and of those that it waits for."""
    component = lenient.convert(subject.body, Component)
    dependencies, source, dependents, events = await asyncio.gather(
        _dependencies(reader, component, now, depth),
        _source(reader, component),
        _dependents(reader, component),
        _events(reader, component, is_subject=depth == _DEPTH),
    )
    return ComponentSurroundings(
        component=component,
        dependencies=dependencies,
        source=source,
        dependents=dependents,
        notes=_notes(component, events),
        remarks=_remarks(component, events),
        hidden=reader.hidden,
        now=now,
    )


async def _events(reader: ClusterReader, component: Component, *, is_subject: bool) -> list[Unstructured]:
    """The Events about the Component; of those that it depends on only where they can show something."""
    if not is_subject and component.spec.kube_config is None:
        return []
    name, namespace = component.key.name, component.key.namespace
    events = await reader.list(Event.resource, namespace, fields=f"regarding.name={name}")
    return [event for event in events if event.at("regarding", "uid") == component.metadata.uid]


def _notes(component: Component, events: Sequence[Unstructured]) -> tuple[str, ...]:
    """The last Event about objects that the operator cannot watch. Only another cluster refuses that, as a rule."""
    if component.spec.kube_config is None or _is_ready(component):
        return ()
    return _last_note(events, OBJECTS_NOT_WATCHED)


def _remarks(component: Component, events: Sequence[Unstructured]) -> tuple[str, ...]:
    """What was reported about the chart, unless a newer revision has taken its place."""
    current = [
        event
        for event in events
        if event.metadata.annotations.get(EVENT_REVISION_ANNOTATION) == component.status.last_attempted_revision
    ]
    return _last_note(current, CHART_WARNING)


def _last_note(events: Sequence[Unstructured], reason: str) -> tuple[str, ...]:
    notes = [str(event.at("note") or "") for event in events if event.at("reason") == reason]
    return tuple(notes[-1:])


def _is_ready(component: Component) -> bool:
    ready = conditions.find(component.status.conditions, READY)
    return ready is not None and ready.is_true


async def _dependencies(
    reader: ClusterReader, component: Component, now: datetime, depth: int
) -> tuple[ComponentSurroundings | ObjectKey, ...]:
    found: list[ComponentSurroundings | ObjectKey] = []
    judged = depending.judged(component)
    is_waiting = reason_of(component.status) is Cause.DependencyNotReady
    for key in component.dependencies if depth > 0 and is_waiting else ():
        live = await reader.find(Component.resource, key.name, key.namespace)
        if odd := reader.why_unreadable(Component.resource, key):
            found.append(ComponentSurroundings(component=_unreadable(key, odd, now), now=now))
        elif live is None and reader.may_not_see(Component.resource, key.namespace):
            continue
        elif live is None:
            found.append(key)
        elif key not in judged and not lenient.convert(live.body, Component).is_ready and key != component.key:
            found.append(await observe(reader, live, now, depth - 1))
    return tuple(found)


def _unreadable(key: ObjectKey, why: str, now: datetime) -> Component:
    """A Component as it would report itself that it cannot be read."""
    metadata = ObjectMeta(name=key.name, namespace=key.namespace)
    return Component(metadata=metadata, status=PassReport.of_unreadable(why).shown_on(NEW, generation=0, now=now))


async def _source(reader: ClusterReader, component: Component) -> Unstructured | None:
    if reason_of(component.status) is not Cause.SourceNotReady:
        return None
    if (source := sources.of_flux(component)) is None:
        return None
    kind, key = source
    for resource in flux.resources(kind):
        found = await reader.find(resource, key.name, key.namespace)
        if found is not None:
            return found
    return None


_NOT_BEGUN = tuple(
    phase.value
    for phase in (Phase.SCHEDULED_FOR_APPLICATION, Phase.SCHEDULED_FOR_COMPLETION, Phase.SCHEDULED_FOR_DELETION)
)
"""Phases of objects whose wave has not begun: they wait for others, and nothing waits for them yet."""


async def _dependents(reader: ClusterReader, component: Component) -> tuple[UnsettledObject, ...]:
    if not _looks_at_objects(component):
        return ()
    unready = [item for item in component.status.inventory if not item.is_settled]
    waited_for = [item for item in unready if item.phase not in _NOT_BEGUN] or unready
    refs = [item.ref for item in waited_for]
    later = [item.ref for item in unready if item.phase in _NOT_BEGUN and item.ref not in refs]
    if component.spec.kube_config is not None:
        return tuple(UnsettledObject(ref, None, is_elsewhere=True) for ref in refs[:NAMED])
    return await unsettled_objects.read(reader, refs, later)


# ---- explaining


@dataclass(frozen=True, slots=True)
class _Remedy:
    """A finding, and the step that removes its root cause."""

    finding: Finding
    step: str = ""

    @property
    def has_root(self) -> bool:
        return next(root_causes((self.finding,)), None) is not None


_CHECK_OPERATOR = "check that the operator runs: stellwerk status"


def explain(seen: ComponentSurroundings) -> Diagnosis:
    """Why the Component is not ready, the one step that removes the cause, and remarks about the chart. Pure."""
    return replace(_explained(seen), remarks=seen.remarks)


def _explained(seen: ComponentSurroundings) -> Diagnosis:
    component, ready = seen.component, seen.ready
    if ready is None:
        return _not_seen(seen, Finding(seen.text, "NotSeenYet", is_root_cause=True))
    if ready.is_true and component.metadata.is_terminating:
        text = "its deletion has been requested, and the operator has not begun it yet"
        return _not_seen(seen, Finding(text, "DeletionRequested", is_root_cause=True))
    if 0 < component.status.observed_generation < component.metadata.generation:
        text = "the latest change of the Component has not been looked at yet"
        former = () if ready.is_true else (Finding(f"before the change: {seen.text}", str(seen.word or ready.reason)),)
        return _not_seen(seen, Finding(text, "ChangeNotSeenYet", former, is_root_cause=True))
    if ready.is_true:
        return Diagnosis((), hidden=seen.hidden)
    answer = _answer(seen)
    notes = tuple(Finding(note, OBJECTS_NOT_WATCHED) for note in seen.notes)
    turn = CATALOGUE.turn(seen.word) if seen.word is not None else ""
    return Diagnosis((answer.finding, *notes), answer.step, turn, _unready(seen), seen.hidden)


def _not_seen(seen: ComponentSurroundings, finding: Finding) -> Diagnosis:
    return Diagnosis((finding,), _CHECK_OPERATOR, hidden=seen.hidden)


def _answer(seen: ComponentSurroundings) -> _Remedy:
    """The Component's own sentence, whole; it is the root cause unless what it waits for explains it."""
    below = _below(seen)
    explains = next((answer for answer in below if answer.has_root), None)
    ready = seen.ready
    word = str(seen.word or (ready.reason if ready is not None else "NotSeenYet"))
    finding = Finding(seen.text, word, tuple(answer.finding for answer in below), is_root_cause=explains is None)
    if ready is None:
        return _Remedy(finding, _CHECK_OPERATOR)
    own = _own_step(seen)
    return _Remedy(finding, explains.step or own if explains is not None else own)


def _below(seen: ComponentSurroundings) -> list[_Remedy]:
    if seen.word is Cause.DependencyNotReady:
        return [_of_dependency(seen, dependency) for dependency in seen.dependencies]
    if seen.word is Cause.SourceNotReady:
        return _of_source(seen.source) if seen.source is not None else []
    if not _looks_at_objects(seen.component):
        return []
    if seen.component.metadata.is_terminating:
        return [
            _of_leaving(dependent, seen.now)
            for dependent in seen.dependents
            if dependent.live is not None or dependent.is_elsewhere
        ]
    pending = [dependent for dependent in seen.dependents if not dependent.is_done(seen.now)]
    some_exist = any(one.live is not None for one in pending)
    return [_of_dependent(one, seen.now, some_exist=some_exist) for one in pending]


def _of_dependency(seen: ComponentSurroundings, one: ComponentSurroundings | ObjectKey) -> _Remedy:
    if isinstance(one, ObjectKey):
        name, namespace = seen.component.metadata.name, seen.component.metadata.namespace
        step = (
            f"create Component {one}, or take it out of spec.dependencies: kubectl edit component {name} -n {namespace}"
        )
        return _Remedy(Finding(f"Component {one} does not exist", "NotFound", is_root_cause=True), step)
    inner = _answer(one)
    state = one.component.status.state or "no state"
    return _Remedy(Finding(f"waits for Component {one.component.key}: {state}", "", (inner.finding,)), inner.step)


def _of_source(source: Unstructured) -> list[_Remedy]:
    """The message of the source, unless it is ready: then the Component's own message is more precise."""
    ref, namespace = source.ref, source.key.namespace
    if source.at("spec", "suspend") is True:
        step = f"resume it: kubectl patch {_for_kubectl(ref)} -n {namespace} --type=merge -p '{_RESUMED}'"
        return [_Remedy(Finding(f"{ref} is suspended", "Suspended", is_root_cause=True), step)]
    step = f"see its conditions and Events: kubectl describe {_for_kubectl(ref)} -n {namespace}"
    listed = source.at("status", "conditions")
    for condition in listed if isinstance(listed, list) else []:
        if isinstance(condition, dict) and condition.get("type") == READY:
            if condition.get("status") == "True":
                return []
            said = str(condition.get("message") or condition.get("reason") or "it gives no cause")
            word = str(condition.get("reason") or "")
            return [_Remedy(Finding(f"{ref}: {said}", word, is_root_cause=True), step)]
    return [_Remedy(Finding(f"{ref} has no condition Ready yet", is_root_cause=True), step)]


_RESUMED = '{"spec":{"suspend":false}}'


def _of_dependent(one: UnsettledObject, now: datetime, *, some_exist: bool) -> _Remedy:
    if one.is_elsewhere:
        return _Remedy(Finding(f"{one.ref} in the target cluster is not ready"))
    if one.is_hidden:
        return _Remedy(Finding(f"{one.ref} is not ready; you may not read it"))
    if one.odd:
        return _Remedy(Finding(f"{one.ref} cannot be read: {one.odd}", is_root_cause=True))
    if one.live is None:
        return _Remedy(Finding(f"{one.ref} does not exist", is_root_cause=not some_exist))
    if one.hold is not None and not one.live.metadata.is_terminating:
        return _Remedy(Finding(f"{one.ref}: {one.hold.what}", is_root_cause=True), one.hold.step)
    if one.workload is not None and (found := workloads.findings(one.workload, now)):
        return _Remedy(found[0], workloads.advice(one.workload) or _look_at(one.ref))
    verdict = judged(one.live, now)
    return _Remedy(Finding(f"{one.ref}: {verdict.why or verdict.verdict.value}", is_root_cause=True), _look_at(one.ref))


def _of_leaving(one: UnsettledObject, now: datetime) -> _Remedy:
    """An object that a deletion waits for."""
    if one.live is None:
        return _Remedy(Finding(f"{one.ref} in the target cluster still exists"))
    if not one.live.metadata.is_terminating:
        verdict = judged(one.live, now)
        why = "" if verdict.is_ready else f": {verdict.why or verdict.verdict.value}"
        return _Remedy(Finding(f"{one.ref} still exists{why}"))
    finalizers = ", ".join(one.live.metadata.finalizers)
    if not finalizers:
        said = judged(one.live, now).why
        return _Remedy(Finding(f"{one.ref}: {said}" if said else f"{one.ref} is being deleted", is_root_cause=True))
    step = f"check that the controller behind finalizer {finalizers} runs: {_describe(one.ref)}"
    return _Remedy(Finding(f"{one.ref} is being deleted, held by finalizer {finalizers}", is_root_cause=True), step)


def _look_at(ref: ObjectRef) -> str:
    if ref.gvk.kind == "Job":
        return f"see its log: kubectl logs job/{ref.key.name} -n {ref.key.namespace}"
    return f"see its conditions and Events: {_describe(ref)}"


def _describe(ref: ObjectRef) -> str:
    namespace = f" -n {ref.key.namespace}" if ref.key.namespace else ""
    return f"kubectl describe {_for_kubectl(ref)}{namespace}"


def _for_kubectl(ref: ObjectRef) -> str:
    group = f".{ref.gvk.group}" if ref.gvk.group else ""
    return f"{ref.gvk.kind.lower()}{group}/{ref.key.name}"


def _own_step(seen: ComponentSurroundings) -> str:
    """The fix that the message itself ends with, else the first one of the reason's page, for this very Component."""
    word, key = seen.word, seen.component.key
    if word is None:
        return ""
    page = f"stellwerk explain {word}"
    if advised := remedies.step(seen.component, seen.text) or advice_in(seen.text) or source_fix_in(seen.text):
        return f"{advised} ({page})"
    step = CATALOGUE.meanings[word].next_step(key)
    return f"{step} ({page})" if step else page


def _unready(seen: ComponentSurroundings) -> tuple[AwaitedObject, ...]:
    looked_at = seen.dependents if _looks_at_objects(seen.component) else ()
    found = [AwaitedObject(one.ref, _lacks(one, seen.now)) for one in looked_at if not one.is_done(seen.now)]
    for one in seen.dependencies if seen.word is Cause.DependencyNotReady else ():
        if isinstance(one, ComponentSurroundings):
            found.append(AwaitedObject(one.component.ref, f"is {one.component.status.state or State.Pending}"))
        else:
            found.append(AwaitedObject(ObjectRef(Component.resource.gvk, one), "does not exist"))
    return tuple(found)


def _lacks(one: UnsettledObject, now: datetime) -> str:
    if one.is_hidden or one.odd:
        return f"cannot be read: {one.odd}" if one.odd else "you may not read it"
    if one.live is None:
        return "is in the target cluster" if one.is_elsewhere else "does not exist"
    verdict = judged(one.live, now)
    return verdict.why or verdict.verdict.value
