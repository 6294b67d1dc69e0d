"""Ports of loopback for those who listen.

They are taken from below the range that the kernel gives to outgoing connections: a server that is started again
must find its port free, and a busy client of the cluster opens thousands of connections meanwhile.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Container

from stellwerk.local.errors import ProcessStartFailed

HOST = "127.0.0.1"
_RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether one could listen on this port now."""
    return _refusal(port) is None


def free_port(among: range = _RANGE, *, chosen: Container[int] = ()) -> int:
    """A free port, chosen at random so that two calls at once choose different ones. Raises ProcessStartFailed.

    `chosen`: ports that others listen on in a moment.
    """
    refusal: OSError | None = None
    for port in random.sample(among, len(among)):
        if port in chosen:
            continue
        if (refusal := _refusal(port)) is None:
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
