"""The CAP Operator without its controllers of domains, for tests that kill it. Argument: the port of probes."""

from __future__ import annotations

import asyncio
import os
import sys

from stellwerk.operators.cap import controllers
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.settings import Settings
from stellwerk.runtime.process import process
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings


def main(port: str) -> None:
    """Run until SIGTERM."""
    settings = ProcessSettings(metrics_bind_address="0", health_probe_bind_address=f"127.0.0.1:{port}")
    process.configure_logs(settings, tty=False)
    launch = controllers.launch(settings, Settings(), os.environ)

    def install(parts: Parts) -> None:
        counts = CapMetrics(parts.manager.metrics, detailed=False)
        controllers.install_applications(parts.manager, Settings(), NAMESPACE, counts=counts, recorder=parts.recorder)

    asyncio.run(process.run(settings, launch.identity, install))


if __name__ == "__main__":
    main(*sys.argv[1:])
