"""Log lines show the fields of the original."""

from __future__ import annotations

import msgspec
from tests.unit.cap import given

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.log_fields import log_fields

LABELS: JsonObject = {"sme.sap.com/app-identifier-hash": "abc", "sme.sap.com/cav-version": "1.0.0"}


def test_lines_about_an_operation_name_application_tenant_version_step_and_job() -> None:
    metadata = given.metadata("acme-op", labels=LABELS)
    operation = given.operation(metadata=metadata, status={"currentStep": 2, "activeJob": "acme-mtxs-1"})

    assert log_fields(operation) == {
        "app-identifier-hash": "abc",
        "tenantId": "acme-id",
        "version": "1.0.0",
        "step": 2,
        "dependentKind": "Job",
        "dependentName": "acme-mtxs-1",
    }


def test_lines_about_a_tenant_name_its_id_and_version() -> None:
    spec: JsonObject = {"capApplicationInstance": "shop", "subDomain": "acme", "tenantId": "id", "version": "2.0.0"}
    tenant = msgspec.convert({"metadata": given.metadata("acme", labels=LABELS), "spec": spec}, CAPTenant)

    assert log_fields(tenant) == {"app-identifier-hash": "abc", "tenantId": "id", "version": "2.0.0"}


def test_lines_about_a_version_name_it_and_those_about_an_application_only_that() -> None:
    assert log_fields(given.version()) == {"app-identifier-hash": "", "version": "1.0.0"}
    assert log_fields(given.application()) == {"app-identifier-hash": ""}
