"""Which addresses may be called for a URL of a tenant (R-601).

    EgressRules(http=False, private=False, hosts=(), ports=(), networks=(), refused=())
    IN_CLUSTER  http and private addresses: artifacts of a source-controller, and what tenants may call by default
    PUBLIC      https to public addresses only: URLs of tenants on a shared cluster

A name does not show where it leads, and may lead elsewhere the second time it is asked for. So the rules are kept
where a socket is about to be connected, for every address and every hop of a redirect; only scheme, host and port are
looked at before. Our own loopback, link-local addresses and the clouds' metadata services are never called unless
`networks` names them, however they are written: as IPv6, behind a translator, or as a name. Pods and Services may have
public addresses, as with IPv6, which no list of ours can know: `refused` names them.
"""

from __future__ import annotations

import errno
import fnmatch
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from aiohappyeyeballs import AddrInfoType
from yarl import URL

from stellwerk.render.errors import EgressRefused, shown

_LONGEST_URL = 8 * 1024

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class EgressRules:
    """What may be called. Empty `hosts` and `ports` mean any."""

    http: bool = False
    """Whether plain http is allowed besides https."""
    private: bool = False
    """Whether addresses that only this network knows are allowed, the cluster's among them."""
    hosts: tuple[str, ...] = ()
    """Names, or patterns such as `*.example.com`."""
    ports: tuple[int, ...] = ()
    networks: tuple[Network, ...] = ()
    """Addresses that are allowed whatever they are, unless they are refused."""
    refused: tuple[Network, ...] = ()
    """Addresses that are never called, such as those of the cluster's pods and Services."""

    @property
    def differences(self) -> str:
        """What differs from `IN_CLUSTER`, as text that stays the same when further fields are added."""
        both = ((each.name, getattr(self, each.name), getattr(IN_CLUSTER, each.name)) for each in fields(self))
        texts = {name: value for name, value, default in both if value != default}
        return " ".join(
            f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in sorted(texts.items())
        )

    def check_url(self, url: URL) -> None:
        """Raises `EgressRefused` where scheme, host or port are not allowed. Addresses are checked later."""
        if url.scheme not in ("https", "http") or not url.host:
            raise EgressRefused(f"{shown_url(url)} is not called: it is no https URL with a host")
        if url.scheme == "http" and not self.http:
            raise EgressRefused(f"{shown_url(url)} is not called: plain http is not allowed here; use https")
        host = url.host.lower().rstrip(".")
        if self.hosts and not any(fnmatch.fnmatchcase(host, pattern.lower()) for pattern in self.hosts):
            raise EgressRefused(f"{shown_url(url)} is not called: its host is not among the allowed ones")
        if self.ports and url.port not in self.ports:
            raise EgressRefused(f"{shown_url(url)} is not called: its port is not among the allowed ones")

    def allows(self, address: str) -> bool:
        """Whether an address, as a resolver gives it, may be connected to."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return all(self._allows(meaning) for meaning in _meanings(found))

    def _allows(self, address: Address) -> bool:
        if _within(address, self.refused):
            return False
        if _within(address, self.networks):
            return True
        if _within(address, _NEVER):
            return False
        return self.private or not _within(address, _PRIVATE)


IN_CLUSTER = EgressRules(http=True, private=True)
PUBLIC = EgressRules()


class AddressRefused(OSError):
    """Raised in place of a socket. Always the same text, or several of them would be taken for different failures."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "none of its addresses may be called")


def guarded(rules: EgressRules, make: Callable[[AddrInfoType], socket.socket], info: AddrInfoType) -> socket.socket:
    """A socket for an address that may be called. Raises `AddressRefused`; nothing was sent then."""
    if not rules.allows(str(info[4][0])):
        raise AddressRefused
    return make(info)


def parsed(text: str) -> URL:
    """A URL that another party wrote. Raises `EgressRefused`.

    yarl decodes host and port only when they are read, and then fails on text such as `https://xn--/`. They are read
    here once, so that no later access can fail.
    """
    try:
        if len(text) > _LONGEST_URL:
            raise ValueError("too long")
        found = URL(text)
        _ = found.host, found.port, found.user, found.password, found.path, found.query_string
        text.encode()
        if " " in (found.host or "") or not (found.host or "").isprintable():
            raise ValueError("host with blanks or control characters")
    except Exception as error:  # a library that meets such text may raise anything
        raise EgressRefused(f"{shown_url(text)} is not called: it is no URL") from error
    return found


def shown_url(url: URL | str) -> str:
    """A URL for messages: without login and query, which hold passwords and signatures."""
    try:
        found = URL(url) if isinstance(url, str) else url
        plain = without_login(found).with_query(None).with_fragment(None)
        _ = plain.host, plain.port
        return shown(f"{plain}?..." if found.raw_query_string else str(plain))
    except Exception:  # see `parsed`
        return "a malformed URL"


def without_login(url: URL) -> URL:
    """A URL less user and password."""
    return url.with_user(None) if url.absolute else url


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _meanings(address: Address) -> list[Address]:
    """The address, and its IPv4 address where it leads through a translator."""
    if isinstance(address, IPv4Address):
        return [address]
    embedded = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if embedded is None and _within(address, _TRANSLATED):
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    # A mapped address *is* the IPv4 address: `::ffff:0:0/96` itself is no network of its own.
    return [embedded] if address.ipv4_mapped and embedded else [address, *([embedded] if embedded else [])]


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_TRANSLATED = _networks("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")
_METADATA = (
    "100.100.100.200/32",  # Alibaba Cloud
    "168.63.129.16/32",  # Azure
    "192.0.0.192/32",  # Oracle Cloud
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google Cloud
)
_NEVER = _networks(
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/128", "::1/128", "fe80::/10", "fec0::/10", "ff00::/8"),
    *_METADATA,
)
_PRIVATE = _networks(
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15"),
    *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    *("::/96", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "fc00::/7"),
)
