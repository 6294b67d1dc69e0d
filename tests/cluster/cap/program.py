"""The CAP Operator as a program, for tests that kill it. Argument: the port of probes."""

from __future__ import annotations

import asyncio
import sys

from stellwerk.operators.cap import controllers, names
from stellwerk.runtime.process import process
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings


def main(port: str) -> None:
    """Run until SIGTERM."""
    settings = ProcessSettings(metrics_bind_address="0", health_probe_bind_address=f"127.0.0.1:{port}")

    def install(parts: Parts) -> None:
        controllers.install(parts.manager, "cap-operator-system", recorder=parts.recorder)

    process.configure_logs(settings, tty=False)
    identity = OperatorIdentity(component=names.OPERATOR_NAME, lease=names.LEASE_NAME)
    asyncio.run(process.run(settings, identity, install))


if __name__ == "__main__":
    main(*sys.argv[1:])
