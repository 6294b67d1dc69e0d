"""How all clusters are: Kymas by state, modules by version and state, and the rollouts that are under way.

The figures are those that the metrics of the operator show; here they are counted from one listing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from stellwerk.api.core import ConfigMap
from stellwerk.delivery.insight import FleetTable
from stellwerk.kube.types import lenient
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.fleet import rollout
from stellwerk.operators.kyma.fleet.figures import figure_of
from stellwerk.operators.kyma.fleet.rollout import TurnState
from stellwerk.runtime.insight.diagnosis import ClusterReader

NEW = "new"
"""What has no state yet."""


async def tables(reader: ClusterReader, namespace: str) -> Sequence[FleetTable]:
    """Read the control plane, and count. What may not be read is noted by the reader."""
    kymas, manifests, rollouts = await asyncio.gather(
        reader.list(Kyma.resource, namespace),
        reader.list(Manifest.resource, namespace),
        reader.list(ConfigMap.resource, namespace, labels=labels.ROLLOUT_LABEL),
    )
    shown = (lenient.convert(each.body, ConfigMap) for each in rollouts)
    return of_kymas(kymas), of_modules(lenient.convert(each.body, Manifest) for each in manifests), of_rollouts(shown)


def of_kymas(kymas: Iterable[Unstructured]) -> FleetTable:
    """How many Kymas are in which state."""
    counted = Counter(str(each.at("status", "state") or NEW) for each in kymas)
    return FleetTable("Kymas", ("STATE", "CLUSTERS"), tuple((state, str(counted[state])) for state in sorted(counted)))


def of_modules(manifests: Iterable[Manifest]) -> FleetTable:
    """How many clusters have a version of a module in a state."""
    counted = Counter(map(figure_of, manifests))
    rows = ((each.module, each.version, each.state or NEW, str(counted[each])) for each in sorted(counted))
    return FleetTable("Modules", ("MODULE", "VERSION", "STATE", "CLUSTERS"), tuple(rows))


def of_rollouts(rollouts: Iterable[ConfigMap]) -> FleetTable:
    """How far limited rollouts are."""
    rows: list[tuple[str, ...]] = []
    for shown in rollouts:
        about = (shown.metadata.labels.get(labels.ROLLOUT_LABEL, ""), rollout.version_of_rollout(shown))
        try:
            state = rollout.read(shown)
        except ValueError as error:
            rows.append((*about, "Unreadable", "-", "-", "-", f"correct ConfigMap {shown.key}: {error}"))
            continue
        under_way, failed = (len(state.of(each)) for each in (TurnState.UNDER_WAY, TurnState.FAILED))
        place = f"-n {shown.metadata.namespace} {shown.metadata.name}"
        resume = f"kubectl annotate configmap {place} {labels.RESUME_ANNOTATION}=true"
        is_stopped = "Stopped" if state.is_stopped else "Running"
        counts = (str(state.done), str(under_way), str(failed))
        rows.append((*about, is_stopped, *counts, f"resume it: {resume}" if state.is_stopped else ""))
    columns = ("MODULE", "VERSION", "STATE", "DONE", "UNDER WAY", "FAILED", "NEXT")
    return FleetTable("Rollouts", columns, tuple(rows))
