"""Objects of the CAP Operator for unit tests."""

from __future__ import annotations

from typing import Any

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

NAMESPACE = "shop"


def metadata(name: str, **fields: JsonValue) -> JsonObject:
    return {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "generation": 1, **fields}


def application(**spec: JsonValue) -> CAPApplication:
    """The application `bookshop` with three services."""
    wanted: JsonObject = {
        "btpAppName": "bookshop",
        "providerSubaccountId": "subaccount",
        "provider": {"subDomain": "books", "tenantId": "provider-id"},
        "btp": {
            "services": [
                {"name": "uaa", "class": "xsuaa", "secret": "uaa-secret"},
                {"name": "hana", "class": "service-manager", "secret": "hana-secret"},
                {"name": "uaa2", "class": "xsuaa", "secret": "uaa2-secret"},
            ]
        },
    }
    return msgspec.convert({"metadata": metadata("bookshop"), "spec": {**wanted, **spec}}, CAPApplication)


def deployment(name: str, type: str, **fields: Any) -> JsonObject:
    return {
        "name": name,
        "consumedBTPServices": ["uaa"],
        "deploymentDefinition": {"type": type, "image": f"{name}:1", **fields},
    }


def job(name: str, type: str, **fields: Any) -> JsonObject:
    return {
        "name": name,
        "consumedBTPServices": ["uaa", "hana"],
        "jobDefinition": {"type": type, "image": f"{name}:1", **fields},
    }


def version(*workloads: JsonObject, name: str = "bookshop-v1", **spec: Any) -> CAPApplicationVersion:
    """A version with these workloads, or with a server, a router and a job for tenants."""
    usual = (deployment("srv", "CAP"), deployment("app", "Router"), job("mtxs", "TenantOperation"))
    wanted: JsonObject = {
        "capApplicationInstance": "bookshop",
        "version": "1.0.0",
        "workloads": [*(workloads or usual)],
    }
    return msgspec.convert({"metadata": metadata(name), "spec": {**wanted, **spec}}, CAPApplicationVersion)


def tenant(name: str = "acme", tenant_type: str = "consumer") -> CAPTenant:
    marks: JsonObject = {
        "labels": {"sme.sap.com/tenant-type": tenant_type, "sme.sap.com/btp-tenant-id": f"{name}-id"},
        "annotations": {"sme.sap.com/subscription-context-secret": f"{name}-context"},
    }
    spec: JsonObject = {"capApplicationInstance": "bookshop", "subDomain": name, "tenantId": f"{name}-id"}
    return msgspec.convert({"metadata": metadata(name, **marks), "spec": spec}, CAPTenant)


def operation(
    operation: str = "provisioning", *steps: JsonObject, name: str = "acme-op", **fields: JsonValue
) -> CAPTenantOperation:
    spec: JsonObject = {
        "operation": operation,
        "subDomain": "acme",
        "tenantId": "acme-id",
        "capApplicationVersionInstance": "bookshop-v1",
        "steps": [*(steps or ({"name": "mtxs", "type": "TenantOperation"},))],
    }
    return msgspec.convert({"metadata": metadata(name), "spec": spec, **fields}, CAPTenantOperation)
