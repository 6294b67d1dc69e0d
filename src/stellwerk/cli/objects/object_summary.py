"""One object in detail, for `status` and `why`: its health, and the diagnosis by its operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stellwerk.cli import kinds
from stellwerk.cli.objects import health, operator_liveness
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.operator_liveness import OperatorProcesses
from stellwerk.cli.objects.unreadable import NEXT_STEP, REASON, MetadataOnlyObject
from stellwerk.cli.shell import text
from stellwerk.cli.shell.text import Style
from stellwerk.delivery import forced_deletion, workloads
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.diagnosis import Diagnosis, Diagnostician, Finding
from stellwerk.runtime.insight.reason_catalog import YOURS


@dataclass(frozen=True, slots=True)
class ObjectSummary:
    """What is known about one object."""

    ref: ObjectRef
    health: ObjectHealth
    diagnosis: Diagnosis = field(default_factory=Diagnosis)


async def reached(
    cluster: ClusterSession, obj: Unstructured, processes: OperatorProcesses | None = None
) -> ObjectSummary:
    """Judge an object: by itself, by what its operator reads around it, and by whether its operator answers.

    `processes`: those that other objects of this call have asked about.
    """
    if isinstance(obj, MetadataOnlyObject):
        finding = Finding(obj.message, REASON, is_root_cause=True)
        return ObjectSummary(obj.ref, health.of(obj), Diagnosis((finding,), NEXT_STEP, YOURS))
    row = kinds.by_gvk(obj.gvk)
    held = forced_deletion.held_by_others(obj, row.insight().finalizers) if row else None
    if held is not None:
        return ObjectSummary(obj.ref, health.of(obj), held)
    expert = expert_for(obj)
    diagnosis = await expert.diagnose(cluster.client, obj) if expert else Diagnosis()
    seen = health.of(obj)
    if row is not None and seen.state != "Suspended":
        operator = await (processes or OperatorProcesses(cluster)).of(row.operator)
        diagnosis = operator_liveness.with_silence(diagnosis, seen.reason, seen.message, operator)
    return ObjectSummary(obj.ref, seen, diagnosis)


def expert_for(obj: Unstructured) -> Diagnostician | None:
    """Who knows about objects of this kind; None for a kind that we know nothing about."""
    if row := kinds.by_gvk(obj.gvk):
        return row.insight().diagnostician
    owns_pods = (obj.gvk.group, obj.gvk.kind) in workloads.OWNERS_OF_PODS
    return workloads.diagnostician if owns_pods else None


def headline(verdict: ObjectSummary, style: Style, now: datetime | None = None) -> str:
    """`✗ BtpOperator kyma-system/btpoperator is not ready (for 4m)`."""
    symbol, tone, words = in_words(verdict.health)
    since = verdict.health.since
    duration = f" (for {text.age(since, now or datetime.now(UTC))})" if since else ""
    mark = style.painted(style.drawn(symbol), tone)
    return f"{mark} {text.escaped(str(verdict.ref))} {words}{duration}"


def in_words(seen: ObjectHealth) -> tuple[str, text.Tone, str]:
    """Symbol, tone and words for the state of an object."""
    if seen.state == "Suspended":
        return "⏸", "dim", "is suspended"
    if seen.is_blocked:
        return "✗", "bad", "is being deleted, and its deletion is blocked"
    if seen.state == "Deleting" or (seen.is_terminating and not seen.is_ready):
        return "◌", "busy", "is being deleted"
    if seen.reason == conditions.SUPERSEDED:
        return "◌", "dim", "is superseded: nothing waits for it"
    if seen.is_ready and seen.is_stalled and not seen.state.endswith("Error"):
        return "✗", "bad", f"works, but a user has to act: {text.escaped(seen.reason)}"
    if seen.ready == "True" and seen.needs_attention:
        return "✗", "bad", f"works as before, but is in state {text.escaped(seen.state)}"
    if seen.is_changing:
        return "◌", "busy", "is ready, and is being changed"
    if seen.has_drift:
        objects = "one of its objects" if seen.drifted == 1 else f"{seen.drifted} of its objects"
        return "◌", "busy", f"is ready, and others have changed {objects}"
    if seen.ready == "True":
        return "✔", "good", "is ready"
    if seen.ready == "False":
        return ("◌", "busy", "is in progress") if seen.state in health.BUSY else ("✗", "bad", "is not ready")
    if seen.ready == "Unknown":
        return "◌", "busy", "is not ready yet, status unknown"
    return "◌", "dim", "reports no status"


def ref_json(ref: ObjectRef) -> JsonObject:
    """Which object it is, for programs."""
    (group, version, kind), (namespace, name) = ref
    return {"group": group, "version": version, "kind": kind, "namespace": namespace, "name": name}


def left_out(hidden: Sequence[str]) -> list[str]:
    """The line about objects that the user may not read; none where there are none."""
    return [f"Not looked at, because you may not: {text.escaped(', '.join(hidden))}."] if hidden else []
