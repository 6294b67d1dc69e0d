"""Tenants that stand for the same data: one tenant id of one provider in one namespace (pure).

The Jobs of all of them act on the same data, so only one of them runs Jobs: the oldest. The others show whose data it
is. A tenant whose id has changed counts as the youngest, because the data of its new id was another's. Tenants of other
namespaces do not count: any user can write the names of a provider into an application, and must not block a tenant of
another namespace by that. One that cannot be read may have the same data: while an older one may, and while this tenant
is deleted, no Job of it is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant

FindApplication: TypeAlias = Callable[[ObjectKey], CAPApplication | None]
"""Returns the application of this key."""

BY_SPEC_ID = "tenant id of the spec"
"""Index of tenants: namespace and tenant id."""


def of_tenant(
    tenant: CAPTenant, candidates: Iterable[CAPTenant], find_application: FindApplication
) -> Sequence[CAPTenant]:
    """The other tenants that stand for the same data. `candidates`: those of the namespace with the tenant id."""
    return [each for each in candidates if each.key != tenant.key and _have_same_data(tenant, each, find_application)]


def oldest(tenant: CAPTenant, duplicates: Iterable[CAPTenant]) -> CAPTenant:
    """The tenant that the data belongs to: this one, or one of its duplicates."""
    return min((tenant, *duplicates), key=_age)


def heir(tenant: CAPTenant, duplicates: Iterable[CAPTenant]) -> CAPTenant | None:
    """The duplicate that goes on to use the data after this tenant is deleted; None where there is none."""
    heirs = [each for each in duplicates if each.status.current_version and not each.metadata.is_terminating]
    return min(heirs, key=_age, default=None)


def hidden_from(
    tenant: CAPTenant, unreadable: Iterable[Unreadable], find_application: FindApplication
) -> Sequence[ObjectMeta]:
    """The other tenants that cannot be read and may stand for the same data: their labels do not exclude it."""
    provider, id = _provider(tenant, find_application), tenant.spec.tenant_id
    return [
        metadata
        for metadata in (each.metadata for each in unreadable)
        if metadata.namespace == tenant.metadata.namespace
        and metadata.name != tenant.metadata.name
        and metadata.labels.get(names.TENANT_ID_LABEL, id) == id
        and all(metadata.labels.get(label, value) == value for label, value in provider.items())
    ]


def is_older(hidden: ObjectMeta, tenant: CAPTenant) -> bool:
    """Whether a tenant that cannot be read has the data, if it is that of this one."""
    return (False, *_creation(hidden)) < _age(tenant)


def by_tenant_id(tenant: CAPTenant) -> Sequence[str]:
    """The keys of a tenant in the index of tenant ids."""
    return (f"{tenant.metadata.namespace}/{tenant.spec.tenant_id}",)


def _have_same_data(tenant: CAPTenant, other: CAPTenant, find_application: FindApplication) -> bool:
    if other.metadata.namespace != tenant.metadata.namespace or other.spec.tenant_id != tenant.spec.tenant_id:
        return False
    if other.application_key == tenant.application_key:
        return True
    provider = _provider(tenant, find_application)
    return bool(provider) and provider == _provider(other, find_application)


def _provider(tenant: CAPTenant, find_application: FindApplication) -> dict[str, str]:
    """The label of provider and application; of a tenant without its application, the one that it has."""
    application = find_application(tenant.application_key)
    if application is not None:
        return names.application_labels(application.spec)
    labels = tenant.metadata.labels
    known = (names.APP_HASH_LABEL, names.LEGACY_APP_HASH_LABEL)
    return next(({name: labels[name]} for name in known if name in labels), {})


def _age(tenant: CAPTenant) -> tuple[bool, str, str]:
    metadata, id = tenant.metadata, tenant.spec.tenant_id
    has_changed = metadata.labels.get(names.TENANT_ID_LABEL, id) != id
    return has_changed, *_creation(metadata)


def _creation(metadata: ObjectMeta) -> tuple[str, str]:
    return str(metadata.creation_timestamp or ""), f"{metadata.namespace}/{metadata.name}"
