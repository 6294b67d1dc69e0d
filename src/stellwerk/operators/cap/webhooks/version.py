"""What is refused of a CAPApplicationVersion (pure; spec section 14). The messages are the original's.

The rule about the number is ours: the original accepts one that cannot be a label, and fails with it later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.application.plan import is_services_only
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.references import there_are
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentDetails,
    DeploymentType,
    JobType,
    TenantStep,
    Workload,
)
from stellwerk.operators.cap.routing.targets import ports_of
from stellwerk.operators.cap.version.resources import problem_of_number
from stellwerk.operators.cap.webhooks import rules
from stellwerk.operators.cap.webhooks.former import has_changed

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63
_POD_SUFFIX = "q4m9c"
"""As long as what the Job controller adds to the name of a Job."""
_PLAIN_NUMBERS = frozenset(
    (
        "continueOnFailure",
        "failureThreshold",
        "hostPort",
        "initialDelaySeconds",
        "periodSeconds",
        "readOnly",
        "stdin",
        "stdinOnce",
        "successThreshold",
        "timeoutSeconds",
        "tty",
    )
)
"""Whose 0 or false is the same as no value. For all others, as `runAsUser` and `replicas`, it is a value of its own."""
_TEXTS = frozenset(
    ("annotations", "labels", "limits", "matchLabels", "nodeSelector", "options", "requests", "volumeAttributes")
)
"""Maps from keys to texts: an empty map is the same as none, and a key with an empty text is there."""
_PLAIN_OBJECTS = frozenset(("metadata", "resources"))
"""Objects whose absence Go cannot show. An empty object elsewhere has a meaning, as in `stickiness: {}`."""
_SCALARS = (str, int, float, type(None))
_TENANT_JOBS = (JobType.TENANT_OPERATION, JobType.CUSTOM_TENANT_OPERATION)


def problem_of_new(
    version: CAPApplicationVersion,
    application: CAPApplication | None,
    applications: Iterable[str] = (),
    *,
    derives_tenant_jobs: bool = False,
) -> str:
    """Why a new version is refused; empty where it is not.

    `applications`: the names of those in its namespace.
    `derives_tenant_jobs`: whether a version without a job for tenants may be used, as with the first releases.
    """
    if application is None:
        return rules.without_application(version, applications)
    return next(_Check(version, application, derives_tenant_jobs).problems(), "")


def problem_of_change(old: CAPApplicationVersion, new: CAPApplicationVersion) -> str:
    """Why a change is refused; empty where it is not. Labels, annotations and finalizers may change."""
    if old.spec == new.spec or _plain(msgspec.to_builtins(old.spec)) == _plain(msgspec.to_builtins(new.spec)):
        return ""
    return _fixed(new)


def problem_of_correction(former: JsonObject, new: CAPApplicationVersion) -> str:
    """Why a change of a version that cannot be read is refused, besides what is refused of a new one."""
    spec = new.spec
    is_other = has_changed(former, "capApplicationInstance", spec.application)
    return _fixed(new) if is_other or has_changed(former, "version", spec.version) else ""


def _fixed(version: CAPApplicationVersion) -> str:
    return f"spec cannot be modified for: {version.metadata.namespace}.{version.metadata.name}"


def _plain(value: JsonValue, field: str = "") -> JsonValue:
    """The value of a field without the parts that are the same as absent ones for the original, a Go program."""
    if isinstance(value, Mapping):
        parts = {key: _plain(part, key) for key, part in value.items()}
        return {key: part for key, part in parts.items() if field in _TEXTS or not _is_absent(key, part)}
    if isinstance(value, list | tuple):
        return [part if isinstance(part, _SCALARS) else _plain(part) for part in value]
    return value


def _is_absent(field: str, value: JsonValue) -> bool:
    if isinstance(value, bool | int | float):
        return not value and field in _PLAIN_NUMBERS
    if isinstance(value, Mapping):
        return not value and field in (_TEXTS | _PLAIN_OBJECTS)
    return not value


@dataclass(frozen=True, slots=True)
class _Check:
    version: CAPApplicationVersion
    application: CAPApplication
    derives_tenant_jobs: bool

    def problems(self) -> Iterator[str]:
        """In the order in which the rules are applied."""
        if problem := bounds.problem_of_size(self.version):
            yield problem
            return  # what follows multiplies lists
        for workload in self.workloads:
            yield from self._workload(workload)
        for name in _repeated(workload.name for workload in self.workloads):
            yield f"duplicate workload name: {name}"
        yield from self._tenant_workloads()
        yield from self._content()
        yield from self._exposures()
        yield from self._operations()
        if problem := problem_of_number(self.version):
            yield problem

    @property
    def workloads(self) -> Sequence[Workload]:
        return self.version.spec.workloads

    # ---- each workload

    def _workload(self, workload: Workload) -> Iterator[str]:
        name, deployment, job = f"{self.version.metadata.name}-{workload.name}", workload.deployment, workload.job
        if not _NAME.fullmatch(workload.name):
            yield f"Invalid workload name: {workload.name}"
        if deployment is not None:
            yield from _too_long("service", f"{name}-svc")
        if job is not None and job.type == JobType.CONTENT:
            yield from _too_long("content job pod", f"{name}-{_POD_SUFFIX}")
        if deployment is not None:
            yield from _deployment(workload.name, deployment)
        if job is not None and job.type not in tuple(JobType):
            yield "invalid job definition type. Only supported - Content, TenantOperation and CustomTenantOperation"

    # ---- all together

    def _tenant_workloads(self) -> Iterator[str]:
        jobs = [workload.job.type for workload in self.workloads if workload.job is not None]
        fixed = self.application.status.services_only
        if is_services_only(self.application, self.version) if fixed is None else fixed:
            if any(job in _TENANT_JOBS for job in jobs):
                yield (
                    "there should not be any job workload of type TenantOperation or CustomTenantOperation defined "
                    "for service only applications."
                )
            return
        for kind in (DeploymentType.CAP, DeploymentType.ROUTER):
            count = sum(each.deployment is not None and each.deployment.type == kind for each in self.workloads)
            if count != 1:
                yield (
                    f"there should always be one workload deployment definition of type {kind}. "
                    f"Currently, there are {count} workloads of type {kind}"
                )
        if JobType.TENANT_OPERATION not in jobs and not self.derives_tenant_jobs:
            yield "there should always be one job workload of type TenantOperation. Currently, there are none."

    def _content(self) -> Iterator[str]:
        content = [each.name for each in self.workloads if each.job is not None and each.job.type == JobType.CONTENT]
        listed = self.version.spec.content_jobs
        if listed is None:
            if len(content) > 1:
                yield "if there are more than one content job, contentJobs should be defined"
            return
        known, given = {*content}, {*listed}
        for name in content:
            if name not in given:
                yield f"content job {name} is not specified as part of ContentJobs"
        for name in listed:
            if name not in known:
                yield f"job {name} specified as part of ContentJobs is not a valid content job: {there_are(content)}"

    def _exposures(self) -> Iterator[str]:
        exposures = self.version.spec.service_exposures
        for name in _repeated(exposure.sub_domain for exposure in exposures):
            yield f"duplicate subDomain {name} in service exposure"
        numbers = {
            each.name: {port.port for port in ports_of(details)} for each, details in self.version.spec.deployments
        }
        for exposure in exposures:
            for route in exposure.routes:
                if (ports := numbers.get(route.workload_name)) is None:
                    yield (
                        f"workload name {route.workload_name} mentioned as part of routes in service exposure with "
                        f"subDomain {exposure.sub_domain} is not a valid workload. Of those with a "
                        f"deploymentDefinition {there_are(numbers)}"
                    )
                elif route.port not in ports:
                    yield (
                        f"port {route.port} mentioned as part of routes for workload {route.workload_name} in service "
                        f"exposure with subDomain {exposure.sub_domain} is not a valid port in the workload. Of its "
                        f"ports {there_are(ports)}"
                    )

    # ---- operations on tenants

    def _operations(self) -> Iterator[str]:
        given = self.version.spec.tenant_operations
        types = {each.name: each.job.type for each in self.workloads if each.job is not None}
        valid = there_are(name for name, kind in types.items() if kind in _TENANT_JOBS)
        if given is None:
            if JobType.CUSTOM_TENANT_OPERATION in types.values():
                yield (
                    "- If a jobDefinition of type CustomTenantOperation is part of the workloads, then "
                    "spec.tenantOperations must be specified"
                )
            return
        phases: Mapping[str, Sequence[TenantStep]] = {
            "provisioning": given.provisioning,
            "upgrade": given.upgrade,
            "deprovisioning": given.deprovisioning,
        }
        used = {step.workload_name for steps in phases.values() for step in steps}
        for name, kind in types.items():
            if kind in _TENANT_JOBS and name not in used:
                yield f"workload tenant operation {name} is not specified in spec.tenantOperations"
        for phase, steps in phases.items():
            for step in steps:
                if types.get(step.workload_name) not in _TENANT_JOBS:
                    yield (
                        f"{step.workload_name} specified in spec.tenantOperations is not a valid workload of type "
                        f"TenantOperation or CustomTenantOperation: {valid}"
                    )
            if steps and not any(types.get(step.workload_name) == JobType.TENANT_OPERATION for step in steps):
                yield f"- No tenant operation specified in spec.tenantOperation.{phase}"


def _deployment(name: str, details: DeploymentDetails) -> Iterator[str]:
    if details.type not in tuple(DeploymentType):
        yield "invalid deployment definition type. Only supported - CAP, Router, Additional and Service"
    for port in _repeated(port.name for port in details.ports):
        yield f"duplicate port name: {port} in workload - {name}"
    for number in _repeated(port.port for port in details.ports):
        yield f"duplicate port number: {number} in workload - {name}"
    destinations = any(port.router_destination_name for port in details.ports)
    if details.type == DeploymentType.CAP and details.ports and not destinations:
        yield f"routerDestinationName not defined in port configuration of workload - {name}"
    if details.type == DeploymentType.ROUTER and destinations:
        yield f"routerDestinationName should not be defined for workload of type Router - {name}"
    budget = details.pod_disruption_budget or {}
    if budget.get("selector") is not None:  # an empty one is given, too
        yield f"selector must not be specified for podDisrptionBudget config in workload - {name}"


def _too_long(what: str, name: str) -> Iterator[str]:
    if len(name) > _LONGEST:
        yield (
            f"Derived {what} name '{name}' (length {len(name)}) exceeds max limit of {_LONGEST} characters. "
            "Shorten the name of the workload or of the version"
        )


def _repeated(values: Iterable[object]) -> Iterator[object]:
    return (value for value, count in Counter(values).items() if count > 1)
