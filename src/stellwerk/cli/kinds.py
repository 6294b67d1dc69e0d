"""The kinds of our operators by short word, and the kinds that a word of the command line may mean.

Any other kind that the cluster serves has names too (`deployments`, `Deployment`, `deployments.apps`): the cluster's
discovery decides what those mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.operator_spec import KindHelp, OperatorSpec, ShownBy, WideColumn
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.delivery import insight as insights


@dataclass(frozen=True, slots=True)
class RegisteredKind:
    """A kind of one of our operators."""

    short: str
    resource: Resource
    operator: OperatorSpec
    wide: tuple[WideColumn, ...] = ()
    readiness: ShownBy = ShownBy.CONDITION

    def insight(self) -> insights.KindInsight:
        """What the operator knows about objects of the kind. Imports the operator."""
        return self.operator.insight().get(self.resource.kind) or insights.by_condition(self.help().catalogue)

    def help(self) -> KindHelp:
        """The reasons and topics of the kind. Imports the operator's texts."""
        return self.operator.help().get(self.resource.kind) or KindHelp()


OWN = tuple(
    RegisteredKind(kind.short, kind.resource, operator, kind.wide, kind.readiness)
    for operator in OPERATORS.values()
    for kind in operator.kinds
)


def by_gvk(gvk: GroupVersionKind) -> RegisteredKind | None:
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
"""What kubectl's users type for kinds of Kubernetes. Discovery would return it too, for one more request."""


_SIMILAR = 0.66
"""How similar a word must be to be offered: two letters of a word of three, all but a few of a longer one."""
_LONGEST = 64
"""Letters of a word that are compared."""

_OUTSIDE_NAMESPACES = frozenset({"crd", "no", "ns", "pc", "pv"})


def usual() -> Iterator[tuple[str, Resource]]:
    """Kinds of Kubernetes by the short words above, as far as a request for their names needs them."""
    for short, name in _SHORT.items():
        plural, _, group = name.partition(".")
        yield short, Resource(group, "v1", plural, plural, short not in _OUTSIDE_NAMESPACES)


def by_word(word: str) -> Resource | None:
    """The resource of ours that a person means: by short word, kind, singular or plural, with or without group."""
    row = named(word)
    return row.resource if row is not None else None


def named(word: str) -> RegisteredKind | None:
    """The same with all that is known of the kind."""
    wanted = word.lower()
    return next((row for row in OWN if wanted == row.short or matches(wanted, row.resource)), None)


def matches(word: str, resource: Resource) -> bool:
    """Whether the word (lower case) names the resource: `pod`, `pods`, `deployments.apps`, `deployment.apps`."""
    names = (resource.plural, resource.kind.lower())
    return word in names or word in [f"{name}.{resource.group}" for name in names if resource.group]


def near(word: str, served: Iterable[Resource]) -> list[str]:
    """Words for kinds that are spelt almost like this one, of ours first: at most three."""
    ours = [name for row in OWN for name in (row.short, row.resource.kind.lower(), row.resource.plural)]
    others = [name for each in served for name in (each.kind.lower(), each.plural)]
    wanted = word.lower()[:_LONGEST]
    found = (get_close_matches(wanted, names, n=3, cutoff=_SIMILAR) for names in (ours, [*_SHORT, *others]))
    return list(dict.fromkeys(chain.from_iterable(found)))[:3]


def among(word: str, served: Iterable[Resource]) -> list[Resource]:
    """The served resources that a word may mean; the core group and the stable versions first, a group once."""
    wanted = _SHORT.get(word.lower(), word.lower())
    found = [resource for resource in served if matches(wanted, resource)]
    found.sort(key=lambda resource: (resource.group != "", "." in resource.group, "beta" in resource.version))
    return list({resource.group: resource for resource in reversed(found)}.values())[::-1]
