"""What the Job of an operation is made from: its tenant, application and version, and the Secret that it reads.

A Secret with credentials is made once for an operation. The values of binding Secrets are loaded: once for each version
of them, for all operations that need the same. If the Secrets of a namespace are not watched, so that no version is
known, they are read once for each attempt to run a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names, retries
from stellwerk.operators.cap.collections import BINDINGS, CREDENTIALS, CREDENTIALS_OF
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.references import there_are
from stellwerk.operators.cap.kinds.status import READY, see_why
from stellwerk.operators.cap.kinds.tenant import CAPTenant, Operation, OperationStep
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, Workload
from stellwerk.operators.cap.operation import jobs
from stellwerk.operators.cap.operation.around import OperationContext, content_version
from stellwerk.operators.cap.pods import credentials
from stellwerk.operators.cap.pods.credentials import BindingSecrets, Credentials, LoadCredentials
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.runtime import conditions
from stellwerk.runtime.control.step import Create, Refusal, Write
from stellwerk.runtime.reading.known import Absent, Known, NotKnown, Present, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSettings:
    """What the process is started with, as far as operations depend on it."""

    bindings: BindingSecrets | None = field(default=None, compare=False)
    """None for one that only rehearses: credentials are not worked out."""


def secret(
    seen: OperationContext, number: int, application: CAPApplication, workload: Workload, refused: Refusal
) -> tuple[str, tuple[Write, ...]]:
    """The name of the Secret with the credentials of a workload, and its creation if there is none.

    One that exists is used as it is. A retry has another one made if its credentials are outdated, because what failed
    may have failed for them. Raises CredentialsUnusable, NotKnown.
    """
    operation, view, namespace = seen.operation, seen.view, seen.operation.metadata.namespace
    prefix = f"{operation.metadata.name}-{workload.name.lower()}"
    own = credentials.usable(operation, view.by(CREDENTIALS_OF, credentials.mark_of(operation, prefix)).values)
    if own and operation.status.retry is None:
        return own[0].metadata.name, ()
    shown = {
        key: view.get(BINDINGS, key, content_version) for key in credentials.consumed(application, workload, namespace)
    }
    versions = {key: found.value for key, found in shown.items() if isinstance(found, Present)}
    distinction = credentials.versions_of(versions) if own and len(versions) == len(shown) else ""
    if own and distinction in ("", own[0].metadata.annotations.get(names.BINDINGS_ANNOTATION)):
        return own[0].metadata.name, ()
    made = _credentials(seen, number, application, workload, shown)
    name = credentials.secret_name(operation, prefix, distinction)
    if (there := view.find(CREDENTIALS, ObjectKey(namespace, name))) is not None:
        credentials.check_ours(operation, there)
        return name, ()
    body = credentials.secret_body(operation, prefix, name, made.text, made.versions)
    return name, (Create(CREDENTIALS, {"apiVersion": "v1", "kind": "Secret", **body}, refused),)


def _credentials(
    seen: OperationContext,
    number: int,
    application: CAPApplication,
    workload: Workload,
    shown: dict[ObjectKey, Known[str]],
) -> Credentials:
    """The credentials of a workload, from binding Secrets as they are `shown`. Raises as `secret`."""
    operation, bindings = seen.operation, seen.view.setting(OperationSettings).bindings
    versions: list[tuple[ObjectKey, str]] = []
    for key, found in shown.items():
        if isinstance(found, Absent):
            raise CredentialsUnusable(credentials.absent(key))
        if isinstance(found, Unknown) and not found.is_refused:
            raise NotKnown(f"Secret {key}", found.why)
        # What is not watched may have another version than the one that is shown.
        versions.append((key, found.value if isinstance(found, Present) and not found.doubt else ""))
    if bindings is None:
        return Credentials("", "")
    are_known = all(version for _, version in versions)
    attempt = f"{operation.metadata.uid}/{number}/{retries.attempts(operation.status.retry)}"
    load = LoadCredentials(
        namespace=operation.metadata.namespace,
        services=tuple(each for each in application.spec.btp.services if each.name in {*workload.consumed_services}),
        versions=tuple(versions),
        occasion="" if are_known else attempt,
        bindings=bindings,
    )
    loaded = seen.view.load(load)
    match loaded:
        case Present(Credentials() as made):
            return made
        case Present(unusable):
            raise CredentialsUnusable(str(unusable))
        case Unknown(why, is_refused=True):
            raise CredentialsUnusable(why)
        case Unknown(why):
            raise NotKnown(load.about, why)
        case Absent():
            raise AssertionError("credentials are there or unusable")


class Unready(Exception):
    """A Job cannot be made now, and what keeps it from that may change by itself."""


def job_context(seen: OperationContext) -> jobs.JobContext:
    """What a Job is made from. Raises Unready if something is absent, or not ready."""
    operation, tenant = seen.operation, seen.tenant
    if tenant is None:
        controller = operation.metadata.controller
        if isinstance(seen.known_tenant, Unknown) and controller is not None:
            key = ObjectKey(operation.metadata.namespace, controller.name)
            raise Unready(unreadable(seen, CAPTenant.resource.kind, "cat", key))
        raise Unready(f"the CAPTenant of {operation.ref} does not exist")
    application, version = seen.application, seen.version
    if application is None:
        if isinstance(seen.known_application, Unknown):
            raise Unready(unreadable(seen, CAPApplication.resource.kind, "ca", tenant.application_key))
        raise Unready(f"CAPApplication {tenant.spec.cap_application_instance} of {tenant.ref} does not exist")
    if version is None:
        if isinstance(seen.known_version, Unknown):
            raise Unready(unreadable(seen, CAPApplicationVersion.resource.kind, "cav", seen.version_key))
        raise Unready(
            f"CAPApplicationVersion {operation.spec.version_name} of {operation.ref} does not exist. See those that "
            f"there are with: kubectl get cav -n {operation.metadata.namespace}"
        )
    is_provisioning = operation.spec.operation == Operation.PROVISIONING
    if is_provisioning and not tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION):
        raise Unready(
            f"{tenant.ref} has no annotation {names.CONTEXT_SECRET_ANNOTATION}, which names the Secret with the "
            "payload of its subscription"
        )
    is_ready = conditions.is_true(version.status.conditions, READY)
    if not is_ready and operation.spec.operation != Operation.DEPROVISIONING:
        raise Unready(
            f"{version.ref} is not Ready: stellwerk why cav/{version.metadata.name} -n {version.metadata.namespace}"
        )
    return jobs.JobContext(application=application, version=version, tenant=tenant, operation=operation)


def workload_of(seen: OperationContext, version: CAPApplicationVersion, step: OperationStep) -> Workload:
    """The workload that the Job of a step is made from. Raises Unready."""
    workload = jobs.workload_of(version, step)
    if workload is None:
        workloads = there_are(each.name for each in version.spec.workloads)
        raise Unready(
            f"spec.steps of {seen.operation.ref} names the workload {step.name}, which {version.ref} does not have "
            f"({workloads}): create the operation again with another one"
        )
    return workload


def unreadable(seen: OperationContext, kind: str, short_name: str, key: ObjectKey) -> str:
    """What to look at if an object cannot be read that the operation needs."""
    return f"{kind} {key.name} of {seen.operation.ref} cannot be read; {see_why(short_name, key)}"
