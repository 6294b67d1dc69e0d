"""What goes first into a cluster, and what goes first out of it, where no author orders them.

Few waves, because the members of a wave are written at the same time and a wave waits for the one before it:

| in | out | kinds | why |
| --- | --- | --- | --- |
| 1 | 7 | Namespace | holds others |
| 2 | 6 | classes, roles, ServiceAccount, ConfigMap, Secret, quotas, policies | others refer to them, they to nothing |
| 2 | 3 | CustomResourceDefinition | goes while its controller still runs, which may have to finalise instances |
| 3 | 5 | role bindings, Service | a binding is refused before its role exists |
| 4 | 2 or 4 | everything else | instances of the set's own CRDs go first, then what serves them |
| 5 | 1 | APIService | needs what it points to |
| 6 | 1 | webhook configurations | from here on they can refuse everything above |

Names of kinds are qualified by their group: a `Service` of Knative is not a Service.
"""

from __future__ import annotations

from collections.abc import Collection

from stellwerk.kube.types.identifiers import Resource

_FIRST = frozenset({("", "Namespace")})
_GROUND = frozenset(
    {
        ("", "ServiceAccount"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "LimitRange"),
        ("", "ResourceQuota"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "Role"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "StorageClass"),
    }
)
_LINKS = frozenset(
    {
        ("", "Service"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    }
)
_EXTENSIONS = frozenset({("apiregistration.k8s.io", "APIService")})
_GATES = frozenset(
    {
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    }
)


def apply_wave(resource: Resource) -> int:
    """The wave in which objects of a resource are written, from 1 to 6."""
    kind = (resource.group, resource.kind)
    for wave, kinds in enumerate((_FIRST, _GROUND, _LINKS), start=1):
        if kind in kinds:
            return wave
    if kind in _EXTENSIONS:
        return 5
    return 6 if kind in _GATES else 4


def delete_wave(resource: Resource, own_kinds: Collection[str] = ()) -> int:
    """The wave in which objects of a resource are deleted, from 1 to 7.

    `own_kinds` are the CustomResourceDefinitions that go as well, by name (`issuers.cert-manager.io`).
    """
    if resource.group_resource in own_kinds:
        return 2
    if is_definition(resource):
        return 3
    wave = apply_wave(resource)
    return 1 if wave >= 5 else 8 - wave


def is_definition(resource: Resource) -> bool:
    """Whether objects of the resource are CustomResourceDefinitions."""
    return resource.kind == "CustomResourceDefinition" and resource.group == "apiextensions.k8s.io"
