"""Brings subscriptions into the cluster: tenants, the Secrets with their payloads, and promises to registries.

Every write may be the last one before a crash. So a promise comes first and an owner reference last, names do not
change, and a write that finds its object already there goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from stellwerk.api.core import Secret
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Busy, NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import plan
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.payloads import Subscription
from stellwerk.operators.cap.tenant import subscription_objects

CREATED = "resource created successfully"
UPDATED = "resource updated successfully"
EXISTS = "resource exists"
_ATTEMPTS = 5
"""To write what others write at the same time."""

_log = logging.getLogger(__name__)


class CannotSubscribe(Exception):
    """A subscription cannot be made now. The message is for the registry."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Writes what subscriptions need. `client` passes no leader's fence where every replica serves."""

    client: Client
    directory: Directory

    # ---- tenants

    async def subscribe(
        self, application: CAPApplication, subscription: Subscription, payload: bytes, promised: Promise | None
    ) -> str:
        """Have a tenant for a subscription, and the promise about it. Returns the message.

        A promise stays where the subscription is refused after all: another request may count on it, and at its
        deadline its answer is true. Raises CannotSubscribe, ApiError.
        """
        namespace = application.metadata.namespace
        tenant = await self.tenant(application, subscription.tenant_id)
        _refuse_terminating(tenant)
        if tenant is not None and self._is_complete(tenant, subscription):
            message = EXISTS
        else:
            if promised is not None:
                await self.promise(promised, namespace)
            is_new = False
            if tenant is None:
                tenant, is_new = await self._created(application, subscription, payload)
            message = CREATED if is_new else await self._kept(tenant, application, subscription, payload)
        if promised is not None:
            # A former tenant may have gone meanwhile, and the promise may have been concluded as failed by that.
            await self.promise(promised, namespace)
        return message

    async def unsubscribe(self, tenant: CAPTenant) -> None:
        """Begin the end of a tenant. Raises ApiError."""
        metadata = tenant.metadata
        if not metadata.is_terminating:
            await self.client.delete(metadata_of(CAPTenant), metadata.name, metadata.namespace, uid=metadata.uid)
            _log.info("CAPTenant %s is deleted: its subscription has ended", tenant.key)

    async def tenant(self, application: CAPApplication, tenant_id: str) -> CAPTenant | None:
        """A subscriber of an application. The cache may be behind, and a second tenant would be a second database.

        Raises ApiError.
        """
        shown = self.directory.tenant(application, tenant_id)
        return shown if shown is not None else await self.live_tenant(application, tenant_id)

    async def live_tenant(self, application: CAPApplication, tenant_id: str) -> CAPTenant | None:
        """A subscriber of an application as the API server has it now. Raises ApiError."""
        labels = f"{names.TENANT_ID_LABEL}={tenant_id}"
        listed = await self.client.list(CAPTenant, application.metadata.namespace, labels=labels)
        return plan.oldest(each for each in listed.items if plan.is_tenant_of(each, application, tenant_id))

    async def live_subscribed(self, guid: str, tenant_id: str) -> list[CAPTenant]:
        """The tenants with the labels of a subscription as the API server has them now. Raises ApiError."""
        labels = f"{names.SUBSCRIPTION_GUID}={guid},{names.TENANT_ID_LABEL}={tenant_id}"
        listed = [
            tenant
            for namespace in self.directory.namespaces
            for tenant in (await self.client.list(CAPTenant, namespace, labels=labels)).items
        ]
        return [each for each in listed if each.spec.tenant_id == tenant_id]

    async def _created(
        self, application: CAPApplication, subscription: Subscription, payload: bytes
    ) -> tuple[CAPTenant, bool]:
        """A tenant, and whether it is new: another request may have been faster."""
        tenants = plan.tenant_names(application, subscription.tenant_id)
        context = await self._ensure_context(application, subscription, payload, tenants)
        for name in tenants:
            body = plan.tenant(application, subscription, name, context.metadata.name)
            made = await conditional.ensure(
                self.client,
                CAPTenant,
                body,
                lambda found: plan.is_tenant_of(found, application, subscription.tenant_id),
            )
            tenant = made.obj
            if isinstance(made, conditional.Taken):
                continue
            if not made.is_new:
                await self._drop_unused_context(tenant, context)
                _refuse_terminating(tenant)
                return tenant, False
            self.directory.tenants.expect(tenant.key, tenant.metadata.resource_version)
            await self.own_context(tenant, context)
            _log.info("CAPTenant %s is created for a subscription", tenant.key)
            return tenant, True
        raise CannotSubscribe("the names for this tenant are taken by others")

    async def _kept(
        self, tenant: CAPTenant, application: CAPApplication, subscription: Subscription, payload: bytes
    ) -> str:
        """Have a tenant that exists belong to this subscription."""
        if self._is_complete(tenant, subscription):
            return EXISTS
        metadata = tenant.metadata
        former = metadata.labels.get(names.SUBSCRIPTION_GUID)
        context = metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION, "")
        secret = await self._written_context(tenant, context, application, subscription, payload)
        patch = MergePatch(
            {
                "metadata": {
                    "uid": metadata.uid,
                    "labels": {names.SUBSCRIPTION_GUID: subscription.guid},
                    "annotations": {
                        names.SUBSCRIPTION_GUID: subscription.guid,
                        names.CONTEXT_SECRET_ANNOTATION: secret.metadata.name,
                    },
                }
            }
        )
        written = await self.client.patch(CAPTenant, metadata.name, metadata.namespace, patch)
        self.directory.tenants.expect(written.key, written.metadata.resource_version)
        await self.own_context(written, secret)
        return EXISTS if former == subscription.guid else UPDATED

    def _is_complete(self, tenant: CAPTenant, subscription: Subscription) -> bool:
        """Whether a tenant belongs to this subscription and owns its payload already, so that nothing is written."""
        labels, annotations = tenant.metadata.labels, tenant.metadata.annotations
        guids = labels.get(names.SUBSCRIPTION_GUID), annotations.get(names.SUBSCRIPTION_GUID)
        context = annotations.get(names.CONTEXT_SECRET_ANNOTATION, "")
        return guids == (subscription.guid, subscription.guid) and self._owns(tenant, context)

    # ---- the Secret with the payload

    async def _ensure_context(
        self, application: CAPApplication, subscription: Subscription, payload: bytes, tenants: Collection[str]
    ) -> HasMetadata:
        """A Secret with the payload. Raises CannotSubscribe, ApiError.

        The names can be foreseen: a Secret that is not of the tenant is left as it is, and the next name is tried.
        `tenants`: the names of the tenant, which may own the Secret already.
        """
        for attempt in range(plan.MOST_NAMES):
            made = await conditional.ensure(
                self.client,
                metadata_of(Secret),
                plan.context(application, subscription, payload, attempt),
                lambda found: subscription_objects.may_hold_payload(found, subscription.tenant_id, tenants),
            )
            if isinstance(made, conditional.Taken):
                continue
            if made.is_new:
                return made.obj
            written = await patched(self.client, made.obj, _payload(subscription, payload))
            if written is not None:
                return written
        raise CannotSubscribe("the names for the payload of this tenant are taken by others")

    async def _written_context(
        self, tenant: CAPTenant, context: str, application: CAPApplication, subscription: Subscription, payload: bytes
    ) -> HasMetadata:
        """Write the payload into the Secret of a tenant, and return it; a tenant without one gets one."""
        namespace = tenant.metadata.namespace
        secret = await self._named(namespace, context)
        if context and secret is None:
            _log.warning("Secret %s of CAPTenant %s is absent; it is created again", context, tenant.key)
        elif secret is not None and not subscription_objects.may_be_payload_of(tenant, secret):
            _log.warning("Secret %s is not the payload of CAPTenant %s, which gets another one", context, tenant.key)
        elif secret is not None:
            written = await patched(self.client, secret, _payload(subscription, payload))
            if written is not None:
                return written
        return await self._ensure_context(application, subscription, payload, (tenant.metadata.name,))

    async def own_context(self, tenant: CAPTenant, written: HasMetadata | None = None) -> None:
        """Have the Secret of a tenant go with it, if it is that of its payload. Raises ApiError.

        `written`: the Secret, where it was just written.
        """
        metadata = tenant.metadata
        name, namespace = metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION, ""), metadata.namespace
        if not name or metadata.is_terminating or self._owns(tenant, name):
            return
        secret = written or await self._named(namespace, name)
        if secret is None or not subscription_objects.may_be_payload_of(tenant, secret):
            return
        owned = await patched(self.client, secret, MergePatch(subscription_objects.owned_by(tenant, secret)))
        if owned is not None:
            self.directory.contexts.expect(owned.key, owned.metadata.resource_version)

    async def _named(self, namespace: str, name: str) -> HasMetadata | None:
        """The Secret that a tenant names: as the cache shows it, which has those with the label of a tenant only."""
        if not name:
            return None
        shown = self.directory.contexts.store.get(ObjectKey(namespace, name))
        return shown or await self.client.find(metadata_of(Secret), name, namespace)

    async def drop_context(self, namespace: str, tenant_id: str, guid: str) -> None:
        """Delete the payload of a subscription that has not become a tenant. Raises ApiError."""
        for secret in self.directory.contexts.store.all():
            labels = secret.metadata.labels
            is_meant = labels.get(names.TENANT_ID_LABEL) == tenant_id and labels.get(names.SUBSCRIPTION_GUID) == guid
            if is_meant and secret.metadata.namespace == namespace and not secret.metadata.owner_references:
                await self.delete(secret)

    async def _drop_unused_context(self, tenant: CAPTenant, context: HasMetadata) -> None:
        """Another request has made the tenant with a payload of its own: delete ours."""
        name = context.metadata.name
        if tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION) == name:
            return
        secret = await self.client.find(metadata_of(Secret), name, tenant.metadata.namespace)
        if secret is not None and not secret.metadata.owner_references:
            await self.delete(secret)

    async def delete(self, secret: HasMetadata) -> None:
        """Delete a Secret with a payload or a promise. Raises ApiError."""
        metadata = secret.metadata
        await self.client.delete(metadata_of(Secret), metadata.name, metadata.namespace, uid=metadata.uid)

    def _owns(self, tenant: CAPTenant, name: str) -> bool:
        shown = self.directory.contexts.store.get(ObjectKey(tenant.metadata.namespace, name)) if name else None
        return shown is not None and shown.metadata.is_controlled_by(tenant.metadata)

    # ---- promises

    async def promise(self, promised: Promise, namespace: str) -> None:
        """Store a promise, unless another request has stored one that covers this request. Raises ApiError.

        A registry that asks again waits for another answer, so a promise that does not cover the request begins again.
        The API server is asked, because the cache may show a promise that has ended meanwhile.
        """
        stored = promise.stored(promised, namespace)
        for attempts_left in reversed(range(_ATTEMPTS)):
            known = await self.client.find(PromiseSecret, promised.name, namespace)
            if known is not None and plan.is_covered(promised, known):
                return
            made = await self._put(known, stored)
            if not isinstance(made, NotAsSeen):
                self.directory.promises.expect(made.key, made.metadata.resource_version)
                return
            # It was written by another request, or by the controller of callbacks.
            if not attempts_left:
                raise Busy(made.refusal.status, made.refusal.attempted) from made.refusal

    async def _put(self, known: PromiseSecret | None, stored: JsonObject) -> PromiseSecret | NotAsSeen:
        """Store a promise in the place of a known one. Its registry waits: a busy API server is asked again at once."""
        try:
            if known is None:
                return await conditional.create_if_absent(self.client, PromiseSecret, stored)
            name, namespace, renewal = known.metadata.name, known.metadata.namespace, promise.renewed(known, stored)
            return await conditional.patch_if_unchanged(self.client, PromiseSecret, name, namespace, renewal)
        except (Busy, NotFound) as error:
            return NotAsSeen(error)


async def patched(
    client: Client, secret: HasMetadata, patch: MergePatch, *, if_unchanged: bool = False
) -> HasMetadata | None:
    """This very Secret with a change; None where it was deleted or replaced meanwhile. Raises ApiError.

    With `if_unchanged` None may mean that others have changed the Secret.
    """
    version = secret.metadata.resource_version

    def change(found: HasMetadata) -> MergePatch | None:
        return None if if_unchanged and found.metadata.resource_version != version else patch

    outcome = await conditional.change(client, metadata_of(Secret), secret, change, any_version=not if_unchanged)
    return outcome.obj if isinstance(outcome, conditional.Written) else None


def _refuse_terminating(tenant: CAPTenant | None) -> None:
    """Raises CannotSubscribe."""
    if tenant is not None and tenant.metadata.is_terminating:
        raise CannotSubscribe("the tenant is being deleted: subscribe again when it is gone")


def _payload(subscription: Subscription, payload: bytes) -> MergePatch:
    """The fields of a Secret with another payload."""
    labels, data = plan.context_labels(subscription), plan.context_data(payload)
    return MergePatch({"metadata": {"labels": labels}, "data": data})
