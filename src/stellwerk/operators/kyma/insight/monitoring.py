"""Alerts and panels about the Kyma Lifecycle Manager alone; the runbook is `help/alerts.md`.

A Kyma that is not Ready, a deletion that does not end and a cluster that does not answer have alerts of all operators.
Those here are about the fleet, so that one cause in a thousand clusters is one alert.
"""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.monitoring.alerts import Alert, Severity
from stellwerk.delivery.monitoring.panels import Panel, Query
from stellwerk.delivery.operator_spec import OwnMonitoring

_MODULES = "max by (module, version, state) (stellwerk_kyma_modules)"
_BEHIND = 'max by (condition) (stellwerk_kyma_conditions{condition!="Modules",status!="True"})'
_LISTENER = "watcher_listener_"

MONITORING = OwnMonitoring(
    alerts=(
        Alert(
            name="KymaModuleFailed",
            expr='max by (module, version, state) (stellwerk_kyma_modules{state=~"Error|Warning"}) > 0',
            duration="15m",
            severity=Severity.WARNING,
            summary="Module {{ $labels.module }} {{ $labels.version }} is in state {{ $labels.state }}",
            description="{{ $value }} clusters have module {{ $labels.module }} {{ $labels.version }} in state "
            "{{ $labels.state }}.",
        ),
        Alert(
            name="KymaClusterOutOfSync",
            expr=f"{_BEHIND} > 0",
            duration="15m",
            severity=Severity.WARNING,
            summary="{{ $labels.condition }} is not True in {{ $value }} clusters",
            description="The condition {{ $labels.condition }} of {{ $value }} Kymas has not been True for 15 minutes: "
            "their clusters lack what the control plane gives them.",
        ),
        Alert(
            name="KymaRolloutStopped",
            expr="max by (module, version) (stellwerk_kyma_rollout_stopped) == 1",
            severity=Severity.WARNING,
            summary="The rollout of module {{ $labels.module }} {{ $labels.version }} has stopped",
            description="Too many clusters have failed to get module {{ $labels.module }} {{ $labels.version }}. No "
            "further one gets it until the rollout is resumed.",
        ),
        Alert(
            name="KymaCertificateNotRenewed",
            expr="max by (kyma_name) (lifecycle_mgr_self_signed_cert_not_renew) == 1",
            duration="1h",
            severity=Severity.WARNING,
            summary="The certificate of Kyma {{ $labels.kyma_name }} is not renewed",
            description="The certificate by which the cluster of Kyma {{ $labels.kyma_name }} reports changes should "
            "have been renewed.",
        ),
        Alert(
            name="KymaGatewayCertificateExpiry",
            expr="max(lifecycle_mgr_gateway_secret_server_cert_close_to_expiry) == 1",
            duration="1h",
            severity=Severity.CRITICAL,
            summary="The certificate of the Gateway expires soon",
            description="The certificate that the Gateway shows to all remote clusters is close to its end, and was "
            "not replaced.",
        ),
    ),
    runbook=(files("stellwerk.operators.kyma") / "help" / "alerts.md").read_text("utf-8"),
    panels=(
        Panel(
            title="Modules by state",
            queries=(Query(f"sum by (state) ({_MODULES})", "{{state}}"),),
            description="Modules of all clusters, mandatory ones included",
        ),
        Panel(
            title="Versions of modules",
            queries=(Query(f"sum by (module, version) ({_MODULES})", "{{module}} {{version}}"),),
            description="Clusters that have a version of a module",
        ),
        Panel(
            title="Clusters out of step",
            queries=(Query(_BEHIND, "{{condition}}"),),
            description="Kymas whose cluster lacks what the control plane gives it",
        ),
        Panel(
            title="Limited rollouts",
            queries=(
                Query(
                    "max by (module, version, state) (stellwerk_kyma_rollout_turns)",
                    "{{module}} {{version}}: {{state}}",
                ),
            ),
            description="Clusters that have a turn to get a version",
        ),
        Panel(
            title="Why objects are looked at again",
            queries=(
                Query("sum by (requeue_reason) (rate(lifecycle_mgr_requeue_reason_total[5m]))", "{{requeue_reason}}"),
            ),
            description="Passes of Kymas and Manifests that are followed by another one, per second",
        ),
        Panel(
            title="Reports of remote clusters",
            queries=(
                Query(f"sum(rate({_LISTENER}requests_total[5m]))", "answered"),
                Query(f"sum(rate({_LISTENER}request_errors_total[5m]))", "refused"),
            ),
            description="Reports of the webhooks in remote clusters, per second",
        ),
    ),
)
