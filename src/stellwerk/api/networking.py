"""Network policies (networking.k8s.io/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class LabelSelector(Record, frozen=True, kw_only=True):
    """The equalities of a metav1.LabelSelector; its expressions are not read."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)


class NetworkPolicySpec(Record, frozen=True, kw_only=True):
    """Whose traffic is limited, and in which direction."""

    pod_selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    policy_types: tuple[str, ...] = ()


class NetworkPolicy(Kind, frozen=True, kw_only=True):
    """The connections that pods may accept and open."""

    resource: ClassVar[Resource] = Resource(
        "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True
    )

    spec: NetworkPolicySpec = msgspec.field(default_factory=NetworkPolicySpec)
