"""Which peers may send the header with a client certificate: the ingress gateway, and no other.

A pod of the cluster that reaches the server may write any header. The gateway is known by its address: that of a pod
with the gateway's labels in its namespace, or of a configured network, where a sidecar or a load balancer is between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import ClassVar

import msgspec

from stellwerk.api.core import Pod
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.informer import Informer

BY_ADDRESS = "address"


class _PodAddress(Record, frozen=True, kw_only=True):
    ip: str = ""


class _PodStatus(Record, frozen=True, kw_only=True):
    addresses: tuple[_PodAddress, ...] = msgspec.field(name="podIPs", default=())


class GatewayPod(Kind, frozen=True, kw_only=True):
    """A pod of the ingress gateway, of which only the addresses are read."""

    resource: ClassVar[Resource] = Pod.resource

    status: _PodStatus = _PodStatus()


@dataclass(frozen=True, slots=True)
class Gateway:
    """The ingress gateway."""

    networks: Sequence[IPv4Network | IPv6Network] = ()
    pods: Informer[GatewayPod] | None = None

    def __post_init__(self) -> None:
        if self.pods is not None:
            self.pods.store.add_index(BY_ADDRESS, _addresses)

    def sent(self, peer: str) -> bool:
        """Whether a request from this address comes from the gateway."""
        address = _address(peer.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address is None:
            return False
        if any(address in network for network in self.networks):
            return True
        return self.pods is not None and bool(self.pods.store.by(BY_ADDRESS, str(address)))


def _addresses(pod: GatewayPod) -> Collection[str]:
    return [str(address) for each in pod.status.addresses if (address := _address(each.ip)) is not None]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
