"""Keeps applications consistent: their provider's tenant, and the versions of all tenants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import msgspec

from stellwerk.api.core import Secret
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import REFUSED, UnreadableObject
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, metadata_of
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.application import inline_domains, plan, waves
from stellwerk.operators.cap.application.exposures import ServiceNetworking
from stellwerk.operators.cap.application.inline_domains import ConversionRefused, DomainConversion
from stellwerk.operators.cap.application.plan import ApplicationSnapshot, Decision, Write
from stellwerk.operators.cap.application.progress import ShownCounts
from stellwerk.operators.cap.application.refusals import Refusals, Tried
from stellwerk.operators.cap.hashed_objects import described
from stellwerk.operators.cap.kinds.application import ApplicationState, ApplicationStatus, CAPApplication
from stellwerk.operators.cap.kinds.status import condition, observed
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.reasons import ApplicationReason, VersionReason
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.tenant import subscription_objects
from stellwerk.operators.cap.tenant.plan import version_changed
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_FINALIZER, Caches
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity, SimpleReconciler

Answer: TypeAlias = Next[ApplicationStatus]

_NETWORKING = "ReconcileServiceNetworking"
"""The action of Events about the routes of service exposures."""


class ApplicationFailed(ReconcileError):
    """An application cannot be worked on now."""

    def __init__(self, message: str, reason: ApplicationReason) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class ApplicationMemo:
    """What is remembered of an application while it exists."""

    counts: ShownCounts = field(default_factory=ShownCounts)
    refusals: Refusals = field(default_factory=Refusals)
    exposures: ObservedState = field(default_factory=ObservedState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationReconciler(SimpleReconciler[CAPApplication, ApplicationStatus]):
    """Brings one application one step further."""

    client: Client
    caches: Caches
    clock: Clock
    networking: ServiceNetworking
    counts: CapMetrics
    recorder: EventSink | None = None
    """For Events on tenants and versions."""
    memos: Memos[ApplicationMemo] = field(default_factory=lambda: Memos(ApplicationMemo))

    async def reconcile(self, application: CAPApplication) -> Answer:
        """Observe, decide, act. Raises ApplicationFailed, ApiError."""
        seen = await self._snapshot(application)
        decision = plan.decide(seen, self.clock.now())
        restored_in: float | None = None
        if decision.exposes is not None:
            restored_in = await self._expose(application, decision.exposes)
        tried = Tried()
        if decision.write is not None:
            tried = await self._write(application, decision.write, decision.change)
        if decision.change:
            decision = self._with_refusals(seen, decision, tried)
        if decision.has_failed:
            self.counts.failed(application, is_bug=False)
        pause = min((each for each in (decision.again_seconds, restored_in) if each is not None), default=None)
        answer = Next(decision.status, 0.0 if decision.again else pause)
        answer = answer.without_event().with_events(*decision.notices)
        if decision.write is not None or answer.status is None:
            return answer
        counts = self.memos.of(application.key).counts
        left = counts.delay_seconds(application.status, answer.status, self.clock.monotonic())
        if not left:
            return answer
        delay = left if answer.delay_seconds is None else min(left, answer.delay_seconds)
        return replace(answer, status=None, delay_seconds=delay)

    def report(self, application: CAPApplication, failure: ReconcileError) -> ApplicationStatus:
        """The failure as state and message."""
        reason = ApplicationReason.RecoveredPanic
        if isinstance(failure, ApplicationFailed):
            reason = ApplicationReason(failure.reason)
        state = ApplicationState.DELETING if application.metadata.is_terminating else ApplicationState.ERROR
        ready = condition(application, False, reason, str(failure))
        status = observed(application, application.status, self.clock.now(), ready)
        return msgspec.structs.replace(status, state=state)

    async def _snapshot(self, application: CAPApplication) -> ApplicationSnapshot:
        caches, namespace = self.caches, application.metadata.namespace
        if application.metadata.is_terminating and (unseen := caches.unseen_tenants):
            raise ApplicationFailed(unseen, ApplicationReason.TenantsExist)
        missing, unknown = await caches.missing_secrets(application)
        held = await self._held_secrets(namespace)
        # From here on nothing is awaited: what is decided about tenants and Secrets is about those that are there now.
        tenants = caches.tenants.store.by(BY_APPLICATION, str(application.key))
        cache, references = caches.secrets(namespace), application.spec.served_refs
        secrets, provider = cache.store, subscription_objects.provider_tenant(application, tenants)
        if not cache.has_synced:
            provider = None  # what became of its Secret since the watch ended is not known

        def secret_named(name: str) -> HasMetadata | None:
            return secrets.get(ObjectKey(namespace, name))

        domains = {each: domain for each in references if (domain := caches.domain(namespace, each)) is not None}
        return ApplicationSnapshot(
            application=application,
            versions=caches.versions.store.by(BY_APPLICATION, str(application.key)),
            tenants=tenants,
            refused_tenants=self.memos.of(application.key).refusals.waiting(tenants, self.clock.monotonic()),
            hidden_tenants=caches.hidden_tenants(namespace),
            hidden_versions=caches.hidden_versions(application.key),
            domains=domains,
            offered_domains=caches.offered_domains(namespace) if len(domains) < len({*references}) else (),
            hidden_domains=[each for each in references if caches.is_hidden(namespace, each)],
            missing_secrets=missing,
            unknown_secrets=unknown,
            ending_secrets=caches.ending_secrets(application),
            held_secrets=held,
            conversion=inline_domains.conversion(
                application, caches.domains.store.all(), caches.cluster_domains.store.all()
            ),
            unowned_context=subscription_objects.unowned_context(provider, secret_named),
            lost_context=subscription_objects.lost_context(application, provider, secret_named),
        )

    async def _held_secrets(self, namespace: str) -> Sequence[PartialObjectMetadata]:
        """The Secrets with a finalizer of ours. An outdated cache shows it for ever, so the Secrets are read then."""
        cache, name = self.caches.secrets(namespace), names.APPLICATION_FINALIZER
        held = cache.store.by(BY_FINALIZER, name)
        if not cache.is_outdated:
            return held
        target = metadata_of(Secret)
        found = [await self.client.find(target, each.metadata.name, namespace) for each in held]
        return [each for each in found if each is not None and finalizer.present(each, name)]

    def _with_refusals(self, seen: ApplicationSnapshot, decision: Decision, tried: Tried) -> Decision:
        """The decision, with what was refused of the change that tenants need."""
        refusals = self.memos.of(seen.application.key).refusals
        refusals.keep(decision.change, decision.due)
        message = refusals.message()
        if not message:
            return decision
        delay = refusals.delay_seconds(self.clock.monotonic())
        return plan.with_refusals(seen, decision, message, self.clock.now(), tried, again_seconds=delay)

    async def _write(self, application: CAPApplication, write: Write, change: str) -> Tried:
        """Carry out a decision; of tenants it is the `change`."""
        refusals = self.memos.of(application.key).refusals
        match write:
            case plan.Prepare(lacking):
                await preparation.write(self.client, application, lacking)
            case plan.ReleaseSecrets(held):
                for secret in held:
                    await self._release_secret(secret)
            case plan.ConvertDomains(conversion):
                await self._convert(application, conversion)
            case plan.CreateProvider(version):
                try:
                    await self._create_provider(application, version)
                except REFUSED as error:  # a tenant id that cannot be a label, for example
                    raise ApplicationFailed(str(error), ApplicationReason.ProviderTenantError) from error
            case plan.OwnContext(tenant, secret):
                await self._own_context(tenant, secret)
            case plan.RestoreContext(secret):
                try:
                    await self._ensure_context(application, secret)  # if it is there, the cache is behind
                except REFUSED as error:
                    raise ApplicationFailed(str(error), ApplicationReason.ProviderTenantError) from error
            case plan.DeleteTenants(tenants):
                return await refusals.attempt(change, tenants, self._delete_tenant, self.clock)
            case plan.SetVersions(tenants, version):
                moves = partial(self._set_version, version=version)
                still_due = partial(self._still_due, application, version)
                return await refusals.attempt(change, tenants, moves, self.clock, still_due=still_due)
            case plan.Release():
                await finalizer.remove(self.client, application, names.APPLICATION_FINALIZER)
        return Tried()

    async def _delete_tenant(self, tenant: CAPTenant) -> None:
        await conditional.delete(self.client, metadata_of(CAPTenant), tenant)

    async def _release_secret(self, secret: PartialObjectMetadata) -> None:
        key, target = secret.key, metadata_of(Secret)
        written = await finalizer.remove_from(self.client, target, secret, names.APPLICATION_FINALIZER)
        if written is not None:
            self.caches.secrets(key.namespace).expect(key, written.metadata.resource_version)

    async def _convert(self, application: CAPApplication, conversion: DomainConversion) -> None:
        """Create the domains, then refer to them. Raises ApplicationFailed where that is refused."""
        try:
            referred = await inline_domains.create(self.client, conversion)
        except ConversionRefused as error:
            raise ApplicationFailed(str(error), ApplicationReason.ProcessingDomainReferences) from error
        metadata = application.metadata
        references = [msgspec.to_builtins(reference) for reference in referred]
        patch = MergePatch(
            {
                "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
                "spec": {"domains": None, "domainRefs": references},
            }
        )
        written = await self.client.patch(metadata_of(CAPApplication), metadata.name, metadata.namespace, patch)
        self.caches.applications.expect(application.key, written.metadata.resource_version)

    async def _expose(self, application: CAPApplication, version: CAPApplicationVersion) -> float | None:
        """Have the subdomains of the version's service exposures lead to its workloads.

        Returns in how many seconds routes may be restored that others change again and again, or None.
        """
        try:
            written = await self.networking.keep(application, version, self.memos.of(application.key).exposures)
        except Unroutable as error:
            self._send_unrouted(version, str(error))
            failed = ApplicationReason.ServiceVirtualServiceModificationFailed
            raise ApplicationFailed(str(error), failed) from error
        if written.is_changed:
            message = f"the subdomains of {version.ref} lead to its workloads"
            self._send(version, Notice(VersionReason.ServiceNetworkingModified, message, action=_NETWORKING))
            self.counts.routed(version, failed=False)
        if not written.throttled:
            return None
        self._send_unrouted(version, "; ".join(map(described, written.throttled)))
        return max(min(each.until for each in written.throttled) - self.clock.monotonic(), 0.0)

    def _send_unrouted(self, version: CAPApplicationVersion, why: str) -> None:
        reason = VersionReason.ServiceVirtualServiceModificationFailed
        self._send(version, Notice(reason, why, Severity.WARNING, _NETWORKING))
        self.counts.routed(version, failed=True)

    def _send(self, obj: CAPTenant | CAPApplicationVersion, notice: Notice) -> None:
        if self.recorder is not None:
            self.recorder.send(obj, notice)

    def _still_due(
        self, application: CAPApplication, version: str, tenants: Iterable[CAPTenant]
    ) -> Iterator[CAPTenant]:
        """Those of the tenants that are to follow still when their turn comes.

        What ends this early, or leaves a tenant out, is a change that has woken the application.
        """
        caches, key = self.caches, application.key
        for tenant in tenants:
            versions = caches.versions.store.by(BY_APPLICATION, str(key))
            if not waves.is_still_chosen(application, caches.applications.store.get(key), versions, version):
                return
            if waves.still_follows(tenant, caches.tenants.store.get(tenant.key)):
                yield tenant

    async def _set_version(self, tenant: CAPTenant, version: str) -> None:
        key = tenant.key
        moved = MergePatch({"spec": {"version": version}})
        outcome = await conditional.change(
            self.client, metadata_of(CAPTenant), tenant, lambda _: moved, any_version=True
        )
        if isinstance(outcome, conditional.Written):
            self.caches.tenants.expect(key, outcome.obj.metadata.resource_version)
            self._send(tenant, version_changed(tenant, version))

    async def _create_provider(self, application: CAPApplication, version: CAPApplicationVersion) -> None:
        """Create Secret and tenant under names that do not change, so that a crash between the two loses nothing."""
        secret, wanted = subscription_objects.of_provider(application, version.spec.version)
        context = await self._ensure_context(application, secret)
        try:
            made = await conditional.ensure(
                self.client, CAPTenant, wanted.body, lambda tenant: tenant.application_key == application.key
            )
        except UnreadableObject as error:
            raise ApplicationFailed(str(error), ApplicationReason.ProviderTenantError) from error
        tenant, key = made.obj, wanted.key
        if isinstance(made, conditional.Taken):
            raise ApplicationFailed(
                f"{tenant.ref} has the name of the provider tenant and belongs to CAPApplication "
                f"{tenant.application_key}; it stays as it is (see it: kubectl get cat {key.name} -n {key.namespace})",
                ApplicationReason.ProviderTenantError,
            )
        self.caches.tenants.expect(tenant.key, tenant.metadata.resource_version)
        await self._own_context(tenant, context)

    async def _ensure_context(self, application: CAPApplication, wanted: Desired) -> HasMetadata:
        """The Secret with the payload of the provider. Raises ApplicationFailed where another Secret has its name."""
        made = await conditional.ensure(
            self.client,
            metadata_of(Secret),
            wanted.body,
            lambda found: not subscription_objects.taken_name(application, found),
        )
        if isinstance(made, conditional.Taken):
            why = subscription_objects.taken_name(application, made.obj)
            raise ApplicationFailed(why, ApplicationReason.ProviderTenantError)
        # One that was created before a crash has the same content.
        self.caches.secrets(made.obj.key.namespace).expect(made.obj.key, made.obj.metadata.resource_version)
        return made.obj

    async def _own_context(self, tenant: CAPTenant, secret: HasMetadata) -> None:
        outcome = await conditional.change(
            self.client,
            metadata_of(Secret),
            secret,
            lambda found: MergePatch(subscription_objects.owned_by(tenant, found)),
            any_version=True,
        )
        if isinstance(outcome, conditional.Written):
            written = outcome.obj
            self.caches.secrets(written.key.namespace).expect(written.key, written.metadata.resource_version)
