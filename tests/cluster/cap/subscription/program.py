"""The subscription server as a process, for tests that kill it.

Arguments: its port, the port of probes, the port of the doubles, and the file with their authority.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from stellwerk.operators.cap.subscription import process as server
from stellwerk.operators.cap.subscription.local import LoopbackResolver
from stellwerk.operators.cap.subscription.outgoing import Outgoing
from stellwerk.operators.cap.subscription.settings import ServerSettings
from stellwerk.runtime.process import process
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing


def main(port: str, probes: str, doubles: str, authority: str, *flags: str) -> None:
    """Run until SIGTERM."""
    settings = ProcessSettings(
        metrics_bind_address="0", health_probe_bind_address=f"127.0.0.1:{probes}", leader_elect="elect" in flags
    )
    process.configure_logs(settings, tty=False)
    values = ServerSettings(port=int(port), host="127.0.0.1")
    launch = server.launch(settings, values, os.environ)

    def install(parts: Parts) -> None:
        client = parts.unfenced()
        parts.manager.add_server("client of requests", Closing(client.close))
        outgoing = Outgoing(
            networks=("127.0.0.0/8",),
            authority=Path(authority).read_bytes(),
            resolver=LoopbackResolver(int(doubles)),
            total_seconds=5.0,
        )
        server.install(parts.manager, values, requests=client, outgoing=outgoing, recorder=parts.recorder)

    asyncio.run(process.run(settings, launch.identity, install))


if __name__ == "__main__":
    main(*sys.argv[1:])
