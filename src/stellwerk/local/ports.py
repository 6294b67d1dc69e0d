"""Ports of loopback for those who listen.

They are taken from below the range that the kernel gives to outgoing connections: a server that is started again
must find its port free, and a busy client of the cluster opens thousands of connections meanwhile.
"""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
_RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether one could listen on this port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free port, chosen at random so that two who choose at once do not choose the same."""
    return next(port for port in random.sample(_RANGE, len(_RANGE)) if is_free(port))
