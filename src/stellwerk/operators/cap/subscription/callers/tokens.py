"""Tokens of XSUAA: their content, and whether they are good (pure).

A token names the document with the keys of its issuer itself (`jku`). So the name decides nothing: its host must be the
UAA domain of an application or below it, and the rest of the URL is fixed. Keys within the token are never looked at.
Neither is `iss`: the signature proves the issuer already, and a UAA may name itself there by an internal address, such
as `http://SUBDOMAIN.localhost:8080/uaa/oauth/token`, so that a check would refuse good tokens.

Two questions are asked one after the other, so that the first does not depend on the application of the request:

    header = header_of(token, domains)              which key, of which issuer
    claims = claims_of(token, header, keys, now)    the issuer signed it, and it is valid now
    is_for(claims, rules)                           it is for this application

Messages are for the log; they quote nothing of a token.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue

MOST_TOKEN_BYTES = 16 * 1024
MOST_KEYS = 32
"""Of one issuer."""
MOST_KEYS_OF_AN_ID = 2
"""With one id, because a token is verified with each of them. Further ones are not used."""
LEAST_LIFE_SECONDS = 15.0
"""A token that ends sooner is refused."""
LEEWAY_SECONDS = 60.0
"""How far the clock of an issuer may be ahead of ours."""

_MOST_HEADER_BYTES = 4 * 1024
_MOST_ENTRIES = 1_000
_SMALLEST_RSA_BITS, _LARGEST_RSA_BITS = 2048, 4096
_LARGEST_EXPONENT = 65_537
_KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", "")),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
}
"""The algorithms that are allowed, each with the type of key, and the curve."""
_JKU = re.compile(r"https://([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+)(?::443)?/token_keys/?", re.IGNORECASE)
_DOMAIN = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+")
_LONGEST_DOMAIN = 253

PublicKey: TypeAlias = RSAKey | ECKey


class TokenRefused(Exception):
    """A token is not good."""


class IssuerUnknown(TokenRefused):
    """No binding that has been read names the issuer of a token; one that has not been read may name it."""


class KeysAbsent(TokenRefused):
    """The keys of the issuer of a token, which is trusted, are not to be had at the moment."""


class ShareUsedUp(TokenRefused):
    """A token is not looked at now, because others would have to wait for it."""


class KeysUnusable(ValueError):
    """A document is no set of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHeader:
    """How a token is signed."""

    algorithm: str
    key_id: str
    issuer: str
    """The host whose keys verify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerKey:
    """A public key of an issuer."""

    key_id: str
    algorithm: str
    """The only algorithm that it is for; empty: any that fits."""
    key_type: str
    curve: str
    key: PublicKey = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The content of a good token."""

    issuer: str
    """The host whose keys verified it."""
    audiences: frozenset[str]
    """Empty where the token names none: its scopes name them then."""
    scopes: frozenset[str]
    client_id: str
    issued_at: float
    """Seconds since 1970; 0 where the token does not state it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token for an application must have."""

    uaa_domain: str
    client_id: str
    """Of the application's instance of the SaaS registry."""
    app_name: str
    """The xsappname of its XSUAA."""
    counts_app_name: bool = True
    """Whether a token may also name that as its audience, instead of the client."""


# ---- the header


