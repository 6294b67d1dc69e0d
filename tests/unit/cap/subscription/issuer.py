"""Keys and tokens as an issuer makes them, and as an attacker does."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

NOW = 1_800_000_000.0
DOMAIN = "authentication.example.com"
HOST = f"zone.{DOMAIN}"
JKU = f"https://{HOST}/token_keys"
GOOD: dict[str, Any] = {
    "exp": NOW + 3600,
    "iat": NOW - 10,
    "aud": ["shop!t1", "sb-registry!b1|shop"],
    "scope": ["shop!t1.Callback"],
    "client_id": "sb-caller",
}


class _Careless(jws.JWSRegistry):
    """Signs any header."""

    max_header_length = 8192

    def check_header(self, header: Any) -> None:
        """Nothing is wrong with it."""


@cache
def rsa(name: str = "one") -> RSAKey:
    """A key pair of an issuer."""
    return RSAKey.generate_key(2048, {"kid": name}, private=True)


@cache
def elliptic(curve: str = "P-256") -> ECKey:
    """Another one."""
    return ECKey.generate_key(curve, {"kid": "curve"}, private=True)


def document(*keys: RSAKey | ECKey) -> bytes:
    """The document with the public keys."""
    return json.dumps({"keys": [key.as_dict(private=False) | {"use": "sig"} for key in keys]}).encode()


def token(
    content: dict[str, Any] | None = None,
    key: RSAKey | ECKey | OctKey | None = None,
    algorithm: str = "RS256",
    **header: Any,
) -> str:
    """A signed token."""
    key = key or rsa()
    head = {"alg": algorithm, "kid": key.kid or "one", "jku": JKU, "typ": "JWT", "jid": "x", **header}
    payload = json.dumps(GOOD if content is None else content).encode()
    registry = _Careless(algorithms=[algorithm])
    return jws.serialize_compact(head, payload, key, algorithms=[algorithm], registry=registry)


def unsigned(header: Any, content: Any, signature: bytes = b"") -> str:
    """Three parts, whatever they are."""
    parts = [json.dumps(header).encode(), json.dumps(content).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
