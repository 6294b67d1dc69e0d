"""How the process of the subscription server is prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cap.subscription.client_certificates import Authority

from stellwerk.assembly import PROCESSES
from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.operators.cap.subscription import process
from stellwerk.operators.cap.subscription.callers.authorities import CHECK_SECONDS, Authorities
from stellwerk.operators.cap.subscription.settings import TABLE, ServerSettings
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.testing.clock import FakeClock


def test_the_variables_of_the_original_are_read() -> None:
    variables = {
        "PORT": "4001",
        "TLS_ENABLED": "true",
        "TLS_CERT": "/tls/tls.crt",
        "TLS_KEY": "/tls/tls.key",
        "GATEWAY_NETWORKS": "10.0.0.0/8, fd00::/8",
        "GATEWAY_LABELS": "app=gateway, istio=ingress",
    }
    found = TABLE.from_environment(variables)
    assert not found.rejections
    assert found.settings == ServerSettings(
        port=4001,
        tls_enabled=True,
        tls_cert="/tls/tls.crt",
        tls_key="/tls/tls.key",
        gateway_networks=("10.0.0.0/8", "fd00::/8"),
        gateway_labels="app=gateway,istio=ingress",
    )


@pytest.mark.req("R-962")
@pytest.mark.parametrize(
    "text",
    ["127.0.0.0/8", "10.0.0.0/8,127.0.0.1", "0.0.0.0/0", "169.254.169.254/32", "::1/128", "::/0", "::ffff:7f00:1/128"],
)
def test_no_variable_lets_the_server_call_its_own_machine(text: str) -> None:
    found = TABLE.from_environment({"ALLOWED_NETWORKS": text, "LOOPBACK_PORT": "8443"})
    assert found.settings == ServerSettings()
    assert "of the machine itself" in found.rejections[0].why


@pytest.mark.req("R-962")
def test_only_the_program_of_a_local_system_has_a_flag_that_leads_to_this_machine() -> None:
    ours, local = PROCESSES["cap-server"], PROCESSES["cap-server"].local
    assert local is not None
    assert {row.field for row in local().settings().rows} - {row.field for row in ours.settings().rows} == {
        "loopback_port"
    }


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "x"),
        ("GATEWAY_NETWORKS", "10.0.0.1/8"),
        ("GATEWAY_LABELS", "a b"),
        ("GATEWAY_LABELS", "a"),
    ],
)
def test_a_variable_that_cannot_be_read_has_no_effect(name: str, value: str) -> None:
    found = TABLE.from_environment({name: value})
    assert [each.key for each in found.rejections] == [name]
    assert found.settings == ServerSettings()


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(tls_enabled=True),
        ServerSettings(tls_enabled=True, tls_cert="x"),
        ServerSettings(outgoing_ca="/absent"),
        ServerSettings(outgoing_ca=__file__),
    ],
)
def test_what_it_cannot_start_with_is_named_with_a_fix(settings: ServerSettings) -> None:
    with pytest.raises(CannotStart) as error:
        process.launch(ProcessSettings(), settings, {})
    assert "set " in error.value.fix


async def test_authorities_of_client_certificates_follow_their_file(tmp_path: Path) -> None:
    clock, file = FakeClock(), tmp_path / "authorities.pem"
    first, second = Authority(), Authority()
    file.write_bytes(first.pem)
    authorities = Authorities(str(file), clock)
    assert authorities.current() == [first.pem]
    file.write_bytes(first.pem + second.pem)
    assert authorities.current() == [first.pem]
    await clock.advance(CHECK_SECONDS)
    assert authorities.current() == [first.pem, second.pem]
    file.unlink()
    await clock.advance(CHECK_SECONDS)
    assert authorities.current() == [first.pem, second.pem]


def test_a_request_has_at_most_64_kib() -> None:
    assert process.LIMITS.body_bytes == 65_536
