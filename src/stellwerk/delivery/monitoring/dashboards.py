"""The overview of all operators, and the dashboard of one, made from its `OperatorSpec`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.delivery.monitoring.alerts import ERROR_RATIO, PASS_SECONDS, QUEUE_SECONDS, of_process
from stellwerk.delivery.monitoring.panels import Link, Panel, Query, Shape, dashboard
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject

_OVERVIEW = "stellwerk-overview"


def overview(operators: Iterable[OperatorSpec]) -> JsonObject:
    """The dashboard of all operators."""
    links = [Link(operator.title, _uid(operator)) for operator in operators]
    return dashboard(_OVERVIEW, "Stellwerk", [*_health(""), *_objects(""), *_engine("")], links)


def of_operator(operator: OperatorSpec) -> JsonObject:
    """The dashboard of one operator: the overview's panels for it alone, and its own."""
    lease = operator.installation().lease
    kinds = "|".join(kind.resource.kind for kind in operator.kinds)
    panels = [
        *_health(lease, kinds),
        *_objects(f'kind=~"{kinds}"'),
        *operator.monitoring().panels,
        *_engine(lease),
    ]
    return dashboard(_uid(operator), f"Stellwerk / {operator.title}", panels, [Link("Overview", _OVERVIEW)])


def _uid(operator: OperatorSpec) -> str:
    return f"stellwerk-{operator.name}"


def _health(lease: str, kinds: str = "") -> Sequence[Panel]:
    """Four numbers: what needs a look."""
    selector = f'kind=~"{kinds}",' if kinds else ""
    leaders = f'leader_election_master_status{{name="{lease}"}}' if lease else "leader_election_master_status"
    return (
        _number(
            "Not ready",
            f'sum(max by (kind, ready) (stellwerk_resources{{{selector}ready!="True"}})) or vector(0)',
            "Objects whose condition Ready is not True",
        ),
        _number(
            "Being deleted",
            f"count(max by (kind, namespace, name) (stellwerk_resource_deletion_timestamp_seconds"
            f"{{{selector.rstrip(',')}}})) or vector(0)",
            "Objects whose deletion was requested and that still exist",
        ),
        _number(
            "Waiting for users",
            f"count(max by (kind, namespace, name) (stellwerk_resource_stalled_timestamp_seconds"
            f"{{{selector.rstrip(',')}}})) or vector(0)",
            "Objects whose condition Stalled is True: a user has to change something",
        ),
        _number(
            "Leaders",
            f"sum(max by (name, namespace, instance) ({of_process(leaders)})) or vector(0)",
            "Processes that hold the Lease of their operator",
        ),
    )


def _objects(selector: str) -> Sequence[Panel]:
    counts = f"max by (kind, ready) (stellwerk_resources{{{selector}}})"
    separator = "," if selector else ""
    not_ready = (
        "max by (kind, namespace, name, reason, status) "
        f'(stellwerk_resource_info{{{selector}{separator}ready!="True",suspended="false"}}'
        f' or stellwerk_resource_info{{{selector}{separator}status="Failed",suspended="false"}})'
    )
    return (
        Panel(
            title="Objects by readiness",
            queries=(Query(counts, "{{kind}} {{ready}}"),),
            description="Number of objects by kind and by the status of their condition Ready",
        ),
        Panel(
            title="Not ready",
            queries=(Query(not_ready),),
            description="Objects whose condition Ready is not True, with its reason; suspended ones are left out",
            shape=Shape.TABLE,
        ),
    )


def _engine(lease: str) -> Sequence[Panel]:
    """How the processes work: passes, queues, requests, watches, resources."""

    def rate(family: str, by: str) -> str:
        return f"sum by ({by}) ({of_process(f'rate({family}[5m])', lease)})"

    def largest(series: str, by: str) -> str:
        return f"max by ({by}) ({of_process(series, lease)})"

    errors = Query(ERROR_RATIO, "{{controller}}")
    passes = Query(PASS_SECONDS, "{{controller}}")
    waits = Query(QUEUE_SECONDS, "{{name}}")
    return (
        _lines(
            "Passes",
            "Passes per second by result",
            Query(rate("controller_runtime_reconcile_total", "controller, result"), "{{controller}} {{result}}"),
        ),
        _lines("Failed passes", "Part of the passes that failed, in 15 minutes", errors, unit="percentunit"),
        _lines("Duration of passes", "95 % of the passes take at most this long", passes, unit="s"),
        _lines("Wait in the queue", "95 % of the objects wait at most this long for a worker", waits, unit="s"),
        _lines("Queue depth", "Objects that wait for a worker", Query(largest("workqueue_depth", "name"), "{{name}}")),
        _lines(
            "Busy workers",
            "Workers that run a pass",
            Query(largest("controller_runtime_active_workers", "controller"), "{{controller}}"),
        ),
        _lines(
            "Requests to API servers",
            "Requests per second by method and code",
            Query(rate("rest_client_requests_total", "method, code"), "{{method}} {{code}}"),
        ),
        _lines(
            "Age of caches",
            "Time since the last message of each watch",
            Query(largest("stellwerk_cache_age_seconds", "kind"), "{{kind}}"),
            unit="s",
        ),
        _lines(
            "Watch restarts",
            "Watches that started again, per second",
            Query(rate("stellwerk_watch_restarts_total", "kind"), "{{kind}}"),
        ),
        _lines(
            "Delay of the event loop",
            "99 % of the callbacks run with at most this delay",
            Query(
                f"histogram_quantile(0.99, {rate('stellwerk_event_loop_lag_seconds_bucket', 'le, instance')})",
                "{{instance}}",
            ),
            unit="s",
        ),
        _lines(
            "Memory",
            "Resident memory, and the use and limit of the container",
            Query(largest("process_resident_memory_bytes", "instance"), "{{instance}} resident"),
            Query(largest("stellwerk_memory_used_bytes", "instance"), "{{instance}} container"),
            Query(largest("stellwerk_memory_limit_bytes", "instance"), "{{instance}} limit"),
            unit="bytes",
        ),
        _lines(
            "CPU",
            "Processor seconds per second",
            Query(rate("process_cpu_seconds_total", "instance"), "{{instance}}"),
        ),
        _lines(
            "Certificates",
            "Time until a certificate that is served expires",
            Query(f"min by (name) ({of_process('stellwerk_certificate_expiry_seconds', lease)})", "{{name}}"),
            unit="s",
        ),
        _lines(
            "Faults",
            "Unexpected exceptions, missing rights and throttled corrections",
            Query(rate("stellwerk_task_failures_total", "kind"), "exceptions {{kind}}"),
            Query(f"sum({of_process('stellwerk_missing_rights', lease)})", "missing rights"),
            Query(f"sum({of_process('rate(stellwerk_drift_throttled_total[5m])', lease)})", "throttled corrections"),
        ),
    )


def _number(title: str, expr: str, description: str) -> Panel:
    return Panel(title=title, queries=(Query(expr),), description=description, shape=Shape.NUMBER, width=6, height=4)


def _lines(title: str, description: str, *queries: Query, unit: str = "short") -> Panel:
    return Panel(title=title, queries=queries, description=description, unit=unit)
