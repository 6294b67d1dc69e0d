"""Which versions are not used any more (pure; spec section 15).

An application asks for it by an annotation. A version is a candidate when it is no newer than the latest one that is
Ready, no operation under way needs it, and no tenant has it, follows to it, or asks for its number: of two versions
with one number, a tenant may get the other one next. It may be deleted when each of its Deployments is unused by its
own rules; a Deployment without rules is. Rules that ask nothing are a mistake of their author, and keep the version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, DeletionMetric, MetricType
from stellwerk.operators.cap.routing.targets import service_name
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.operators.cap.version.plan import needed_version

DELETE, DRY_RUN = "true", "dry-run"
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PERIOD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A PromQL query about a Deployment, and the answers that mean that it is unused."""

    query: str
    threshold: float | None = None
    """A vector's first sample may have this value at most, and an empty vector is fine; None: the answer must be the
    scalar 1."""

    def is_unused(self, answer: Answer) -> bool:
        """Whether the answer means that the Deployment is unused."""
        if self.threshold is None:
            return answer.is_scalar and answer.values == (1.0,)
        return not answer.is_scalar and (not answer.values or answer.values[0] <= self.threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Prometheus answered: a scalar, or the values of a vector."""

    is_scalar: bool
    values: tuple[float, ...]


class UnusableRule(ValueError):
    """A rule of a version cannot be asked about; the version stays."""


def asks(application: CAPApplication) -> str:
    """What an application asks for: `DELETE`, `DRY_RUN`, or nothing."""
    asked = application.metadata.annotations.get(names.CLEANUP_ANNOTATION, "").lower()
    return asked if asked in (DELETE, DRY_RUN) and not application.metadata.is_terminating else ""


def candidates(
    versions: Sequence[CAPApplicationVersion],
    tenants: Iterable[CAPTenant],
    operations: Sequence[CAPTenantOperation],
) -> Sequence[CAPApplicationVersion]:
    """The versions of an application that no tenant and no operation needs.

    `versions` and `tenants`: all of the application; `operations`: those that name one of the versions.
    """
    newest, users = latest_ready(versions), tuple(tenants)
    if newest is None:
        return ()
    border, asked_for = precedence(newest.spec.version), {tenant.spec.version for tenant in users}
    current = {tenant.status.current_version for tenant in users}
    needed = {key for each in operations if (key := needed_version(each)) is not None}
    return [
        version
        for version in versions
        if version.metadata.uid != newest.metadata.uid
        and not version.metadata.is_terminating
        and precedence(version.spec.version) <= border
        and version.spec.version not in asked_for
        and version.metadata.name not in current
        and version.key not in needed
    ]


def questions(version: CAPApplicationVersion, *, unrestricted: bool = False) -> Sequence[Question]:
    """What must be asked about a version; nothing where no Deployment has rules. Raises UnusableRule.

    `unrestricted`: expressions are asked as they are, about the metrics of all namespaces.
    """
    found: list[Question] = []
    for workload, details in version.spec.deployments:
        rules = details.monitoring.deletion_rules if details.monitoring is not None else None
        if rules is None:
            continue
        expression = rules.expression.strip()
        if not expression and not rules.metrics:
            raise UnusableRule(f"the deletionRules of workload {workload.name} ask nothing")
        if expression and not unrestricted:
            raise UnusableRule(
                f"deletionRules.expression of workload {workload.name} may read the metrics of all namespaces: use "
                "deletionRules.metrics, or let an administrator set UNRESTRICTED_METRIC_QUERIES=true"
            )
        if expression:
            found.append(Question(query=expression))
        service = service_name(version, workload.name)
        found += [_about(metric, service, version.metadata.namespace) for metric in rules.metrics]
    return found


def problem_of_rules(version: CAPApplicationVersion, application: CAPApplication, *, unrestricted: bool = False) -> str:
    """Why a version is never found to be unused although its application asks for that; empty if it may be."""
    if not asks(application):
        return ""
    try:
        questions(version, unrestricted=unrestricted)
    except UnusableRule as error:
        return str(error)
    return ""


def _about(metric: DeletionMetric, service: str, namespace: str) -> Question:
    if not _METRIC.fullmatch(metric.name):
        raise UnusableRule(f"deletionRules name the metric {metric.name[:63]!r}, which is no name of a metric")
    if not _PERIOD.fullmatch(metric.calculation_period):
        raise UnusableRule(f"the calculationPeriod of the metric {metric.name} is no duration such as 30m")
    try:
        threshold = float(metric.threshold_value)
    except ValueError:
        threshold = math.nan
    if math.isnan(threshold):
        raise UnusableRule(f"the thresholdValue of the metric {metric.name} is no number")
    series = f'{metric.name}{{job="{service}",namespace="{namespace}"}}[{metric.calculation_period}]'
    function = "avg_over_time" if metric.type == MetricType.GAUGE else "rate"
    return Question(query=f"sum({function}({series}))", threshold=threshold)