def bearer(authorization: str) -> str:
    """The token of an Authorization header. Raises TokenRefused."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenRefused("expected bearer token")
    return token.strip()


def header_of(token: str, domains: Container[str]) -> TokenHeader:
    """The header of a token whose issuer is in one of the UAA domains. Raises TokenRefused."""
    if len(token) > MOST_TOKEN_BYTES or not token.isascii():
        raise TokenRefused("the token is too long, or no text")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token does not have three parts")
    header = _object(parts[0], _MOST_HEADER_BYTES)
    algorithm, key_id, jku = (header.get(name) for name in ("alg", "kid", "jku"))
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
        raise TokenRefused("its algorithm is not allowed")
    if "crit" in header or "b64" in header:
        raise TokenRefused("it asks for extensions")
    if not isinstance(key_id, str) or not key_id:
        raise TokenRefused("it names no key")
    issuer = issuer_of(jku, domains)
    if not issuer:
        raise IssuerUnknown("its keys are not those of a trusted issuer")
    return TokenHeader(algorithm=algorithm, key_id=key_id, issuer=issuer)


def issuer_of(jku: JsonValue, domains: Container[str]) -> str:
    """The host of the URL of a set of keys; empty where the URL is not that of an issuer in one of the domains."""
    matched = _JKU.fullmatch(jku) if isinstance(jku, str) and len(jku) <= 2 * _LONGEST_DOMAIN else None
    host = matched[1].lower() if matched else ""
    return host if any(domain in domains for domain in domains_around(host)) else ""


def domains_around(host: str) -> Iterator[str]:
    """The domains that a host is, or is below, the longest first."""
    while host:
        yield host
        host = host.partition(".")[2]


def is_within(host: str, domain: str) -> bool:
    """Whether a host is a domain, or below it."""
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def domain_of(value: JsonValue) -> str:
    """A UAA domain as credentials have it; empty where it is none. One that has no dot would be half the world."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(text) else ""


# ---- the keys


def keys_of(document: bytes) -> tuple[IssuerKey, ...]:
    """The usable keys of a set of keys. Raises KeysUnusable where it is none."""
    try:
        content: JsonValue = msgspec.json.decode(document)
    except UNREADABLE:
        raise KeysUnusable("the set of keys is not JSON") from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise KeysUnusable("the set of keys has no list of keys")
    if len(listed) > MOST_KEYS:
        raise KeysUnusable(f"the set has more than {MOST_KEYS} keys")
    found: dict[str, list[IssuerKey]] = {}
    for each in listed:
        named = found.setdefault(_text(each.get("kid")), []) if isinstance(each, dict) else []
        if isinstance(each, dict) and len(named) < MOST_KEYS_OF_AN_ID and (key := _key(each)) is not None:
            named.append(key)
    return tuple(key for named in found.values() for key in named)


def _key(entry: JsonObject) -> IssuerKey | None:
    key_type, key_id, curve = (_text(entry.get(name)) for name in ("kty", "kid", "crv"))
    if not key_id or entry.get("use") not in (None, "sig"):
        return None
    try:
        key: PublicKey
        if key_type == "RSA":
            if not _is_usable_rsa(_text(entry.get("n")), _text(entry.get("e"))):
                return None
            key, curve = RSAKey.import_key({"kty": "RSA", "n": _text(entry["n"]), "e": _text(entry["e"])}), ""
        elif key_type == "EC" and curve in ("P-256", "P-384", "P-521"):
            key = ECKey.import_key({"kty": "EC", "crv": curve, "x": _text(entry["x"]), "y": _text(entry["y"])})
        else:
            return None
        _ = key.public_key  # a point that is not on the curve fails here
    except Exception:  # what a library raises on numbers that are no key
        return None
    return IssuerKey(key_id=key_id, algorithm=_text(entry.get("alg")), key_type=key_type, curve=curve, key=key)


def _is_usable_rsa(modulus: str, exponent: str) -> bool:
    """Neither weak nor so large that verifying would take long."""
    bits = int.from_bytes(_decoded(modulus)).bit_length()
    return _SMALLEST_RSA_BITS <= bits <= _LARGEST_RSA_BITS and int.from_bytes(_decoded(exponent)) <= _LARGEST_EXPONENT


def fitting(header: TokenHeader, keys: Iterable[IssuerKey]) -> Sequence[IssuerKey]:
    """The keys that may have signed a token, by id, type and algorithm."""
    key_type, curve = _KEY_TYPES[header.algorithm]
    return [
        key
        for key in keys
        if key.key_id == header.key_id
        and (key.key_type, key.curve) == (key_type, curve)
        and key.algorithm in ("", header.algorithm)
    ]


