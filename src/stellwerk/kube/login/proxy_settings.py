"""The proxy on the way to an API server, as the environment names it: the rules of kubectl and client-go (pure).

A company's laptop reaches its clusters by HTTPS_PROXY, and what NO_PROXY lists, by address range too, without it. The
rules are those of Go's net/http (golang.org/x/net/http/httpproxy), because an operator that moves over from Go must
find its API server on the same way. An address of this machine never goes by a proxy, so a proxy that is set does not
come between us and what `stellwerk up` made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit


def of_environment(server: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy on the way to this server; empty where there is none."""
    target = _Target.of(server)
    named = _either(environment, "HTTPS_PROXY" if target.secure else "HTTP_PROXY")
    if not named or target.is_here or target.is_spared(_either(environment, "NO_PROXY")):
        return ""
    return named if "://" in named else f"http://{named}"


def _either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


@dataclass(frozen=True, slots=True)
class _Target:
    secure: bool
    host: str
    port: int | None

    @classmethod
    def of(cls, url: str) -> _Target:
        secure = url.startswith("https:")
        host, port = _host_and_port(url.partition("://")[2])
        return cls(secure, host, port or (443 if secure else 80))

    @property
    def is_here(self) -> bool:
        address = _address(self.host)
        return address.is_loopback if address is not None else self.host == "localhost"

    def is_spared(self, listed: str) -> bool:
        entries = (entry.strip().lower() for entry in listed.split(","))
        return any(entry == "*" or self._lies_in(entry) or self._is_below(entry) for entry in entries if entry)

    def _lies_in(self, entry: str) -> bool:
        address = _address(self.host)
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False

    def _is_below(self, entry: str) -> bool:
        """Whether the entry is our host or a domain above it; one that begins with a dot is only the latter."""
        name, port = _host_and_port(entry)
        domain = name[1:] if name.startswith("*.") else name
        if not domain or port not in (None, self.port):
            return False
        address = _address(domain)
        if address is not None:
            return address == _address(self.host)
        return self.host == domain or self.host.endswith(domain if domain.startswith(".") else f".{domain}")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """The address, which may be written in several ways; None for a name."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _host_and_port(text: str) -> tuple[str, int | None]:
    """The part before a path; no host where it cannot be read."""
    try:
        read = urlsplit(f"//{text}")
        return read.hostname or "", read.port
    except ValueError:
        return "", None
