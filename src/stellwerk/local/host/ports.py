"""Ports of loopback for those who listen.

They are taken from below the range that the kernel gives to outgoing connections: a server that is started again
must find its port free, and a busy client of the cluster opens thousands of connections meanwhile.

Between the choice of a port and its use others choose, too: the processes of another `up`, or a test next to this one.
The one who chooses claims the port by a UDP socket with the same number, which every process of the machine sees, and
which ends with the process that holds it.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque

from stellwerk.local.errors import ProcessStartFailed

HOST = "127.0.0.1"
_RANGE = range(20_000, 30_000)
_MOST_CLAIMS = 256
_claims: deque[int] = deque()
"""Descriptors of the claims of this process, the oldest first."""


def is_free(port: int) -> bool:
    """Whether one could listen on this port now."""
    return _refusal(port) is None


def free_port(among: range = _RANGE) -> int:
    """A free port, which no other call on this machine chooses as long as this process lives.

    It is chosen at random. Of many claims the oldest end first. Raises ProcessStartFailed.
    """
    refusal: OSError | None = None
    for port in random.sample(among, len(among)):
        if (refusal := _refusal(port) or _claim(port)) is None:
            return port
    raise ProcessStartFailed(
        f"cannot listen on {HOST}",
        cause=f"none of the ports {among.start} to {among.stop - 1} can be had: {refusal}",
        fix=f"see that this machine has {HOST} (ip link set lo up), and what listens there (ss -ltn)",
    )


def _refusal(port: int) -> OSError | None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1)
            # Without a route to itself (a loopback interface that is down) a machine lets one listen all the same.
            socket.create_connection(listener.getsockname(), timeout=1.0).close()
        except OSError as error:
            return error
    return None


def _claim(port: int) -> OSError | None:
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        claim.bind((HOST, port))
    except OSError as error:
        claim.close()
        return error
    _claims.append(claim.detach())
    if len(_claims) > _MOST_CLAIMS:
        os.close(_claims.popleft())
    return None
