"""Which requests count as those of the ingress gateway: by address, and by the value that only its routes have."""

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.cap.subscription.callers.gateway import Gateway, GatewayPod, GatewaySecret
from stellwerk.runtime.cache.informer import Informer

pytestmark = pytest.mark.req("R-951")

NOWHERE = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
KEY = ObjectKey("cap", "gateway")
PROOF = "p" * 32
FORMER = "f" * 40
SERVING: JsonObject = {
    "metadata": {"name": "gateway", "namespace": "istio-system", "resourceVersion": "1", "uid": "1"},
    "spec": {"containers": []},
    "status": {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def changed(body: Any, path: str, value: Any) -> JsonObject:
    """A pod with another value at a place."""
    first, _, rest = path.partition(".")
    return {**body, first: changed(body.get(first, {}), rest, value) if rest else value}


def pods(*bodies: JsonObject) -> Informer[GatewayPod]:
    """The pods of the gateway, which are all known."""
    made = Informer(NOWHERE, GatewayPod)
    gateway = tuple(msgspec.convert(each, GatewayPod) for each in bodies)
    made.take(Synced(gateway, "1"))
    return made


def secret(**values: str) -> Secret:
    """The Secret of the gateway."""
    data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
    body: JsonObject = {"metadata": {"namespace": KEY.namespace, "name": KEY.name, "uid": "s"}, "data": {**data}}
    return msgspec.convert(body, Secret)


def watched(*found: Secret) -> GatewaySecret:
    """The Secret, which was looked for."""
    informer = Informer(NOWHERE, Secret)
    informer.take(Synced(found, "1"))
    return GatewaySecret(KEY, informer)


def gateway(*, secret: GatewaySecret | None = None, by_address: bool = False) -> Gateway:
    """A gateway with one pod that serves."""
    return Gateway(pods=pods(SERVING), secret=secret, by_address=by_address)


def test_a_request_counts_with_the_address_of_the_gateway_and_the_value_of_its_routes() -> None:
    proved = gateway(secret=watched(secret(current=PROOF, former=FORMER)))
    for peer in ("10.0.0.1", "::ffff:10.0.0.1", "fd00::1", "fd00:0::1%eth0"):
        assert proved.problem(peer, [PROOF]) == ""
        assert proved.problem(peer, [FORMER]) == "", "a request that was on its way while the value changed"
        assert proved.sent(peer, [PROOF])


@pytest.mark.parametrize(
    "headers",
    [[], [""], ["x"], [PROOF + "p"], [PROOF[:-1]], [PROOF.upper()], [PROOF, PROOF], ["p" * 31 + "\xff"], ["\u20ac"]],
)
def test_another_route_of_the_gateway_proves_nothing_and_no_message_shows_the_value(
    headers: list[str],
) -> None:
    proved = gateway(secret=watched(secret(current=PROOF)))
    problem = proved.problem("10.0.0.1", headers)
    assert "x-stellwerk-gateway" in problem
    assert "cap/gateway" in problem
    assert PROOF not in problem
    assert not proved.sent("10.0.0.1", headers), "nor is it believed for which client it speaks"


def test_the_value_alone_proves_nothing() -> None:
    proved = gateway(secret=watched(secret(current=PROOF)))
    for peer in ("10.0.0.2", "", "noise", "fd00::2"):
        assert "does not come from a pod of the ingress gateway" in proved.problem(peer, [PROOF])
        assert not proved.sent(peer, [PROOF])
    assert Gateway(networks=[ip_network("10.1.0.0/16")], secret=proved.secret).problem("10.1.2.3", [PROOF]) == ""


@pytest.mark.parametrize(
    "values", [{}, {"current": ""}, {"current": "p" * 31}, {"other": PROOF}, {"former": "short", "current": "short"}]
)
def test_a_secret_without_a_long_value_lets_nobody_in(values: dict[str, str]) -> None:
    weak = gateway(secret=watched(secret(**values)))
    for given in ("", "short", "p" * 31, PROOF):
        problem = weak.problem("10.0.0.1", [given])
        assert "Secret cap/gateway of GATEWAY_SECRET" in problem
        assert "GATEWAY_BY_ADDRESS" in problem


def test_a_secret_that_is_absent_lets_nobody_in_and_one_that_changes_counts_at_once() -> None:
    found = watched()
    proved = gateway(secret=found)
    assert "does not exist" in proved.problem("10.0.0.1", [PROOF])
    found.informer.take(Changed(secret(current=PROOF)))
    assert proved.problem("10.0.0.1", [PROOF]) == ""
    found.informer.take(Changed(secret(current="q" * 32)))
    assert proved.problem("10.0.0.1", [PROOF])
    found.informer.take(Removed(secret(current="q" * 32)))
    assert proved.problem("10.0.0.1", ["q" * 32])


def test_without_a_secret_the_address_proves_nothing_unless_that_is_asked_for() -> None:
    problem = gateway().problem("10.0.0.1", [PROOF])
    assert "GATEWAY_SECRET" in problem
    assert "GATEWAY_BY_ADDRESS=true" in problem
    assert gateway(by_address=True).problem("10.0.0.1", []) == ""
    assert gateway(by_address=True).problem("10.0.0.2", []), "the address is looked at as before"
    both = gateway(secret=watched(secret(current=PROOF)), by_address=True)
    assert both.problem("10.0.0.1", []), "a Secret that is named is asked for"


def test_without_a_secret_the_address_shows_for_whom_the_gateway_speaks() -> None:
    assert gateway().sent("10.0.0.1", [])
    assert not gateway().sent("10.0.0.2", [])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status.phase", "Failed"),
        ("status.phase", "Succeeded"),
        ("status.phase", "Pending"),
        ("status.phase", "Unknown"),
        ("status.phase", ""),
        ("status.conditions", []),
        ("status.conditions", [{"type": "Ready", "status": "False"}]),
        ("status.conditions", [{"type": "Ready", "status": "Unknown"}]),
        ("status.conditions", [{"type": "ContainersReady", "status": "True"}]),
        ("metadata.deletionTimestamp", "2026-11-28T12:00:00Z"),
        ("spec.hostNetwork", True),
        ("status.podIPs", []),
        ("status.podIPs", [{"ip": "noise"}]),
    ],
)
def test_the_address_of_a_pod_that_does_not_serve_is_nobodys(path: str, value: Any) -> None:
    informer = pods(SERVING)
    proved = Gateway(pods=informer, secret=watched(secret(current=PROOF)))
    assert proved.problem("10.0.0.1", [PROOF]) == ""
    newer = changed(changed(SERVING, "metadata.resourceVersion", "2"), path, value)
    informer.take(Changed(msgspec.convert(newer, GatewayPod)))
    assert "does not come from a pod of the ingress gateway that serves" in proved.problem("10.0.0.1", [PROOF])


def test_before_pods_and_secret_were_listed_nothing_is_refused_for_good() -> None:
    known, unknown = pods(SERVING), Informer(NOWHERE, GatewayPod)
    listed, unlisted = watched(), GatewaySecret(KEY, Informer(NOWHERE, Secret))
    assert Gateway(pods=known, secret=listed).is_known("10.0.0.9")
    assert not Gateway(pods=known, secret=unlisted).is_known("10.0.0.1")
    assert not Gateway(pods=unknown, secret=listed).is_known("10.0.0.1")
    assert Gateway(pods=unknown, networks=[ip_network("10.0.0.0/8")]).is_known("10.0.0.1"), "no pod matters"
