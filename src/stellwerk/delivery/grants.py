"""The rights of an operator with their purposes, and the objects that grant them to its ServiceAccount.

Each grant states what does not work without it; an administrator reads this where the grant is missing. A right that
the operator seldom uses states the occasion. So a reviewer of a role sees the purpose of each right, and a test can
compare the other rights with the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from stellwerk.api import rbac
from stellwerk.api.rbac import PolicyRule
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, decode_json, encode_json
from stellwerk.runtime.access.permission_check import Need

Right: TypeAlias = tuple[str, str, str]
"""Group, resource with its subresource, verb."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources. `seldom` has the occasion for each verb that is seldom needed."""

    rule: PolicyRule
    purpose: str
    """What does not work without it, as the end of a sentence that begins with "Without it"."""
    seldom: Mapping[str, str]


def rule(group: str, names: str, verbs: str) -> PolicyRule:
    """Verbs on resources of one group, each a list of words."""
    return PolicyRule(api_groups=(group,), resources=tuple(names.split()), verbs=tuple(verbs.split()))


def grant(group: str, names: str, verbs: str, purpose: str, **seldom: str) -> Grant:
    """A rule, what does not work without it, and the occasions of those of its verbs that are seldom used."""
    return Grant(rule(group, names, verbs), purpose, seldom)


def grant_on(object_name: str, group: str, names: str, verbs: str, purpose: str, **seldom: str) -> Grant:
    """A grant on objects of one name only."""
    return Grant(replace(rule(group, names, verbs), resource_names=(object_name,)), purpose, seldom)


_SECURE = {"purpose": "no scraper reads the metrics", "create": "metrics are secure, and a client asks for them"}
SECURE_METRICS = (
    grant("authentication.k8s.io", "tokenreviews", "create", **_SECURE),
    grant("authorization.k8s.io", "subjectaccessreviews", "create", **_SECURE),
)
"""What every process does that serves metrics to authorized clients alone."""


def needs(grants: Iterable[Grant], *, at_home: bool = False) -> tuple[Need, ...]:
    """Each right of the grants, to be asked about; `at_home`: they are granted in the operator's own namespace."""
    return tuple(
        Need(group, resource, verb, _without(one, verb), at_home, name)
        for one in grants
        for group in one.rule.api_groups
        for resource in one.rule.resources
        for verb in one.rule.verbs
        for name in one.rule.resource_names or ("",)
    )


def _without(grant: Grant, verb: str) -> str:
    occasion = grant.seldom.get(verb)
    return f"{grant.purpose}; needed when {occasion}" if occasion else grant.purpose


def lacking(wanted: Iterable[PolicyRule], live: Sequence[PolicyRule]) -> tuple[Need, ...]:
    """The wanted rights on objects that the live rules do not grant; these may grant more. Pure."""
    asked = needs(Grant(rule, "", {}) for rule in wanted)
    return tuple(need for need in dict.fromkeys(asked) if not any(_is_in(need, rule) for rule in live))


def _is_in(need: Need, rule: PolicyRule) -> bool:
    _, slash, subresource = need.resource.partition("/")
    of_all = ("*", f"*/{subresource}") if slash else ("*",)
    return (
        _has(rule.api_groups, need.group, "*")
        and _has(rule.resources, need.resource, *of_all)
        and _has(rule.verbs, need.verb, "*")
        and (not rule.resource_names or need.name in rule.resource_names)
    )


def _has(listed: Sequence[str], *words: str) -> bool:
    return any(word in listed for word in words)


def occasions(grants: Iterable[Grant]) -> dict[Right, str]:
    """The occasion of each right that an ordinary life does not use."""
    return {
        (group, resource, verb): occasion
        for one in grants
        for verb, occasion in one.seldom.items()
        for group in one.rule.api_groups
        for resource in one.rule.resources
    }


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    """The ServiceAccount of an operator."""

    name: str
    namespace: str

    def body(self) -> JsonObject:
        """The ServiceAccount."""
        metadata: JsonObject = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}

    def is_given_everywhere(self, role: str, binding: str) -> JsonObject:
        """The binding that gives it a ClusterRole in all namespaces."""
        return _rbac("ClusterRoleBinding", {"name": binding}, self._bound("ClusterRole", role))

    def is_given_at_home(self, role: str, binding: str) -> JsonObject:
        """The binding that gives it a Role of its own namespace."""
        return _rbac("RoleBinding", {"name": binding, "namespace": self.namespace}, self._bound("Role", role))

    def is_given_in(self, namespace: str, role: str) -> JsonObject:
        """The binding that gives it a Role of a namespace; it has the name of the Role."""
        return _rbac("RoleBinding", {"name": role, "namespace": namespace}, self._bound("Role", role))

    def _bound(self, kind: str, role: str) -> JsonObject:
        return {
            "roleRef": {"apiGroup": rbac.GROUP, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}],
        }


def cluster_role(name: str, rules: Sequence[PolicyRule], **labels: str) -> JsonObject:
    """A role for all namespaces."""
    metadata: JsonObject = {"name": name, **({"labels": {**labels}} if labels else {})}
    return _rbac("ClusterRole", metadata, {"rules": _rules(rules)})


def role(name: str, namespace: str, rules: Sequence[PolicyRule]) -> JsonObject:
    """A role for one namespace."""
    return _rbac("Role", {"name": name, "namespace": namespace}, {"rules": _rules(rules)})


def collecting_role(name: str, label: str) -> JsonObject:
    """A role whose rules the control plane collects from others. It has none itself: each apply would remove them."""
    rule: JsonObject = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    return _rbac("ClusterRole", {"name": name}, {"aggregationRule": rule})


def _rbac(kind: str, metadata: JsonObject, content: JsonObject) -> JsonObject:
    return {"apiVersion": f"{rbac.GROUP}/v1", "kind": kind, "metadata": metadata, **content}


def added_to(who: str) -> str:
    """The label that adds a ClusterRole to the rights of those who may `view`, `edit` or `admin` a namespace."""
    return f"{rbac.GROUP}/aggregate-to-{who}"


def roles_of_users(name: str, kinds: Iterable[Resource]) -> list[JsonObject]:
    """Roles with kinds for accounts that may `view`, `edit` or `admin` a namespace, which the control plane adds."""
    read, change = ("get", "list", "watch"), ("create", "update", "patch", "delete", "deletecollection")
    plurals: dict[str, list[str]] = {}
    for kind in kinds:
        plurals.setdefault(kind.group, []).extend((kind.plural, f"{kind.plural}/status"))
    view = [PolicyRule(api_groups=(group,), resources=(*each,), verbs=read) for group, each in plurals.items()]
    edit = [
        PolicyRule(api_groups=(group,), resources=tuple(each[::2]), verbs=change) for group, each in plurals.items()
    ]
    rules = {"view": view, "edit": [*view, *edit], "admin": [*view, *edit]}
    return [cluster_role(f"{name}-{who}", given, **{added_to(who): "true"}) for who, given in rules.items()]


def rule_object(rule: PolicyRule) -> JsonObject:
    """A rule as it is in a role that an API server returns: with lists where the rule has tuples."""
    return decode_json(encode_json(rule))


def _rules(rules: Sequence[PolicyRule]) -> list[JsonValue]:
    return [rule_object(one) for one in rules]
