"""Alert rules, dashboards and Busola pages as objects, for charts and for the files in `deploy/monitoring`.

`of_operator` returns what belongs to one operator, `shared` what belongs to all: a chart that installs some operators
takes the shared part and the parts of those. Scrapes must keep the labels `namespace` and `kind` of our series
(`honorLabels: true` in a ServiceMonitor or PodMonitor), or alerts about objects name the namespace of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.delivery.monitoring import alerts, busola, dashboards
from stellwerk.delivery.monitoring.alerts import Alert
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject

RUNBOOK = "docs/reference/alerts.md"
"""The runbook, relative to the root of the repository. Charts may replace it by the address of the published page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringObjects:
    """What a platform gets to watch one operator, or what all operators share."""

    groups: Sequence[JsonObject]
    """Groups of rules, as a rule file of Prometheus and the spec of a PrometheusRule have them."""
    dashboards: Mapping[str, JsonObject]
    """Grafana dashboards by the name of their file, without its ending."""
    busola: Sequence[JsonObject] = ()
    """ConfigMaps with the pages of kinds in the Kyma dashboard."""


def shared(operators: Iterable[OperatorSpec], *, runbook_url: str = RUNBOOK) -> MonitoringObjects:
    """What all operators share. The overview links to the dashboards of `operators`."""
    rules: list[JsonObject] = [alert.rule(runbook_url) for alert in alerts.SHARED]
    recordings: list[JsonObject] = [recording.rule() for recording in alerts.RECORDINGS]
    return MonitoringObjects(
        groups=[{"name": "stellwerk-recordings", "rules": [*recordings]}, {"name": "stellwerk", "rules": [*rules]}],
        dashboards={"overview": dashboards.overview(operators)},
    )


def of_operator(
    operator: OperatorSpec, *, runbook_url: str = RUNBOOK, leader_elect: bool = True, is_installed: bool = False
) -> MonitoringObjects:
    """What belongs to one operator. Without leader election there is no alert about a missing leader.

    `is_installed`: the rules are installed together with the operator.
    """
    own = alerts_of(operator, leader_elect=leader_elect, is_installed=is_installed)
    rules: list[JsonObject] = [alert.rule(runbook_url, operator.name) for alert in own]
    return MonitoringObjects(
        groups=[{"name": f"stellwerk-{operator.name}", "rules": [*rules]}] if rules else [],
        dashboards={operator.name: dashboards.of_operator(operator)},
        busola=[busola.config_map(definition) for definition in operator.installation().definitions],
    )


def alerts_of(operator: OperatorSpec, *, leader_elect: bool = True, is_installed: bool = False) -> Sequence[Alert]:
    """The alerts about one operator alone."""
    lease = operator.installation().lease
    own = (alerts.no_leader(lease, is_installed=is_installed),) if leader_elect else ()
    return (*own, *operator.monitoring().alerts)


def prometheus_rule(groups: Sequence[JsonObject]) -> JsonObject:
    """A PrometheusRule of the Prometheus operator with these groups."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "stellwerk", "labels": {"app.kubernetes.io/part-of": "stellwerk"}},
        "spec": {"groups": [*groups]},
    }
