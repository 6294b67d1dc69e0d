"""What a subscription becomes in the cluster: names, objects, and the promise about it (pure).

Names are made of the application and the tenant id, so that requests which arrive at once, or again after a crash, mean
the same objects. They look like those that the original has generated; its objects keep their names.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, auto

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret, PromiseUnreadable
from stellwerk.operators.cap.subscription.payloads import Subscription

MOST_NAMES = 5
"""That are tried where other tenants have the first ones."""
AT_ONCE = timedelta(seconds=10)
"""Identical requests that come within this time wait for one answer."""
_LONGEST_PREFIX, _SUFFIX = 52, 10
"""Of names: at most 63 characters, as labels. Ten digits, because a CAPApplication may have 50,000 tenants."""


class DomainUnknown(ValueError):
    """The domain of a subscription is that of no Domain or ClusterDomain."""


class Authorization(Enum):
    """May a caller act for an application?"""

    GRANTED = auto()
    REFUSED = auto()
    UNKNOWN = auto()
    """The credentials of the application cannot be read, or have not been read yet."""


def named(
    candidates: Iterable[CAPApplication], provider_subaccount_id: str, app_name: str, global_account_id: str = ""
) -> list[CAPApplication]:
    """The applications that a request may mean, the oldest first; those that are being deleted come last.

    Only the oldest one of each namespace counts, so that many applications of one namespace cost a request little. An
    application without a subaccount is known by its global account. Values are compared and not only their hash,
    because two pairs of values may have the same one.
    """

    def is_meant(application: CAPApplication) -> bool:
        spec = application.spec
        if spec.btp_app_name != app_name:
            return False
        if spec.provider_subaccount_id:
            return spec.provider_subaccount_id == provider_subaccount_id
        return bool(spec.global_account_id) and spec.global_account_id == global_account_id

    return _oldest_of_each_namespace(filter(is_meant, candidates))


def rivals(application: CAPApplication, candidates: Iterable[CAPApplication]) -> list[CAPApplication]:
    """The applications of other namespaces that a request for this one may mean as well, and that are to stay."""
    own = application.spec

    def is_rival(other: CAPApplication) -> bool:
        spec = other.spec
        if other.metadata.namespace == application.metadata.namespace or other.metadata.is_terminating:
            return False
        if spec.btp_app_name != own.btp_app_name:
            return False
        if spec.provider_subaccount_id and own.provider_subaccount_id:
            return spec.provider_subaccount_id == own.provider_subaccount_id
        # A request has both ids: with one application it agrees in the one, with another in the other.
        return not (spec.global_account_id and own.global_account_id) or spec.global_account_id == own.global_account_id

    return _oldest_of_each_namespace(filter(is_rival, candidates))


def _oldest_of_each_namespace(applications: Iterable[CAPApplication]) -> list[CAPApplication]:
    by_namespace: dict[str, CAPApplication] = {}
    for each in sorted(applications, key=_age):
        by_namespace.setdefault(each.metadata.namespace, each)
    return [*by_namespace.values()]


def meant(
    listed: Sequence[CAPApplication], authorization: Callable[[CAPApplication], Authorization]
) -> CAPApplication | None:
    """Of the applications that a request may mean the first that does not refuse its caller.

    One that refuses the caller is skipped, unless all do: any user may create an older one with the same values. One
    of which this is unknown is not skipped: while its credentials cannot be read, a younger one with a copy of their
    public names would get its subscriptions.
    """
    possible = (each for each in listed if authorization(each) is not Authorization.REFUSED)
    return next(possible, listed[0] if listed else None)


def may_be_named(labels: Mapping[str, str], provider: str, app_name: str, global_account: str = "") -> bool:
    """Whether an application with these labels may be the one that a request names, although its spec is not known.

    The CAP Operator labels applications with their identity. One that has no such label yet may be any.
    """
    expected = {
        names.APP_HASH_LABEL: names.sha1(provider, app_name),
        names.LEGACY_APP_HASH_LABEL: names.sha1(global_account, app_name),
    }
    carried = labels.keys() & expected.keys()
    return not carried or any(labels[name] == expected[name] for name in carried)


def _age(obj: CAPApplication | CAPTenant) -> tuple[bool, str, str]:
    metadata = obj.metadata
    return metadata.is_terminating, str(metadata.creation_timestamp or ""), str(obj.key)


def is_tenant_of(tenant: CAPTenant, application: CAPApplication, tenant_id: str) -> bool:
    """Whether a tenant is this subscriber of the application: by its spec, or by the labels of a takeover."""
    if tenant.metadata.namespace != application.metadata.namespace:
        return False
    if tenant.spec.cap_application_instance == application.metadata.name and tenant.spec.tenant_id == tenant_id:
        return True
    labels, marks = tenant.metadata.labels, names.application_labels(application.spec)
    return (
        labels.get(names.TENANT_ID_LABEL) == tenant_id
        and bool(marks)
        and all(labels.get(name) == value for name, value in marks.items())
    )


def oldest(tenants: Iterable[CAPTenant]) -> CAPTenant | None:
    """Of several tenants the one that counts."""
    return min(tenants, key=_age, default=None)


def is_provider(tenant: CAPTenant) -> bool:
    """Whether a tenant is that of the provider, which no registry ends."""
    return tenant.metadata.labels.get(names.TENANT_TYPE_LABEL) == names.PROVIDER


# ---- promises


def is_covered(promised: Promise, stored: PromiseSecret) -> bool:
    """Whether the registry gets a true answer to a request by the promise of the same name that is there.

    One that has no answer yet covers the requests that came at once with its own. One of long ago does not: its answer
    comes at its deadline, although the tenant of the later request may still become ready. One with an answer covers
    only earlier requests, and a failure none: it may be about a tenant that was on its way out.
    """
    try:
        found = promise.read(stored)
    except PromiseUnreadable:
        return False
    if found.body:
        return found.accepted >= promised.accepted and promise.has_succeeded(found)
    return stored.state == promise.PENDING and found.accepted >= promised.accepted - AT_ONCE


# ---- the URL


def domain_for(application: CAPApplication, wanted: str, domains: Iterable[AnyDomain]) -> str:
    """The domain under which a subscriber reaches the application; empty where there is none. Raises DomainUnknown.

    What a payload or an annotation names must be served; the first domain of the application is taken as it is.
    """
    chosen = wanted or application.metadata.annotations.get(names.SUBSCRIPTION_DOMAIN_ANNOTATION, "")
    if not chosen:
        return first_domain(application, domains)
    homes = ("", application.metadata.namespace)
    if not any(each.metadata.namespace in homes and each.spec.domain == chosen for each in domains):
        raise DomainUnknown(f"domain {chosen} not found in Domains or ClusterDomains")
    return chosen


def first_domain(application: CAPApplication, domains: Iterable[AnyDomain]) -> str:
    """The first domain of an application; empty where there is none."""
    spec = application.spec
    if not spec.domain_refs:
        return spec.domains.primary if spec.domains is not None else ""
    first = spec.domain_refs[0]
    key = ObjectKey("" if first.kind == DomainKind.CLUSTER_DOMAIN else application.metadata.namespace, first.name)
    return next((each.spec.domain for each in domains if each.key == key), "")


# ---- the objects


def tenant_name(application: CAPApplication, tenant_id: str, attempt: int = 0) -> str:
    """The name of a new tenant. A further `attempt` is for a name that another tenant has."""
    return _name(application.metadata.name, f"{application.metadata.name}/{tenant_id}/{attempt or ''}")


def tenant_names(application: CAPApplication, tenant_id: str) -> tuple[str, ...]:
    """The names that are tried for a tenant, in this order."""
    return tuple(tenant_name(application, tenant_id, attempt) for attempt in range(MOST_NAMES))


def context_name(application: CAPApplication, subscription: Subscription, attempt: int = 0) -> str:
    """The name of the Secret with the payload of a subscription. A further `attempt` is for a name that is taken."""
    name = application.metadata.name
    identity = f"{name}/{subscription.tenant_id}/{subscription.guid}"
    return _name(f"{name}-consumer", f"{identity}/{attempt}" if attempt else identity)


def _name(prefix: str, identity: str) -> str:
    return f"{prefix[:_LONGEST_PREFIX].rstrip('-.')}-{names.sha1(identity)[:_SUFFIX]}"


def context(application: CAPApplication, subscription: Subscription, payload: bytes, attempt: int = 0) -> JsonObject:
    """The Secret with the payload of a subscription, which operations read."""
    return {
        "metadata": {
            "name": context_name(application, subscription, attempt),
            "namespace": application.metadata.namespace,
            "labels": context_labels(subscription),
        },
        "data": context_data(payload),
    }


def context_labels(subscription: Subscription) -> JsonObject:
    """The labels of that Secret."""
    return {names.TENANT_ID_LABEL: subscription.tenant_id, names.SUBSCRIPTION_GUID: subscription.guid}


def context_data(payload: bytes) -> JsonObject:
    """The content of that Secret: the payload as it came."""
    return {names.CONTEXT_KEY: base64.b64encode(payload).decode()}


def tenant(application: CAPApplication, subscription: Subscription, name: str, context: str) -> JsonObject:
    """A new tenant with the Secret `context`. It has no version: the application gives it one."""
    resource = CAPTenant.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": application.metadata.namespace,
            "labels": {
                names.TENANT_TYPE_LABEL: names.CONSUMER,
                **context_labels(subscription),
                **names.application_labels(application.spec),
            },
            "annotations": {names.CONTEXT_SECRET_ANNOTATION: context, names.SUBSCRIPTION_GUID: subscription.guid},
        },
        "spec": {
            "capApplicationInstance": application.metadata.name,
            "subDomain": subscription.subdomain,
            "tenantId": subscription.tenant_id,
        },
    }
