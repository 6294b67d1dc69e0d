"""Which connections this process still has, whoever forgot them: as the kernel knows them."""

from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stellwerk.testing.eventually import eventually

_LISTENS = "0A"
"""As /proc writes it."""


def open_sockets() -> set[str]:
    """The inodes of this process's sockets."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def open_towards(port: int) -> set[str]:
    """Those with that port of IPv4 at the other end."""
    return {row[9] for row in _tcp() if row[2].endswith(f":{port:04X}")} & open_sockets()


def accepted_at(port: int) -> set[str]:
    """Those with that port of IPv4 at this end, without the one that listens."""
    return {row[9] for row in _tcp() if row[3] != _LISTENS and row[1].endswith(f":{port:04X}")} & open_sockets()


def shrink_buffers_at(port: int) -> None:
    """Let the kernel hold little of what connections that are accepted here from now on send."""
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # closed meanwhile
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as found:
            if found.family == socket.AF_INET and found.getsockname()[1] == port:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)


async def all_closed(port: int) -> None:
    """Wait until no connection is left with that port at either end. Ask while somebody listens there.

    An event loop closes by callbacks, and one in the middle of a handshake is known to nobody but the loop. If the loop
    ends first, or stops to listen as it accepts, the garbage collector finds them, in whichever test is on by then.
    """
    end = f":{port:04X}"

    def closed() -> bool:
        rows = [row for row in _tcp() if row[3] != _LISTENS and (row[1].endswith(end) or row[2].endswith(end))]
        return not {row[9] for row in rows} & open_sockets()

    await eventually(closed, describe=f"all connections with port {port} are closed")


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process have files for hundreds of connections; on many machines it may have 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4_096 if hard == resource.RLIM_INFINITY else min(4_096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _tcp() -> list[list[str]]:
    return [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]


@contextmanager
def no_free_files() -> Iterator[None]:
    """Let this process open no further file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in taken:
            os.close(file)
