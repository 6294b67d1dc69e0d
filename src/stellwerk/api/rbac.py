"""Rights and who has them (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Record, frozen=True, kw_only=True):
    """Verbs on resources, or on URLs that are none."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())


class RoleRef(Record, frozen=True, kw_only=True):
    """The role that a binding grants."""

    kind: str
    name: str
    api_group: str = GROUP


class Subject(Record, frozen=True, kw_only=True):
    """Who is granted it."""

    kind: str
    name: str
    namespace: str = ""
    api_group: str = ""


class Role(Kind, frozen=True, kw_only=True):
    """Rights in one namespace."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "Role", "roles", namespaced=True)

    rules: tuple[PolicyRule, ...] | None = None


class ClusterRole(Kind, frozen=True, kw_only=True):
    """Rights in all namespaces, and on cluster-wide objects."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False)

    rules: tuple[PolicyRule, ...] | None = None


class RoleBinding(Kind, frozen=True, kw_only=True):
    """Grants rights in one namespace."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "RoleBinding", "rolebindings", namespaced=True)

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()


class ClusterRoleBinding(Kind, frozen=True, kw_only=True):
    """Grants rights everywhere."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()
