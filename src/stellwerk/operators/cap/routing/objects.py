"""VirtualServices as whole objects, with names and labels of the original. Pure.

Their owner reference and the hash annotation are the writer's: `ControllerOwner` with `names.RESOURCE_HASH_ANNOTATION`.
"""

from __future__ import annotations

from stellwerk.api.istio import VirtualService, VirtualServiceSpec
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, plain_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant

_SUFFIX = 10


def exposure_owner_hash(application: CAPApplication) -> str:
    """The label value by which the VirtualServices of an application's exposures are found."""
    return names.sha1("CAPApplication", application.metadata.namespace, application.metadata.name)


def of_tenant(tenant: CAPTenant, spec: VirtualServiceSpec) -> Desired:
    """The VirtualService of a tenant, which has the tenant's name."""

    def given(*keys: str) -> dict[str, str]:
        return {key: value for key in keys if (value := tenant.metadata.labels.get(key))}

    labels = names.owner_labels(tenant.key, tenant.metadata.generation)
    labels |= given(names.TENANT_TYPE_LABEL, names.SUBSCRIPTION_GUID)
    annotations = names.owner_annotations(tenant.key) | given(names.SUBSCRIPTION_GUID)
    return _virtual_service(tenant.key, spec, labels, annotations)


def exposure_name(application: CAPApplication, subdomain: str) -> str:
    """The name of a new VirtualService of an exposure.

    It is made of the application and the subdomain, so that a creation whose answer was lost is not repeated under
    another name.
    """
    metadata = application.metadata
    return f"{metadata.name}{names.sha1(metadata.uid, subdomain)[:_SUFFIX]}"


def of_exposure(application: CAPApplication, subdomain: str, spec: VirtualServiceSpec, name: str = "") -> Desired:
    """The VirtualService of a subdomain under which services are exposed.

    `name` is that of the one that exists.
    """
    key = ObjectKey(application.metadata.namespace, name or exposure_name(application, subdomain))
    return _virtual_service(key, spec, {names.OWNER_HASH_LABEL: exposure_owner_hash(application)}, {})


def first_host(hosts: JsonValue) -> str:
    """The first of `spec.hosts`; empty where there is none."""
    first = hosts[0] if isinstance(hosts, list) and hosts else ""
    return first if isinstance(first, str) else ""


def _virtual_service(
    key: ObjectKey, spec: VirtualServiceSpec, labels: dict[str, str], annotations: dict[str, str]
) -> Desired:
    metadata: JsonObject = {"labels": {**labels}, **({"annotations": {**annotations}} if annotations else {})}
    return Desired.named(VirtualService.resource, key, metadata, spec=plain_json(spec))
