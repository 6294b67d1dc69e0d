"""Why a CAPOperator is not ready: its condition, and workloads of its inventory that are not, down to their pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.delivery import workloads
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types import lenient
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap_manager.api import CAPOperator, CAPOperatorStatus
from stellwerk.operators.cap_manager.insight.help_topics import CATALOGUE
from stellwerk.operators.cap_manager.reasons import FACTS, Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

MOST = 3
"""How many workloads that are not ready are looked at."""


@dataclass(frozen=True, slots=True)
class CapOperatorDiagnosis:
    """Explains CAPOperators."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """See `Diagnostician`."""
        status = lenient.convert(subject.body, CAPOperator).status
        reader = ClusterReader(client)
        waits = [item for item in status.inventory if not item.is_settled]
        return explained(subject.key, status, waits, await _workloads(reader, waits), reader.hidden)


def explained(
    key: ObjectKey,
    status: CAPOperatorStatus,
    waits: Sequence[Item],
    unready: Sequence[Workload],
    hidden: tuple[str, ...] = (),
) -> Diagnosis:
    """The diagnosis from what was read (pure)."""
    ready = conditions.find(status.conditions, READY)
    if ready is None or ready.is_true:
        return Diagnosis(hidden=hidden)
    now = datetime.now(UTC)
    causes = tuple(finding for workload in unready for finding in workloads.findings(workload, now))
    word = _precise(status)
    finding = Finding(
        ready.message.removesuffix("."), word.value if word else ready.reason, causes, is_root_cause=not causes
    )
    awaited = tuple(AwaitedObject(item.ref, item.status or item.phase) for item in waits)
    if word is None:
        return Diagnosis((finding,), unready=awaited, hidden=hidden)
    meaning = CATALOGUE.meanings[word]
    advice = next((text for workload in unready if (text := workloads.advice(workload))), "")
    return Diagnosis(
        (finding,), advice or meaning.next_step(key), CATALOGUE.turn_of(meaning), unready=awaited, hidden=hidden
    )


def _precise(status: CAPOperatorStatus) -> Reason | Cause | None:
    """The most precise word that the status shows."""
    for type_ in (STALLED, RECONCILING, READY):
        shown = conditions.find(status.conditions, type_)
        if shown is not None and (word := next((each for each in FACTS if each.value == shown.reason), None)):
            return word
    return None


async def _workloads(reader: ClusterReader, waits: Sequence[Item]) -> list[Workload]:
    found: list[Workload] = []
    for item in [each for each in waits if (each.group, each.kind) in workloads.KINDS][:MOST]:
        try:
            resource = await reader.client.mapper.resource(item.ref.gvk)
        except NotServed:
            continue
        live = await reader.find(resource, item.name, item.namespace)
        if live is not None:
            found.append(await workloads.read_first(reader, live))
    return found
