"""Rights that count: the API server takes up a role a moment after it was written, and says to nobody when it has.

Until then it decides by the former one. A test that changes rights and goes on at once would meet either, so whoever
changes them here waits until the API server itself answers as it shall.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from stellwerk.api import rbac
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.delivery.grants import Grant, OperatorAccount, cluster_role
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.testing.eventually import eventually

REVIEWS = unstructured(
    Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
)
_MARKS = {"group": "tests.example.com", "resource": "marks"}


def account(name: str, namespace: str) -> str:
    """The user that a ServiceAccount is."""
    return f"system:serviceaccount:{namespace}:{name}"


def on(resource: str, verb: str, namespace: str = "", *, group: str = "") -> JsonObject:
    """A right on a resource; without a namespace, in all of them."""
    return {"resourceAttributes": {"group": group, "resource": resource, "verb": verb, "namespace": namespace}}


def at(path: str) -> JsonObject:
    """The right to read what is no resource."""
    return {"nonResourceAttributes": {"path": path, "verb": "get"}}


def mark() -> tuple[JsonObject, JsonObject]:
    """A rule that is in no other version of a role, and the right that it grants: who has it has the whole role."""
    name = secrets.token_hex(4)
    rule: JsonObject = {"apiGroups": [_MARKS["group"]], "resources": [_MARKS["resource"]], "verbs": ["get"]}
    right: JsonObject = {"resourceAttributes": {**_MARKS, "verb": "get", "name": name}}
    return {**rule, "resourceNames": [name]}, right


def within(right: JsonObject, namespace: str) -> JsonObject:
    """The same right in one namespace."""
    attributes = right["resourceAttributes"]
    assert isinstance(attributes, dict)
    return {"resourceAttributes": {**attributes, "namespace": namespace}}


async def count(client: Client, user: str, *rights: JsonObject, granted: bool = True) -> None:
    """Return when the API server knows that somebody has these rights, or with `granted=False` has them no more."""
    for right in rights:
        body: JsonObject = {"spec": {"user": user, **right}}

        async def known(body: JsonObject = body) -> bool:
            answer = await client.create(REVIEWS, {**body})
            return (answer.at("status", "allowed") is True) is granted

        await eventually(known, describe=f"the API server knows that {user} {'has' if granted else 'has lost'} {right}")


async def grant(client: Client, user: str, grants: Iterable[Grant]) -> None:
    """Give a user these rights in all namespaces, and nothing more. Return when they count."""
    rule, right = mark()
    role = cluster_role(user, [each.rule for each in grants])
    rules = role["rules"]
    assert isinstance(rules, list)
    await client.apply(ClusterRole, {**role, "rules": [*rules, rule]})
    binding = OperatorAccount(user, "").is_given_everywhere(user, user)
    subject: JsonObject = {"kind": "User", "name": user, "apiGroup": rbac.GROUP}
    await client.apply(ClusterRoleBinding, {**binding, "subjects": [subject]})
    await count(client, user, right)
