"""Why a Component is not ready: from its own words down to the object, source or Component that it waits for.

What a Component says about itself is the first line. Below it comes what the cluster says now: the source, the
Components that it depends on with their own reasons, and of its objects those that are not ready, each with its own
words; of Deployments the pods are asked as well. `observe` reads, `explain` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from stellwerk.api import flux
from stellwerk.api.apps import Deployment
from stellwerk.apply import readiness
from stellwerk.apply.errors import UnreadableStatus
from stellwerk.apply.kstatus import Readiness, waiting
from stellwerk.apply.rollout.stored import Item
from stellwerk.kube.errors import NotServed
from stellwerk.kube.model import Unstructured
from stellwerk.kube.names import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.operators import workloads
from stellwerk.operators.component import dependencies as depending
from stellwerk.operators.component import sources
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import State
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.reasons import CATALOGUE, MEANINGS, Cause, Reason
from stellwerk.operators.component.sources import FLUX_KINDS
from stellwerk.operators.workloads import Workload
from stellwerk.runtime import conditions
from stellwerk.runtime.diagnosis import Child, Diagnosis, Finding, Reader, root_causes

if TYPE_CHECKING:
    from stellwerk.kube.client import Client

NAMED = 5
"""How many objects that are not ready are looked at; the inventory has all."""

_DEPTH = 8
"""How far dependencies are followed."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """An object of the inventory that is not ready, and how it is now."""

    ref: ObjectRef
    live: Unstructured | None
    workload: Workload | None = None
    is_elsewhere: bool = False
    """Whether it lies in another cluster, where we do not look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """All that the answer rests on."""

    component: Component
    dependencies: tuple[Graph | ObjectKey, ...] = ()
    """Those that are not ready; a key where there is no such Component."""
    source: Unstructured | None = None
    dependents: tuple[Dependent, ...] = ()
    hidden: tuple[str, ...] = ()
    now: datetime

    @property
    def cause(self) -> Cause | None:
        """The most precise word that the Component says."""
        for type_ in ("Stalled", "Reconciling"):
            found = conditions.find(self.component.status.conditions, type_)
            if found is not None and found.reason in Cause.__members__:
                return Cause(found.reason)
        return None


class ComponentDiagnostician:
    """Tells why a Component is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read what is needed, and explain."""
        return explain(await observe(Reader(client), subject, datetime.now(UTC)))


diagnostician = ComponentDiagnostician()


# ---- reading


async def observe(reader: Reader, subject: Unstructured, now: datetime, depth: int = _DEPTH) -> Graph:
    """Read the neighbourhood of a Component, and of those that it waits for."""
    component = msgspec.convert(subject.body, Component)
    dependencies, source, dependents = await asyncio.gather(
        _dependencies(reader, component, now, depth), _source(reader, component), _dependents(reader, component)
    )
    return Graph(
        component=component,
        dependencies=dependencies,
        source=source,
        dependents=dependents,
        hidden=reader.hidden,
        now=now,
    )


async def _dependencies(
    reader: Reader, component: Component, now: datetime, depth: int
) -> tuple[Graph | ObjectKey, ...]:
    found: list[Graph | ObjectKey] = []
    judged = depending.judged(component)
    for key in component.dependencies if depth > 0 else ():
        live = await reader.find(Component.resource, key.name, key.namespace)
        if live is None:
            found.append(key)
        elif key not in judged and not msgspec.convert(live.body, Component).is_ready and key != component.key:
            found.append(await observe(reader, live, now, depth - 1))
    return tuple(found)


async def _source(reader: Reader, component: Component) -> Unstructured | None:
    try:
        source = sources.named(component)
    except ComponentFailed:
        return None
    if source.key is None or source.kind not in FLUX_KINDS:
        return None
    for resource in flux.resources(FLUX_KINDS[source.kind]):
        found = await reader.find(resource, source.key.name, source.key.namespace)
        if found is not None:
            return found
    return None


async def _dependents(reader: Reader, component: Component) -> tuple[Dependent, ...]:
    unready = [item for item in component.status.inventory if not item.is_settled]
    return tuple(await asyncio.gather(*(_dependent(reader, component, item) for item in unready[:NAMED])))


async def _dependent(reader: Reader, component: Component, item: Item) -> Dependent:
    gvk = GroupVersionKind(item.group, item.version, item.kind)
    ref = ObjectRef(gvk, item.key)
    if component.spec.kube_config is not None:
        return Dependent(ref, None, is_elsewhere=True)
    try:
        resource = await reader.client.mapper.resource(gvk)
    except NotServed:
        return Dependent(ref, None)
    live = await reader.find(resource, item.name, item.namespace)
    is_workload = live is not None and gvk == Deployment.resource.gvk
    return Dependent(ref, live, await workloads.read(reader, live) if live is not None and is_workload else None)


# ---- explaining


def explain(seen: Graph) -> Diagnosis:
    """Why the Component is not ready, and the one step that would mend it. Pure."""
    component = seen.component
    ready = conditions.find(component.status.conditions, "Ready")
    if ready is None:
        never = Finding("no operator has looked at it yet", "NotSeenYet", is_root_cause=True)
        return Diagnosis((never,), "check that the operator runs: stellwerk status", hidden=seen.hidden)
    if ready.is_true and not component.metadata.is_terminating:
        return Diagnosis((), hidden=seen.hidden)
    finding = _finding(seen, ready.message)
    return Diagnosis((finding,), _next_step(seen, finding), _turn(seen), _unready(seen), seen.hidden)


