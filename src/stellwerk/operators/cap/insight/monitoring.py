"""Alerts and panels about the CAP Operator alone; the runbook is `help/alerts.md`."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.monitoring.alerts import Alert, Severity
from stellwerk.delivery.monitoring.panels import Panel, Query
from stellwerk.delivery.operator_spec import OwnMonitoring

# Names of operators/cap/subscription/callbacks/metrics.py. Every replica shows the gauges, and one delivers.
_PENDING = "cap_op_subscription_callbacks_pending"
_FAILURES = "cap_op_subscription_callback_failures_total"
_GIVEN_UP = "cap_op_subscription_callbacks_given_up"
# Of operators/cap/subscription/metrics.py: every replica counts.
_IDENTITIES = "cap_op_subscription_identities"

MONITORING = OwnMonitoring(
    alerts=(
        Alert(
            name="CapCallbackBacklog",
            expr=f"max({_PENDING}) > 0 and sum(max by (operation, instance) (increase({_FAILURES}[30m]))) > 3",
            duration="5m",
            severity=Severity.WARNING,
            summary="Registries do not receive the results of subscriptions",
            description="{{ $value }} callbacks are pending, and attempts to deliver them have failed for half an "
            "hour.",
        ),
        Alert(
            name="CapIdentityUnproved",
            expr=f"max by (reason) ({_IDENTITIES}) > 0",
            duration="15m",
            severity=Severity.WARNING,
            summary="The subscription server answers no registry for some applications: {{ $labels.reason }}",
            description="{{ $value }} CAPApplications have not proved their identity, or share it with another one.",
        ),
        Alert(
            name="CapCallbacksLost",
            expr=f"max({_GIVEN_UP}) > 0",
            severity=Severity.WARNING,
            summary="A registry does not know the result of a subscription",
            description="{{ $value }} callbacks were refused, or tried until their deadline, and are not acknowledged.",
        ),
    ),
    runbook=(files("stellwerk.operators.cap") / "help" / "alerts.md").read_text("utf-8"),
    panels=(
        Panel(
            title="Callbacks to registries",
            queries=(
                Query(f"max({_PENDING})", "pending"),
                Query(
                    f"sum(max by (operation, instance) (increase({_FAILURES}[15m])))", "failed attempts in 15 minutes"
                ),
                Query(f"max({_GIVEN_UP})", "given up, not acknowledged"),
            ),
            description="Results of subscriptions that registries wait for",
        ),
    ),
)
