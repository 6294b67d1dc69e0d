"""The passes over promises: wait for the end of an operation, store the answer, deliver it.

Everything is decided from what the cluster has now: a pass after a restart is like any other. A pass is woken by the
tenant, by the promise itself, and by an application that was not known before. A promise that was given up is kept
until a person acknowledges it, or a later answer about the tenant has been delivered: the pass of whichever comes last
sees both. Only the leader passes over promises;
and an answer is stored on condition that the promise is as it was read, so a former leader can never store a second
one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput, Operation
from stellwerk.operators.cap.subscription import plan, registries
from stellwerk.operators.cap.subscription.callbacks import answer, metrics, promise, report
from stellwerk.operators.cap.subscription.callbacks.metrics import CallbackMetrics
from stellwerk.operators.cap.subscription.callbacks.outputs import OutputReader
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret, PromiseUnreadable
from stellwerk.operators.cap.subscription.callbacks.registry import Attempt, Delivery, RegistryClient, is_usable
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.operators.cap.subscription.subscriptions import Subscriptions, patched
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Next, Notice, Severity, SimpleReconciler
from stellwerk.runtime.supervision.backoff import Backoff

ACTION = "SubscriptionCallback"
"""The action of Events about callbacks."""
_BACKOFF = Backoff(first_seconds=2.0, limit_seconds=120.0, jitter=0.2)

_log = logging.getLogger(__name__)


class NoStatus(Record, frozen=True, kw_only=True):
    """A Secret has no status."""


class CallbackReason(StrEnum):
    """The reasons of Events about callbacks."""

    CALLBACK_DELIVERED = "SubscriptionCallbackDelivered"
    CALLBACK_FAILED = "SubscriptionCallbackFailed"
    CALLBACK_RETRIED = "SubscriptionCallbackRetried"
    OUTPUT_UNREADABLE = "SubscriptionOutputUnreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackReconciler(SimpleReconciler[PromiseSecret, NoStatus]):
    """Brings one promise one step further."""

    client: Client
    services: ServiceReader
    outputs: OutputReader
    directory: Directory
    subscriptions: Subscriptions
    registry: RegistryClient
    clock: Clock
    counts: CallbackMetrics
    recorder: EventSink | None = None

    async def reconcile(self, secret: PromiseSecret) -> Next[NoStatus]:
        """Observe, decide, act. Raises ApiError."""
        try:
            found = promise.read(secret)
        except PromiseUnreadable as error:
            _log.warning("%s: it is ignored; delete it", error)
            return Next.done()
        if secret.state != promise.PENDING:
            return await self._ended(secret, found)
        if not found.body:
            return await self._conclude(secret, found)
        return await self._deliver(secret, found)

    # ---- the answer

    async def _conclude(self, secret: PromiseSecret, found: Promise) -> Next[NoStatus]:
        tenant = self._tenant(secret, found)
        if tenant is not None:
            await self.subscriptions.own_context(tenant)
        now = self.clock.now()
        ends = self.directory.ends_of(found.guid, secret.metadata.namespace)
        is_over = any(each.tenant_id == found.tenant_id and each.accepted >= found.accepted for each in ends)
        succeeded = promise.judge(found, tenant, now, is_over=is_over)
        if succeeded is not None:
            # The cache may be behind, and the answer is final: so the API server is asked.
            tenant = await self._live(secret, found)
            succeeded = promise.judge(found, tenant, now, is_over=is_over)
        if succeeded is None:
            return Next.after((found.deadline - now).total_seconds())
        if tenant is None and found.operation is Operation.PROVISIONING:
            await self.subscriptions.drop_context(secret.metadata.namespace, found.tenant_id, found.guid)
        body = await self._body(secret, found, tenant, succeeded=succeeded)
        concluded = msgspec.structs.replace(found, body=body, concluded=now)
        return Next.now() if await self._store(secret, concluded) else Next.done()

    async def _body(self, secret: PromiseSecret, found: Promise, tenant: CAPTenant | None, *, succeeded: bool) -> str:
        if found.operation is not Operation.PROVISIONING:
            return answer.body(found, succeeded=succeeded)
        application = self._application(secret, found)
        outputs: Sequence[CAPTenantOutput] = ()
        problem = ""
        if tenant is not None:
            outputs, problem = await self.outputs.read(secret.metadata.namespace, found.tenant_id)
        output = answer.additional_output(application, outputs)
        if problem := problem or output.problem:
            self._announce(secret, found, CallbackReason.OUTPUT_UNREADABLE, problem, Severity.WARNING)
        domain = found.domain
        if not domain and application is not None:
            # What was chosen was checked when the request came.
            domain = plan.first_domain(application, self.directory.all_domains())
        return answer.body(found, succeeded=succeeded, output=output.content, domain=domain)

    # ---- its delivery

    async def _deliver(self, secret: PromiseSecret, found: Promise) -> Next[NoStatus]:
        now = self.clock.now()
        if found.not_before is not None and now < found.not_before:
            return Next.after((found.not_before - now).total_seconds())
        attempt = await self._attempt(secret, found) if found.path else Attempt(Delivery.DELIVERED)
        tried = msgspec.structs.replace(
            found, attempts=found.attempts + bool(found.path), problem=attempt.problem, ended=self.clock.now()
        )
        match attempt.delivery:
            case Delivery.DELIVERED:
                return await self._end(secret, tried, promise.DELIVERED, metrics.DELIVERED)
            case Delivery.REFUSED:
                return await self._end(secret, tried, promise.FAILED, metrics.REFUSED)
            case _ if self.clock.now() >= found.gives_up:
                return await self._end(secret, tried, promise.FAILED, metrics.GIVEN_UP)
        self.counts.failed(found.operation)
        seconds = _BACKOFF.delay_seconds(tried.attempts, random.random())
        text = f"{_title(found)} is not delivered yet ({attempt.problem}); it is tried again"
        self._announce(secret, found, CallbackReason.CALLBACK_RETRIED, text, Severity.WARNING)
        await self._store(
            secret, msgspec.structs.replace(tried, not_before=self.clock.now() + timedelta(seconds=seconds))
        )
        return Next.after(seconds)

    async def _attempt(self, secret: PromiseSecret, found: Promise) -> Attempt:
        """Use the first binding with credentials for a server. Of these, no more is kept than the callback needs."""
        namespace = secret.metadata.namespace
        services = registries.services_for_callback(
            self._application(secret, found), found.protocol, found.service, found.secret
        )
        problems: list[str] = []
        for service in services:
            key = ObjectKey(namespace, service.secret)
            try:
                credentials = await self.services.read(service, namespace, registries.texts_for_callbacks)
            except ValueError as error:
                problems.append(str(error))
                continue
            if credentials is None:
                problems.append(f"Secret {key} does not exist")
            elif not is_usable(registries.registry_url(found.protocol, credentials)):
                problems.append(f"Secret {key} has no usable URL of the registry")
            else:
                secrecy.note(f"secret {key}", partial(map, str, credentials.values()))
                is_promised = service.name == found.service or service.secret == found.secret
                return await self.registry.deliver(
                    found.protocol, credentials, found.path, found.body, is_promised=is_promised
                )
        return Attempt(Delivery.AGAIN, problems[0])

    async def _end(self, secret: PromiseSecret, tried: Promise, state: str, result: str) -> Next[NoStatus]:
        if not await self._store(secret, msgspec.structs.replace(tried, not_before=None), state):
            return Next.done()
        self.counts.ended(tried.operation, result)
        if state == promise.FAILED:
            text = f"{_title(tried)} was {result} after {tried.attempts} attempts: {tried.problem}"
            self._announce(secret, tried, CallbackReason.CALLBACK_FAILED, text, Severity.WARNING)
        elif tried.path:
            text = f"{_title(tried)} was delivered"
            self._announce(secret, tried, CallbackReason.CALLBACK_DELIVERED, text, Severity.NORMAL)
        return Next.after(promise.KEPT.total_seconds())

    # ---- after its end

    async def _ended(self, secret: PromiseSecret, found: Promise) -> Next[NoStatus]:
        await self._acknowledge(secret)
        if secret.state != promise.FAILED:
            return await self._clear(secret, found)
        application = self._application(secret, found)
        if application is not None and names.OWNER_HASH_LABEL not in secret.metadata.labels:
            await self._store(secret, found, promise.FAILED)
            return Next.done()
        key = ObjectKey(secret.metadata.namespace, found.application)
        is_there = application is not None or key in self.directory.applications.unreadable
        if is_there and not report.is_outnumbered(secret, self.directory.given_up_of(key)):
            return Next.after(promise.KEPT.total_seconds())
        return await self._clear(secret, found)

    async def _acknowledge(self, secret: PromiseSecret) -> None:
        """A later answer makes known to the registry what was given up before."""
        if secret.state not in (promise.FAILED, promise.DELIVERED):
            return
        listed = [*self.directory.of_subscriber(secret)]
        delivered = [found for each, found in listed if each.state == promise.DELIVERED]
        for each, found in listed:
            if each.state == promise.FAILED and promise.is_known(found, delivered):
                await self._store(each, found, promise.ACKNOWLEDGED)

    # ---- what the cluster has

    async def _store(self, secret: PromiseSecret, changed: Promise, state: str = promise.PENDING) -> bool:
        """Write a promise that no other client has changed. Whether it was written; else its change wakes it."""
        labels: JsonObject = {names.CALLBACK_LABEL: state}
        metadata: JsonObject = {"labels": labels}
        if state == promise.FAILED:
            changed = promise.remains(changed)
            if (application := self._application(secret, changed)) is not None:
                labels[names.OWNER_HASH_LABEL] = names.owner_hash(application.key)
                metadata["ownerReferences"] = [promise.owner_of(changed, application, self._tenant(secret, changed))]
        patch = MergePatch({"metadata": metadata, "data": promise.data_of(changed)})
        written = await patched(self.client, secret, patch, if_unchanged=True)
        if written is None:
            return False
        self.directory.promises.expect(secret.key, written.metadata.resource_version)
        return True

    async def _clear(self, secret: PromiseSecret, found: Promise) -> Next[NoStatus]:
        """Delete a promise a day after its end."""
        left = (found.concluded or found.accepted) + promise.KEPT - self.clock.now()
        if left.total_seconds() > 0:
            return Next.after(left.total_seconds())
        await self.subscriptions.delete(secret)
        return Next.done()

    def _application(self, secret: PromiseSecret, found: Promise) -> CAPApplication | None:
        return self.directory.applications.store.get(ObjectKey(secret.metadata.namespace, found.application))

    def _tenant(self, secret: PromiseSecret, found: Promise) -> CAPTenant | None:
        if found.operation is Operation.DEPROVISIONING:
            return self.directory.tenants.store.get(ObjectKey(secret.metadata.namespace, found.tenant))
        application = self._application(secret, found)
        return self.directory.tenant(application, found.tenant_id) if application is not None else None

    async def _live(self, secret: PromiseSecret, found: Promise) -> CAPTenant | None:
        if found.operation is Operation.DEPROVISIONING:
            return await self.client.find(CAPTenant, found.tenant, secret.metadata.namespace)
        application = self._application(secret, found)
        return await self.subscriptions.live_tenant(application, found.tenant_id) if application is not None else None

    def _announce(self, secret: PromiseSecret, found: Promise, reason: str, text: str, severity: Severity) -> None:
        """An Event on the tenant; on the application where the tenant is gone."""
        about = self._tenant(secret, found) or self._application(secret, found)
        _log.log(logging.WARNING if severity is Severity.WARNING else logging.INFO, "%s: %s", secret.key, text)
        if self.recorder is not None and about is not None:
            self.recorder.send(about, Notice(reason, text, severity, ACTION))


def _title(found: Promise) -> str:
    return f"the result of {found.operation} for tenant id {found.tenant_id}"
