"""How many clusters have which version of a module, and in which state, and how many lack what: over all Kymas.

Indices of the caches count, so a scrape takes as long as there are modules, versions and states, however many clusters
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stellwerk.api.core import ConfigMap
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.fleet.rollout import TurnState, read, version_of_rollout
from stellwerk.runtime.cache.store import Store

MODULES = "stellwerk_kyma_modules"
CONDITIONS = "stellwerk_kyma_conditions"
TURNS = "stellwerk_kyma_rollout_turns"
STOPPED = "stellwerk_kyma_rollout_stopped"
INDEX = "module, version and state"
CONDITION_INDEX = "condition and status"
_SEPARATOR = "\n"
"""No name, version and state has one."""


class Figure(NamedTuple):
    """What is counted together."""

    module: str
    version: str
    state: str


def figure_of(manifest: Manifest) -> Figure:
    """Where a Manifest counts."""
    module = manifest.metadata.labels.get(labels.MODULE_NAME_LABEL, "")
    return Figure(module, manifest.spec.version, manifest.status.state)


def _value_of(manifest: Manifest) -> tuple[str]:
    return (_SEPARATOR.join(part.replace(_SEPARATOR, " ") for part in figure_of(manifest)),)


def _conditions_of(kyma: Kyma) -> tuple[str, ...]:
    return tuple(f"{each.type}{_SEPARATOR}{each.status}" for each in kyma.status.conditions)


@dataclass(frozen=True, slots=True, eq=False)
class FleetFigures(Collector):
    """The figures of a process, as a collector of metrics."""

    manifests: Store[Manifest]
    rollouts: Store[ConfigMap]
    kymas: Store[Kyma]

    def __post_init__(self) -> None:
        self.manifests.add_index(INDEX, _value_of)
        self.kymas.add_index(CONDITION_INDEX, _conditions_of)

    def counts(self) -> Mapping[Figure, int]:
        """How many Manifests there are, by module, version and state, in order."""
        counted = self.manifests.counts(INDEX)
        return {Figure(*value.split(_SEPARATOR)): counted[value] for value in sorted(counted)}

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without series."""
        return iter(_families())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families as they are now."""
        modules, conditions, turns, stopped = families = _families()
        for value, kymas in sorted(self.kymas.counts(CONDITION_INDEX).items()):
            conditions.add_metric(value.split(_SEPARATOR), kymas)
        for figure, count in self.counts().items():
            modules.add_metric(figure, count)
        for shown in sorted(self.rollouts.all(), key=lambda each: each.key):
            about = (shown.metadata.labels.get(labels.ROLLOUT_LABEL, ""), version_of_rollout(shown))
            try:
                rollout = read(shown)
            except ValueError:  # it gives no turn until a user corrects it
                stopped.add_metric(about, 1)
                continue
            stopped.add_metric(about, rollout.is_stopped)
            for state in TurnState:
                turns.add_metric((*about, state), len(rollout.of(state)))
        return iter(families)


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    about = ("module", "version")
    return (
        GaugeMetricFamily(MODULES, "How many clusters have a version of a module in a state", labels=(*about, "state")),
        GaugeMetricFamily(CONDITIONS, "How many Kymas have a condition with a status", labels=("condition", "status")),
        GaugeMetricFamily(TURNS, "How many clusters have a turn in a limited rollout", labels=(*about, "state")),
        GaugeMetricFamily(STOPPED, "1 if a limited rollout gives no turn until a user acts", labels=about),
    )
