"""No socket outlives for long the machine at its other end."""

from __future__ import annotations

import socket
import sys

import pytest

from stellwerk.kube.sockets import Sockets

LOOPBACK = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels name these options otherwise")
def test_a_machine_that_vanished_is_noticed_before_a_call_ends() -> None:
    with Sockets().make(LOOPBACK) as made:
        idle, interval, count = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + interval * count < 60
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) < 60_000
