"""Calls to token issuers and registries: https only, to addresses that may be called, with bounds on time and bytes.

A redirect is not followed: none of these protocols has one, and credentials belong to one origin.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, replace
from ipaddress import ip_network

from stellwerk.kube.types.errors import LoginFailed
from stellwerk.render.errors import EgressRefused, SourceError, Unavailable
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import (
    HttpCall,
    HttpClient,
    Method,
    OriginCredentials,
    Resolver,
    TlsMaterial,
    bounded_body,
)

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 20.0
MOST_BYTES = 256 * 1024
"""Of one answer."""


class NoAnswer(Exception):
    """A server could not be asked, or did not answer in time. The message shows no address and nothing secret."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered."""

    status: int
    body: bytes


class Outgoing:
    """The connections to servers outside of the cluster."""

    def __init__(
        self,
        *,
        networks: tuple[str, ...] = (),
        authority: bytes = b"",
        resolver: Resolver | None = None,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        """`networks` may be called although they are private; `authority` (PEM) is trusted instead of the system's."""
        self._rules = EgressRules(networks=tuple(ip_network(each) for each in networks))
        self._authority = authority
        self._total_seconds = total_seconds
        self._client = HttpClient(
            tls=ssl.create_default_context(cadata=authority.decode()) if authority else None,
            user_agent="cap-operator-server",
            connect_seconds=CONNECT_SECONDS,
            silence_seconds=total_seconds,
            resolver=resolver,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def presenting(self, url: str, certificate: bytes, key: bytes) -> OriginCredentials:
        """A client certificate for the server of a URL."""
        return replace(OriginCredentials.anonymous(url), tls=TlsMaterial(self._authority, certificate, key))

    async def call(
        self,
        method: Method,
        url: str,
        credentials: OriginCredentials | None = None,
        *,
        form: dict[str, str] | None = None,
        json: bytes | None = None,
    ) -> HttpAnswer:
        """What the server of a URL answers. Raises NoAnswer."""
        try:
            call = replace(HttpCall.of(method, url, self._rules, credentials), form=form, json=json)
            async with asyncio.timeout(self._total_seconds), self._client.hop(call) as response:
                return HttpAnswer(response.status, await bounded_body(response, MOST_BYTES))
        except TimeoutError:
            raise NoAnswer("no answer in time") from None
        except EgressRefused:
            raise NoAnswer("its URL is no https URL, or has an address that may not be called") from None
        except Unavailable as error:
            raise NoAnswer(error.why or "no answer") from None
        except SourceError:
            raise NoAnswer("the answer is no HTTP") from None
        except LoginFailed:
            raise NoAnswer("the client certificate and its key cannot be used") from None
