"""Which connection gives way when a server has as many as it may have.

A server that refuses further connections at its limit can be closed by one client that opens connections and rests:
then the kubelet's probe is refused, too, and the process is restarted. So a new connection is always admitted, and the
connection of the peer with the most of them that has waited longest is closed for it. A connection whose request is
being answered is never closed; how many these are is bounded elsewhere.

The rooms for large requests are shared in the same way, except that none is made where it would not be fair: a request
takes the room of a peer that has more of them, and is refused otherwise (`has_place`).

A peer is an IPv4 address, or the /64 network of an IPv6 address, because that is what one client has for itself. All
operations take the same time, however many connections there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Protocol


class DroppableConnection(Protocol):
    """What can give way."""

    def give_way(self) -> None:
        """Close: another connection takes the place."""
        ...


@dataclass(slots=True)
class _Peer:
    connections: int = 0
    waiting: OrderedDict[DroppableConnection, None] = field(default_factory=OrderedDict)
    """The connections whose request is not being answered, the longest waiting first."""


class Crowd:
    """The open connections of one server, or its large requests, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: dict[DroppableConnection, str] = {}
        self._peers: dict[str, _Peer] = {}
        self._by_count: dict[int, OrderedDict[str, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def admit(self, connection: DroppableConnection, peer: str) -> DroppableConnection | None:
        """Count a new connection. Returns the one that has to give way for it, if one has to."""
        victim = self._victim() if len(self._open) >= self.limit else None
        if victim is not None:
            self.leave(victim)
        self._open[connection] = peer
        self._count(peer, 1)
        self._peers[peer].waiting[connection] = None
        return victim

    def has_place(self, peer: str) -> bool:
        """Whether one more of this peer has a free place, or may take that of a peer with more."""
        if len(self._open) < self.limit:
            return True
        victim = self._victim()
        own = self._peers[peer].connections if peer in self._peers else 0
        return victim is not None and self._peers[self._open[victim]].connections > own

    def leave(self, connection: DroppableConnection) -> None:
        """The connection is closed. Once is enough; again does nothing."""
        peer = self._open.pop(connection, None)
        if peer is not None:
            self._peers[peer].waiting.pop(connection, None)
            self._count(peer, -1)

    def answering(self, connection: DroppableConnection) -> None:
        """A request of the connection is being answered: it does not give way."""
        if (peer := self._open.get(connection)) is not None:
            self._peers[peer].waiting.pop(connection, None)

    def waiting(self, connection: DroppableConnection) -> None:
        """The connection waits from now on: for its client to read the answer, and to send the next request."""
        if (peer := self._open.get(connection)) is not None:
            self._peers[peer].waiting[connection] = None

    def _victim(self) -> DroppableConnection | None:
        return next((connection for peer in self._busiest_first() for connection in peer.waiting), None)

    def _busiest_first(self) -> Iterator[_Peer]:
        for count in range(self._most, 0, -1):
            for name in self._by_count.get(count, ()):
                yield self._peers[name]

    def _count(self, name: str, change: int) -> None:
        peer = self._peers.setdefault(name, _Peer())
        if peer.connections:
            same = self._by_count[peer.connections]
            del same[name]
            if not same:
                del self._by_count[peer.connections]
        peer.connections += change
        if peer.connections:
            self._by_count.setdefault(peer.connections, OrderedDict())[name] = None
        else:
            del self._peers[name]
        if change > 0:
            self._most = max(self._most, peer.connections)
        elif self._most not in self._by_count:
            self._most -= 1


def peer_of(address: object) -> str:
    """The peer at the other end of a socket, by the address that the system gives (pure)."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return host
    return str(found.ipv4_mapped) if found.ipv4_mapped else str(IPv6Address(int(found) >> 64 << 64))
