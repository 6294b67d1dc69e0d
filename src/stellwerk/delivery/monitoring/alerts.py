"""The alerts, as values; `objects` makes rule files of them.

An expression names only metrics of `docs/reference/metrics.md`. Names that other programs export too (those of
controller-runtime and client-go) are restricted to our processes by `of_process`: each of these has one series
`stellwerk_operator_info`. Per-object series come from every replica, so alerts aggregate them by object. A pod that is
scraped under two jobs, such as those of a ServiceMonitor and of a PodMonitor, has each series twice: an alert that
counts takes the maximum by instance first.

`for` counts from the first evaluation, and a restart of an operator must not reset what takes a day: those alerts
compare with the time that a series shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stellwerk.kube.types.model import JsonObject

_OBJECT = "kind, namespace, name"
_ERRORS = "controller_runtime_reconcile_errors_total"
ERROR_RATIO = "stellwerk:reconcile_errors:ratio_rate15m"
PASS_SECONDS = "stellwerk:reconcile_time_seconds:p95_rate15m"  # noqa: S105  # a series
QUEUE_SECONDS = "stellwerk:queue_duration_seconds:p95_rate15m"


class Severity(StrEnum):
    """How soon a person has to look, by the usual values of the label."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. Its runbook is the section of the same name in a runbook."""

    name: str
    expr: str
    duration: str = ""
    """For how long `expr` must have a result, as Prometheus writes it (`15m`); empty: one evaluation is enough."""
    severity: Severity
    summary: str
    description: str

    def rule(self, runbook_url: str, operator: str = "") -> JsonObject:
        """The rule of a rule file. `runbook_url`: the runbook, to which the anchor is added."""
        labels: JsonObject = {"severity": self.severity.value}
        if operator:
            labels["operator"] = operator
        duration: JsonObject = {"for": self.duration} if self.duration else {}
        return {
            "alert": self.name,
            "expr": self.expr,
            **duration,
            "labels": labels,
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbook_url}#{self.name.lower()}",
            },
        }


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that dashboards and alerts read."""

    name: str
    expr: str

    def rule(self) -> JsonObject:
        """The rule of a rule file."""
        return {"record": self.name, "expr": self.expr}


def of_process(series: str, lease: str = "") -> str:
    """The series of our processes; of one operator where its Lease is given."""
    selector = f'{{lease="{lease}"}}' if lease else ""
    return f"({series} and on (instance, job) stellwerk_operator_info{selector})"


def _quantile(family: str, label: str) -> str:
    rate = of_process(f"rate({family}_bucket[15m])")
    return f"histogram_quantile(0.95, sum by ({label}, le) ({rate}))"


RECORDINGS = (
    Recording(
        ERROR_RATIO,
        f"sum by (controller) ({of_process(f'rate({_ERRORS}[15m])')})"
        f" / (sum by (controller) ({of_process('rate(controller_runtime_reconcile_total[15m])')}) > 0)",
    ),
    Recording(PASS_SECONDS, _quantile("controller_runtime_reconcile_time_seconds", "controller")),
    Recording(QUEUE_SECONDS, _quantile("workqueue_queue_duration_seconds", "name")),
)

_UNANSWERED = of_process('increase(rest_client_requests_total{code="<error>"}[15m])')
_ANSWERED = of_process('increase(rest_client_requests_total{code!="<error>"}[15m])')
_DONE = of_process("increase(workqueue_work_duration_seconds_count[15m])")

SHARED: Sequence[Alert] = (
    Alert(
        name="StellwerkObjectNotReady",
        expr=f'max by ({_OBJECT}) (stellwerk_resource_info{{ready!="True",status!="Superseded",suspended="false"}}'
        ' or stellwerk_resource_info{status="Failed",suspended="false"})'
        f" unless on ({_OBJECT}) stellwerk_resource_deletion_timestamp_seconds",
        duration="15m",
        severity=Severity.WARNING,
        summary="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is not ready, or has failed",
        description="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} has not been ready for 15 minutes, "
        "or its condition Stalled has been True, although it works as before.",
    ),
    Alert(
        name="StellwerkDeletionStuck",
        expr=f"time() - max by ({_OBJECT}) (stellwerk_resource_deletion_timestamp_seconds) > 1800",
        severity=Severity.WARNING,
        summary="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is not gone",
        description="The deletion of {{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} was requested "
        "{{ $value | humanizeDuration }} ago, and the object still exists.",
    ),
    Alert(
        name="StellwerkWaitingForUser",
        expr=f"time() - max by ({_OBJECT}) (stellwerk_resource_stalled_timestamp_seconds) > 86400",
        severity=Severity.INFO,
        summary="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} waits for a change by a user",
        description="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} has waited for "
        "{{ $value | humanizeDuration }}. Its condition Stalled has the reason.",
    ),
    Alert(
        name="StellwerkReconcileErrors",
        expr=f"{ERROR_RATIO} > 0.25 and sum by (controller) "
        f"(max by (controller, instance) ({of_process(f'increase({_ERRORS}[15m])')})) > 10",
        duration="15m",
        severity=Severity.WARNING,
        summary="Many passes of controller {{ $labels.controller }} fail",
        description="{{ $value | humanizePercentage }} of the passes of controller {{ $labels.controller }} failed in "
        "the last 15 minutes.",
    ),
    Alert(
        name="StellwerkBug",
        expr="sum by (kind) (increase(stellwerk_task_failures_total[1h]) > 0 or (stellwerk_task_failures_total > 0 "
        "unless stellwerk_task_failures_total offset 1h))",
        severity=Severity.WARNING,
        summary="Unexpected exception in a task of kind {{ $labels.kind }}",
        description="The log of the operator has the stack. The task started again; other objects are not affected.",
    ),
    Alert(
        name="StellwerkQueueStuck",
        expr=f"max by (name) ({of_process('workqueue_longest_running_processor_seconds')}) > 900"
        f" or (max by (name) ({of_process('workqueue_depth')}) > 0 and sum by (name) ({_DONE}) == 0)",
        duration="10m",
        severity=Severity.WARNING,
        summary="Queue {{ $labels.name }} is stuck",
        description="A pass of queue {{ $labels.name }} has run for more than 15 minutes, or objects wait and no pass "
        "ends.",
    ),
    Alert(
        name="StellwerkWatchStale",
        expr="max by (kind, instance) (stellwerk_cache_age_seconds) > 180",
        duration="5m",
        severity=Severity.WARNING,
        summary="The cache of {{ $labels.kind }} is stale",
        description="The watch of {{ $labels.kind }} in {{ $labels.instance }} has received nothing for "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="StellwerkTwoLeaders",
        expr="sum by (name, namespace) (max by (name, namespace, instance) "
        f"({of_process('leader_election_master_status')})) > 1",
        duration="2m",
        severity=Severity.CRITICAL,
        summary="Two processes hold Lease {{ $labels.name }}",
        description="{{ $value }} processes report that they hold the Lease {{ $labels.name }}.",
    ),
    Alert(
        name="StellwerkCertificateExpiry",
        expr="min by (name) (stellwerk_certificate_expiry_seconds) < 259200",
        duration="10m",
        severity=Severity.CRITICAL,
        summary="The certificate {{ $labels.name }} expires soon",
        description="The certificate {{ $labels.name }} expires in {{ $value | humanizeDuration }} and was not "
        "renewed.",
    ),
    Alert(
        name="StellwerkClusterUnreachable",
        expr=f"(sum by (host) ({_UNANSWERED}) > 0) unless (sum by (host) ({_ANSWERED}) > 0)",
        duration="5m",
        severity=Severity.WARNING,
        summary="The API server {{ $labels.host }} does not answer",
        description="No request to the API server {{ $labels.host }} was answered in the last 15 minutes.",
    ),
    Alert(
        name="StellwerkMemoryNearLimit",
        expr="max by (instance) (stellwerk_memory_used_bytes / stellwerk_memory_limit_bytes) > 0.9",
        duration="10m",
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} is near its memory limit",
        description="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of the memory limit of its "
        "container.",
    ),
    Alert(
        name="StellwerkDriftFight",
        expr="sum by (job) (increase(stellwerk_drift_throttled_total[15m])) > 0",
        duration="15m",
        severity=Severity.WARNING,
        summary="Another client changes objects of an operator again and again",
        description="In {{ $labels.job }}, objects were changed back by another client right after they were restored.",
    ),
    Alert(
        name="StellwerkMissingRights",
        expr="max by (group, resource, verb) (stellwerk_missing_rights) > 0",
        duration="10m",
        severity=Severity.WARNING,
        summary="An operator may not {{ $labels.verb }} {{ $labels.resource }}",
        description="The ServiceAccount of an operator lacks the right to {{ $labels.verb }} {{ $labels.resource }} of "
        'API group "{{ $labels.group }}".',
    ),
    Alert(
        name="StellwerkObjectsWithoutSeries",
        expr="max by (kind) (stellwerk_resources_without_series) > 0 and on () count(stellwerk_resource_info) > 0",
        duration="1h",
        severity=Severity.INFO,
        summary="Objects of kind {{ $labels.kind }} are not watched by alerts",
        description="{{ $value }} objects of kind {{ $labels.kind }} have no series of their own.",
    ),
)
"""The alerts that are the same for every operator."""


def no_leader(lease: str, *, is_installed: bool = False) -> Alert:
    """The alert about an operator without a leader, also when none of its processes runs.

    Where the rules come with the operator (`is_installed`), the alert also reports an operator that never started.
    Elsewhere it needs metrics of the operator from the last day: a platform may load the rules of all operators and
    install only some.
    """
    series = f'leader_election_master_status{{name="{lease}"}}'
    seen = f"max(present_over_time({series}[1d])) unless max({series}) == 1"
    return Alert(
        name="StellwerkNoLeader",
        expr=f"(sum({series}) or vector(0)) == 0" if is_installed else seen,
        duration="5m",
        severity=Severity.CRITICAL,
        summary="No process holds Lease " + lease,
        description=f"No process of the operator holds the Lease {lease}: nothing is reconciled.",
    )
