"""What a cluster needs before the webhooks start, and how the local system starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stellwerk.delivery.installation import Installation, Port, Webhooks
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.webhooks import registration, rights, settings

_PORT = Port(name="webhook", flag="webhook-port", number=settings.TABLE.defaults.webhook_port)


def _certificate_file(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    found = settings.TABLE.of_process(arguments, variables)
    return found.tls_cert if found.tls_enabled else ""


INSTALLATION = Installation(
    namespace=NAMESPACE,
    account=rights.ACCOUNT,
    grants=rights.GRANTS,
    original="cap-operator-webhook",
    home_grants=rights.HOME_GRANTS,
    limited=rights.LIMITED,
    ports=(_PORT,),
    webhooks=Webhooks(
        port=_PORT.name,
        service=settings.SERVICE,
        service_flag="webhook-service",
        certificate_flags=lambda folder: [
            "--tls-enabled=true",
            f"--tls-cert={folder}/tls.crt",
            f"--tls-key={folder}/tls.key",
        ],
        certificate_file=_certificate_file,
        secret=registration.secret_of(settings.SERVICE),
        configurations=registration.configurations,
    ),
    local_flags=lambda _: ["--webhook-host=127.0.0.1", f"--pod-namespace={NAMESPACE}"],
)
