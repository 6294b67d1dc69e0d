"""Carries out operations on tenants: one Job after the other, each exactly once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import REFUSED
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.kinds.references import names_in, there_are
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    Operation,
    OperationState,
    OperationStatus,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.operation import jobs, plan
from stellwerk.operators.cap.operation.plan import Report, RunStep, Snapshot
from stellwerk.operators.cap.pods.credentials import CredentialSecrets
from stellwerk.operators.cap.pods.last_words import last_words
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable, check_variables
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_OWNER, Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control import jobs as job_steps
from stellwerk.runtime.control.jobs import JobStep, JobStepFailed, RestartJob, StartJob, StepBlocked
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity, SimpleReconciler

Answer = Next[OperationStatus]


class OperationFailed(ReconcileError):
    """A step cannot be carried out now."""

    reason = OperationReason.StepProcessingError
    action = plan.TRACK_JOB


class TenantMissing(OperationFailed):
    """There is no tenant for the operation."""

    event_reason = OperationReason.InvalidReference
    action = "Prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReconciler(SimpleReconciler[CAPTenantOperation, OperationStatus]):
    """Brings one operation one step further."""

    client: Client
    caches: Caches
    credentials: CredentialSecrets
    clock: Clock
    counts: CapMetrics

    async def reconcile(self, operation: CAPTenantOperation) -> Answer:
        """Observe, decide, act. Raises OperationFailed, ApiError."""
        seen = self._snapshot(operation)
        match plan.next_action(seen, self.clock.now()):
            case plan.Rest():
                return Next.done()
            case plan.Release():
                await finalizer.remove(self.client, operation, names.OPERATION_FINALIZER)
                return Next.done()
            case plan.Prepare(lacking):
                return await self._prepare(seen, lacking)
            case Report() as report:
                return self._answer(operation, report)
            case plan.Acknowledge():
                return Next.now(retries.acknowledged(operation, operation.status)).without_event()
            case plan.Supersede(cause):
                return Next.done(plan.status_if_superseded(operation, cause, self.clock.now())).without_event()
            case plan.Pause(seconds):
                return Next.after(seconds)
            case plan.RunAgain() as again:
                words = await last_words(self.client, again.job) if again.job is not None else ""
                return self._answer(operation, plan.retry_report(operation, again, words))
            case RunStep() as action:
                return await self._run(seen, action)

    def report(self, operation: CAPTenantOperation, failure: ReconcileError) -> OperationStatus:
        """The failure, on top of how far the operation is. One that has ended stays as it is."""
        status = operation.status
        if operation.has_ended:
            return status
        reason = OperationReason.StepProcessingError
        if not isinstance(failure, OperationFailed):
            reason = OperationReason.RecoveredPanic
        report = Report(reason, str(failure), step=status.current_step, job=status.active_job)
        return plan.status_of(operation, report, self.clock.now())

    def _snapshot(self, operation: CAPTenantOperation) -> Snapshot:
        caches = self.caches
        namespace = operation.metadata.namespace
        key = ObjectKey(namespace, operation.spec.version_name)
        version = caches.versions.store.get(key)
        tenant = self._tenant(operation, version)
        application = caches.applications.store.get(tenant.application_key) if tenant is not None else None
        owned = caches.jobs.store.by(BY_OWNER, operation.metadata.uid)
        controller = operation.metadata.controller
        return Snapshot(
            operation=operation,
            tenant=tenant,
            is_tenant_hidden=controller is not None and ObjectKey(namespace, controller.name) in caches.tenants.hidden,
            siblings=caches.operations.store.by(BY_OWNER, tenant.metadata.uid) if tenant is not None else (),
            application=application,
            version=version,
            is_version_hidden=key in caches.versions.hidden,
            jobs=owned,
        )

    def _tenant(self, operation: CAPTenantOperation, version: CAPApplicationVersion | None) -> CAPTenant | None:
        """The tenant that controls the operation; for one without a controller, the tenant with its id.

        Applications of one namespace may have the same subscriber, so the application must be that of the version.
        """
        controller = operation.metadata.controller
        store = self.caches.tenants.store
        if controller is not None:
            tenant = store.get(ObjectKey(operation.metadata.namespace, controller.name))
            return tenant if tenant is not None and tenant.metadata.uid == controller.uid else None
        if version is None:
            return None
        tenants = store.by(BY_APPLICATION, str(version.application_key))
        return next((tenant for tenant in tenants if tenant.spec.tenant_id == operation.spec.tenant_id), None)

    async def _prepare(self, seen: Snapshot, lacking: JsonObject) -> Answer:
        operation = seen.operation
        if seen.tenant is None and operation.metadata.controller is None:
            versions = names_in(operation.metadata.namespace, self.caches.versions.store.all())
            raise TenantMissing(plan.without_tenant(seen, versions))
        try:
            await preparation.write(self.client, operation, lacking)
        except REFUSED as error:
            raise OperationFailed(str(error)) from error
        return Next.now()

    # ---- steps

    async def _run(self, seen: Snapshot, action: RunStep) -> Answer:
        decision, operation = action.decision, seen.operation
        is_new, words = isinstance(decision, StartJob), ""
        if isinstance(decision, StartJob):
            try:
                step = await self._with_job(seen, action, decision.step)
                decision = await job_steps.carry_out(self.client, operation, StartJob(step), self.caches.jobs)
            except (ReservedVariable, CredentialsUnusable, *REFUSED) as error:
                if (end := plan.given_up(seen, action.number, str(error))) is not None:
                    return self._answer(operation, end)
                raise OperationFailed(str(error)) from error
        elif isinstance(decision, RestartJob):
            decision = await job_steps.carry_out(self.client, operation, decision)
        elif isinstance(decision, JobStepFailed):
            words = await last_words(self.client, decision.job)
        if isinstance(decision, StepBlocked):  # no Job failed, and those there are may run: the operation goes on
            raise OperationFailed(decision.message)
        report = plan.report_of(operation, action.number, decision, is_new=is_new, last_words=words)
        return self._answer(operation, report)

    def _answer(self, operation: CAPTenantOperation, report: Report | None) -> Answer:
        """The status with a report, and its Event. Without a report, the next step is due."""
        if report is None:
            return Next.now()
        if plan.is_implied(report, operation):
            return Next.done()
        now = self.clock.now()
        if report.has_ended:
            self.counts.ended(operation, report.state, now)
        status = plan.status_of(operation, report, now)
        is_due = report.starts_next or (report.has_ended and operation.metadata.is_terminating)
        delay = 0.0 if is_due else None
        if report.retry is not None:  # the pass after it deletes the failed Job
            delay = retries.seconds_left(report.retry, now)
        answer = Next(status, delay).without_event()
        if not report.action:
            return answer
        severity = Severity.WARNING if report.state == OperationState.FAILED else Severity.NORMAL
        return answer.with_events(Notice(report.reason, report.message, severity, report.action))

    async def _with_job(self, seen: Snapshot, action: RunStep, step: JobStep) -> JobStep:
        """The step with the Job that it creates. Raises OperationFailed, ReservedVariable, CredentialsUnusable."""
        context, operation = _context(seen), seen.operation
        workload = jobs.workload_of(context.version, action.step)
        if workload is None:
            workloads = there_are(each.name for each in context.version.spec.workloads)
            raise OperationFailed(
                f"spec.steps of {operation.ref} names the workload {action.step.name}, which {context.version.ref} "
                f"does not have ({workloads}): create the operation again with another one"
            )
        check_variables(workload.name, jobs.job_details(workload))
        prefix, is_retry = f"{operation.metadata.name}-{workload.name.lower()}", operation.status.retry is not None
        secret = await self.credentials.keep(operation, prefix, context.application, workload, renews=is_retry)
        body = jobs.job(context, action.number, action.step, workload, secret)
        return replace(step, build=lambda: body)


def _context(seen: Snapshot) -> jobs.JobContext:
    """What a Job is made from. Raises OperationFailed where something is absent, or not ready."""
    operation, tenant, application, version = seen.operation, seen.tenant, seen.application, seen.version
    if tenant is None:
        raise OperationFailed(f"the CAPTenant of {operation.ref} does not exist")
    if application is None:
        raise OperationFailed(f"CAPApplication {tenant.spec.cap_application_instance} of {tenant.ref} does not exist")
    if version is None:
        raise OperationFailed(
            f"CAPApplicationVersion {operation.spec.version_name} of {operation.ref} does not exist. See those that "
            f"there are with: kubectl get cav -n {operation.metadata.namespace}"
        )
    is_provisioning = operation.spec.operation == Operation.PROVISIONING
    if is_provisioning and not tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION):
        raise OperationFailed(
            f"{tenant.ref} has no annotation {names.CONTEXT_SECRET_ANNOTATION}, which names the Secret with the "
            "payload of its subscription"
        )
    is_ready = conditions.is_true(version.status.conditions, READY)
    if not is_ready and operation.spec.operation != Operation.DEPROVISIONING:
        raise OperationFailed(
            f"{version.ref} is not Ready: stellwerk why cav/{version.metadata.name} -n {version.metadata.namespace}"
        )
    return jobs.JobContext(application=application, version=version, tenant=tenant, operation=operation)
