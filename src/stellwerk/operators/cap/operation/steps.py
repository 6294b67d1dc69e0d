"""Which Jobs an operation on a tenant consists of (pure; spec section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.operators.cap.kinds.tenant import Operation, OperationStep, StepType
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentType,
    JobType,
    TenantStep,
    Workload,
)


class NoTenantOperation(ValueError):
    """A version has no Job for an operation on tenants."""


def steps_of(version: CAPApplicationVersion, operation: Operation) -> tuple[OperationStep, ...]:
    """The steps, in their order. Raises NoTenantOperation.

    Without a list for the operation it is one step: the first job of type TenantOperation, or else the first CAP
    Deployment, run as a Job (decision table 22).
    """
    listed = _listed(version, operation)
    if not listed:
        return (OperationStep(name=_only(version).name, type=StepType.TENANT_OPERATION),)
    steps = tuple(_steps(listed, version.spec.workloads))
    if not any(step.type == StepType.TENANT_OPERATION for step in steps):
        raise NoTenantOperation(
            f"{version.ref} lists no workload of type TenantOperation in spec.tenantOperations.{operation.value}"
        )
    return steps


def workload_of(version: CAPApplicationVersion, step: OperationStep) -> Workload | None:
    """The workload that the Job of a step is made from; None where the version has none of that name."""
    return next((workload for workload in version.spec.workloads if workload.name == step.name), None)


def _listed(version: CAPApplicationVersion, operation: Operation) -> Sequence[TenantStep]:
    given = version.spec.tenant_operations
    if given is None:
        return ()
    match operation:
        case Operation.PROVISIONING:
            return given.provisioning
        case Operation.UPGRADE:
            return given.upgrade
        case Operation.DEPROVISIONING:
            return given.deprovisioning


def _steps(listed: Iterable[TenantStep], workloads: Iterable[Workload]) -> Iterable[OperationStep]:
    """The listed workloads that are jobs for tenants; others are ignored. Only a custom step may fail."""
    types = {workload.name: workload.job.type for workload in workloads if workload.job is not None}
    for item in listed:
        match types.get(item.workload_name):
            case JobType.TENANT_OPERATION:
                yield OperationStep(name=item.workload_name, type=StepType.TENANT_OPERATION)
            case JobType.CUSTOM_TENANT_OPERATION:
                yield OperationStep(
                    name=item.workload_name,
                    type=StepType.CUSTOM_TENANT_OPERATION,
                    continue_on_failure=item.continue_on_failure,
                )


def _only(version: CAPApplicationVersion) -> Workload:
    workloads = version.spec.workloads
    jobs = (each for each in workloads if each.job is not None and each.job.type == JobType.TENANT_OPERATION)
    servers = (each for each in workloads if each.deployment is not None and each.deployment.type == DeploymentType.CAP)
    found = next(jobs, None) or next(servers, None)
    if found is None:
        raise NoTenantOperation(f"{version.ref} has no workload of type TenantOperation, and no CAP Deployment either")
    return found
