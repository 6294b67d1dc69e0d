"""Domains and their objects as values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import DomainSettings, DomainSnapshot, World
from stellwerk.operators.cap.domain.resources import DomainResource
from stellwerk.operators.cap.kinds.application import (
    ApplicationSpec,
    ApplicationStatus,
    BtpServices,
    CAPApplication,
)
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain, DomainSpec, DomainStatus

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SETTINGS = DomainSettings(namespace="cap-system")
SELECTOR = {"istio": "ingressgateway", "app": "istio-ingressgateway"}


def metadata(name: str, namespace: str, **changes: Any) -> ObjectMeta:
    """Of a domain that is prepared."""
    words = {"uid": f"uid-{name}", "generation": 3, "finalizers": (names.DOMAIN_FINALIZER,), **changes}
    return ObjectMeta(name=name, namespace=namespace, **words)


def spec(host: str = "app.example.com", **changes: Any) -> DomainSpec:
    """The spec of a domain."""
    return DomainSpec(domain=host, **{"ingress_selector": SELECTOR, **changes})


def domain(host: str = "app.example.com", *, state: str = "Processing", **changes: Any) -> Domain:
    """A Domain `shop/primary.one`, prepared unless `meta` differs."""
    meta = changes.pop("meta", {})
    label = {names.HOST_HASH_LABEL: names.sha1(host)}
    return Domain(
        metadata=metadata(meta.pop("name", "primary.one"), "shop", **{"labels": label, **meta}),
        spec=spec(host, **changes),
        status=DomainStatus(state=state),
    )


def cluster_domain(host: str = "app.example.com", **changes: Any) -> ClusterDomain:
    """A ClusterDomain `everywhere`."""
    return ClusterDomain(metadata=metadata("everywhere", ""), spec=spec(host, **changes))


def reference(name: str = "app", namespace: str = "shop", *subdomains: str, hour: int = 1) -> CAPApplication:
    """An application that refers to the domain."""
    meta = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", creation_timestamp=NOW.replace(hour=hour))
    return CAPApplication(
        metadata=meta,
        spec=ApplicationSpec(btp_app_name=name, btp=BtpServices(services=())),
        status=ApplicationStatus(observed_subdomains=subdomains),
    )


def live(owner: AnyDomain, resource: DomainResource, **metadata_changes: Any) -> tuple[Address, Live]:
    """An object as the API server has it, written for this very owner."""
    body = resource.desired.body
    key = resource.address.key
    controller: JsonObject = {
        "apiVersion": "sme.sap.com/v1alpha1",
        "kind": owner.resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    words: JsonObject = {"uid": f"uid-{key.name}", "creationTimestamp": "2026-05-01T12:00:00Z", "generation": 1}
    body = json_edit.merged(body, {**words, "ownerReferences": [controller], **metadata_changes}, "metadata")
    body = json_edit.with_labels(body, naming.owner_labels(owner))
    return resource.address, Unstructured.of(
        json_edit.with_annotations(body, {names.RESOURCE_HASH_ANNOTATION: resource.hash})
    )


def world(owner: AnyDomain, *objects: tuple[Address, Live], **changes: Any) -> World:
    """A domain whose ingress gateway is in `istio-system`."""
    unserved: dict[Resource, str] = changes.pop("unserved", {})
    records = changes.pop("records", ())
    settings = changes.pop("settings", SETTINGS)
    namesakes: tuple[AnyDomain, ...] = changes.pop("namesakes", ())
    snapshot = DomainSnapshot(domain=owner, live=dict(objects), **changes)
    return World(
        snapshot=snapshot,
        settings=settings,
        ingress_namespace="istio-system",
        records=records,
        namesakes=namesakes,
        unserved=unserved,
    )
