"""How tests begin that are about what comes after: with a module that is ready, and rights that can be taken away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from stellwerk.api.rbac import ClusterRole, PolicyRule
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, unstructured
from tests.cluster import permissions
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT

RETRY = {"ProcessingStateRequeueInterval": "1s"}
"""Where nothing tells that the cause is gone, only the next try finds out: a second here, half a minute by default."""

ROLES = unstructured(ClusterRole.resource)
OPERATOR_ROLE = "btp-manager-manager-role"


async def provisioned(running: Running, given: Given, then: Then, **tunables: str) -> None:
    """A module is ready; its operator looks again when the tunables say."""
    await given.required_secret()
    await running.start(**tunables)
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")


async def ready(running: Running, given: Given, then: Then, **tunables: str) -> None:
    """A module is ready, and its operator has nothing to do; a try that failed is made again within a second."""
    await provisioned(running, given, then, **{**RETRY, **tunables})
    await running.is_idle()


@asynccontextmanager
async def revoked(client: Client, resource: str) -> AsyncIterator[None]:
    """The operator's role without any right on a resource, in this context."""
    rules = (await client.get(ROLES, OPERATOR_ROLE)).at("rules")
    assert isinstance(rules, list)
    right = _first_right(rules, resource)
    await client.patch(ROLES, OPERATOR_ROLE, "", MergePatch({"rules": _without(rules, resource)}))
    try:
        await permissions.count(client, ACCOUNT, right, granted=False)
        yield
    finally:
        await client.patch(ROLES, OPERATOR_ROLE, "", MergePatch({"rules": rules}))
        await permissions.count(client, ACCOUNT, right)


def _first_right(rules: Sequence[JsonValue], resource: str) -> JsonObject:
    for rule in msgspec.convert(rules, list[PolicyRule]):
        if resource in rule.resources:
            return permissions.on(resource, rule.verbs[0], group=rule.api_groups[0])
    raise AssertionError(f"our role grants nothing on {resource}")


def _without(rules: Sequence[JsonValue], resource: str) -> list[JsonValue]:
    kept: list[JsonValue] = []
    for rule in rules:
        assert isinstance(rule, dict)
        named = rule.get("resources")
        assert isinstance(named, list), "our role names resources only"
        if resources := [one for one in named if one != resource]:
            kept.append({**rule, "resources": resources})
    return kept
