"""Which connections this process still has, whoever forgot them: as the kernel knows them."""

from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stellwerk.testing.eventually import eventually


def open_sockets() -> set[str]:
    """The inodes of this process's sockets."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def open_towards(port: int) -> set[int]:
    """Those with that port of IPv4 at the other end."""
    return {inode for inode, (_, other) in _connections().items() if other == port}


def accepted_at(port: int) -> set[int]:
    """Those with that port of IPv4 at this end, without the one that listens."""
    return {inode for inode, (own, _) in _connections().items() if own == port}


def shrink_buffers_at(port: int) -> None:
    """Let the kernel hold little of what connections that are accepted here from now on send."""
    for found in _own():
        if found.getsockname()[1] == port:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)


async def all_closed(port: int) -> None:
    """Wait until no connection is left with that port at either end. Ask while somebody listens there.

    An event loop closes by callbacks, and one in the middle of a handshake is known to nobody but the loop. If the loop
    ends first, or stops to listen as it accepts, the garbage collector finds them, in whichever test is on by then.
    """

    def closed() -> bool:
        return not any(port in ends for ends in _connections().values())

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


def _connections() -> dict[int, tuple[int, int]]:
    """The ports at this end and at the other one, by inode; 0 for an end that is reset or not connected yet.

    Each socket is asked: the table of the kernel has thousands of lines after some tests, and takes it long to write.
    """
    return {
        os.fstat(each.fileno()).st_ino: (each.getsockname()[1], _other_port(each))
        for each in _own()
        if not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }


def _other_port(connection: socket.socket) -> int:
    try:
        return int(connection.getpeername()[1])
    except OSError:
        return 0


def _own() -> Iterator[socket.socket]:
    """This process's sockets of IPv4, each open here only until the next one."""
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # closed meanwhile
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as found:
            if found.family == socket.AF_INET and found.type == socket.SOCK_STREAM:
                yield found


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
