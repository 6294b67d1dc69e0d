"""The Jobs of an operation on a tenant (pure; spec section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, Operation, OperationStep, StepType
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, JobDetails, Workload
from stellwerk.operators.cap.pods import workload_pods

MTXS_COMMAND = ("node", "./node_modules/@sap/cds-mtxs/bin/cds-mtx")
"""What a TenantOperation runs unless it names a command: the tenant commands of CAP."""

_MTXS_OPERATIONS = {
    Operation.PROVISIONING: "subscribe",
    Operation.UPGRADE: "upgrade",
    Operation.DEPROVISIONING: "unsubscribe",
}

DERIVED_BACKOFF_LIMIT = 2
DERIVED_TTL_SECONDS = 300
"""Of a Job that is derived from a CAP Deployment, because the version has no job for tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a Job of an operation is made from."""

    application: CAPApplication
    version: CAPApplicationVersion
    tenant: CAPTenant
    operation: CAPTenantOperation


def step_labels(context: JobContext, number: int, step: OperationStep) -> dict[str, str]:
    """What distinguishes the Job of a step from all others; `number` counts from 1."""
    return {
        names.OWNER_HASH_LABEL: names.owner_hash(context.operation.key),
        names.OPERATION_TYPE_LABEL: context.operation.spec.operation,
        names.OPERATION_STEP_LABEL: str(number),
        names.WORKLOAD_NAME_LABEL: step.name,
        names.WORKLOAD_TYPE_LABEL: step.type,
    }


def job(context: JobContext, number: int, step: OperationStep, workload: Workload, secret: str) -> JsonObject:
    """The Job of a step, without name and owner. `secret` has the credentials of the workload."""
    details = job_details(workload)
    labels = {
        **(workload.labels or {}),
        names.APP_LABEL: context.application.spec.btp_app_name,
        **step_labels(context, number, step),
        names.OWNER_GENERATION_LABEL: str(context.operation.metadata.generation),
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
    return JobDetails(
        **{name: getattr(workload.deployment, name) for name in workload_pods.COMMON_FIELDS},
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
            env.append({"name": "CAPOP_SUBSCRIPTION_PAYLOAD", "valueFrom": _payload(tenant.metadata.annotations)})
        env.append({"name": "CAPOP_TENANT_MTXS_OPERATION", "value": _mtxs_operation(operation.operation)})
    return env


def _payload(annotations: Mapping[str, str]) -> JsonObject:
    name = annotations.get(names.CONTEXT_SECRET_ANNOTATION, "")
    return {"secretKeyRef": {"name": name, "key": names.CONTEXT_KEY}}


def _mtxs_operation(operation: str) -> str:
    return _MTXS_OPERATIONS[Operation(operation)]


def _command(context: JobContext, step: OperationStep, details: JobDetails) -> JsonObject:
    """Command and arguments. Arguments without a command belong to a Deployment's program and are ignored."""
    if step.type == StepType.TENANT_OPERATION and not details.command:
        args: list[JsonValue] = ["$(CAPOP_TENANT_MTXS_OPERATION)", context.operation.spec.tenant_id]
        if context.operation.spec.operation == Operation.PROVISIONING:
            args += ["--body", "$(CAPOP_SUBSCRIPTION_PAYLOAD)"]
        return {"command": [*MTXS_COMMAND], "args": args}
    return workload_pods.command(details)
