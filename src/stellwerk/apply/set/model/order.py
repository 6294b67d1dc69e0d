"""What goes first within a wave, by kind.

The numbers are the originals': an apply order or a delete order that an author gives comes first, and these decide
among equals. Names of kinds are qualified by their group.
"""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.apply.set.model.desired_set import API_SERVICE, CRD, DEFINITIONS, NAMESPACE
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource

_ADMISSION = (
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
)
_CLASSES = (
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
)
_RBAC = "rbac.authorization.k8s.io"

_APPLY: Mapping[tuple[str, str], int] = {
    NAMESPACE: -4,
    **dict.fromkeys(_ADMISSION, -3),
    **dict.fromkeys((CRD, *_CLASSES, (_RBAC, "ClusterRole"), (_RBAC, "Role")), -2),
    **dict.fromkeys((("", "ConfigMap"), ("", "Secret"), (_RBAC, "ClusterRoleBinding"), (_RBAC, "RoleBinding")), -1),
    API_SERVICE: 1,
}
_DELETE: Mapping[tuple[str, str], int] = {
    **dict.fromkeys(DEFINITIONS, -1),
    **dict.fromkeys(_ADMISSION, 1),
    **dict.fromkeys((("", "Service"), ("", "ConfigMap"), ("", "Secret")), 2),
    NAMESPACE: 3,
    **dict.fromkeys(_CLASSES, 4),
}


def apply_priority(kind: GroupVersionKind | Resource) -> int:
    """Lower is written earlier."""
    return _APPLY.get((kind.group, kind.kind), 0)


def delete_priority(gvk: GroupVersionKind) -> int:
    """Lower is deleted earlier."""
    return _DELETE.get((gvk.group, gvk.kind), 0)
