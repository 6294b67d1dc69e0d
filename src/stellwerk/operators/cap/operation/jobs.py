"""Which Jobs an operation on a tenant consists of, and what they are (pure; spec sections 9 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, Operation, OperationStep, StepType
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentType,
    JobDetails,
    JobType,
    TenantOperations,
    Workload,
)
from stellwerk.operators.cap.pods import workload_pods

MTXS_COMMAND = ("node", "./node_modules/@sap/cds-mtxs/bin/cds-mtx")
"""What a TenantOperation runs unless it names a command: the tenant commands of CAP."""

_MTXS_OPERATIONS: Mapping[str, str] = {
    Operation.PROVISIONING: "subscribe",
    Operation.UPGRADE: "upgrade",
    Operation.DEPROVISIONING: "unsubscribe",
}

DERIVED_BACKOFF_LIMIT = 2
DERIVED_TTL_SECONDS = 300
"""Of a Job that is derived from a CAP Deployment, because the version has no job for tenants."""

_OF_THE_SERVER = frozenset(("command", "args", "restart_policy"))
"""What such a Job does not have of the Deployment. Its command starts a server, which never ends; the restart policy of
a Deployment is always `Always`, which the API server refuses for a Job."""


class NoTenantOperation(ValueError):
    """A version has no Job for an operation on tenants."""


# ---- steps


def steps_of(version: CAPApplicationVersion, operation: Operation) -> tuple[OperationStep, ...]:
    """The steps, in their order. Raises NoTenantOperation.

    Listed workloads that are no jobs for tenants are ignored, and only a custom step may fail. Without a list for the
    operation it is one step: the first job of type TenantOperation, or else the first CAP Deployment, run as a Job
    (decision table 22).
    """
    workloads, given = version.spec.workloads, version.spec.tenant_operations or TenantOperations()
    listed = {
        Operation.PROVISIONING: given.provisioning,
        Operation.UPGRADE: given.upgrade,
        Operation.DEPROVISIONING: given.deprovisioning,
    }[operation]
    if not listed:
        return (OperationStep(name=_only(version).name, type=StepType.TENANT_OPERATION),)
    types = {workload.name: workload.job.type for workload in workloads if workload.job is not None}
    steps = tuple(
        OperationStep(
            name=item.workload_name,
            type=kind,
            continue_on_failure=item.continue_on_failure and kind == StepType.CUSTOM_TENANT_OPERATION,
        )
        for item in listed
        if (kind := types.get(item.workload_name)) in tuple(StepType)
    )
    if not any(step.type == StepType.TENANT_OPERATION for step in steps):
        raise NoTenantOperation(
            f"{version.ref} lists no workload of type TenantOperation in spec.tenantOperations.{operation.value}"
        )
    return steps


def workload_of(version: CAPApplicationVersion, step: OperationStep) -> Workload | None:
    """The workload that the Job of a step is made from; None where the version has none of that name."""
    return next((workload for workload in version.spec.workloads if workload.name == step.name), None)


def _only(version: CAPApplicationVersion) -> Workload:
    workloads = version.spec.workloads
    jobs = (each for each in workloads if each.job is not None and each.job.type == JobType.TENANT_OPERATION)
    servers = (each for each in workloads if each.deployment is not None and each.deployment.type == DeploymentType.CAP)
    found = next(jobs, None) or next(servers, None)
    if found is None:
        raise NoTenantOperation(f"{version.ref} has no workload of type TenantOperation, and no CAP Deployment either")
    return found


# ---- the Job of a step


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a Job of an operation is made from."""

    application: CAPApplication
    version: CAPApplicationVersion
    tenant: CAPTenant
    operation: CAPTenantOperation


