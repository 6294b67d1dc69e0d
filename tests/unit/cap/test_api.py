"""The kinds of the CAP Operator, against what the originals publish."""

from __future__ import annotations

import re

import msgspec
import pytest
from tests.unit import definitions

from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import dig
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.kinds.application import ApplicationStatus, CAPApplication, DomainKind
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.kinds.status import ReconciledStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant, OperationStatus, TenantStatus
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus

REFERENCE = definitions.SHARED / "api" / "cap"
POD_PARTS = re.compile(
    r"\.(env|volumes|volumeMounts|initContainers|tolerations|topologySpreadConstraints|metrics)\[\]"
    r"|\.(affinity|resources|securityContext|podSecurityContext|lifecycle|livenessProbe|readinessProbe|startupProbe"
    r"|podDisruptionBudget|behavior)\."
)
"""Where schemas of Kubernetes begin, which have no descriptions."""


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: str(definition.name))
def test_every_field_of_ours_is_described(definition: Definition) -> None:
    undescribed = [path for path in definitions.undescribed(definition) if not POD_PARTS.search(path)]
    assert undescribed == []


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference schemas are not beside this repository")
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: str(definition.name))
def test_every_column_and_field_of_the_original_is_there(definition: Definition) -> None:
    assert definitions.lacking(REFERENCE / f"{definition.name}.json", definition) == []


def test_a_part_of_a_pod_has_the_schema_of_kubernetes() -> None:
    (definition,) = (each for each in DEFINITIONS if each.versions[0].kind is CAPApplicationVersion)
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    schema = dig(versions[0], "schema", "openAPIV3Schema", "properties", "spec", "properties", "workloads", "items")
    deployment = dig(schema, "properties", "deploymentDefinition", "properties")

    assert dig(deployment, "env", "items", "required") == ["name"]
    assert dig(deployment, "env", "items", "description") == "A variable."
    assert dig(deployment, "resources", "properties", "limits", "additionalProperties", "x-kubernetes-int-or-string")
    assert dig(deployment, "livenessProbe", "properties", "grpc", "properties", "service", "default") == ""


def test_a_version_reads_as_the_original_writes_it() -> None:
    version = msgspec.convert(
        {
            "metadata": {"name": "shop-v1", "namespace": "shop"},
            "spec": {
                "capApplicationInstance": "shop",
                "version": "1.0",
                "workloads": [
                    {
                        "name": "srv",
                        "consumedBTPServices": ["uaa"],
                        "deploymentDefinition": {"type": "CAP", "image": "srv:1", "env": [{"name": "A", "value": "1"}]},
                    },
                    {
                        "name": "content",
                        "consumedBTPServices": [],
                        "jobDefinition": {"type": "Content", "image": "c:1"},
                    },
                ],
            },
        },
        CAPApplicationVersion,
    )
    server, content = version.spec.workloads

    assert server.deployment is not None
    assert server.deployment.env == ({"name": "A", "value": "1"},)
    assert server.consumed_services == ("uaa",)
    assert server.job is None
    assert content.job is not None
    assert content.job.type == "Content"
    assert version.spec.content_jobs is None


def test_an_application_reads_with_all_its_deprecated_fields() -> None:
    application = msgspec.convert(
        {
            "metadata": {"name": "shop"},
            "spec": {
                "btpAppName": "shop",
                "globalAccountId": "account",
                "btp": {"services": [{"name": "uaa", "class": "xsuaa", "secret": "uaa-secret"}]},
                "domains": {"primary": "a.b", "istioIngressGatewayLabels": [{"name": "istio", "value": "gateway"}]},
                "domainRefs": [{"kind": "ClusterDomain", "name": "all"}],
            },
        },
        CAPApplication,
    )

    assert application.spec.btp.services[0].class_name == "xsuaa"
    assert application.spec.domains is not None
    assert not application.spec.domains.is_empty
    assert application.spec.domain_refs[0].kind == DomainKind.CLUSTER_DOMAIN
    assert application.status.services_only is None


def test_a_tenant_shows_its_versions_under_the_originals_names() -> None:
    status = {"state": "Ready", "currentCAPApplicationVersionInstance": "v2", "previousCAPApplicationVersions": ["v1"]}
    spec = {"capApplicationInstance": "shop", "subDomain": "acme", "tenantId": "t1"}
    tenant = msgspec.convert({"metadata": {"name": "acme"}, "spec": spec, "status": status}, CAPTenant)

    assert tenant.status.current_version == "v2"
    assert msgspec.to_builtins(tenant.status) == {**status, "previousCAPApplicationVersions": ("v1",)}


@pytest.mark.parametrize("kind", [ApplicationStatus, VersionStatus, TenantStatus, OperationStatus, DomainStatus])
def test_a_state_that_is_empty_is_written_and_one_that_is_absent_is_read_as_empty(kind: type[ReconciledStatus]) -> None:
    assert msgspec.to_builtins(kind()) == {"state": ""}
    assert msgspec.convert({}, kind) == kind()
