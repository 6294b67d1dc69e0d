"""Where everything else is denied, manager and operand may do what they must, and nobody else gets in.

No cluster of ours enforces policies, so what they allow is read from them: who is meant, and what goes in and out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.btp.module.release import SHIPPED, Places, load
from stellwerk.operators.btp.settings import Settings

MANAGER = {"kyma-project.io/module": "btp-operator"}
OPERAND = {**MANAGER, "app.kubernetes.io/instance": "sap-btp-operator"}
SCRAPER = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kyma-system"}},
    "podSelector": {"matchLabels": {"networking.kyma-project.io/metrics-scraping": "allowed"}},
}


def policies() -> list[JsonObject]:
    return [dict(document.body) for document in load(Places.of(Settings(), Path(SHIPPED))).network_policies]


def allowed(pod: dict[str, str], direction: str) -> list[tuple[str, int, JsonValue]]:
    """Protocol, port and peers of all that policies allow a pod; no peers: anybody."""
    peers = {"ingress": "from", "egress": "to"}[direction]
    return [
        (str(dig(port, "protocol")), int(str(dig(port, "port"))), dig(rule, peers))
        for policy in policies()
        if selects(policy, pod)
        for rule in listed(dig(policy, "spec", direction))
        for port in listed(dig(rule, "ports"))
    ]


def selects(policy: JsonObject, pod: dict[str, str]) -> bool:
    wanted = dig(policy, "spec", "podSelector", "matchLabels")
    assert isinstance(wanted, dict)
    return all(pod.get(label) == value for label, value in wanted.items())


def listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


@pytest.mark.parametrize("pod", [MANAGER, OPERAND])
def test_the_api_server_service_manager_and_names_can_be_reached(pod: dict[str, str]) -> None:
    out = allowed(pod, "egress")
    assert ("TCP", 443, None) in out
    anywhere: JsonValue = [{"ipBlock": {"cidr": "0.0.0.0/0"}}]
    assert {(protocol, port) for protocol, port, peers in out if peers == anywhere} == {("UDP", 53), ("TCP", 53)}
    assert {port for _, port, _ in out} == {443, 53, 8053}


@pytest.mark.parametrize("pod", [MANAGER, OPERAND])
def test_metrics_are_read_by_permitted_pods_and_by_nobody_else(pod: dict[str, str]) -> None:
    assert [found for found in allowed(pod, "ingress") if found[1] != 9443] == [("TCP", 8080, [SCRAPER])]


def test_the_operands_webhooks_can_be_called_and_the_manager_has_none() -> None:
    assert ("TCP", 9443, None) in allowed(OPERAND, "ingress")
    assert 9443 not in {port for _, port, _ in allowed(MANAGER, "ingress")}


def test_other_pods_are_not_touched() -> None:
    assert not allowed({"app": "somebody"}, "ingress") + allowed({"app": "somebody"}, "egress")
