"""The domain controllers as a program, for tests that kill it. Arguments: the port of probes, and a namespace."""

from __future__ import annotations

import asyncio
import sys

from stellwerk.delivery.rendering import add_renderer
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import controllers, ingress
from stellwerk.operators.cap.domain.plan import DomainSettings
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.runtime.process import process
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings


def main(port: str, namespace: str) -> None:
    """Run until SIGTERM."""
    settings = ProcessSettings(metrics_bind_address="0", health_probe_bind_address=f"127.0.0.1:{port}")

    def install(parts: Parts) -> None:
        renderer = add_renderer(parts, settings)
        controllers.install(
            parts.manager,
            DomainSettings(namespace=namespace, ingress_namespaces=(ingress.ALL,)),
            renderer=renderer,
            counts=CapMetrics(parts.manager.metrics, detailed=False),
            recorder=parts.recorder,
        )

    process.configure_logs(settings, tty=False)
    identity = OperatorIdentity(component=names.OPERATOR_NAME, lease=names.LEASE_NAME)
    asyncio.run(process.run(settings, identity, install))


if __name__ == "__main__":
    main(*sys.argv[1:])
