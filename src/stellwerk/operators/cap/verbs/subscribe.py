"""A tenant for a subscriber: the objects that the subscription server would create."""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

import msgspec

from stellwerk.api.core import Secret
from stellwerk.delivery.verb_plans import Change, Creation, VerbPlan, VerbRefused, VerbRequest
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, Unstructured, metadata_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import payloads
from stellwerk.operators.cap.subscription import plan as subscription_plan
from stellwerk.operators.cap.subscription.payloads import PayloadInvalid, Subscription
from stellwerk.operators.cap.tenant import subscription_objects
from stellwerk.operators.cap.verbs import ends
from stellwerk.operators.cap.verbs.declared import APP, SUBDOMAIN, TENANT_ID


async def plan(request: VerbRequest) -> VerbPlan:
    """Decide what to create. Raises VerbRefused, ApiError."""
    application = lenient.convert(request.only(APP).body, CAPApplication)
    tenant_id, subdomain = request.texts[TENANT_ID], request.texts[SUBDOMAIN]
    _check(application, tenant_id, subdomain)
    listed = await request.client.list(CAPTenant, application.metadata.namespace, skip_unreadable=True)
    tenants = [each for each in listed.items if each.spec.cap_application_instance == application.metadata.name]
    if (existing := _existing(tenants, tenant_id, subdomain)) is not None:
        note = f"{existing.ref} is the tenant of this subscriber already"
        return VerbPlan(notes=[note], awaited=[ends.provisioned(existing.key)])
    subscription = _subscription(application, tenant_id, subdomain)
    payload = subscription_objects.payload(
        application, tenant_id=tenant_id, subdomain=subdomain, guid=subscription.guid
    )
    names = {each.metadata.name for each in listed.items}
    name = next((each for each in subscription_plan.tenant_names(application, tenant_id) if each not in names), "")
    if not name:
        raise VerbRefused("the names for this tenant are taken by others", fix="name another tenant id")
    key = ObjectKey(application.metadata.namespace, name)
    context = subscription_plan.context(application, subscription, payload.encode())
    secret = Unstructured.of(context).key
    stored = await request.client.find(metadata_of(Secret), secret.name, secret.namespace)
    if stored is not None and not subscription_objects.may_hold_payload(stored, tenant_id, (name,)):
        raise VerbRefused(
            f"Secret {secret} has the name of the payload of this tenant and is not one",
            fix=f"delete it, if it is not needed: kubectl delete secret {secret.name} -n {secret.namespace}",
        )
    return VerbPlan(
        writes=[
            Creation(resource=Secret.resource, body=context, done=""),
            Creation(
                resource=CAPTenant.resource,
                body=subscription_plan.tenant(application, subscription, name, secret.name),
                done=f"CAPTenant {key} of {application.ref} is created",
                then=lambda live: [_owning(live, secret, stored)],
            ),
        ],
        awaited=[ends.provisioned(key)],
    )


def _subscription(application: CAPApplication, tenant_id: str, subdomain: str) -> Subscription:
    """The subscription, with an id that is the same each time it is asked for."""
    spec = application.spec
    return Subscription(
        guid=str(uuid5(NAMESPACE_OID, f"{application.metadata.uid}/{tenant_id}")),
        tenant_id=tenant_id,
        subdomain=subdomain,
        provider_subaccount_id=spec.provider_subaccount_id,
        app_name=spec.btp_app_name,
        global_account_id=spec.global_account_id,
    )


def _owning(live: Unstructured, secret: ObjectKey, stored: HasMetadata | None) -> Change:
    tenant = msgspec.convert(live.body, CAPTenant)
    return Change(resource=Secret.resource, key=secret, patch=subscription_objects.owned_by(tenant, stored))


def _check(application: CAPApplication, tenant_id: str, subdomain: str) -> None:
    """Refuse what the subscription server refuses. Raises VerbRefused."""
    if application.metadata.is_terminating:
        raise VerbRefused(f"{application.ref} is being deleted", fix="subscribe to another application")
    if application.status.services_only:
        raise VerbRefused(
            f"{application.ref} has services only, and no tenants",
            fix=f"see its versions: stellwerk tree ca/{application.metadata.name} -n {application.metadata.namespace}",
        )
    try:
        payloads.check_subscriber(tenant_id, subdomain)
    except PayloadInvalid as error:
        raise VerbRefused(str(error), fix="name another tenant id or subdomain") from None


def _existing(tenants: list[CAPTenant], tenant_id: str, subdomain: str) -> CAPTenant | None:
    """The tenant of the subscriber, where there is one. Raises VerbRefused where the request contradicts a tenant."""
    for tenant in tenants:
        key = tenant.key
        if tenant.spec.tenant_id == tenant_id:
            if tenant.metadata.is_terminating:
                wait = f"stellwerk wait cat/{key.name} -n {key.namespace} --for deleted"
                raise VerbRefused(f"{tenant.ref} of this subscriber is being deleted", fix=f"wait for it: {wait}")
            if tenant.spec.sub_domain != subdomain:
                used = tenant.spec.sub_domain
                raise VerbRefused(f"{tenant.ref} of this subscriber has the subdomain {used}", fix=f"use {used}")
            return tenant
        if tenant.spec.sub_domain == subdomain:
            raise VerbRefused(f"{tenant.ref} has the subdomain {subdomain}", fix="choose another subdomain")
    return None