def job(context: JobContext, number: int, step: OperationStep, workload: Workload, secret: str) -> JsonObject:
    """The Job of a step, without name and owner. `number` counts from 1; `secret` has the workload's credentials."""
    details = job_details(workload)
    labels = {
        **(workload.labels or {}),
        names.APP_LABEL: context.application.spec.btp_app_name,
        **names.owner_labels(context.operation.key, context.operation.metadata.generation),
        names.OPERATION_TYPE_LABEL: context.operation.spec.operation,
        names.OPERATION_STEP_LABEL: str(number),
        names.WORKLOAD_NAME_LABEL: step.name,
        names.WORKLOAD_TYPE_LABEL: step.type,
        names.CATEGORY_LABEL: "Workload",
    }
    annotations = {**(workload.annotations or {}), **names.owner_annotations(context.operation.key)}
    env = _environment(context, step)
    container: JsonObject = workload_pods.container(workload.name, details, env, secret)
    container |= _command(context, step, details)
    metadata: JsonObject = {"labels": {**labels}, "annotations": {**annotations}}
    pod = workload_pods.pod_spec(
        details,
        container,
        workload_pods.init_containers(details, env, secret),
        registry_secrets=context.version.spec.registry_secrets,
        labels=labels,
        restart_policy=details.restart_policy or "Never",
    )
    return {"metadata": metadata, "spec": workload_pods.job_spec(details, {"metadata": metadata, "spec": pod})}


def job_details(workload: Workload) -> JobDetails:
    """How the workload runs as a Job. A CAP Deployment runs as one where the version has no job for tenants."""
    if workload.job is not None:
        return workload.job
    assert workload.deployment is not None, workload.name
    fields = (name for name in workload_pods.COMMON_FIELDS if name not in _OF_THE_SERVER)
    return JobDetails(
        **{name: getattr(workload.deployment, name) for name in fields},
        type=StepType.TENANT_OPERATION,
        backoff_limit=DERIVED_BACKOFF_LIMIT,
        ttl_seconds_after_finished=DERIVED_TTL_SECONDS,
    )


def _environment(context: JobContext, step: OperationStep) -> list[JsonValue]:
    application, operation, tenant = context.application.spec, context.operation.spec, context.tenant
    values: dict[str, str] = {
        "CAPOP_APP_VERSION": context.version.spec.version,
        "CAPOP_TENANT_ID": operation.tenant_id,
        "CAPOP_TENANT_OPERATION": operation.operation,
        "CAPOP_TENANT_SUBDOMAIN": operation.sub_domain,
        "CAPOP_TENANT_TYPE": tenant.metadata.labels.get(names.TENANT_TYPE_LABEL, ""),
        "CAPOP_APP_NAME": application.btp_app_name,
    }
    if application.provider_subaccount_id:
        values["CAPOP_PROVIDER_SUBACCOUNT_ID"] = application.provider_subaccount_id
    if application.global_account_id:
        values["CAPOP_GLOBAL_ACCOUNT_ID"] = application.global_account_id
    if application.provider is not None and not application.provider.is_empty:
        values["CAPOP_PROVIDER_TENANT_ID"] = application.provider.tenant_id
        values["CAPOP_PROVIDER_SUBDOMAIN"] = application.provider.sub_domain
    env: list[JsonValue] = [{"name": name, "value": value} for name, value in values.items()]
    if step.type == StepType.TENANT_OPERATION:
        if operation.operation == Operation.PROVISIONING:
            name = tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION, "")
            reference: JsonObject = {"secretKeyRef": {"name": name, "key": names.CONTEXT_KEY}}
            env.append({"name": "CAPOP_SUBSCRIPTION_PAYLOAD", "valueFrom": reference})
        env.append({"name": "CAPOP_TENANT_MTXS_OPERATION", "value": _MTXS_OPERATIONS[operation.operation]})
    return env


def _command(context: JobContext, step: OperationStep, details: JobDetails) -> JsonObject:
    """Command and arguments. Arguments without a command are ignored: those of the default command are fixed."""
    if step.type == StepType.TENANT_OPERATION and not details.command:
        args: list[JsonValue] = ["$(CAPOP_TENANT_MTXS_OPERATION)", context.operation.spec.tenant_id]
        if context.operation.spec.operation == Operation.PROVISIONING:
            args += ["--body", "$(CAPOP_SUBSCRIPTION_PAYLOAD)"]
        return {"command": [*MTXS_COMMAND], "args": args}
    return workload_pods.command(details)
