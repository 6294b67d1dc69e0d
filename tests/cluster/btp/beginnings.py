"""How tests begin that are about what comes after: with a module that is ready, and rights that can be taken away."""

from __future__ import annotations

from collections.abc import Sequence

from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

from stellwerk.api.rbac import ClusterRole
from stellwerk.kube.model import JsonValue, unstructured

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


def without(rules: Sequence[JsonValue], resource: str) -> list[JsonValue]:
    """RBAC rules without a resource."""
    kept: list[JsonValue] = []
    for rule in rules:
        assert isinstance(rule, dict)
        named = rule.get("resources")
        assert isinstance(named, list), "our role names resources only"
        if resources := [one for one in named if one != resource]:
            kept.append({**rule, "resources": resources})
    return kept
