"""The rights of a process that works on some namespaces only, made of those that it has in the whole cluster.

A right on a kind without a namespace stays in a ClusterRole. All others are Roles: in the namespaces that are watched,
in those of ingress gateways, and in the operator's own. So no right on Secrets is one in the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery import grants
from stellwerk.delivery.grants import Grant, OperatorAccount
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.access.permission_check import Need

SETTING = "watch_namespaces"
"""The field of the setting that names the watched namespaces."""
OF_CLUSTER = frozenset(
    {
        "clusterdomains",
        "customresourcedefinitions",
        "mutatingwebhookconfigurations",
        "namespaces",
        "subjectaccessreviews",
        "tokenreviews",
        "validatingwebhookconfigurations",
    }
)
"""Kinds without a namespace."""
EVENTS_NAMESPACE = "default"
"""Where an API server accepts Events about objects that have no namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The namespaces in which a process works."""

    watched: Sequence[str]
    ingress: Sequence[str] = ()
    """Those of ingress gateways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedGrants:
    """What a process needs by place, and how its settings name the places."""

    limits: Callable[[Sequence[str], Mapping[str, str]], Limits | None]
    """Made of the flags and variables of a process; None for one that works on all namespaces."""
    watched: tuple[Grant, ...]
    """In each watched namespace."""
    of_cluster: tuple[Grant, ...]
    """In the whole cluster, on kinds without a namespace."""
    ingress: tuple[Grant, ...] = ()
    """In each namespace of ingress gateways."""
    home: tuple[Grant, ...] = ()
    """In the operator's own namespace, besides those that it has there anyway."""
    ingress_setting: str = ""
    """The field of the setting that names the namespaces of ingress gateways; empty: none."""

    def needs(self, limits: Limits) -> Iterator[Need]:
        """Each right, to be asked about."""
        yield from grants.needs(self.of_cluster)
        yield from grants.needs((*self.home, *self.events), at_home=True)
        for places, granted in ((limits.watched, self.watched), (limits.ingress, self.ingress)):
            for place in places:
                yield from (replace(need, namespace=place) for need in grants.needs(granted))

    def objects(self, account: OperatorAccount, home: Iterable[Grant], limits: Limits) -> Iterator[JsonObject]:
        """Roles and bindings. `home`: what it has in its own namespace anyway."""
        name = account.name
        yield grants.cluster_role(name, _rules(self.of_cluster))
        yield account.is_given_everywhere(name, binding=name)
        yield from _role(account, name, account.namespace, (*home, *self.home, *self.events))
        yield from _role(account, f"{name}-events", EVENTS_NAMESPACE, self.events)
        for place in limits.watched:
            yield from _role(account, f"{name}-watched", place, self.watched)
        for place in limits.ingress:
            yield from _role(account, f"{name}-ingress", place, self.ingress)

    @property
    def events(self) -> tuple[Grant, ...]:
        """Needed at home as well, for Events about the Lease, and about objects without a namespace."""
        return _where(self.watched, lambda kind: kind == "events")


def split(every: Iterable[Grant]) -> tuple[tuple[Grant, ...], tuple[Grant, ...]]:
    """The grants on kinds that have a namespace, and those on kinds without one."""
    granted = [*every]
    return _where(granted, lambda kind: kind not in OF_CLUSTER), _where(granted, lambda kind: kind in OF_CLUSTER)


def _where(granted: Iterable[Grant], is_meant: Callable[[str], bool]) -> tuple[Grant, ...]:
    found: list[Grant] = []
    for each in granted:
        names = tuple(name for name in each.rule.resources if is_meant(name.partition("/")[0]))
        if names:
            found.append(replace(each, rule=msgspec.structs.replace(each.rule, resources=names)))
    return tuple(found)


def _role(account: OperatorAccount, name: str, namespace: str, granted: Sequence[Grant]) -> Iterator[JsonObject]:
    if granted:
        yield grants.role(name, namespace, _rules(granted))
        yield account.is_given_in(namespace, name)


def _rules(granted: Iterable[Grant]) -> list[PolicyRule]:
    return [each.rule for each in granted]
