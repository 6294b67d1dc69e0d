"""Clients that stop in the middle of something: from then on they neither read, nor write, nor close."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

HOST = "127.0.0.1"

Begin: TypeAlias = Callable[[int, ssl.SSLContext | None], socket.socket]
"""Connects to a port of loopback, with TLS or without, sends something, and returns the connection. It blocks: call it
in a thread."""


def _connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=20)


def _secured(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    if tls is None:
        return _connected(port)
    return tls.wrap_socket(_connected(port), server_hostname=HOST)


def nothing(port: int, _: ssl.SSLContext | None) -> socket.socket:
    """A connection on which nothing comes."""
    return _connected(port)


def half_a_hello(port: int, _: ssl.SSLContext | None) -> socket.socket:
    """The first bytes of a TLS handshake."""
    connection = _connected(port)
    connection.sendall(b"\x16\x03\x01\x02\x00\x01")
    return connection


def a_handshake(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A whole handshake, and no request."""
    return _secured(port, tls)


def half_a_head(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """The beginning of a request."""
    client = _secured(port, tls)
    client.sendall(b"POST /large HTTP/1.1\r\nHost: a\r\n")
    return client


def half_a_body(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A request whose body does not come."""
    client = _secured(port, tls)
    client.sendall(b"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nx")
    return client


def an_unread_answer(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A request for /large, of whose answer only one byte is read."""
    client = _secured(port, tls)
    client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    client.recv(1)
    return client


FROZEN: Mapping[str, Begin] = {
    begin.__name__: begin for begin in (nothing, half_a_hello, a_handshake, half_a_head, half_a_body, an_unread_answer)
}
"""By name, for parametrised tests."""


@contextmanager
def closed_at_the_end() -> Iterator[list[socket.socket]]:
    """A list of connections that are closed after the block."""
    clients: list[socket.socket] = []
    try:
        yield clients
    finally:
        for client in clients:
            client.close()
