"""The program of the webhooks starts as the original's does: by the same variables, with or without a certificate."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stellwerk.assembly import PROCESSES
from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.operators.cap.webhooks import process, settings
from stellwerk.operators.cap.webhooks.settings import Settings
from stellwerk.runtime.settings.process_settings import ProcessSettings

SPEC = PROCESSES["cap-webhooks"]


def of(**variables: str) -> Settings:
    """The settings of these variables, all of which have an effect."""
    found = settings.TABLE.from_environment(variables)
    assert not found.rejections
    return found.settings


def test_the_variables_of_the_original_have_an_effect() -> None:
    found = of(WEBHOOK_PORT="1443", TLS_ENABLED="true", TLS_CERT="/etc/certs/tls.crt", TLS_KEY="/etc/certs/tls.key")
    assert (found.webhook_port, found.tls_enabled) == (1443, True)
    assert (found.tls_cert, found.tls_key) == ("/etc/certs/tls.crt", "/etc/certs/tls.key")
    assert of() == Settings(webhook_port=8443, tls_enabled=False)
    assert not of(TLS_ENABLED="yes").tls_enabled, "only the word true is true"


@pytest.mark.parametrize(
    ("variables", "flag", "served"),
    [({}, None, ":9090"), ({"METRICS_PORT": "9191"}, None, ":9191"), ({"METRICS_PORT": "9191"}, "0", "0")],
)
@pytest.mark.parametrize("name", ["cap", "cap-server", "cap-webhooks"])
def test_the_flag_decides_about_metrics_before_the_variable_of_the_original(
    name: str, variables: Mapping[str, str], flag: str | None, served: str
) -> None:
    table = PROCESSES[name].process()
    found = table.from_environment(variables)
    assert table.from_flags({"metrics_bind_address": flag}, found.settings).metrics_bind_address == served


def test_the_controllers_hold_the_lease_without_a_flag_as_the_original_does_and_the_servers_need_none() -> None:
    defaults = {name: PROCESSES[name].process().defaults.leader_elect for name in PROCESSES if name.startswith("cap")}
    assert defaults == {"cap": True, "cap-server": False, "cap-webhooks": False, "cap-manager": False}
    table = PROCESSES["cap"].process()
    assert not table.from_flags({"leader_elect": False}).leader_elect, "a flag switches it off"


@pytest.mark.parametrize("name", ["cap", "cap-server", "cap-webhooks"])
def test_the_namespace_of_a_program_is_that_of_its_variable_or_flag(name: str) -> None:
    spec = PROCESSES[name]
    found = spec.settings().from_environment({"POD_NAMESPACE": "here"})
    given = spec.settings().from_flags({"pod_namespace": "there"}, found.settings)
    for values, namespace in ((found.settings, "here"), (given, "there")):
        assert spec.start(ProcessSettings(), values, {}).identity.namespace == namespace


def test_it_does_not_start_without_the_certificate_that_it_is_to_serve() -> None:
    with pytest.raises(CannotStart, match="TLS_CERT") as raised:
        process.launch(ProcessSettings(), of(TLS_ENABLED="true", TLS_CERT="/etc/certs/tls.crt"), {})
    assert "leave TLS_ENABLED out" in raised.value.fix


def test_its_certificate_is_for_the_service_in_its_namespace_and_for_the_address_that_it_is_served_at() -> None:
    assert process.hosts(of(), "here") == (
        "cap-operator-webhook.here.svc",
        "cap-operator-webhook.here",
        "cap-operator-webhook.here.svc.cluster.local",
    )
    assert process.hosts(of(WEBHOOK_SERVICE="other", WEBHOOK_HOST="127.0.0.1"), "here")[::3] == (
        "other.here.svc",
        "127.0.0.1",
    )
