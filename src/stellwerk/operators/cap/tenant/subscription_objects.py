"""What belongs to subscriptions that no registry has sent: the provider's own, and those of the command line (pure).

The names of the provider's objects follow from the application, so that a crash between the two loses nothing. The
Secret is created first, because the Jobs of the tenant refer to it; the tenant owns it afterwards (`owned_by`), so that
it is deleted with the tenant. Objects of subscribers are made in `subscription.plan`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable

import msgspec

from stellwerk.api.core import Secret
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, Provider
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.names import go_json


def of_provider(application: CAPApplication, version: str) -> tuple[Desired, Desired]:
    """The Secret and the tenant of the application's own provider, which begins with `version`."""
    provider, namespace = application.spec.provider, application.metadata.namespace
    assert provider is not None
    tenant_id = provider.tenant_id
    name, context = names.provider_name(application), names.provider_context_name(application)
    labels: JsonObject = {
        names.TENANT_TYPE_LABEL: names.PROVIDER,
        names.TENANT_ID_LABEL: tenant_id,
        **names.application_labels(application.spec),
    }
    metadata: JsonObject = {"labels": labels, "annotations": {names.CONTEXT_SECRET_ANNOTATION: context}}
    spec: JsonObject = {
        "capApplicationInstance": application.metadata.name,
        "subDomain": provider.sub_domain,
        "tenantId": tenant_id,
        "version": version,
    }
    tenant = Desired.named(CAPTenant.resource, ObjectKey(namespace, name), metadata, spec=spec)
    return _context(application, provider), tenant


def _context(application: CAPApplication, provider: Provider, metadata: JsonObject | None = None) -> Desired:
    """The Secret with the payload of the provider, with further `metadata`."""
    tenant_id = provider.tenant_id
    return Desired.named(
        Secret.resource,
        ObjectKey(application.metadata.namespace, names.provider_context_name(application)),
        {"labels": {names.TENANT_ID_LABEL: tenant_id}, **(metadata or {})},
        data=secret_data(payload(application, tenant_id=tenant_id, subdomain=provider.sub_domain)),
    )


def payload(application: CAPApplication, *, tenant_id: str, subdomain: str, guid: str = "") -> str:
    """The payload of a subscription that no registry has sent, with the keys of the SaaS registry, as JSON.

    With `guid` it is that of a subscriber, whose subaccount is taken to have the id of the tenant, as BTP assigns it.
    """
    spec = application.spec
    account = spec.global_account_id or application.metadata.annotations.get(names.GLOBAL_ACCOUNT_ANNOTATION, "")
    values: JsonObject = {
        "subscriptionAppName": spec.btp_app_name,
        "subscribedTenantId": tenant_id,
        "subscribedSubaccountId": tenant_id if guid else spec.provider_subaccount_id,
        "subscribedSubdomain": subdomain,
        "globalAccountGUID": account,
    }
    if guid:
        values |= {"subscriptionGUID": guid, "providerSubaccountId": spec.provider_subaccount_id}
    return go_json(values)


def secret_data(payload: str) -> JsonObject:
    """The field `data` of the Secret with a payload."""
    return {names.CONTEXT_KEY: base64.b64encode(payload.encode()).decode()}


def owned_by(tenant: CAPTenant, secret: HasMetadata | None) -> JsonObject:
    """The patch by which the tenant owns the Secret with its payload.

    What a tenant owns is deleted with it, so this is about the very Secret that was looked at; None only where it was
    created a moment ago and is not known otherwise.
    """
    itself: JsonObject = {"uid": secret.metadata.uid} if secret is not None else {}
    return {"metadata": {**itself, "ownerReferences": [msgspec.to_builtins(owner_reference(tenant))]}}


def provider_tenant(application: CAPApplication, tenants: Iterable[CAPTenant]) -> CAPTenant | None:
    """The tenant of the provider, among those of the application."""
    return next((tenant for tenant in tenants if tenant.metadata.name == names.provider_name(application)), None)


def unowned_context(tenant: CAPTenant | None, find: Callable[[str], HasMetadata | None]) -> HasMetadata | None:
    """The Secret that the tenant of a provider names and is still to own; None where there is none."""
    name = tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION, "") if tenant is not None else ""
    secret = find(name) if name else None
    if tenant is None or secret is None or secret.metadata.owner_references:
        return None
    return secret if may_be_payload_of(tenant, secret) else None


def lost_context(
    application: CAPApplication, tenant: CAPTenant | None, find: Callable[[str], HasMetadata | None]
) -> Desired | None:
    """The Secret to create again, because the tenant of the provider cannot be provisioned without it; None where none.

    A new tenant gets the Secret of the former one where that is still there, and the garbage collector may delete it
    even then.
    """
    provider, context = application.spec.provider, names.provider_context_name(application)
    if tenant is None or tenant.metadata.is_terminating or tenant.status.current_version:
        return None
    if tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION) != context or find(context) is not None:
        return None
    if provider is None or provider.tenant_id != tenant.spec.tenant_id:
        return None
    return _context(application, provider, {"ownerReferences": [msgspec.to_builtins(owner_reference(tenant))]})


def may_be_payload_of(tenant: CAPTenant, secret: HasMetadata) -> bool:
    """Whether a Secret that a tenant names may be written, and owned by it: it has the label, and no other owner.

    Any client that may annotate a tenant can name any Secret there, and what a tenant owns is deleted with it. A former
    tenant of this name is no other owner: with its next subscription, it would take the payload along.
    """
    return may_hold_payload(secret, tenant.spec.tenant_id, (tenant.metadata.name,))


def may_hold_payload(secret: HasMetadata, tenant_id: str, tenants: Collection[str]) -> bool:
    """`may_be_payload_of`, for a tenant that may not exist yet. `tenants`: the names that it may have."""
    metadata, resource = secret.metadata, CAPTenant.resource
    return (
        metadata.labels.get(names.TENANT_ID_LABEL) == tenant_id
        and names.CALLBACK_LABEL not in metadata.labels
        and all(
            (owner.api_version, owner.kind) == (resource.api_version, resource.kind) and owner.name in tenants
            for owner in metadata.owner_references
        )
    )


def taken_name(application: CAPApplication, secret: HasMetadata) -> str:
    """Why a Secret with the name of the payload of the provider is not used; empty where it is one."""
    provider, key = application.spec.provider, secret.metadata
    if provider is not None and may_hold_payload(secret, provider.tenant_id, (names.provider_name(application),)):
        return ""
    return (
        f"Secret {key.name} has the name of the payload of the provider tenant and is not one; it stays as it is "
        f"(rename or delete it: kubectl delete secret {key.name} -n {key.namespace})"
    )
