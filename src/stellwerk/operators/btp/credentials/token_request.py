"""One question to the token server of SAP Service Manager: are these credentials good for a token? (pure)

It is asked as the operand asks it: the grant `client_credentials`, with the client's id and secret as fields of the
form, or with a client certificate where the Secret has one. The token itself is thrown away.

The result for the credentials follows from the status and by the error code of RFC 6749, and only a code from its
list is ever repeated: servers quote what they were sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from stellwerk.kube.types.model import UNREADABLE
from stellwerk.operators.btp.credentials import credentials

SUFFIX = "/oauth/token"
"""What the operand adds to the token URL by default."""
_REFUSALS = ("invalid_client", "unauthorized_client", "unauthorized", "access_denied", "invalid_grant")


class CredentialsVerdict(StrEnum):
    """What is known of the credentials."""

    ACCEPTED = "accepted"
    """The server gave a token for them."""
    REFUSED = "refused"
    """The server does not know them, or no longer: it issues no token for them."""
    UNANSWERED = "unanswered"
    """Nothing new: the server was not reached, or spoke of something else."""


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """What a question came to, and why, without the address and without anything secret."""

    verdict: CredentialsVerdict
    why: str = ""


ACCEPTED = TokenAnswer(CredentialsVerdict.ACCEPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What to send, and where."""

    url: str = field(repr=False)
    client_id: str = field(repr=False)
    client_secret: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, data: Mapping[str, str]) -> TokenRequest:
        """The request for credentials; `data` is base64 text by key. A certificate comes before a secret."""
        certificate, key = credentials.text(data, "tls.crt"), credentials.text(data, "tls.key")
        suffix, client = credentials.text(data, "tokenurlsuffix") or SUFFIX, credentials.text(data, "clientid")
        token_url = credentials.text(data, "tokenurl")
        if certificate and key:
            base = credentials.text(data, "certurl") or token_url
            return cls(url=_joined(base, suffix), client_id=client, certificate=certificate.encode(), key=key.encode())
        return cls(
            url=_joined(token_url, suffix), client_id=client, client_secret=credentials.text(data, "clientsecret")
        )

    @property
    def form(self) -> dict[str, str]:
        """The fields that are sent."""
        secret = {"client_secret": self.client_secret} if self.client_secret else {}
        return {"grant_type": "client_credentials", "client_id": self.client_id, **secret}


def _joined(base: str, suffix: str) -> str:
    """The URL of the token server; empty where the suffix is no path, because it would then change the host."""
    return base.strip().rstrip("/") + suffix if suffix.startswith("/") else ""


def judged(status: int, body: bytes) -> TokenAnswer:
    """The result of a token server's answer for the credentials."""
    said = _decoded(body)
    if status == 200:
        return (
            ACCEPTED if said.access_token else TokenAnswer(CredentialsVerdict.UNANSWERED, "the answer holds no token")
        )
    code = said.error if said.error in _REFUSALS else ""
    if status == 401 or (status in (400, 403) and code):
        return TokenAnswer(CredentialsVerdict.REFUSED, code or f"HTTP {status}")
    return TokenAnswer(CredentialsVerdict.UNANSWERED, f"HTTP {status}")


class _Said(msgspec.Struct):
    access_token: str = ""
    error: str = ""


def _decoded(body: bytes) -> _Said:
    try:
        return msgspec.json.decode(body, type=_Said)
    except UNREADABLE:
        return _Said()
