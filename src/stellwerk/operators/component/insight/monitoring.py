"""Alerts and panels about the component-operator alone; the runbook is `help/alerts.md`."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.monitoring.alerts import Alert, Severity
from stellwerk.delivery.monitoring.panels import Panel, Query
from stellwerk.delivery.operator_spec import OwnMonitoring

_RUNTIME = "component_operator_runtime_"

MONITORING = OwnMonitoring(
    alerts=(
        Alert(
            name="ComponentOperatorIsClusterAdmin",
            expr="max(component_operator_strict_tenancy_as_cluster_admin) == 1",
            duration="15m",
            severity=Severity.WARNING,
            summary="The component-operator is cluster-admin with strict tenancy",
            description="The operator runs with --tenancy=strict, and its ServiceAccount may do everything.",
        ),
    ),
    runbook=(files("stellwerk.operators.component") / "help" / "alerts.md").read_text("utf-8"),
    panels=(
        Panel(
            title="Components by state",
            queries=(
                Query(f"sum by (state) (max by (namespace, name, state) ({_RUNTIME}component_state))", "{{state}}"),
            ),
            description="Number of Components by state, among those with series of their own",
        ),
        Panel(
            title="Writes",
            queries=(Query(f'sum by (action) (rate({_RUNTIME}operations_total{{action!="read"}}[5m]))', "{{action}}"),),
            description="Objects that were created, updated or deleted, per second",
        ),
        Panel(
            title="Dependents that are not ready",
            queries=(Query(f"sum(max by (namespace, name) ({_RUNTIME}unready_dependents_total))", "objects"),),
            description="Objects of Components that are not ready",
        ),
        Panel(
            title="Clients",
            queries=(Query(f"max by (instance) ({_RUNTIME}active_clients_total)", "{{instance}}"),),
            description="Clients in use for accounts and remote clusters",
        ),
    ),
)
