"""What the server sees of the cluster: its caches, and how things are found in them.

Of Secrets, the metadata of those with the payload of a subscription, and the promises that are the server's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from stellwerk.api.core import Secret
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import plan
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret, PromiseUnreadable
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.process.manager import Manager

_BY_IDENTITY = "identity"
"""Index of applications: name in BTP."""
_BY_TENANT_ID = "tenant id"
"""Index of tenants and promises: namespace and tenant id."""
_BY_GUID = "guid"
"""Index of tenants and promises: the id of the subscription."""
_BY_STATE = "state"
"""Index of promises."""
_BY_NAMESPACE = "namespace"
"""Index of promises that are pending."""
_GIVEN_UP = "given up"
"""Index of promises that were given up: `_ANY`, and the application that is named."""
_ANY = "*"
_MOST_COMPARED = 200
"""Promises of one subscriber: any user of the namespace may write more."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The caches of one process."""

    applications: Informer[CAPApplication]
    tenants: Informer[CAPTenant]
    domains: Informer[Domain]
    cluster_domains: Informer[ClusterDomain]
    promises: Informer[PromiseSecret]
    contexts: Informer[PartialObjectMetadata]
    """The Secrets with the payloads of subscriptions, as metadata."""
    namespaces: Sequence[str] = ("",)
    """Where the API server is asked for objects of all namespaces: there, or in each to which the process is limited.
    """

    @classmethod
    def opened(cls, manager: Manager) -> Directory:
        """Open the caches and their indices."""
        found = cls(
            manager.informer(CAPApplication, required=True),
            manager.informer(CAPTenant, required=True),
            manager.informer(Domain, required=True),
            manager.informer(ClusterDomain, required=True),
            manager.informer(PromiseSecret, labels=names.CALLBACK_LABEL, required=True),
            manager.informer(
                metadata_of(Secret), labels=f"{names.TENANT_ID_LABEL},!{names.CALLBACK_LABEL}", required=True
            ),
            manager.home.namespaces or ("",),
        )
        found.applications.store.add_index(_BY_IDENTITY, lambda each: (each.spec.btp_app_name,))
        found.tenants.store.add_index(_BY_TENANT_ID, _tenant_ids)
        found.tenants.store.add_index(_BY_GUID, _guid)
        found.promises.store.add_index(_BY_TENANT_ID, _tenant_ids)
        found.promises.store.add_index(_BY_GUID, _guid)
        found.promises.store.add_index(_BY_STATE, lambda each: (each.state,))
        found.promises.store.add_index(_BY_NAMESPACE, _pending_namespace)
        found.promises.store.add_index(_GIVEN_UP, _given_up)
        return found

    @property
    def is_filled(self) -> bool:
        """Whether all caches have been filled."""
        caches: Sequence[Informer[Any]] = (
            self.applications,
            self.tenants,
            self.domains,
            self.cluster_domains,
            self.promises,
            self.contexts,
        )
        return all(cache.has_synced for cache in caches)

    def named(self, provider: str, app_name: str, global_account: str = "") -> list[CAPApplication]:
        """The applications that a request may mean."""
        return plan.named(self.applications.store.by(_BY_IDENTITY, app_name), provider, app_name, global_account)

    def rivals(self, application: CAPApplication) -> list[CAPApplication]:
        """The applications of other namespaces that a request for this one may mean as well."""
        return plan.rivals(application, self.applications.store.by(_BY_IDENTITY, application.spec.btp_app_name))

    def hidden(self, provider: str, app_name: str, global_account: str = "") -> list[ObjectKey]:
        """The applications that cannot be decoded and may be the one that a request names."""
        unreadable = self.applications.unreadable
        return [
            key
            for key in self.applications.hidden
            if plan.may_be_named(unreadable[key].metadata.labels, provider, app_name, global_account)
        ]

    def all_domains(self) -> list[AnyDomain]:
        """The domains of all namespaces and of the cluster."""
        return [*self.domains.store.all(), *self.cluster_domains.store.all()]

    def application_of(self, tenant: CAPTenant) -> CAPApplication | None:
        """The application of a tenant."""
        return self.applications.store.get(tenant.application_key)

    def tenant(self, application: CAPApplication, tenant_id: str) -> CAPTenant | None:
        """A subscriber of an application."""
        tenants = self.tenants.store.by(_BY_TENANT_ID, f"{application.metadata.namespace}/{tenant_id}")
        return plan.oldest(each for each in tenants if plan.is_tenant_of(each, application, tenant_id))

    def subscribed(self, guid: str, tenant_id: str) -> list[CAPTenant]:
        """The tenants with the labels of a subscription, in all namespaces: any client may have written them."""
        return [each for each in self.tenants.store.by(_BY_GUID, guid) if each.spec.tenant_id == tenant_id]

    def promises_of(self, obj: CAPTenant | PromiseSecret) -> list[ObjectKey]:
        """The promises about a tenant, or about the same subscriber."""
        promises = self.promises.store
        return sorted({each.key for value in _tenant_ids(obj) for each in promises.by(_BY_TENANT_ID, value)}, key=str)

    def pending_in(self, namespace: str) -> list[ObjectKey]:
        """The promises in the namespace of an application that wait for an operation, or are to be delivered."""
        return [each.key for each in self.promises.store.by(_BY_NAMESPACE, namespace)]

    def ends_of(self, guid: str, namespace: str) -> list[Promise]:
        """The ends of a subscription that its registry has asked for within the last day, or that it does not know of.

        Only promises in the namespace of the application count: any user may write a Secret into another one.
        """
        found = []
        for secret in self.promises.store.by(_BY_GUID, guid):
            if secret.metadata.namespace == namespace:
                with contextlib.suppress(PromiseUnreadable):
                    found.append(promise.read(secret))
        return [each for each in found if each.operation == "deprovisioning"]

    @property
    def pending(self) -> int:
        """How many callbacks registries wait for."""
        return len(self.promises.store.by(_BY_STATE, promise.PENDING))

    @property
    def given_up(self) -> int:
        """How many results registries do not know and are not acknowledged; promises that cannot be read included."""
        return len(self.promises.store.by(_GIVEN_UP, _ANY))

    def given_up_of(self, application: ObjectKey) -> Sequence[PromiseSecret]:
        """Those of an application, in no order."""
        return self.promises.store.by(_GIVEN_UP, str(application))

    def of_subscriber(self, secret: PromiseSecret) -> Iterator[tuple[PromiseSecret, Promise]]:
        """The promises about the same subscriber that can be read, itself included."""
        for value in _tenant_ids(secret):
            for each in islice(self.promises.store.by(_BY_TENANT_ID, value), _MOST_COMPARED):
                with contextlib.suppress(PromiseUnreadable):
                    yield each, promise.read(each)


def _tenant_ids(obj: CAPTenant | PromiseSecret) -> tuple[str, ...]:
    ids = {obj.metadata.labels.get(names.TENANT_ID_LABEL, "")}
    if isinstance(obj, CAPTenant):
        ids.add(obj.spec.tenant_id)
    return tuple(f"{obj.metadata.namespace}/{each}" for each in sorted(ids - {""}))


def _pending_namespace(secret: PromiseSecret) -> tuple[str, ...]:
    return (secret.metadata.namespace,) if secret.state == promise.PENDING else ()


def _given_up(secret: PromiseSecret) -> tuple[str, ...]:
    try:
        shown_by = promise.shown_by(secret)
    except PromiseUnreadable:
        return (_ANY,) if secret.state in (promise.PENDING, promise.FAILED) else ()
    return (_ANY, str(shown_by)) if shown_by is not None else ()


def _guid(obj: CAPTenant | PromiseSecret) -> tuple[str, ...]:
    return (obj.metadata.labels.get(names.SUBSCRIPTION_GUID, ""),)
