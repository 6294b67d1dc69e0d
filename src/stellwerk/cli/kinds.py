"""The kinds that people call by a short word, and how any object is doing.

The list holds the kinds of our own operators; a further operator adds a row. Any other kind that the cluster serves can
be named too (`deployments`, `Deployment`, `deployments.apps`): the cluster is then asked what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stellwerk.kube.types.identifiers import GroupVersionKind, Resource

if TYPE_CHECKING:
    from stellwerk.runtime.insight.diagnosis import Diagnostician
    from stellwerk.runtime.insight.related_objects import Kinship


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A kind of one of our operators."""

    short: str
    resource: Resource
    operator: str
    """The operator's folder under `stellwerk.operators`."""

    def diagnostician(self) -> Diagnostician:
        """Who can tell why an object of this kind is not ready. Imports the operator, therefore a method."""
        from importlib import import_module

        found: Diagnostician = import_module(f"stellwerk.operators.{self.operator}.insight.why").diagnostician
        return found

    def kinship(self) -> Kinship:
        """Who knows which objects belong to one of this kind."""
        from importlib import import_module

        found: Kinship = import_module(f"stellwerk.operators.{self.operator}.insight.related_objects").kinship
        return found


OWN = (
    OwnKind("btp", Resource("operator.kyma-project.io", "v1alpha1", "BtpOperator", "btpoperators", True), "btp"),
    OwnKind("comp", Resource("core.cs.sap.com", "v1alpha1", "Component", "components", True), "component"),
)


def own(resource: Resource) -> OwnKind | None:
    """The row of a resource of ours, in whichever version."""
    return by_gvk(resource.gvk)


def by_gvk(gvk: GroupVersionKind) -> OwnKind | None:
    """The row of a kind of ours, in whichever version."""
    matching = (row for row in OWN if (row.resource.group, row.resource.kind) == (gvk.group, gvk.kind))
    return next(matching, None)


_SHORT = {
    "cj": "cronjobs.batch",
    "cm": "configmaps",
    "crd": "customresourcedefinitions.apiextensions.k8s.io",
    "deploy": "deployments.apps",
    "ds": "daemonsets.apps",
    "ing": "ingresses.networking.k8s.io",
    "netpol": "networkpolicies.networking.k8s.io",
    "no": "nodes",
    "ns": "namespaces",
    "pc": "priorityclasses.scheduling.k8s.io",
    "pdb": "poddisruptionbudgets.policy",
    "po": "pods",
    "pv": "persistentvolumes",
    "pvc": "persistentvolumeclaims",
    "rs": "replicasets.apps",
    "sa": "serviceaccounts",
    "sts": "statefulsets.apps",
    "svc": "services",
}
"""What kubectl's users type for kinds of Kubernetes. Discovery would tell it too, for a request more."""


_OUTSIDE_NAMESPACES = frozenset({"crd", "no", "ns", "pc", "pv"})


def usual() -> Iterator[tuple[str, Resource]]:
    """Kinds of Kubernetes by the short words above, as far as a request for their names needs them."""
    for short, name in _SHORT.items():
        plural, _, group = name.partition(".")
        yield short, Resource(group, "v1", plural, plural, short not in _OUTSIDE_NAMESPACES)


def by_word(word: str) -> Resource | None:
    """The resource of ours that a person means: by short word, kind, singular or plural, with or without group."""
    wanted = word.lower()
    for row in OWN:
        if wanted == row.short or matches(wanted, row.resource):
            return row.resource
    return None


def matches(word: str, resource: Resource) -> bool:
    """Whether the word (lower case) names the resource: `pod`, `pods`, `deployments.apps`, `deployment.apps`."""
    names = (resource.plural, resource.kind.lower())
    return word in names or word in [f"{name}.{resource.group}" for name in names if resource.group]


def among(word: str, served: Iterable[Resource]) -> list[Resource]:
    """The served resources that a word may mean; the core group and the stable versions first, a group once."""
    wanted = _SHORT.get(word.lower(), word.lower())
    found = [resource for resource in served if matches(wanted, resource)]
    found.sort(key=lambda resource: (resource.group != "", "." in resource.group, "beta" in resource.version))
    return list({resource.group: resource for resource in reversed(found)}.values())[::-1]