def _finding(seen: Graph, message: str) -> Finding:
    ready = conditions.find(seen.component.status.conditions, "Ready")
    word = str(seen.cause or (ready.reason if ready else ""))
    below = _below(seen)
    return Finding(_sentence(message, below), word, below, is_root_cause=not below)


def _sentence(message: str, below: Sequence[Finding]) -> str:
    """The Component's own words; where what they name is shown below, without naming it twice."""
    return message.partition(": ")[0] if below and len(message) > 100 else message


def _below(seen: Graph) -> tuple[Finding, ...]:
    if seen.cause is Cause.DependencyNotReady:
        return tuple(_of_dependency(one) for one in seen.dependencies)
    if seen.cause is Cause.SourceNotReady and seen.source is not None:
        return (_of_source(seen.source),)
    if seen.dependents:
        return tuple(_of_dependent(one, seen.now) for one in seen.dependents)
    return ()


def _of_dependency(one: Graph | ObjectKey) -> Finding:
    if isinstance(one, ObjectKey):
        return Finding(f"Component {one} does not exist", "NotFound", is_root_cause=True)
    status = one.component.status
    ready = conditions.find(status.conditions, "Ready")
    inner = _finding(one, ready.message if ready else "no operator has looked at it yet")
    return Finding(f"waits for Component {one.component.key}: {status.state or 'no state'}", "", (inner,))


def _of_source(source: Unstructured) -> Finding:
    listed = source.at("status", "conditions")
    for condition in listed if isinstance(listed, list) else []:
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            said = str(condition.get("message") or condition.get("reason") or "it does not say why")
            word = str(condition.get("reason") or "")
            return Finding(f"{source.ref}: {said}", word, is_root_cause=condition.get("status") != "True")
    return Finding(f"{source.ref} has no condition Ready yet", is_root_cause=True)


def _of_dependent(one: Dependent, now: datetime) -> Finding:
    if one.is_elsewhere:
        return Finding(f"{one.ref} in the target cluster is not ready")
    if one.live is None:
        return Finding(f"{one.ref} does not exist", is_root_cause=True)
    if one.workload is not None and (found := workloads.findings(one.workload, now)):
        return found[0]
    verdict = _judged(one.live, now)
    return Finding(f"{one.ref}: {verdict.why or verdict.verdict.value}", is_root_cause=not verdict.is_ready)


def _next_step(seen: Graph, finding: Finding) -> str:
    for one in _all_dependents(seen):
        if one.workload is not None and (step := workloads.advice(one.workload)):
            return step
    missing = next((one for one in seen.dependencies if isinstance(one, ObjectKey)), None)
    if missing is not None:
        return (
            f"create Component {missing}, or take it out of spec.dependencies: "
            f"kubectl edit component {seen.component.metadata.name} -n {seen.component.metadata.namespace}"
        )
    deepest = next(root_causes((finding,)), finding)
    word = deepest.reason if deepest.reason in (*Cause.__members__, *Reason.__members__) else str(seen.cause or "")
    return _advice(word, seen.component.key) if word else ""


def _advice(word: str, key: ObjectKey) -> str:
    """The first way to mend it, as its page has it, for this very Component."""
    page = f"stellwerk explain {word}"
    known = Cause.__members__.get(word) or Reason.__members__.get(word)
    meaning = MEANINGS.get(known) if known is not None else None
    if meaning is None or not meaning.fix:
        return page
    fix = meaning.fix[0].removesuffix(".").replace("NAMESPACE", key.namespace).replace("NAME", key.name)
    return f"{fix[:1].lower()}{fix[1:]} ({page})"


def _all_dependents(seen: Graph) -> list[Dependent]:
    below = [one for graph in seen.dependencies if isinstance(graph, Graph) for one in _all_dependents(graph)]
    return [*seen.dependents, *below]


def _turn(seen: Graph) -> str:
    ready = conditions.find(seen.component.status.conditions, "Ready")
    word = seen.cause or (Reason(ready.reason) if ready and ready.reason in Reason.__members__ else None)
    return CATALOGUE.turn(word) if word is not None else ""


def _unready(seen: Graph) -> tuple[Child, ...]:
    found = [Child(one.ref, _lacks(one, seen.now)) for one in seen.dependents]
    for one in seen.dependencies:
        if isinstance(one, Graph):
            found.append(Child(one.component.ref, f"is {one.component.status.state or State.Pending}"))
        else:
            found.append(Child(ObjectRef(Component.resource.gvk, one), "does not exist"))
    return tuple(found)


def _lacks(one: Dependent, now: datetime) -> str:
    if one.live is None:
        return "is in the target cluster" if one.is_elsewhere else "does not exist"
    verdict = _judged(one.live, now)
    return verdict.why or verdict.verdict.value


def _judged(live: Unstructured, now: datetime) -> Readiness:
    """As the operator judges it, with the hints of its author."""
    try:
        return readiness.assess(live, now=now, hints=readiness.hints_on(live))
    except UnreadableStatus as error:
        return waiting(str(error))