# ---- the content


class _Registry(jws.JWSRegistry):
    """Takes the headers of XSUAA, which has some of its own."""

    max_header_length = _MOST_HEADER_BYTES
    max_payload_length = MOST_TOKEN_BYTES
    max_signature_length = 4 * 1024


_registry = _Registry(algorithms=list(_KEY_TYPES), strict_check_header=False)


def claims_of(token: str, header: TokenHeader, keys: Iterable[IssuerKey], now: float) -> Claims:
    """The content of a token that one of the keys has signed and that is valid now. Raises TokenRefused."""
    verify(token, header, keys)
    return content_of(token, header, now)


def verify(token: str, header: TokenHeader, keys: Iterable[IssuerKey]) -> None:
    """Raises TokenRefused if none of the keys has signed a token."""
    if not any(_has_signed(token, header, key) for key in fitting(header, keys)):
        raise TokenRefused("its signature is not good")


def content_of(token: str, header: TokenHeader, now: float) -> Claims:
    """The content of a token whose signature is good, if it is valid now. Raises TokenRefused."""
    content = _object(token.split(".")[1], MOST_TOKEN_BYTES)
    expires, begins, issued = (_seconds(content, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise TokenRefused("it has no end")
    if expires - now < LEAST_LIFE_SECONDS:
        raise TokenRefused("it has ended, or ends within seconds")
    if begins is not None and begins - now > LEEWAY_SECONDS:
        raise TokenRefused("it is not valid yet")
    if issued is not None and issued - now > LEEWAY_SECONDS:
        raise TokenRefused("it was issued in the future")
    if "scope" not in content:
        raise TokenRefused("it names no scope")
    return Claims(
        issuer=header.issuer,
        audiences=_texts(content.get("aud")),
        scopes=_texts(content["scope"]),
        client_id=_text(content.get("client_id")) or _text(content.get("cid")),
        issued_at=issued or 0.0,
    )


def _has_signed(token: str, header: TokenHeader, key: IssuerKey) -> bool:
    try:
        jws.deserialize_compact(token, key.key, algorithms=[header.algorithm], registry=_registry)
    except Exception:  # of whatever kind: a token that makes a library fail is not good
        return False
    return True


def is_for(claims: Claims, rules: TokenRules) -> bool:
    """Whether a token is for an application: its issuer, its audience and its scope."""
    expected = [name for name in (rules.client_id, rules.app_name if rules.counts_app_name else "") if name]
    audiences = _audiences(claims)
    return (
        is_within(claims.issuer, rules.uaa_domain)
        and bool(rules.app_name)
        and any(
            name in audiences or ("!b" in name and any(each.endswith(f"|{name}") for each in audiences))
            for name in expected
        )
        and not claims.scopes.isdisjoint({f"{rules.app_name}.Callback", f"{rules.app_name}.mtcallback"})
    )


def _audiences(claims: Claims) -> set[str]:
    named = {audience.partition(".")[0] for audience in claims.audiences}
    derived = {scope.partition(".")[0] for scope in claims.scopes if "." in scope}
    return {name for name in (*(named or derived), claims.client_id) if name}


# ---- reading


def _object(part: str, most: int) -> JsonObject:
    data = _decoded(part)
    if not data or len(data) > most:
        raise TokenRefused("a part of it is empty, too long, or not base64")
    try:
        content: JsonValue = msgspec.json.decode(data)
    except UNREADABLE:
        raise TokenRefused("a part of it is not JSON") from None
    if not isinstance(content, dict):
        raise TokenRefused("a part of it is no JSON object")
    return content


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part.encode() + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _seconds(content: JsonObject, name: str) -> float | None:
    value = content.get(name)
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise TokenRefused("a time in it is no number")
    return seconds


def _texts(value: JsonValue) -> frozenset[str]:
    """A list of texts, or one text with words, as both are in use."""
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(each for each in words[:_MOST_ENTRIES] if isinstance(each, str))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
