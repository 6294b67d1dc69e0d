"""An operator that runs in a cluster is found by its command, and its settings are read from its Deployment."""

from __future__ import annotations

import pytest

from stellwerk.delivery import deployed_process
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.domain.plan import CertManager
from stellwerk.operators.cap.settings import TABLE
from stellwerk.operators.kyma.settings import TABLE as KYMA


def deployment(*containers: JsonValue) -> Unstructured:
    spec: JsonObject = {"template": {"spec": {"containers": [*containers]}}}
    return Unstructured({"spec": spec}, ObjectMeta(namespace="home", name="cap"))


@pytest.mark.parametrize(
    ("words", "operator", "is_it"),
    [
        (["/opt/bin/stellwerk", "run", "cap"], "cap", True),
        (["stellwerk", "run", "cap-server"], "cap", False),
        (["stellwerk", "run", "cap-server"], "", True),
        (["/manager", "run", "cap"], "cap", False),
        ([], "", False),
    ],
)
def test_an_operator_is_known_by_its_command(words: list[JsonValue], operator: str, is_it: bool) -> None:
    (process,) = deployed_process.of_deployment(deployment({"command": words[:1], "args": words[1:]}))
    assert process.runs(operator) is is_it


def test_flags_go_before_variables_and_what_cannot_be_read_has_no_effect() -> None:
    env: JsonValue = [
        {"name": "CERT_MANAGER", "value": "gardener"},
        {"name": "DNS_TARGET", "value": "lb.example.com"},
        {"name": "FROM_A_SECRET", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ]
    args: JsonValue = ["run", "cap", "--cert-manager=cert-manager.io", "--max-concurrent-reconciles-domain=many"]
    (process,) = deployed_process.of_deployment(deployment({"command": ["stellwerk"], "args": args, "env": env}))
    settings = TABLE.of_process(process.words, process.variables)
    assert (settings.cert_manager, settings.dns_target) == (CertManager.CERT_MANAGER, "lb.example.com")
    assert settings.max_concurrent_reconciles_domain == TABLE.defaults.max_concurrent_reconciles_domain


@pytest.mark.parametrize(
    ("words", "is_off", "gateway"),
    [
        (["--disable-watcher", "--istio-gateway-name=own"], True, "own"),
        (["-disable-watcher=true", "-istio-gateway-name", "own"], True, "own"),
        (["--disable-watcher=false", "--istio-gateway-name"], False, ""),
        (["--disable-watcher=perhaps", "--unknown", "own", "disable-watcher"], False, ""),
        (["--disable-watcher", "--no-disable-watcher"], False, ""),
    ],
)
def test_flags_are_read_in_each_form_that_the_originals_take(words: list[str], is_off: bool, gateway: str) -> None:
    settings = KYMA.of_process(["/manager", *words], {})
    assert settings.disable_watcher is is_off
    assert settings.istio_gateway_name == (gateway or KYMA.defaults.istio_gateway_name)


def test_a_deployment_of_any_form_is_passed_over() -> None:
    oddities: list[JsonValue] = [
        None,
        "text",
        {"command": "stellwerk", "env": {"A": "b"}},
        {"env": [None, {"name": 1}]},
    ]
    for odd in oddities:
        assert not any(each.runs() for each in deployed_process.of_deployment(deployment(odd)))
    assert not list(deployed_process.of_deployment(Unstructured({"spec": []}, ObjectMeta(name="cap"))))
