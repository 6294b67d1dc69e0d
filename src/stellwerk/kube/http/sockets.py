"""What connections are made of: sockets that are remembered until they are closed, and the TLS that fits the login.

Calls and streams use this module, so that a renewed certificate and the end of a client hold for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from time import perf_counter
from weakref import WeakSet

import aiohappyeyeballs

from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import LoginFailed

_TURNS_TO_CLOSE = 200
"""Of the event loop: TLS, the transport and the socket close one after the other, a turn or two each."""

_ASK_AFTER_SECONDS = 15
_DEAD_AFTER_SECONDS = 30
"""A machine that vanished sends nothing. A call would wait for it to its end, and so would the next one on each
connection that is kept; the kernel knows better, and long before."""
_OF_TCP = [
    (getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", _ASK_AFTER_SECONDS),
        ("TCP_KEEPINTVL", _ASK_AFTER_SECONDS),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", _DEAD_AFTER_SECONDS * 1_000),
    )
    if hasattr(socket, name)  # not every kernel has all of them
]


class OwnSocket(socket.socket):
    """A socket that closes its own file descriptor, and never another one that has the same number later.

    uvloop takes hold of a connection that was reset under its hands when it has closed it already, and the socket does
    not notice that. To close it afterwards, or to let the garbage collector do so, would close another connection.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._inode = os.fstat(self.fileno()).st_ino

    @property
    def is_open(self) -> bool:
        """Whether its number is still its own."""
        try:
            return os.fstat(self.fileno()).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless it is closed already."""
        if self.is_open:
            super().close()
        else:
            self.detach()

    def __del__(self) -> None:
        if self.fileno() >= 0 and not self.is_open:
            self.detach()
        super().__del__()  # type: ignore[misc]  # warns of a socket that was left open, and closes it; typeshed lacks it


class ConnectionNotAllowed(PermissionError):
    """We may not connect to the address. Another PermissionError is the kernel's, and may pass."""


REFUSED = "none of its addresses may be called: loopback, link-local and private networks are refused here"


class Sockets:
    """Every socket of a transport, so that none outlives it.

    A call that is cancelled leaves its connection in the middle of the TLS close; asyncio waits half a minute for it.
    """

    def __init__(self, may_connect: Callable[[str], bool] | None = None) -> None:
        """`may_connect`: whether an address may be connected to. A name may be resolved to others each time."""
        self._may_connect = may_connect
        self._made: WeakSet[OwnSocket] = WeakSet()

    def make(self, address: aiohappyeyeballs.AddrInfoType) -> OwnSocket:
        """A socket for an address that was looked up. Raises ConnectionNotAllowed."""
        family, kind, protocol, _, where = address
        if self._may_connect is not None and not self._may_connect(str(where[0])):
            raise ConnectionNotAllowed(errno.EACCES, REFUSED)  # the same text for each address of a name
        made = OwnSocket(family, kind, protocol)
        self._made.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _OF_TCP:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    async def hang_up(self) -> None:
        """Shut what is still open, and let the loop see it: it closes a connection whose other side is gone."""
        for one in [one for one in self._made if one.is_open]:
            with contextlib.suppress(OSError):  # not connected yet, or not any more
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_TO_CLOSE):
            if not any(one.is_open for one in self._made):
                return
            await asyncio.sleep(0)


class Tls:
    """The TLS context that fits the files of the login as they are; looked at every few seconds."""

    def __init__(self, config: ClusterConfig, renewal_seconds: float) -> None:
        self._config = config
        self._renewal_seconds = renewal_seconds
        self._context: ssl.SSLContext | None = None
        self._stamp: object = None
        self._look_again_at = float("-inf")

    def context(self) -> ssl.SSLContext | None:
        """The context, None for http. Raises LoginFailed where a certificate is unusable at the first call."""
        now = perf_counter()
        if now >= self._look_again_at:
            self._renew()
            self._look_again_at = now + self._renewal_seconds
        return self._context

    def refresh(self) -> None:
        """Look at the next call."""
        self._look_again_at = float("-inf")

    def _renew(self) -> None:
        config = self._config
        files = (config.authority, config.client_certificate, config.client_key)
        stamp = tuple(material.stamp() for material in files)
        if stamp == self._stamp:
            return
        try:
            self._context = config.ssl_context()
        except LoginFailed:
            # Certificate and key are two files: between their two writes they do not fit. The old pair still does.
            if self._stamp is None:
                raise
            return
        self._stamp = stamp
