"""VirtualServices and DestinationRules as whole objects, with names and labels of the original. Pure.

Their owner reference and the hash annotation are the writer's: `ControllerOwner` with `names.RESOURCE_HASH_ANNOTATION`.
"""

from __future__ import annotations

from typing import cast

import msgspec

from stellwerk.api.istio import DestinationRule, DestinationRuleSpec, VirtualService, VirtualServiceSpec
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.routing import virtual_services

_SUFFIX = 10


def exposure_owner_hash(application: CAPApplication) -> str:
    """The label value by which the VirtualServices of an application's exposures are found."""
    return names.sha1("CAPApplication", application.metadata.namespace, application.metadata.name)


def of_tenant(tenant: CAPTenant, spec: VirtualServiceSpec) -> Desired:
    """The VirtualService of a tenant, which has the tenant's name."""
    metadata = tenant.metadata
    guid = metadata.labels.get(names.SUBSCRIPTION_GUID, "")
    kind = metadata.labels.get(names.TENANT_TYPE_LABEL, "")
    labels = names.owner_labels(tenant.key, metadata.generation)
    labels |= {key: value for key, value in ((names.TENANT_TYPE_LABEL, kind), (names.SUBSCRIPTION_GUID, guid)) if value}
    annotations = names.owner_annotations(tenant.key) | ({names.SUBSCRIPTION_GUID: guid} if guid else {})
    return _virtual_service(tenant.key, spec, labels, annotations)


def of_exposure(application: CAPApplication, subdomain: str, spec: VirtualServiceSpec, name: str = "") -> Desired:
    """The VirtualService of a subdomain under which services are exposed.

    `name` is that of the one that exists. A new one is named by the application and the subdomain, so that a creation
    whose answer was lost is not repeated under another name.
    """
    metadata = application.metadata
    made = f"{metadata.name}{names.sha1(metadata.uid, subdomain)[:_SUFFIX]}"
    key = ObjectKey(metadata.namespace, name or made)
    return _virtual_service(key, spec, {names.OWNER_HASH_LABEL: exposure_owner_hash(application)}, {})


def exposed_subdomain(hosts: JsonValue) -> str:
    """The subdomain that a VirtualService of an exposure is for, by `spec.hosts`; empty where it has none."""
    first = hosts[0] if isinstance(hosts, list) and hosts else ""
    return first.partition(".")[0] if isinstance(first, str) else ""


def destination_rule(key: ObjectKey, spec: DestinationRuleSpec) -> Desired:
    """The DestinationRule of a workload, which has no labels."""
    content = cast("JsonValue", msgspec.json.decode(msgspec.json.encode(spec, order="deterministic")))
    return Desired.named(DestinationRule.resource, key, spec=content)


def _virtual_service(
    key: ObjectKey, spec: VirtualServiceSpec, labels: dict[str, str], annotations: dict[str, str]
) -> Desired:
    metadata: JsonObject = {"labels": {**labels}, **({"annotations": {**annotations}} if annotations else {})}
    return Desired.named(VirtualService.resource, key, metadata, spec=virtual_services.body(spec))
