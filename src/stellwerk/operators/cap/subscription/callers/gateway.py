"""Which requests come through the VirtualService of the ingress gateway that an administrator made for the server.

A pod of the cluster that reaches the server may write any header, and so may anybody who may create a VirtualService:
the gateway then adds what that asks for. So two things are asked of a request whose headers count. Its peer is the
gateway: a pod with the gateway's labels in its namespace that serves, or a configured network, where a sidecar or a
load balancer is between. And it has a header with the value of a Secret that only the administrator's VirtualService
has. A pod that has ended, or is about to, may have lost its address to another; one of the host's network shares it.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import ClassVar

import msgspec

from stellwerk.api.core import Pod, Secret
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.operators.cap import names
from stellwerk.runtime.cache.informer import Informer

BY_ADDRESS = "address"
SECRET_KEYS = ("current", "former")
"""Of the Secret: the VirtualService adds the current value, and a moment ago it added the former one."""
LEAST_SECRET_CHARACTERS = 32
BY_ADDRESS_ONLY = "GATEWAY_BY_ADDRESS=true counts every request that comes through the gateway, by any route"
ASK_FOR_SECRET = f"set GATEWAY_SECRET to a Secret whose value your VirtualService adds as header {names.GATEWAY_HEADER}"


class _PodSpec(Record, frozen=True, kw_only=True):
    is_on_host: bool = msgspec.field(name="hostNetwork", default=False)


class _PodAddress(Record, frozen=True, kw_only=True):
    ip: str = ""


class _PodStatus(Record, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[_PodAddress, ...] = msgspec.field(name="podIPs", default=())


class GatewayPod(Kind, frozen=True, kw_only=True):
    """A pod of the ingress gateway, of which only the addresses are read, and whether they are its own."""

    resource: ClassVar[Resource] = Pod.resource

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def serves(self) -> bool:
        """Whether what comes from its addresses comes from it."""
        is_ready = any(each.type == "Ready" and each.is_true for each in self.status.conditions)
        is_alive = self.status.phase == "Running" and not self.metadata.is_terminating
        return is_alive and is_ready and not self.spec.is_on_host


@dataclass(frozen=True, slots=True)
class GatewaySecret:
    """The Secret whose value the VirtualService adds to requests, and the watch of it."""

    key: ObjectKey
    informer: Informer[Secret]

    @property
    def is_known(self) -> bool:
        """Whether it was looked for."""
        return self.informer.is_filled

    def values(self) -> Iterator[bytes]:
        """The values that count; none where the Secret is absent or has only short ones."""
        secret = self.informer.store.get(self.key)
        for key in SECRET_KEYS if secret is not None else ():
            try:
                value = (secret.text(key) if secret is not None else "") or ""
            except ValueError:
                continue
            if len(value) >= LEAST_SECRET_CHARACTERS:
                yield value.encode()

    def problem(self, headers: Sequence[str]) -> str:
        """Why these values of the header prove nothing; empty where they do."""
        values = [*self.values()]
        if not values:
            return (
                f"Secret {self.key} of GATEWAY_SECRET does not exist, or its key {SECRET_KEYS[0]} has less than "
                f"{LEAST_SECRET_CHARACTERS} characters: install the chart again, or create it; {BY_ADDRESS_ONLY}"
            )
        given = headers[0].encode("latin-1", "replace") if len(headers) == 1 else b""
        # All are compared, and each in a time that does not depend on what is right of it.
        matches = [hmac.compare_digest(given, value) for value in values]
        if True not in matches:
            return (
                f"it has no header {names.GATEWAY_HEADER} with the value of Secret {self.key}: it came by another "
                "VirtualService, or yours does not set the header"
            )
        return ""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The ingress gateway."""

    networks: Sequence[IPv4Network | IPv6Network] = ()
    pods: Informer[GatewayPod] | None = None
    secret: GatewaySecret | None = None
    by_address: bool = False
    """Whether the address alone proves that a request came by the right VirtualService, where there is no Secret."""

    def __post_init__(self) -> None:
        if self.pods is not None:
            self.pods.store.add_index(BY_ADDRESS, _addresses)

    def is_known(self, peer: str) -> bool:
        """Whether it is known what a request from this address must have, and whether it is the gateway's."""
        if self.secret is not None and not self.secret.is_known:
            return False
        return self.pods is None or self.pods.is_filled or self._is_its(peer)

    def sent(self, peer: str, headers: Sequence[str]) -> bool:
        """Whether a request from this address, with these values of the gateway's header, has passed the gateway.

        Without a Secret the address decides, because the address of a client is no credential.
        """
        return self._is_its(peer) and (self.secret is None or not self.secret.problem(headers))

    def problem(self, peer: str, headers: Sequence[str]) -> str:
        """Why a client certificate from this address, with these values of the header, does not count; else empty."""
        if not self._is_its(peer):
            return "it does not come from a pod of the ingress gateway that serves, nor from GATEWAY_NETWORKS"
        if self.secret is not None:
            return self.secret.problem(headers)
        if self.by_address:
            return ""
        return f"nothing proves that the gateway has verified it: {ASK_FOR_SECRET}; {BY_ADDRESS_ONLY}"

    def _is_its(self, peer: str) -> bool:
        address = _address(peer.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address is None:
            return False
        if any(address in network for network in self.networks):
            return True
        return self.pods is not None and bool(self.pods.store.by(BY_ADDRESS, str(address)))


def _addresses(pod: GatewayPod) -> Collection[str]:
    listed = pod.status.addresses if pod.serves else ()
    return [str(address) for each in listed if (address := _address(each.ip)) is not None]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
