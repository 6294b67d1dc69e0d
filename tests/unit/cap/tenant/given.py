"""Tenants, versions and operations as values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.unit.cap import given

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, TenantState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.tenant import plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DELETED = "2026-01-01T00:00:00Z"


def ready(name: str, number: str) -> CAPApplicationVersion:
    """A Ready version."""
    condition: JsonObject = {"type": "Ready", "status": "True", "reason": "WorkloadsReady", "message": ""}
    version = given.version(name=name, version=number)
    status: JsonObject = {"state": "Ready", "conditions": [condition]}
    return msgspec.structs.replace(version, status=msgspec.convert(status, type(version.status)))


V1, V2 = ready("bookshop-v1", "1.0.0"), ready("bookshop-v2", "2.0.0")
UNREADY = given.version(name="bookshop-v2", version="2.0.0")


def a_tenant(
    version: str = "", current: str = "", strategy: str = "", deleted: bool = False, state: str | None = None
) -> CAPTenant:
    """A tenant with all its metadata. It is Ready if it has a version and no other state is given."""
    shown = state if state is not None else TenantState.READY if current else TenantState.UNKNOWN
    bare = given.tenant()
    lacking = plan.absent(bare, given.application())
    assert lacking is not None
    metadata = given.metadata("acme")
    body: JsonObject = {
        "metadata": {**metadata, **lacking, **({"deletionTimestamp": DELETED} if deleted else {})},
        "spec": {
            "capApplicationInstance": "bookshop",
            "subDomain": "acme",
            "tenantId": "acme-id",
            "version": version,
            "versionUpgradeStrategy": strategy,
        },
        "status": {"currentCAPApplicationVersionInstance": current, "state": shown},
    }
    tenant = msgspec.convert(body, CAPTenant)
    labels = {**bare.metadata.labels, **tenant.metadata.labels}
    return msgspec.structs.replace(tenant, metadata=msgspec.structs.replace(tenant.metadata, labels=labels))


def that_wants(**spec: Any) -> CAPTenant:
    """A tenant that no pass has seen yet."""
    tenant = given.tenant()
    return msgspec.structs.replace(tenant, spec=msgspec.structs.replace(tenant.spec, **spec))


def an_operation(kind: str, outcome: str = "", version: str = "bookshop-v1", at: int = 1) -> CAPTenantOperation:
    """An operation that has ended with this state, or is under way."""
    condition: JsonObject = {"type": "Ready", "status": "True", "reason": "R", "message": "the cause"}
    status: JsonObject = {"state": outcome, "conditions": [condition]} if outcome else {}
    operation = given.operation(
        kind,
        name=f"op-{kind}-{at}",
        metadata=given.metadata(f"op-{kind}-{at}", creationTimestamp=f"2026-01-01T00:00:{at:02}Z"),
        status=status,
    )
    return msgspec.structs.replace(operation, spec=msgspec.structs.replace(operation.spec, version_name=version))


def an_application(state: str) -> CAPApplication:
    application = given.application()
    shown, _, exception = state.partition(", ")
    status = msgspec.structs.replace(
        application.status,
        state=shown,
        observed_generation=0 if "generation" in exception else 1,
        services_only="services" in exception,
    )
    return msgspec.structs.replace(application, status=status)
