"""What a cluster needs before the webhooks start, and how the local system starts them."""

from __future__ import annotations

from stellwerk.delivery.installation import Installation, Port, Webhooks
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.webhooks import registration, rights, settings

_PORT = Port(name="webhook", flag="webhook-port", number=settings.TABLE.defaults.webhook_port)

INSTALLATION = Installation(
    namespace=NAMESPACE,
    account=rights.ACCOUNT,
    grants=rights.GRANTS,
    original="cap-operator-webhook",
    home_grants=rights.HOME_GRANTS,
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
        secret=registration.secret_of(settings.SERVICE),
        configurations=registration.configurations,
    ),
    local_flags=lambda _: ["--webhook-host=127.0.0.1", f"--pod-namespace={NAMESPACE}"],
)
