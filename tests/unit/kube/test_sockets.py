"""No socket outlives for long the machine at its other end, and none ends another that has its number by now."""

from __future__ import annotations

import errno
import gc
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.sockets import REFUSED, ConnectionNotAllowed, OwnSocket, Sockets
from stellwerk.kube.http.transport import ATTEMPTS
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import AddressForbidden, Unreachable

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


@contextmanager
def superseded(sockets: Sockets) -> Iterator[list[OwnSocket]]:
    """A socket that was closed without its knowing, as uvloop does, and whose number is in a conversation of others by
    now. That goes on."""
    near, far = socket.socketpair()
    stale = [sockets.make(LOOPBACK)]
    os.dup2(near.fileno(), stale[0].fileno())
    with near, far, socket.socket(fileno=stale[0].fileno()) as another:
        yield stale
        gc.collect()
        far.settimeout(30)
        another.sendall(b"still here")
        assert far.recv(10) == b"still here"


def test_a_socket_that_is_closed_closes_nobody_else_s_connection() -> None:
    with superseded(Sockets()) as stale:
        stale[0].close()
        assert stale[0].fileno() == -1


def test_a_socket_that_is_forgotten_closes_nobody_else_s_connection() -> None:
    with superseded(Sockets()) as stale:
        stale.clear()


async def test_the_end_of_a_client_hangs_up_on_its_own_connections_only() -> None:
    sockets = Sockets()
    with superseded(sockets) as stale:
        await sockets.hang_up()
        assert not stale[0].is_open


def test_a_socket_that_is_left_open_is_told_and_closed() -> None:
    forgotten = [Sockets().make(LOOPBACK)]
    number = forgotten[0].fileno()
    with pytest.warns(ResourceWarning, match="unclosed"):
        forgotten.clear()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.req("R-601")
def test_no_socket_is_made_for_an_address_that_may_not_be_connected_to() -> None:
    guarded = Sockets(lambda address: address == "192.0.2.1")
    with pytest.raises(ConnectionNotAllowed, match=REFUSED):
        guarded.make(LOOPBACK)
    with guarded.make((*LOOPBACK[:4], ("192.0.2.1", 0))) as made:
        assert made.fileno() >= 0


async def test_an_address_that_may_not_be_connected_to_is_an_error_at_once() -> None:
    asked: list[str] = []

    def may_connect(address: str) -> bool:
        asked.append(address)
        return False

    config = ClusterConfig(server="https://127.0.0.1:6443", may_connect=may_connect)
    async with Client.connect(config) as client:
        with pytest.raises(AddressForbidden, match=f"127.0.0.1:6443 does not answer: {REFUSED}"):
            await client.get(ConfigMap, "settings", "default")
    assert asked == ["127.0.0.1"]


async def test_a_connection_that_the_kernel_refuses_is_tried_again() -> None:
    asked: list[str] = []

    def may_connect(address: str) -> bool:
        asked.append(address)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    config = ClusterConfig(server="https://127.0.0.1:6443", may_connect=may_connect)
    async with Client.connect(config) as client:
        with pytest.raises(Unreachable, match="Operation not permitted") as refused:
            await client.get(ConfigMap, "settings", "default")
    assert not isinstance(refused.value, AddressForbidden)
    assert len(asked) == ATTEMPTS
