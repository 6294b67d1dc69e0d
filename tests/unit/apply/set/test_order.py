"""Among objects of one wave, kinds go in the originals' order."""

from __future__ import annotations

import pytest

from stellwerk.apply.set.model.order import apply_priority, delete_priority
from stellwerk.kube.types.identifiers import GroupVersionKind

ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("api_version", "kind", "apply", "delete"),
    [
        ("v1", "Namespace", -4, 3),
        (ADMISSION, "ValidatingWebhookConfiguration", -3, 1),
        (ADMISSION, "MutatingWebhookConfiguration", -3, 1),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", -2, -1),
        ("networking.k8s.io/v1", "IngressClass", -2, 4),
        ("node.k8s.io/v1", "RuntimeClass", -2, 4),
        ("scheduling.k8s.io/v1", "PriorityClass", -2, 4),
        ("storage.k8s.io/v1", "StorageClass", -2, 4),
        (RBAC, "ClusterRole", -2, 0),
        (RBAC, "Role", -2, 0),
        ("v1", "ConfigMap", -1, 2),
        ("v1", "Secret", -1, 2),
        (RBAC, "ClusterRoleBinding", -1, 0),
        (RBAC, "RoleBinding", -1, 0),
        ("v1", "Service", 0, 2),
        ("apps/v1", "Deployment", 0, 0),
        ("v1", "ServiceAccount", 0, 0),
        ("apiregistration.k8s.io/v1", "APIService", 1, -1),
    ],
)
def test_a_kind_has_its_place_whatever_its_version(api_version: str, kind: str, apply: int, delete: int) -> None:
    gvk = GroupVersionKind.parse(api_version, kind)
    for found in (gvk, gvk._replace(version="v2beta1")):
        assert (apply_priority(found), delete_priority(found)) == (apply, delete)


@pytest.mark.parametrize("kind", ["Namespace", "Service", "Secret", "StorageClass", "APIService"])
def test_a_kind_of_the_same_name_in_another_group_is_like_any_other(kind: str) -> None:
    gvk = GroupVersionKind("example.org", "v1", kind)
    assert (apply_priority(gvk), delete_priority(gvk)) == (0, 0)
