"""What is kept of a cluster for another one, and what of an object."""

from __future__ import annotations

import pytest

from stellwerk.apply.objects.desired import defined_by
from stellwerk.apply.objects.manifests import Document
from stellwerk.assembly import OPERATORS
from stellwerk.cli.look.export import is_made, of_users, portable
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured

_SME, _CORE = "sme.sap.com/v1alpha1", "core.cs.sap.com/v1alpha1"


def test_an_exported_object_is_as_somebody_could_have_written_it() -> None:
    written: JsonObject = {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "Component",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
        "spec": {"path": "x"},
    }
    live: JsonObject = {
        **written,
        "metadata": {
            **written["metadata"],  # type: ignore[dict-item]
            "uid": "u",
            "resourceVersion": "1",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["x"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "v"}],
        },
        "status": {"state": "Ready"},
    }
    assert portable(Unstructured.of(live)) == written


def test_an_export_has_the_kinds_that_users_write_in_the_order_in_which_they_can_be_applied() -> None:
    definitions = [Document(each.body()) for spec in OPERATORS.values() for each in spec.installation().definitions]
    served = sorted(defined_by(definitions).values(), key=lambda each: each.plural)
    of_another = Resource("operator.kyma-project.io", "v1alpha1", "Keda", "kedas", namespaced=True)
    assert [each.plural for each in of_users([of_another, *served])] == [
        "btpoperators",
        "components",
        "blueprints",
        "capapplications",
        "capapplicationversions",
        "captenants",
        "captenantoutputs",
        "domains",
        "clusterdomains",
        "capoperators",
        "kymas",
        "moduletemplates",
        "modulereleasemetas",
        "watchers",
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "tenant_type", "made"),
    [
        (_SME, "CAPTenantOperation", "", True),
        (_SME, "CAPTenant", "provider", True),
        (_SME, "CAPTenant", "consumer", False),
        (_SME, "CAPTenantOutput", "", False),
        (_SME, "Domain", "", False),
        (_CORE, "BlueprintVersion", "", True),
        (_CORE, "Blueprint", "", False),
    ],
)
def test_an_export_has_no_object_that_an_operator_makes_again(
    api_version: str, kind: str, tenant_type: str, made: bool
) -> None:
    owner: JsonObject = {"apiVersion": _SME, "kind": "CAPApplication", "name": "shop", "uid": "v", "controller": True}
    labels: JsonObject = {"sme.sap.com/tenant-type": tenant_type} if tenant_type else {}
    metadata: JsonObject = {"name": "one", "namespace": "shop", "labels": labels, "ownerReferences": [owner]}
    assert is_made(Unstructured.of({"apiVersion": api_version, "kind": kind, "metadata": metadata})) is made
