"""What a cluster needs before the subscription server starts, and how the local system starts it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from stellwerk.delivery.installation import Installation, Port
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.subscription import rights
from stellwerk.operators.cap.subscription.settings import TABLE

LEASE_NAME = "cap-operator-subscription-server"


def _local_flags(folder: Path) -> Sequence[str]:
    """A registry that runs on this machine, with a certificate of the local system, may subscribe tenants."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return (f"--loopback-port={port}", f"--outgoing-ca={folder / 'pki' / 'ca.crt'}")


INSTALLATION = Installation(
    namespace=NAMESPACE,
    account=rights.ACCOUNT,
    lease=LEASE_NAME,
    grants=rights.GRANTS,
    home_grants=rights.HOME_GRANTS,
    limited=rights.LIMITED,
    original="cap-operator-subscription-server",
    ports=(Port(name="http", flag="port", number=TABLE.defaults.port),),
    local_flags=_local_flags,
)
